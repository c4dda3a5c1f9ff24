//! The protobuf form of OpenAPI v2 (gnostic's `openapi.v2.Document`), the only one that kubectl before 1.29 reads for `explain` and for
//! client-side validation. It has the definitions, with their kinds; paths are in the JSON forms.

use serde_json::{Map, Value};

use crate::protobuf::wire;

/// A document with the definitions of a JSON one.
pub(super) fn document(json: &Value) -> Vec<u8> {
    let mut info = Vec::new();
    text(&mut info, 1, &json["info"]["title"]);
    text(&mut info, 2, &json["info"]["version"]);
    let mut out = Vec::new();
    text(&mut out, 1, &json["swagger"]);
    wire::put_bytes(&mut out, 2, &info);
    wire::put_bytes(&mut out, 8, b"");
    wire::put_bytes(&mut out, 9, &named(&json["definitions"]));
    out
}

fn text(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let Some(text) = value.as_str() {
        wire::put_bytes(out, number, text.as_bytes());
    }
}

/// `Definitions` and `Properties`: repeated pairs of name and schema.
fn named(schemas: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in schemas.as_object().into_iter().flatten() {
        let mut pair = Vec::new();
        wire::put_bytes(&mut pair, 1, name.as_bytes());
        wire::put_bytes(&mut pair, 2, &value.as_object().map(schema).unwrap_or_default());
        wire::put_bytes(&mut out, 1, &pair);
    }
    out
}

fn schema(json: &Map<String, Value>) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, key) in [(1, "$ref"), (2, "format"), (4, "description")] {
        text(&mut out, number, json.get(key).unwrap_or(&Value::Null));
    }
    if let Some(default) = json.get("default") {
        wire::put_bytes(&mut out, 5, &any(default));
    }
    for name in json.get("required").and_then(Value::as_array).into_iter().flatten() {
        text(&mut out, 19, name);
    }
    if let Some(Value::Object(of)) = json.get("additionalProperties") {
        wire::put_bytes(&mut out, 21, &nested(of));
    }
    if let Some(kind) = json.get("type") {
        let mut item = Vec::new();
        text(&mut item, 1, kind);
        wire::put_bytes(&mut out, 22, &item);
    }
    if let Some(Value::Object(of)) = json.get("items") {
        wire::put_bytes(&mut out, 23, &nested(of));
    }
    if let Some(properties) = json.get("properties") {
        wire::put_bytes(&mut out, 25, &named(properties));
    }
    for (name, value) in json.iter().filter(|(name, _)| name.starts_with("x-")) {
        let mut pair = Vec::new();
        wire::put_bytes(&mut pair, 1, name.as_bytes());
        wire::put_bytes(&mut pair, 2, &any(value));
        wire::put_bytes(&mut out, 31, &pair);
    }
    out
}

/// `AdditionalPropertiesItem` and `ItemsItem`: a message around a schema.
fn nested(json: &Map<String, Value>) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_bytes(&mut out, 1, &schema(json));
    out
}

/// `Any` holds YAML, of which JSON is a part.
fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_bytes(&mut out, 2, value.to_string().as_bytes());
    out
}
