//! Custom resources in CEL: the type of a schema, and values of that type. Source: apiserver `pkg/cel/common/schemas.go` and
//! `pkg/cel/escaping.go`.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    functions,
    types::Type,
    value::{Key, List, Merge, Value},
    words,
};
use crate::crd::schema::{Additional, ListKind, Schema, Type as JsonType};

/// The name of a field in expressions; none for names that have no such form.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if words::is_keyword(name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '_' if chars.peek() == Some(&'_') => {
                chars.next();
                out.push_str("__underscores__");
            }
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }
    }
    Some(out)
}

/// The type of a schema; none for what expressions cannot see (unknown fields). `name` is the name of its type; the root, and embedded
/// resources, also have `apiVersion`, `kind` and the names of their metadata.
pub fn object_type(schema: &Schema, resource: bool, name: &str) -> Option<Type> {
    if schema.int_or_string {
        return Some(Type::Dyn);
    }
    Some(match schema.kind? {
        JsonType::Array => Type::list(object_type(schema.items.as_deref()?, false, &format!("{name}.@idx"))?),
        JsonType::Object => {
            if let Some(Additional::Schema(values)) = &schema.additional {
                return Some(Type::map(Type::String, object_type(values, values.embedded, &format!("{name}.@elem"))?));
            }
            if let Some(Additional::Any(true)) = &schema.additional
                && schema.properties.is_empty()
            {
                return None;
            }
            let mut fields: Vec<(String, Type)> = Vec::new();
            for (field, of) in &schema.properties {
                if let (Some(escaped), Some(kind)) =
                    (escape(field), object_type(of, of.embedded, &format!("{name}.{field}")))
                {
                    fields.push((escaped, kind));
                }
            }
            if resource || schema.embedded {
                let metadata = Type::object(
                    &format!("{name}.metadata"),
                    [("name".to_owned(), Type::String), ("generateName".to_owned(), Type::String)],
                );
                for (field, kind) in [("apiVersion", Type::String), ("kind", Type::String), ("metadata", metadata)] {
                    fields.retain(|(f, _)| f != field);
                    fields.push((field.to_owned(), kind));
                }
            }
            Type::object(name, fields)
        }
        JsonType::String => match schema.checks.format.as_str() {
            "byte" => Type::Bytes,
            "duration" => Type::Duration,
            "date" | "date-time" => Type::Timestamp,
            _ => Type::String,
        },
        JsonType::Boolean => Type::Bool,
        JsonType::Number => Type::Double,
        JsonType::Integer => Type::Int,
    })
}

/// JSON as a value of its schema's type. What does not fit becomes what it is without a schema.
pub fn typed(json: &Json, schema: &Schema, resource: bool) -> Value {
    match (json, schema.kind) {
        _ if schema.int_or_string => Value::from_json(json),
        (Json::Number(n), Some(JsonType::Number)) => Value::Double(n.as_f64().unwrap_or_default()),
        (Json::Number(n), Some(JsonType::Integer)) if n.is_f64() => Value::Int(n.as_f64().unwrap_or_default() as i64),
        (Json::String(text), Some(JsonType::String)) => string(text, &schema.checks.format),
        (Json::Array(items), _) => {
            let of = |item: &Json| match &schema.items {
                Some(of) => typed(item, of, of.embedded),
                None => Value::from_json(item),
            };
            let merge = match schema.list {
                ListKind::Atomic => Merge::Place,
                ListKind::Set => Merge::Value,
                ListKind::Map => Merge::Keys(
                    schema.list_keys.iter().map(|k| escape(k).unwrap_or_else(|| k.clone()).into()).collect(),
                ),
            };
            Value::List(Arc::new(List { items: items.iter().map(of).collect(), merge }))
        }
        (Json::Object(map), _) => {
            let of_map = schema.values();
            let entries = map.iter().filter_map(|(name, value)| {
                if let Some(of) = of_map.filter(|_| !schema.properties.contains_key(name)) {
                    return Some((Key::String(name.as_str().into()), typed(value, of, of.embedded)));
                }
                let key = Key::String(escape(name)?.into());
                if (resource || schema.embedded) && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    return Some((key, Value::from_json(value)));
                }
                schema.properties.get(name).map(|of| (key, typed(value, of, of.embedded)))
            });
            Value::Map(Arc::new(entries.collect()))
        }
        _ => Value::from_json(json),
    }
}

fn string(text: &str, format: &str) -> Value {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let special = match format {
        "byte" => STANDARD.decode(text).ok().map(|b| Value::Bytes(b.into())),
        "duration" => functions::duration(text).ok().map(Value::Duration),
        "date" => text
            .parse::<jiff::civil::Date>()
            .ok()
            .and_then(|d| d.to_zoned(jiff::tz::TimeZone::UTC).ok())
            .map(|z| Value::Timestamp(z.timestamp())),
        "date-time" => text.parse().ok().map(Value::Timestamp),
        _ => None,
    };
    special.unwrap_or_else(|| Value::string(text))
}
