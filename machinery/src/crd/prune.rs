//! Taking away what a schema does not know, and nulls that it does not allow. Sources: apiextensions-apiserver
//! `pkg/apiserver/schema/{pruning,objectmeta,defaulting}`.

use serde_json::Value;

use super::schema::{Additional, Schema};
use crate::schema;

/// What every resource has besides its own fields.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes unknown fields in place; returns their paths, sorted. The root is a resource.
pub(super) fn prune_root(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut unknown = Vec::new();
    prune(object, Some(schema), true, "", &mut unknown);
    unknown.sort();
    unknown
}

/// As [`prune_root`], of a value that is no resource.
pub(super) fn prune_value(value: &mut Value, schema: &Schema) {
    prune(value, Some(schema), schema.embedded, "", &mut Vec::new());
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn prune(value: &mut Value, schema: Option<&Schema>, resource: bool, path: &str, unknown: &mut Vec<String>) {
    let Some(schema) = schema else {
        return prune_all(value, path, unknown);
    };
    match value {
        Value::Object(map) => {
            let mut gone = Vec::new();
            for (name, value) in map.iter_mut() {
                if resource && META.contains(&name.as_str()) {
                    continue;
                }
                if let Some(of) = schema.properties.get(name) {
                    prune(value, Some(of), of.embedded, &join(path, name), unknown);
                } else if let Some(additional) = &schema.additional {
                    match additional {
                        Additional::Schema(of) => prune(value, Some(of), of.embedded, &join(path, name), unknown),
                        Additional::Any(_) if schema.preserves_unknown => {}
                        Additional::Any(_) => prune_all(value, &join(path, name), unknown),
                    }
                } else if !schema.preserves_unknown {
                    unknown.push(join(path, name));
                    gone.push(name.clone());
                }
            }
            for name in gone {
                map.remove(&name);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter_mut().enumerate() {
                let at = format!("{path}[{i}]");
                match &schema.items {
                    Some(of) => prune(item, Some(of), of.embedded, &at, unknown),
                    None if schema.preserves_unknown => {}
                    None => prune_all(item, &at, unknown),
                }
            }
        }
        _ => {}
    }
}

/// Without a schema every field is unknown.
fn prune_all(value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            unknown.extend(map.keys().map(|name| join(path, name)));
            map.clear();
        }
        Value::Array(items) => {
            for (i, item) in items.iter_mut().enumerate() {
                prune_all(item, &format!("{path}[{i}]"), unknown);
            }
        }
        _ => {}
    }
}

/// Checks the types of `apiVersion`, `kind` and `metadata` of embedded resources and removes unknown metadata, whose paths it adds.
///
/// # Errors
/// The first thing of a wrong type, unless `lenient`: then it stays as it is.
pub(super) fn coerce_embedded(
    value: &mut Value,
    schema: &Schema,
    path: &str,
    lenient: bool,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match value {
        Value::Object(map) => {
            if schema.embedded {
                for field in ["apiVersion", "kind"] {
                    if map.get(field).is_some_and(|v| !v.is_string()) {
                        if lenient {
                            map.remove(field);
                        } else {
                            let shown = map.get(field).cloned().unwrap_or_default();
                            return Err(format!("{}: Invalid value: {shown}: must be a string", join(path, field)));
                        }
                    }
                }
                if let Some(metadata) = map.get_mut("metadata") {
                    let at = join(path, "metadata");
                    let shown = metadata.clone();
                    if let Err(why) = schema::decode_metadata(metadata, &at, unknown)
                        && !lenient
                    {
                        return Err(format!("{at}: Invalid value: {shown}: {why}"));
                    }
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(of) = schema.field(name) {
                    coerce_embedded(value, of, &join(path, name), lenient, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for (i, item) in items.iter_mut().enumerate() {
                    coerce_embedded(item, of, &format!("{path}[{i}]"), lenient, unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Removes nulls that are no values and that no default replaces.
pub(super) fn prune_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let of = schema.and_then(|s| s.field(name));
            if value.is_null() && of.is_some_and(|s| !s.nullable && s.default.is_none()) {
                return false;
            }
            prune_nulls(value, of);
            true
        }),
        Value::Array(items) => {
            let of = schema.and_then(|s| s.items.as_deref());
            for item in items {
                prune_nulls(item, of);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pruned(schema: &Value, mut object: Value) -> (Value, Vec<String>) {
        let unknown = prune_root(&mut object, &Schema::parse(schema));
        (object, unknown)
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        let schema = json!({ "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "a": { "type": "string" },
                "list": { "type": "array", "items": { "type": "object", "properties": { "x": { "type": "string" } } } },
                "map": { "type": "object", "additionalProperties": { "type": "object", "properties": { "y": { "type": "string" } } } },
                "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "known": { "type": "object", "properties": { "z": { "type": "string" } } },
                } },
            } },
        } });
        let (object, unknown) = pruned(
            &schema,
            json!({
                "apiVersion": "g/v1", "kind": "K", "metadata": { "name": "n" }, "other": 1,
                "spec": {
                    "a": "1", "b": { "c": 1 },
                    "list": [{ "x": "1", "w": 2 }], "map": { "k": { "y": "1", "v": 1 } },
                    "free": { "anything": { "goes": [1] }, "known": { "z": "1", "zz": 2 } },
                },
            }),
        );
        assert_eq!(unknown, ["other", "spec.b", "spec.free.known.zz", "spec.list[0].w", "spec.map.k.v"]);
        assert_eq!(
            object,
            json!({
                "apiVersion": "g/v1", "kind": "K", "metadata": { "name": "n" },
                "spec": {
                    "a": "1", "list": [{ "x": "1" }], "map": { "k": { "y": "1" } },
                    "free": { "anything": { "goes": [1] }, "known": { "z": "1" } },
                },
            })
        );
    }

    #[test]
    fn embedded_resources_keep_what_every_resource_has() {
        let schema = json!({ "type": "object", "properties": { "template": {
            "type": "object", "x-kubernetes-embedded-resource": true, "properties": { "spec": { "type": "object" } },
        } } });
        let object = json!({ "template": { "apiVersion": "v1", "kind": "P", "metadata": { "name": "n", "oops": 1 }, "spec": { "a": 1 } } });
        let (mut object, unknown) = pruned(&schema, object);
        assert_eq!(unknown, ["template.spec.a"]);
        let mut unknown = Vec::new();
        coerce_embedded(&mut object, &Schema::parse(&schema), "", false, &mut unknown).unwrap();
        assert_eq!(unknown, ["template.metadata.oops"]);
        assert_eq!(
            object,
            json!({ "template": { "apiVersion": "v1", "kind": "P", "metadata": { "name": "n" }, "spec": {} } })
        );
        let mut wrong = json!({ "template": { "kind": 1 } });
        let refused = coerce_embedded(&mut wrong, &Schema::parse(&schema), "", false, &mut unknown).unwrap_err();
        assert_eq!(refused, "template.kind: Invalid value: 1: must be a string");
    }

    #[test]
    fn nulls_go_unless_they_are_values() {
        let schema = Schema::parse(&json!({ "type": "object", "properties": {
            "a": { "type": "string" }, "b": { "type": "string", "nullable": true }, "c": { "type": "string", "default": "x" },
        } }));
        let mut object = json!({ "a": null, "b": null, "c": null, "d": null });
        prune_nulls(&mut object, Some(&schema));
        assert_eq!(object, json!({ "b": null, "c": null, "d": null }));
    }
}
