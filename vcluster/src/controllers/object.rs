//! Reading and building JSON documents of the Kubernetes API.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::hints::Labels;

/// The string at a JSON pointer; empty when there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a JSON pointer.
pub(super) fn int(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// The boolean at a JSON pointer; false when there is none.
pub(super) fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// The list at a JSON pointer; empty when there is none.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The time at a JSON pointer.
pub(super) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    object.pointer(pointer).and_then(Value::as_str).and_then(|t| t.parse().ok())
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(super) fn labels(object: &Value) -> &Value {
    object.pointer("/metadata/labels").unwrap_or(&Value::Null)
}

pub(super) fn label_map(object: &Value) -> Labels {
    labels(object)
        .as_object()
        .map(|m| m.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect())
        .unwrap_or_default()
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations").and_then(|a| a.get(key)).and_then(Value::as_str)
}

pub(super) fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null())
}

/// The owner reference with `controller: true`.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    list(object, "/metadata/ownerReferences").iter().find(|r| flag(r, "/controller"))
}

/// A controlling owner reference to an object of the given type.
pub(super) fn controller_reference(owner: &Value, api_version: &str, kind: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// `metadata.resourceVersion` and `metadata.uid`, as preconditions of a delete.
pub(super) fn uid_precondition(uid: &str) -> Value {
    json!({ "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": { "uid": uid } })
}

/// `meta/v1 Time`: RFC 3339 with seconds.
pub(super) fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `meta/v1 MicroTime`: RFC 3339 with microseconds.
pub(super) fn rfc3339_micro(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// The condition of a type in `status.conditions`.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions").iter().find(|c| text(c, "/type") == kind)
}

/// An object at a key, made when it is not there.
pub(super) fn entry<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let slot = &mut object[key];
    if !slot.is_object() {
        *slot = json!({});
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("it was just made an object"),
    }
}

/// Sets `metadata.annotations[key]`; true when that changed something.
pub(super) fn set_annotation(object: &mut Value, key: &str, value: &str) -> bool {
    let metadata = &mut object["metadata"];
    let annotations = entry(metadata, "annotations");
    if annotations.get(key).and_then(Value::as_str) == Some(value) {
        return false;
    }
    annotations.insert(key.into(), value.into());
    true
}

/// Sets `metadata.labels[key]`.
pub(super) fn set_label(object: &mut Value, key: &str, value: &str) {
    entry(&mut object["metadata"], "labels").insert(key.into(), value.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_upstream_does() {
        let t: Timestamp = "2026-11-21T04:31:41.123456789Z".parse().unwrap();
        assert_eq!(rfc3339(t), "2026-11-21T04:31:41Z");
        assert_eq!(rfc3339_micro(t), "2026-11-21T04:31:41.123456Z");
    }
}
