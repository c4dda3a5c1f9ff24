//! Small helpers to fill in documents.

use serde_json::{Map, Value};

/// An object's fields.
pub(super) type Fields = Map<String, Value>;

/// Sets a field that is absent or null (or empty text, where the default is a text).
pub(super) fn set(fields: &mut Fields, key: &str, value: impl Into<Value>) {
    let value = value.into();
    let unset = match fields.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty() && value.is_string(),
        Some(_) => false,
    };
    if unset {
        fields.insert(key.to_owned(), value);
    }
}

/// Sets a number that is absent or zero (Go's integers that are no pointers).
pub(super) fn set_number(fields: &mut Fields, key: &str, value: i64) {
    if fields.get(key).is_none_or(|v| v.is_null() || v.as_i64() == Some(0)) {
        fields.insert(key.to_owned(), value.into());
    }
}

/// The object in a field, if there is one.
pub(super) fn object<'f>(fields: &'f mut Fields, key: &str) -> Option<&'f mut Fields> {
    fields.get_mut(key).and_then(Value::as_object_mut)
}

/// The object in a field, made if there is none; nothing when the field holds something else.
pub(super) fn ensure<'f>(fields: &'f mut Fields, key: &str) -> Option<&'f mut Fields> {
    if fields.get(key).is_none_or(Value::is_null) {
        fields.insert(key.to_owned(), Value::Object(Map::new()));
    }
    object(fields, key)
}

/// The objects in a list.
pub(super) fn items<'f>(fields: &'f mut Fields, key: &str) -> impl Iterator<Item = &'f mut Fields> {
    fields.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The text in a field, or empty.
pub(super) fn text<'f>(fields: &'f Fields, key: &str) -> &'f str {
    fields.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a field is there and not null.
pub(super) fn has(fields: &Fields, key: &str) -> bool {
    fields.get(key).is_some_and(|v| !v.is_null())
}
