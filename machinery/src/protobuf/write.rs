//! JSON to protobuf. What does not fit its type is left out: documents have been checked before they come here.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{encode, wire};
use crate::schema::{Field, FieldType, Type, graph};

pub(super) fn message(ty: &Type, object: &Map<String, Value>) -> Vec<u8> {
    let present: Vec<(&Field, &Value)> = object
        .iter()
        .filter(|(_, v)| !v.is_null())
        .filter_map(|(name, value)| Some((ty.field(name)?, value)))
        .collect();
    nested(&present, 0)
}

/// Fields that share a number at `level` lie in one embedded message.
fn nested(fields: &[(&Field, &Value)], level: usize) -> Vec<u8> {
    let mut numbers: BTreeMap<u32, Vec<(&Field, &Value)>> = BTreeMap::new();
    for (field, value) in fields {
        if let Some(number) = field.numbers.get(level) {
            numbers.entry(*number).or_default().push((field, value));
        }
    }
    let mut out = Vec::new();
    for (number, group) in numbers {
        match group.as_slice() {
            [(field, value)] if field.numbers.len() == level + 1 => put(&mut out, number, field, value),
            _ => wire::put_bytes(&mut out, number, &nested(&group, level + 1)),
        }
    }
    out
}

fn put(out: &mut Vec<u8>, number: u32, field: &Field, value: &Value) {
    match (&field.kind, value) {
        (FieldType::List(of), Value::Array(items)) if field.wrapped => {
            wire::put_bytes(out, number, &strings(of, items))
        }
        (FieldType::List(of), Value::Array(items)) => items.iter().for_each(|item| one(out, number, of, item)),
        (FieldType::Map(of), Value::Object(map)) => {
            for (key, value) in map {
                let mut entry = Vec::new();
                wire::put_bytes(&mut entry, 1, key.as_bytes());
                match (&**of, value) {
                    (FieldType::List(inner), Value::Array(items)) if field.wrapped => {
                        wire::put_bytes(&mut entry, 2, &strings(inner, items));
                    }
                    (of, value) => one(&mut entry, 2, of, value),
                }
                wire::put_bytes(out, number, &entry);
            }
        }
        (kind, value) => one(out, number, kind, value),
    }
}

fn strings(of: &FieldType, items: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        one(&mut out, 1, of, item);
    }
    out
}

fn one(out: &mut Vec<u8>, number: u32, kind: &FieldType, value: &Value) {
    match (kind, value) {
        (FieldType::String, Value::String(text)) => wire::put_bytes(out, number, text.as_bytes()),
        (FieldType::Int32 | FieldType::Int64, Value::Number(n)) => {
            if let Some(n) = n.as_i64() {
                wire::put_integer(out, number, n);
            }
        }
        (FieldType::Bool, Value::Bool(b)) => wire::put_integer(out, number, i64::from(*b)),
        (FieldType::Number, Value::Number(n)) => {
            if let Some(n) = n.as_f64() {
                wire::put_double(out, number, n);
            }
        }
        (FieldType::Bytes, Value::String(text)) => {
            if let Ok(bytes) = STANDARD.decode(text) {
                wire::put_bytes(out, number, &bytes);
            }
        }
        (FieldType::Quantity, Value::String(text)) => held(out, number, text.as_bytes()),
        (FieldType::Quantity, Value::Number(n)) => held(out, number, n.to_string().as_bytes()),
        (FieldType::IntOrString, value) => {
            let mut inner = Vec::new();
            if let Some(text) = value.as_str() {
                wire::put_integer(&mut inner, 1, 1);
                wire::put_integer(&mut inner, 2, 0);
                wire::put_bytes(&mut inner, 3, text.as_bytes());
            } else {
                wire::put_integer(&mut inner, 1, 0);
                wire::put_integer(&mut inner, 2, value.as_i64().unwrap_or_default());
                wire::put_bytes(&mut inner, 3, b"");
            }
            wire::put_bytes(out, number, &inner);
        }
        (FieldType::Time | FieldType::MicroTime, Value::String(text)) => {
            if let Ok(time) = text.parse::<Timestamp>() {
                let mut inner = Vec::new();
                wire::put_integer(&mut inner, 1, time.as_second());
                wire::put_integer(&mut inner, 2, i64::from(time.subsec_nanosecond()));
                wire::put_bytes(out, number, &inner);
            }
        }
        (FieldType::RawExtension, value) => {
            held(out, number, &encode(value).unwrap_or_else(|| value.to_string().into_bytes()));
        }
        (FieldType::FieldsV1 | FieldType::Json, value) => held(out, number, value.to_string().as_bytes()),
        (FieldType::SchemaOrArray | FieldType::SchemaOrBool | FieldType::SchemaOrStrings, value) => {
            wire::put_bytes(out, number, &either(kind, value));
        }
        (FieldType::Struct(at), Value::Object(map)) => wire::put_bytes(out, number, &message(graph().get(*at), map)),
        _ => {}
    }
}

/// A message whose only field holds the bytes.
fn held(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    let mut inner = Vec::new();
    wire::put_bytes(&mut inner, 1, bytes);
    wire::put_bytes(out, number, &inner);
}

fn either(kind: &FieldType, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let of_bool = *kind == FieldType::SchemaOrBool;
    let schema = |map: &Map<String, Value>| {
        graph().named("apiextensions.v1.JSONSchemaProps").map(|at| message(graph().get(at), map)).unwrap_or_default()
    };
    match value {
        Value::Bool(allows) if of_bool => wire::put_integer(&mut out, 1, i64::from(*allows)),
        Value::Object(map) => {
            if of_bool {
                wire::put_integer(&mut out, 1, 1);
            }
            wire::put_bytes(&mut out, if of_bool { 2 } else { 1 }, &schema(map));
        }
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Object(map) => wire::put_bytes(&mut out, 2, &schema(map)),
                    Value::String(text) => wire::put_bytes(&mut out, 2, text.as_bytes()),
                    _ => {}
                }
            }
        }
        _ => {}
    }
    out
}
