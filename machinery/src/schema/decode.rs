//! Strict decoding: what Go's decoder makes of a document.

mod either;

use std::fmt;

use serde_json::{Map, Value};

use super::{FieldType, Graph, Type, graph};
use crate::{catalog::Descriptor, version::MinorVersion};

/// What strict decoding has to say of a body: texts without the `strict decoding error: ` prefix, such as
/// `unknown field "spec.foo"` and `duplicate field "metadata.name"`.
pub type Strict = Vec<String>;

/// Checks types and prunes what the schema does not know, in place. Returns the unknown fields in document order. Null stands for
/// absent, as in Go. Fields that the descriptor's version of Kubernetes does not have are unknown. Custom resources are pruned by their
/// definition.
///
/// # Errors
/// A field of the wrong JSON type, in the words Go's decoder uses after
/// `.. in version "v1" cannot be handled as a Deployment: `, for example
/// `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
pub fn decode(descriptor: &Descriptor, object: &mut Value) -> Result<Strict, String> {
    let mut unknown =
        decode_kind(descriptor.kubernetes, &descriptor.group, &descriptor.version, &descriptor.kind, object)?;
    if let Some(definition) = &descriptor.definition {
        let pruned = definition.decode(object)?;
        unknown.extend(pruned.into_iter().map(|path| format!("unknown field \"{path}\"")));
    }
    Ok(unknown)
}

/// As [`decode`], by kind: for subresources and options.
///
/// # Errors
/// As [`decode`].
pub fn decode_kind(
    kubernetes: MinorVersion,
    group: &str,
    version: &str,
    kind: &str,
    object: &mut Value,
) -> Result<Strict, String> {
    // YAML, protobuf and patches can nest deeper than the parser of JSON lets through; such an object could be stored but not read.
    super::check_depth(object)?;
    let mut decoder = Decoder { graph: graph(), kubernetes, unknown: Vec::new() };
    if !object.is_object() {
        return Err(format!("json: cannot unmarshal {} into Go value of type {version}.{kind}", go_kind(object)));
    }
    match decoder.graph.kind(group, version, kind) {
        Some(at) => decoder.object(decoder.graph.get(at), object, Path::Text(""))?,
        None => decoder.custom(object)?,
    }
    Ok(decoder.unknown)
}

/// Checks the types of an object's metadata, removes what is not known of it and adds its path to `unknown`.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_metadata(metadata: &mut Value, path: &str, unknown: &mut Strict) -> Result<(), String> {
    let mut decoder = Decoder { graph: graph(), kubernetes: MinorVersion::DEFAULT, unknown: Vec::new() };
    let Some(of) = decoder.graph.named("meta.v1.ObjectMeta").map(|at| decoder.graph.get(at)) else { return Ok(()) };
    if !metadata.is_object() {
        return Err(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", go_kind(metadata)));
    }
    decoder.object(of, metadata, Path::Text(path))?;
    let field = |text: &String| {
        let name = text.strip_prefix("unknown field \"").and_then(|t| t.strip_suffix('"'));
        name.unwrap_or(text).to_owned()
    };
    unknown.extend(decoder.unknown.iter().map(field));
    Ok(())
}

struct Decoder {
    graph: &'static Graph,
    kubernetes: MinorVersion,
    unknown: Strict,
}

impl Decoder {
    /// Only metadata has a type.
    fn custom(&mut self, object: &mut Value) -> Result<(), String> {
        let metadata = self.graph.named("meta.v1.ObjectMeta").map(|at| self.graph.get(at));
        match (metadata, object.get_mut("metadata")) {
            (Some(metadata), Some(value)) if value.is_object() => self.object(metadata, value, Path::Text("metadata")),
            (_, None) => Ok(()),
            (_, Some(value)) => Err(format!(
                "json: cannot unmarshal {} into Go struct field .metadata of type v1.ObjectMeta",
                go_kind(value)
            )),
        }
    }

    fn object(&mut self, of: &Type, object: &mut Value, path: Path<'_>) -> Result<(), String> {
        let Some(map) = object.as_object_mut() else { return Ok(()) };
        let mut gone = Vec::new();
        for (key, value) in map.iter_mut() {
            let at = Path::Field(&path, key);
            match of.field_in(key, self.kubernetes) {
                None => {
                    self.unknown.push(format!("unknown field \"{at}\""));
                    gone.push(key.clone());
                }
                Some(_) if value.is_null() => gone.push(key.clone()),
                Some(field) => {
                    self.value(&field.kind, value, at, of.name).map_err(|why| named(why, field.go_type))?;
                }
            }
        }
        for key in gone {
            map.remove(&key);
        }
        Ok(())
    }

    fn value(&mut self, kind: &FieldType, value: &mut Value, path: Path<'_>, of: &str) -> Result<(), String> {
        let wrong = |value: &Value, go: &str| {
            let of = of.rsplit('.').next().unwrap_or_default();
            Err(format!(
                "json: cannot unmarshal {} into Go struct field {of}.{} of type {go}",
                match value {
                    Value::Number(n) if go.starts_with("int") => format!("number {n}"),
                    other => go_kind(other).clone(),
                },
                plain(&path.to_string())
            ))
        };
        match kind {
            FieldType::Any | FieldType::FieldsV1 | FieldType::RawExtension | FieldType::Json => Ok(()),
            FieldType::SchemaOrArray | FieldType::SchemaOrBool | FieldType::SchemaOrStrings => {
                self.either(kind, value, path)
            }
            FieldType::String if value.is_string() => Ok(()),
            FieldType::String => wrong(value, "string"),
            FieldType::Bool if value.is_boolean() => Ok(()),
            FieldType::Bool => wrong(value, "bool"),
            FieldType::Int32 => match value.as_i64() {
                Some(n) if i32::try_from(n).is_ok() => Ok(()),
                Some(_) => wrong(value, "int32"),
                None => match integral(value) {
                    None => wrong(value, "int32"),
                    Some(n) => {
                        *value = n;
                        Ok(())
                    }
                },
            },
            FieldType::Int64 => match value.as_i64() {
                Some(_) => Ok(()),
                None => match integral(value) {
                    None => wrong(value, "int64"),
                    Some(n) => {
                        *value = n;
                        Ok(())
                    }
                },
            },
            FieldType::Number if value.is_number() => Ok(()),
            FieldType::Number => wrong(value, "float64"),
            FieldType::Bytes => match value.as_str() {
                Some(text) => base64(text),
                None => wrong(value, "[]uint8"),
            },
            FieldType::Quantity => match value {
                // In Go a quantity that came as a number is text from then on.
                Value::Number(n) => {
                    *value = Value::String(n.to_string());
                    Ok(())
                }
                Value::String(text) if is_quantity(text) => Ok(()),
                Value::String(_) => {
                    Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                        .into())
                }
                _ => wrong(value, "resource.Quantity"),
            },
            FieldType::Time | FieldType::MicroTime => match value.as_str() {
                Some(text) => text.parse::<jiff::Timestamp>().map(drop).map_err(|_| {
                    format!(
                        "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\""
                    )
                }),
                None => wrong(value, "v1.Time"),
            },
            FieldType::IntOrString => match value {
                Value::String(_) => Ok(()),
                Value::Number(n) if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(()),
                _ => wrong(value, "intstr.IntOrString"),
            },
            FieldType::Struct(at) => {
                let of = self.graph.get(*at);
                if value.is_object() {
                    return self.object(of, value, path);
                }
                let mut parts = of.name.rsplit('.');
                let (kind, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                wrong(value, &format!("{version}.{kind}"))
            }
            FieldType::List(of_items) => {
                let Value::Array(items) = value else { return wrong(value, &self.go(kind)) };
                for (index, item) in items.iter_mut().enumerate() {
                    if item.is_null() {
                        *item = self.zero(of_items);
                    }
                    self.value(of_items, item, Path::Item(&path, index), of)?;
                }
                Ok(())
            }
            FieldType::Map(of_values) => {
                let Value::Object(entries) = value else { return wrong(value, &self.go(kind)) };
                for (key, entry) in entries.iter_mut() {
                    if entry.is_null() {
                        *entry = self.zero(of_values);
                    }
                    // Go names the map, not its key, for a value of the wrong type.
                    let at = match &**of_values {
                        FieldType::Struct(_) | FieldType::Map(_) | FieldType::List(_) => Path::Field(&path, key),
                        _ => path,
                    };
                    self.value(of_values, entry, at, of)?;
                }
                Ok(())
            }
        }
    }

    /// What Go puts in a list or map for null.
    fn zero(&self, kind: &FieldType) -> Value {
        match kind {
            FieldType::Bool => Value::Bool(false),
            FieldType::Int32 | FieldType::Int64 | FieldType::Number | FieldType::IntOrString => Value::from(0),
            FieldType::Quantity => Value::from("0"),
            FieldType::Struct(_) | FieldType::Map(_) => Value::Object(Map::new()),
            FieldType::List(_) => Value::Array(Vec::new()),
            FieldType::Time
            | FieldType::MicroTime
            | FieldType::Any
            | FieldType::RawExtension
            | FieldType::FieldsV1
            | FieldType::Json
            | FieldType::SchemaOrArray
            | FieldType::SchemaOrBool
            | FieldType::SchemaOrStrings => Value::Null,
            FieldType::String | FieldType::Bytes => Value::from(""),
        }
    }

    /// A Go type's name.
    fn go(&self, kind: &FieldType) -> String {
        match kind {
            FieldType::String => "string".into(),
            FieldType::Int32 => "int32".into(),
            FieldType::Int64 => "int64".into(),
            FieldType::Number => "float64".into(),
            FieldType::Bool => "bool".into(),
            FieldType::Bytes => "[]uint8".into(),
            FieldType::Quantity => "resource.Quantity".into(),
            FieldType::Time => "v1.Time".into(),
            FieldType::MicroTime => "v1.MicroTime".into(),
            FieldType::IntOrString => "intstr.IntOrString".into(),
            FieldType::RawExtension
            | FieldType::FieldsV1
            | FieldType::Any
            | FieldType::Json
            | FieldType::SchemaOrArray
            | FieldType::SchemaOrBool
            | FieldType::SchemaOrStrings => "interface {}".into(),
            FieldType::Struct(at) => {
                let mut parts = self.graph.get(*at).name.rsplit('.');
                let (kind, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                format!("{version}.{kind}")
            }
            FieldType::List(of) => format!("[]{}", self.go(of)),
            FieldType::Map(of) => format!("map[string]{}", self.go(of)),
        }
    }
}

/// Where a value is; put together only for what is wrong.
#[derive(Clone, Copy)]
enum Path<'a> {
    Text(&'a str),
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Field(Path::Text(""), key) => f.write_str(key),
            Self::Field(parent, key) => write!(f, "{parent}.{key}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A path without its indices: Go's decoder names fields only.
fn plain(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ if !inside => plain.push(c),
            _ => {}
        }
    }
    plain
}

/// `2.0` is an integer for Kubernetes' decoder.
fn integral(value: &Value) -> Option<Value> {
    let number = value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15)?;
    Some(Value::from(number as i64))
}

fn go_kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(n) if n.is_f64() => format!("number {n}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

fn base64(text: &str) -> Result<(), String> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.decode(text.replace(['\r', '\n'], "")).map(drop).map_err(|_| {
        let bad = text
            .bytes()
            .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=')))
            .unwrap_or(text.len());
        format!("illegal base64 data at input byte {bad}")
    })
}

/// Go tells the name of a scalar type that has one of its own.
fn named(why: String, go_type: Option<&str>) -> String {
    match (go_type, why.strip_suffix(" of type string")) {
        (Some(name), Some(start)) => format!("{start} of type {name}"),
        _ => why,
    }
}

/// Whether a text is a quantity: a decimal number and a suffix.
fn is_quantity(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, suffix) = rest.split_at(digits);
    let is_number = number.matches('.').count() <= 1 && number.bytes().any(|b| b.is_ascii_digit());
    let is_exponent = suffix.strip_prefix(['e', 'E']).is_some_and(|e| {
        let e = e.strip_prefix(['+', '-']).unwrap_or(e);
        !e.is_empty() && e.bytes().all(|b| b.is_ascii_digit())
    });
    let is_unit =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].contains(&suffix);
    is_number && (is_unit || is_exponent)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(spec: Value) -> (Result<Strict, String>, Value) {
        let mut object =
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" }, "spec": spec });
        let result = decode_kind(MinorVersion::DEFAULT, "apps", "v1", "Deployment", &mut object);
        (result, object["spec"].take())
    }

    #[test]
    fn unknown_fields_are_named_and_pruned() {
        let (unknown, spec) = deployment(json!({
            "replicas": 2, "foo": 1, "paused": null,
            "template": { "spec": { "containers": [{ "name": "c", "bar": {} }] } },
        }));
        assert_eq!(
            unknown.unwrap(),
            ["unknown field \"spec.foo\"", "unknown field \"spec.template.spec.containers[0].bar\""]
        );
        assert_eq!(spec, json!({ "replicas": 2, "template": { "spec": { "containers": [{ "name": "c" }] } } }));
    }

    #[test]
    fn fields_of_other_versions_are_unknown() {
        let pod = json!({ "spec": { "hostnameOverride": "h", "containers": [], "evictionResponders": [] } });
        let decoded = |version: &str| {
            let mut pod = pod.clone();
            let unknown = decode_kind(version.parse().unwrap(), "", "v1", "Pod", &mut pod).unwrap();
            (unknown, pod["spec"].as_object().unwrap().keys().cloned().collect::<Vec<_>>())
        };
        let field = |name: &str| format!("unknown field \"spec.{name}\"");
        assert_eq!(
            decoded("1.33"),
            (vec![field("evictionResponders"), field("hostnameOverride")], vec!["containers".to_owned()])
        );
        assert_eq!(decoded("1.36").0, [field("evictionResponders")]);
        assert!(decoded("1.37").0.is_empty());
    }

    #[test]
    fn wrong_types_are_told_as_go_tells_them() {
        let wrong = |spec| deployment(spec).0.unwrap_err();
        assert_eq!(
            wrong(json!({ "replicas": "two" })),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
        assert_eq!(
            wrong(json!({ "template": { "spec": { "containers": {} } } })),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container"
        );
        assert_eq!(
            wrong(json!({ "template": { "spec": { "restartPolicy": true } } })),
            "json: cannot unmarshal bool into Go struct field PodSpec.spec.template.spec.restartPolicy of type v1.RestartPolicy"
        );
        assert_eq!(
            wrong(json!({ "replicas": 3_000_000_000_i64 })),
            "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
        let mut secret = json!({ "data": { "k": "not base64!" } });
        assert_eq!(
            decode_kind(MinorVersion::DEFAULT, "", "v1", "Secret", &mut secret).unwrap_err(),
            "illegal base64 data at input byte 3"
        );
    }

    #[test]
    fn numbers_and_quantities() {
        let (result, spec) = deployment(json!({ "replicas": 2.0, "template": { "spec": { "containers": [
            { "name": "c", "resources": { "limits": { "cpu": 1, "memory": "1Gi" } } },
        ] } } }));
        assert_eq!(result.unwrap(), Strict::new());
        assert_eq!(spec["replicas"], 2);
        assert_eq!(
            spec["template"]["spec"]["containers"][0]["resources"]["limits"],
            json!({ "cpu": "1", "memory": "1Gi" })
        );
    }

    #[test]
    fn what_is_a_quantity() {
        for good in ["1", "0.5", "500m", "1Gi", "1e3", "-1", "1E", ".5", "5."] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "x", "1x", "1.2.3", "Gi", "1 Gi", "1e", "1K"] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }

    #[test]
    fn custom_resources_keep_everything_but_unknown_metadata() {
        let mut object = json!({ "metadata": { "name": "x", "nome": "y" }, "spec": { "anything": [1] } });
        assert_eq!(
            decode_kind(MinorVersion::DEFAULT, "example.com", "v1", "Thing", &mut object).unwrap(),
            ["unknown field \"metadata.nome\""]
        );
        assert_eq!(object, json!({ "metadata": { "name": "x" }, "spec": { "anything": [1] } }));
    }
}
