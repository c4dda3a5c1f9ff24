//! Protobuf to JSON.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::{MAX_DEPTH, decode_at, wire};
use crate::{
    schema::{self, Field, FieldType, Type, graph},
    version::MinorVersion,
};

/// Reads the message's fields into `out`. `at` is the path of numbers of embedded structs down to this message.
pub(super) fn message(
    ty: &Type,
    at: &[u32],
    bytes: &[u8],
    out: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("exceeded max depth".into());
    }
    for entry in wire::entries(bytes) {
        let (number, value) = entry?;
        let here =
            |f: &&Field| f.numbers.len() > at.len() && f.numbers.starts_with(at) && f.numbers[at.len()] == number;
        if let Some(field) = ty.fields.iter().find(|f| here(f) && f.numbers.len() == at.len() + 1) {
            add(field, value, out, depth)?;
        } else if ty.fields.iter().any(|f| here(&f)) {
            let path: Vec<u32> = at.iter().copied().chain([number]).collect();
            message(ty, &path, value.bytes()?, out, depth + 1)?;
        }
    }
    Ok(())
}

fn add(field: &Field, value: wire::Wire<'_>, out: &mut Map<String, Value>, depth: usize) -> Result<(), String> {
    match &field.kind {
        FieldType::List(of) if field.wrapped => {
            out.insert(field.name.into(), strings(value.bytes()?, of, depth)?);
        }
        FieldType::List(of) => {
            let items = out.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(items) = items else { return Ok(()) };
            // Go writes numbers one by one; other encoders pack them.
            if let (FieldType::Int32 | FieldType::Int64, wire::Wire::Bytes(mut packed)) = (&**of, value) {
                while !packed.is_empty() {
                    items.push(one(of, wire::Wire::Varint(wire::varint(&mut packed)?), depth)?);
                }
            } else {
                items.push(one(of, value, depth)?);
            }
        }
        FieldType::Map(of) => {
            let (mut key, mut held) = (String::new(), None);
            for entry in wire::entries(value.bytes()?) {
                match entry? {
                    (1, value) => key = value.text()?,
                    (2, value) if field.wrapped => {
                        let inner = if let FieldType::List(inner) = &**of { inner } else { of };
                        held = Some(strings(value.bytes()?, inner, depth)?);
                    }
                    (2, value) => held = Some(one(of, value, depth)?),
                    _ => {}
                }
            }
            let map = out.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                map.insert(key, held.unwrap_or_else(|| zero(of)));
            }
        }
        kind => {
            let json = one(kind, value, depth)?;
            let left_out = is_scalar(kind) && is_zero(&json);
            if json.is_null() || (left_out && !field.is_required(MinorVersion::DEFAULT) && !field.pointer) {
                out.remove(field.name);
            } else if let (Some(Value::Object(there)), Value::Object(more)) = (out.get_mut(field.name), &json) {
                // A message that comes twice is merged, as protobuf has it.
                there.extend(more.clone());
            } else {
                out.insert(field.name.into(), json);
            }
        }
    }
    Ok(())
}

fn strings(bytes: &[u8], of: &FieldType, depth: usize) -> Result<Value, String> {
    let mut items = Vec::new();
    for entry in wire::entries(bytes) {
        if let (1, value) = entry? {
            items.push(one(of, value, depth)?);
        }
    }
    Ok(Value::Array(items))
}

/// Whether values are no structs in Go; `omitempty` never leaves a struct out, such as that of any JSON, even if it is printed as `false`.
fn is_scalar(kind: &FieldType) -> bool {
    use FieldType::{Bool, Bytes, Int32, Int64, Number, String};
    matches!(kind, Bool | Bytes | Int32 | Int64 | Number | String)
}

/// Whether Go's `omitempty` leaves a scalar out.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        _ => false,
    }
}

fn zero(of: &FieldType) -> Value {
    match of {
        FieldType::Int32 | FieldType::Int64 | FieldType::Number => 0.into(),
        FieldType::Bool => false.into(),
        FieldType::Quantity => "0".into(),
        FieldType::List(_) => Value::Array(Vec::new()),
        FieldType::Struct(_) | FieldType::Map(_) => Value::Object(Map::new()),
        FieldType::String | FieldType::Bytes => Value::String(String::new()),
        _ => Value::Null,
    }
}

fn one(kind: &FieldType, value: wire::Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match kind {
        FieldType::String => value.text()?.into(),
        FieldType::Int32 => Value::from(value.integer()? as i32),
        FieldType::Int64 => value.integer()?.into(),
        FieldType::Bool => (value.integer()? != 0).into(),
        FieldType::Number => Number::from_f64(value.double()?).map_or(Value::Null, Value::Number),
        FieldType::Bytes => STANDARD.encode(value.bytes()?).into(),
        FieldType::Quantity => {
            let text = first(value.bytes()?, 1)?.map_or(Ok(String::new()), wire::Wire::text)?;
            if text.is_empty() { "0".into() } else { text.into() }
        }
        FieldType::IntOrString => {
            let bytes = value.bytes()?;
            if first(bytes, 1)?.map_or(Ok(0), wire::Wire::integer)? == 1 {
                first(bytes, 3)?.map_or(Ok(String::new()), wire::Wire::text)?.into()
            } else {
                Value::from(first(bytes, 2)?.map_or(Ok(0), wire::Wire::integer)? as i32)
            }
        }
        FieldType::Time | FieldType::MicroTime => time(value.bytes()?, *kind == FieldType::MicroTime)?,
        FieldType::RawExtension | FieldType::FieldsV1 | FieldType::Json => {
            let raw = first(value.bytes()?, 1)?.map_or(Ok(&[][..]), wire::Wire::bytes)?;
            if raw.is_empty() {
                Value::Null
            } else if raw.starts_with(super::MAGIC) {
                if depth > MAX_DEPTH {
                    return Err("exceeded max depth".into());
                }
                decode_at(raw, depth + 1)?
            } else {
                schema::parse_json(raw)?.0
            }
        }
        FieldType::SchemaOrArray | FieldType::SchemaOrBool | FieldType::SchemaOrStrings => {
            either(kind, value.bytes()?, depth)?
        }
        FieldType::Struct(at) => {
            let mut object = Map::new();
            message(graph().get(*at), &[], value.bytes()?, &mut object, depth + 1)?;
            Value::Object(object)
        }
        FieldType::Any | FieldType::List(_) | FieldType::Map(_) => Value::Null,
    })
}

/// The last field of this number.
fn first(bytes: &[u8], number: u32) -> Result<Option<wire::Wire<'_>>, String> {
    let mut found = None;
    for entry in wire::entries(bytes) {
        let (n, value) = entry?;
        if n == number {
            found = Some(value);
        }
    }
    Ok(found)
}

/// An empty message is Go's zero time, which JSON shows as null.
fn time(bytes: &[u8], micro: bool) -> Result<Value, String> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let seconds = first(bytes, 1)?.map_or(Ok(0), wire::Wire::integer)?;
    let nanos = first(bytes, 2)?.map_or(Ok(0), wire::Wire::integer)?;
    let nanos = i32::try_from(nanos).unwrap_or_default().clamp(0, 999_999_999);
    let Ok(time) = Timestamp::new(seconds, nanos) else { return Ok(Value::Null) };
    let form = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(time.strftime(form).to_string().into())
}

fn either(kind: &FieldType, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let schema = |value: wire::Wire<'_>| {
        let mut object = Map::new();
        if let Some(at) = graph().named("apiextensions.v1.JSONSchemaProps") {
            message(graph().get(at), &[], value.bytes()?, &mut object, depth + 1)?;
        }
        Ok::<_, String>(Value::Object(object))
    };
    let of_bool = *kind == FieldType::SchemaOrBool;
    let (mut single, mut many, mut allows) = (None, Vec::new(), false);
    for entry in wire::entries(bytes) {
        match (entry?, kind) {
            ((1, value), FieldType::SchemaOrBool) => allows = value.integer()? != 0,
            ((2, value), FieldType::SchemaOrBool) | ((1, value), _) => single = Some(schema(value)?),
            ((2, value), FieldType::SchemaOrArray) => many.push(schema(value)?),
            ((2, value), _) => many.push(value.text()?.into()),
            _ => {}
        }
    }
    Ok(match single {
        Some(single) => single,
        None if of_bool => allows.into(),
        None if many.is_empty() => Value::Null,
        None => Value::Array(many),
    })
}
