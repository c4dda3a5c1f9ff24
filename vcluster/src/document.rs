//! Objects as the store keeps them: JSON without a resourceVersion.
//!
//! Bootstrap constants (roles, priority classes) are the same bytes in every virtual cluster: they have neither uid nor
//! creationTimestamp (nor times in conditions), which are derived on read from the cluster's own.
//!
//! The type comes first, then `metadata`, which begins with the uid: so a document can be shown without being parsed ([`stored`]).

mod light;
mod stored;

pub(crate) use light::parse as parse_light;
pub(crate) use stored::{Layout, Stored};

use bytes::Bytes;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use vctl_machinery::status::{ApiError, MAX_OBJECT_BYTES};
use vctl_store::{Key, Revision};

/// What reading constants of one virtual cluster takes.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// UID of the virtual cluster.
    pub uid: String,
    /// When it was created, RFC 3339.
    pub created: String,
}

/// Bytes to store: the object without its resourceVersion. 413 for more than [`MAX_OBJECT_BYTES`].
pub(crate) fn encode(object: &Value) -> Result<Bytes, ApiError> {
    let bytes = bytes(object)?;
    if bytes.len() > MAX_OBJECT_BYTES {
        return Err(ApiError::object_too_large());
    }
    Ok(bytes)
}

fn bytes(object: &Value) -> Result<Bytes, ApiError> {
    serde_json::to_vec(&Encoded(object)).map(Bytes::from).map_err(ApiError::internal)
}

/// An object in the form in which it is stored: in the order that [`Layout`] reads, without a resourceVersion.
struct Encoded<'a>(&'a Value);

impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const FIRST: [&str; 3] = ["apiVersion", "kind", "metadata"];
        let Some(object) = self.0.as_object() else { return self.0.serialize(serializer) };
        let mut map = serializer.serialize_map(Some(object.len()))?;
        for name in FIRST {
            match object.get(name) {
                Some(Value::Object(metadata)) if name == "metadata" => {
                    map.serialize_entry(name, &EncodedMeta(metadata))?
                }
                Some(value) => map.serialize_entry(name, value)?,
                None => {}
            }
        }
        for (name, value) in object.iter().filter(|(name, _)| !FIRST.contains(&name.as_str())) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

struct EncodedMeta<'a>(&'a Map<String, Value>);

impl Serialize for EncodedMeta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(uid) = self.0.get("uid") {
            map.serialize_entry("uid", uid)?;
        }
        for (name, value) in self.0.iter().filter(|(name, _)| !matches!(name.as_str(), "uid" | "resourceVersion")) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The object of a stored document, with its resourceVersion.
pub(crate) fn decode(origin: &Origin, key: &Key, value: &[u8], revision: Revision) -> Result<Value, ApiError> {
    let mut object: Value = serde_json::from_slice(value)
        .map_err(|e| ApiError::internal(format!("the stored document of {key:?} does not parse: {e}")))?;
    let mut is_constant = false;
    if let Some(metadata) = metadata_mut(&mut object) {
        if !metadata.contains_key("uid") {
            metadata.insert("uid".into(), derived_uid(origin, key).into());
            metadata.insert("creationTimestamp".into(), origin.created.clone().into());
            is_constant = true;
        }
        metadata.insert("resourceVersion".into(), revision.to_string().into());
    }
    if is_constant && let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        for condition in conditions {
            condition["lastTransitionTime"] = origin.created.clone().into();
        }
    }
    Ok(object)
}

/// A UID that is unique to this document of this virtual cluster and always the same.
fn derived_uid(origin: &Origin, key: &Key) -> String {
    let mut hash = Sha256::new();
    for part in [&origin.uid, &*key.resource, &*key.namespace, &*key.name] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

/// `metadata` as a map.
pub(crate) fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata").and_then(Value::as_object_mut)
}

/// A text of `metadata`; empty when absent.
pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// The object's resourceVersion; empty when absent.
pub(crate) fn resource_version(object: &Value) -> &str {
    meta(object, "resourceVersion")
}

/// Sets or removes a field of `metadata`.
pub(crate) fn set_meta(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(map) = object.as_object_mut() {
        let metadata = map.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            match value {
                Some(value) => metadata.insert(field.to_owned(), value),
                None => metadata.remove(field),
            };
        }
    }
}

/// `metadata.finalizers`.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .map(|l| l.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Whether the object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}
