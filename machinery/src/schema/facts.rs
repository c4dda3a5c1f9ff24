//! Reads `facts/schema.txt`. The file is part of the build, so that what does not parse is a bug that the tests here find.

use super::{Field, FieldType, Graph, ListType, PatchStrategy, Type, TypeRef};
use crate::version::Versions;

/// Reads all types; the head of `facts/schema.txt` explains the form.
pub(super) fn read(texts: &[&'static str]) -> Graph {
    let mut graph = Graph::default();
    let lines = || texts.iter().flat_map(|t| t.lines());
    for line in lines() {
        if let Some(rest) = line.strip_prefix("type ") {
            let at = TypeRef(graph.types.len() as u32);
            let mut words = rest.split(' ');
            let name = words.next().unwrap_or_default();
            graph.names.insert(name, at);
            graph.types.push(Type { name, fields: Vec::new(), atomic: words.next() == Some("atomic") });
        } else if let Some(kind) = line.strip_prefix('@') {
            let at = TypeRef(graph.types.len().saturating_sub(1) as u32);
            let mut parts = kind.split('/');
            if let (Some(group), Some(version), Some(kind)) = (parts.next(), parts.next(), parts.next()) {
                graph.kinds.insert((group, version, kind), at);
            }
        }
    }
    let mut next = 0;
    for line in lines() {
        if line.starts_with("type ") {
            next += 1;
        } else if let (Some(line), Some(current)) = (line.strip_prefix(' '), usize::checked_sub(next, 1)) {
            let field = field(&graph, line);
            graph.types[current].fields.push(field);
        }
    }
    for kind in &mut graph.types {
        kind.fields.sort_by_key(|f| f.name);
        kind.fields.shrink_to_fit();
    }
    graph
}

fn field(graph: &Graph, line: &'static str) -> Field {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let numbers = words.next().unwrap_or_default();
    let kind = field_type(graph, words.next().unwrap_or_default());
    let mut field = Field {
        name,
        kind,
        versions: Versions::ALL,
        required: None,
        list: ListType::Atomic,
        atomic_map: false,
        patch: PatchStrategy::default(),
        merge_key: None,
        numbers: numbers.split('.').filter_map(|n| n.parse().ok()).collect(),
        pointer: false,
        go_type: None,
        wrapped: false,
        default: None,
    };
    for word in words {
        match word.split_once('=') {
            None => {
                if let Some(required) = word.strip_prefix('!') {
                    field.required = Some(Versions::parse(required).unwrap_or(Versions::ALL));
                }
                field.pointer |= word == "*";
                field.wrapped |= word == "w";
            }
            Some(("g", go)) => field.go_type = Some(go),
            Some(("l", "set")) => field.list = ListType::Set,
            Some(("l", list)) => {
                if let Some(keys) = list.strip_prefix("map:") {
                    field.list = ListType::Map(keys.split(',').collect());
                }
            }
            Some(("m", kind)) => field.atomic_map = kind == "atomic",
            Some(("p", patch)) => {
                let (strategies, key) = patch.split_once(':').unwrap_or((patch, ""));
                field.merge_key = (!key.is_empty()).then_some(key);
                for strategy in strategies.split(',') {
                    field.patch.merge |= strategy == "merge";
                    field.patch.replace |= strategy == "replace";
                    field.patch.retain_keys |= strategy == "retainKeys";
                }
            }
            Some(("v", versions)) => field.versions = Versions::parse(versions).unwrap_or(Versions::ALL),
            Some(("d", default)) => field.default = serde_json::from_str(default).ok(),
            Some(_) => {}
        }
    }
    field
}

fn field_type(graph: &Graph, text: &'static str) -> FieldType {
    if let Some(of) = text.strip_prefix("[]") {
        return FieldType::List(Box::new(field_type(graph, of)));
    }
    if let Some(of) = text.strip_prefix("{}") {
        return FieldType::Map(Box::new(field_type(graph, of)));
    }
    match text {
        "string" => FieldType::String,
        "int32" => FieldType::Int32,
        "int64" => FieldType::Int64,
        "double" => FieldType::Number,
        "bool" => FieldType::Bool,
        "bytes" => FieldType::Bytes,
        "quantity" => FieldType::Quantity,
        "time" => FieldType::Time,
        "microTime" => FieldType::MicroTime,
        "intOrString" => FieldType::IntOrString,
        "raw" => FieldType::RawExtension,
        "fields" => FieldType::FieldsV1,
        "json" => FieldType::Json,
        "schemaOrArray" => FieldType::SchemaOrArray,
        "schemaOrBool" => FieldType::SchemaOrBool,
        "schemaOrStrings" => FieldType::SchemaOrStrings,
        name => graph.named(name).map_or(FieldType::Any, FieldType::Struct),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{catalog::Catalog, schema, version::MinorVersion};

    #[test]
    fn every_built_in_kind_has_a_type() {
        let missing: Vec<String> = MinorVersion::all()
            .flat_map(|version| Catalog::of(version).rows())
            .filter(|d| schema::of(&d.group, &d.version, &d.kind).is_none())
            .map(|d| format!("{}/{} {}", d.group, d.version, d.kind))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    /// Facts of upstream's releases: what came (and went) with which minor version.
    #[test]
    fn fields_know_their_versions() {
        let graph = schema::graph();
        let versions = |kind: &str, name: &str| -> Vec<u8> {
            let field = graph.get(graph.named(kind).unwrap()).field(name).unwrap();
            MinorVersion::all().filter(|v| field.versions.contain(*v)).map(MinorVersion::number).collect()
        };
        assert_eq!(versions("core.v1.PodSpec", "containers"), [33, 34, 35, 36, 37]);
        assert_eq!(versions("core.v1.PodSpec", "hostnameOverride"), [34, 35, 36, 37]);
        assert_eq!(versions("core.v1.PodSpec", "workloadRef"), [35]);
        assert_eq!(versions("core.v1.PodSpec", "schedulingGroup"), [36, 37]);
        assert_eq!(versions("core.v1.PodSpec", "evictionResponders"), [37]);
        assert_eq!(versions("resource.v1.Device", "nodeAllocatableResourceMappings"), [36]);
        let spec = graph.get(graph.named("networking.v1.NetworkPolicySpec").unwrap()).field("podSelector").unwrap();
        assert!(spec.is_required(MinorVersion::OLDEST) && !spec.is_required(MinorVersion::DEFAULT));
        for ty in graph.types() {
            for field in &ty.fields {
                assert!(MinorVersion::all().any(|v| field.versions.contain(v)), "{} {}", ty.name, field.name);
            }
        }
    }

    #[test]
    fn the_facts_of_fields() {
        let graph = schema::graph();
        let field = |kind: &str, name: &str| graph.get(graph.named(kind).unwrap()).field(name).unwrap();
        let ports = field("core.v1.ServiceSpec", "ports");
        assert_eq!(ports.list, ListType::Map(vec!["port", "protocol"]));
        assert_eq!((ports.merge_key, ports.patch.merge, &*ports.numbers), (Some("port"), true, &[1][..]));
        assert!(matches!(&ports.kind, FieldType::List(of) if matches!(**of, FieldType::Struct(_))));
        assert_eq!(field("core.v1.ContainerPort", "protocol").default, Some("TCP".into()));
        assert!(field("core.v1.ContainerPort", "containerPort").is_required(MinorVersion::OLDEST));
        assert!(field("apps.v1.DeploymentSpec", "strategy").patch.retain_keys);
        assert_eq!(field("meta.v1.ObjectMeta", "finalizers").list, ListType::Set);
        assert_eq!(field("meta.v1.ObjectMeta", "creationTimestamp").kind, FieldType::Time);
        assert!(graph.get(graph.named("meta.v1.LabelSelector").unwrap()).atomic);
        let unknown = graph.types().iter().flat_map(|t| &t.fields).filter(|f| f.kind == FieldType::Any).count();
        assert!(unknown < 30, "{unknown} fields of unknown type");
        assert_eq!(field("core.v1.Volume", "configMap").numbers, [2, 19]);
        assert!(field("authentication.v1.UserInfo", "extra").wrapped);
    }
}
