//! Schemas of custom resources in the published documents. Source: apiextensions-apiserver `pkg/controller/openapi`.

use serde_json::{Map, Value, json};

use super::Form;

/// `apiVersion` of every object.
pub(super) fn api_version() -> Value {
    json!({ "type": "string", "description": "Group and version of the schema that this object follows." })
}

/// `kind` of every object.
pub(super) fn kind() -> Value {
    json!({ "type": "string", "description": "Kind of this object." })
}

/// A reference with a description: in v3 nothing may stand beside a reference.
pub(super) fn described(reference: &Value, text: &str, form: Form) -> Value {
    if form == Form::V3 {
        json!({ "allOf": [reference], "description": text })
    } else {
        let mut described = reference.clone();
        described["description"] = text.into();
        described
    }
}

/// A definition's schema with what every object has.
pub(super) fn schema(source: &Value, form: Form, metadata: &Value) -> Value {
    let preserves = source.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if form == Form::V2 && preserves {
        // Clients of v2 would take what is not named for unknown.
        return json!({ "type": "object" });
    }
    let mut schema = if form == Form::V2 { v2(source) } else { source.clone() };
    embedded(&mut schema, form, metadata);
    typed(&mut schema, form, metadata);
    schema
}

fn typed(schema: &mut Value, form: Form, metadata: &Value) {
    let Some(map) = schema.as_object_mut() else { return };
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    properties["apiVersion"] = api_version();
    properties["kind"] = kind();
    properties["metadata"] = described(metadata, "Standard metadata of an object.", form);
}

/// Embedded resources have type and metadata, too.
fn embedded(schema: &mut Value, form: Form, metadata: &Value) {
    let Some(map) = schema.as_object_mut() else { return };
    for (key, value) in map.iter_mut() {
        match key.as_str() {
            "properties" => {
                value.as_object_mut().into_iter().flatten().for_each(|(_, of)| embedded(of, form, metadata));
            }
            "items" | "additionalProperties" => embedded(value, form, metadata),
            _ => {}
        }
    }
    if map.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        let required = map.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            for field in ["kind", "apiVersion"] {
                if !required.iter().any(|r| r == field) {
                    required.push(field.into());
                }
            }
        }
        typed(schema, form, metadata);
    }
}

/// What v2 can say of a schema: no alternatives, no null, and nothing of what is beside unknown fields.
fn v2(source: &Value) -> Value {
    let Some(map) = source.as_object() else { return source.clone() };
    let yes = |key: &str| map.get(key) == Some(&Value::Bool(true));
    let loose = yes("nullable") || yes("x-kubernetes-preserve-unknown-fields");
    let mut out = Map::new();
    for (key, value) in map {
        match key.as_str() {
            "allOf" | "anyOf" | "oneOf" | "not" | "nullable" | "default" => {}
            "type" if yes("nullable") || yes("x-kubernetes-int-or-string") => {}
            "properties" | "items" | "additionalProperties" | "required" if loose => {}
            "properties" => {
                let of = value.as_object().into_iter().flatten().map(|(name, of)| (name.clone(), v2(of)));
                out.insert(key.clone(), Value::Object(of.collect()));
            }
            "items" | "additionalProperties" => {
                out.insert(key.clone(), v2(value));
            }
            _ => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let source = json!({
            "type": "object", "description": "d", "required": ["spec"],
            "properties": {
                "spec": { "type": "object", "properties": {
                    "a": { "type": "string", "default": "x", "anyOf": [{ "minLength": 1 }], "description": "an a" },
                    "n": { "type": "object", "nullable": true, "properties": { "x": { "type": "string" } } },
                    "t": { "type": "object", "x-kubernetes-embedded-resource": true, "properties": { "spec": { "type": "object" } } },
                } },
            },
        });
        let metadata = json!({ "$ref": "#/m" });
        let v3 = schema(&source, Form::V3, &metadata);
        assert_eq!(v3["properties"]["spec"]["properties"]["a"]["anyOf"], json!([{ "minLength": 1 }]));
        assert_eq!(v3["properties"]["metadata"]["allOf"], json!([metadata]));
        assert_eq!(v3["properties"]["spec"]["properties"]["t"]["required"], json!(["kind", "apiVersion"]));
        let v2 = schema(&source, Form::V2, &metadata);
        assert_eq!(v2["properties"]["spec"]["properties"]["a"], json!({ "type": "string", "description": "an a" }));
        assert_eq!(v2["properties"]["spec"]["properties"]["n"], json!({}));
        assert_eq!(v2["properties"]["metadata"]["$ref"], "#/m");
        let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {} });
        assert_eq!(schema(&free, Form::V2, &metadata), json!({ "type": "object" }));
    }
}
