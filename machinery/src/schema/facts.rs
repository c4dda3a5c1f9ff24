//! Reads `facts.txt`. The file is part of the build, so that what does not parse is a bug that the tests here find.

use super::{Field, FieldType, Graph, ListType, PatchStrategy, Type, TypeRef};

/// Reads all types.
pub(super) fn read(text: &'static str) -> Graph {
    let mut graph = Graph::default();
    let lines = || text.lines().filter(|l| !l.starts_with('#'));
    for line in lines().filter_map(|l| l.strip_prefix("T ")) {
        let at = TypeRef(graph.types.len() as u32);
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let mut atomic = false;
        for word in words {
            if let Some(kind) = word.strip_prefix("K=") {
                let mut parts = kind.split('/');
                if let (Some(group), Some(version), Some(kind)) = (parts.next(), parts.next(), parts.next()) {
                    graph.kinds.insert((group, version, kind), at);
                }
            } else {
                atomic |= word == "atomic";
            }
        }
        graph.names.insert(name, at);
        graph.types.push(Type { name, fields: Vec::new(), atomic });
    }
    let mut current = None;
    for line in lines() {
        if line.starts_with("T ") {
            current = Some(current.map_or(0, |n: usize| n + 1));
        } else if let (Some(current), Some(line)) = (current, line.strip_prefix(' ')) {
            let field = field(&graph, line);
            graph.types[current].fields.push(field);
        }
    }
    for kind in &mut graph.types {
        kind.fields.sort_by_key(|f| f.name);
    }
    graph
}

fn field(graph: &Graph, line: &'static str) -> Field {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let kind = field_type(graph, words.next().unwrap_or_default());
    let mut field = Field {
        name,
        kind,
        required: false,
        list: ListType::Atomic,
        atomic_map: false,
        patch: PatchStrategy::default(),
        merge_key: None,
        number: 0,
        default: None,
    };
    for word in words {
        match word.split_once('=') {
            None => field.required |= word == "r",
            Some(("L", "set")) => field.list = ListType::Set,
            Some(("L", list)) => {
                if let Some(keys) = list.strip_prefix("map:") {
                    field.list = ListType::Map(keys.split(',').collect());
                }
            }
            Some(("M", kind)) => field.atomic_map = kind == "atomic",
            Some(("P", strategies)) => {
                for strategy in strategies.split(',') {
                    field.patch.merge |= strategy == "merge";
                    field.patch.replace |= strategy == "replace";
                    field.patch.retain_keys |= strategy == "retainKeys";
                }
            }
            Some(("k", key)) => field.merge_key = Some(key),
            Some(("N", number)) => field.number = number.parse().unwrap_or_default(),
            Some(("D", default)) => field.default = serde_json::from_str(default).ok(),
            Some(_) => {}
        }
    }
    field
}

fn field_type(graph: &Graph, text: &'static str) -> FieldType {
    if let Some(name) = text.strip_prefix('#') {
        return graph.named(name).map_or(FieldType::Any, FieldType::Struct);
    }
    if let Some(of) = text.strip_prefix('[') {
        return FieldType::List(Box::new(field_type(graph, of)));
    }
    if let Some(of) = text.strip_prefix('{') {
        return FieldType::Map(Box::new(field_type(graph, of)));
    }
    match text {
        "s" => FieldType::String,
        "i" => FieldType::Int32,
        "l" => FieldType::Int64,
        "n" => FieldType::Number,
        "b" => FieldType::Bool,
        "y" => FieldType::Bytes,
        "q" => FieldType::Quantity,
        "t" => FieldType::Time,
        "u" => FieldType::MicroTime,
        "x" => FieldType::IntOrString,
        "e" => FieldType::RawExtension,
        "f" => FieldType::FieldsV1,
        _ => FieldType::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{catalog::Catalog, schema};

    #[test]
    fn every_built_in_kind_has_a_type() {
        let missing: Vec<String> = Catalog::builtin()
            .rows()
            .iter()
            .filter(|d| schema::of(&d.group, &d.version, &d.kind).is_none())
            .map(|d| format!("{}/{} {}", d.group, d.version, d.kind))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn the_facts_of_fields() {
        let graph = schema::graph();
        let field = |kind: &str, name: &str| graph.get(graph.named(kind).unwrap()).field(name).unwrap();
        let ports = field("core.v1.ServiceSpec", "ports");
        assert_eq!(ports.list, ListType::Map(vec!["port", "protocol"]));
        assert_eq!((ports.merge_key, ports.patch.merge, ports.number), (Some("port"), true, 1));
        assert!(matches!(&ports.kind, FieldType::List(of) if matches!(**of, FieldType::Struct(_))));
        assert_eq!(field("core.v1.ContainerPort", "protocol").default, Some("TCP".into()));
        assert!(field("core.v1.ContainerPort", "containerPort").required);
        assert!(field("apps.v1.DeploymentSpec", "strategy").patch.retain_keys);
        assert_eq!(field("meta.v1.ObjectMeta", "finalizers").list, ListType::Set);
        assert_eq!(field("meta.v1.ObjectMeta", "creationTimestamp").kind, FieldType::Time);
        assert!(graph.get(graph.named("meta.v1.LabelSelector").unwrap()).atomic);
        let unknown = graph.types().iter().flat_map(|t| &t.fields).filter(|f| f.kind == FieldType::Any).count();
        assert!(unknown < 30, "{unknown} fields of unknown type");
    }
}
