//! Parsing as much of a stored document as selectors and tables look at.

use std::fmt;

use serde::{
    Deserialize as _, Deserializer,
    de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};
use vctl_machinery::status::ApiError;

/// Fields of the document that are the same for all of its resource.
const TYPE: [&str; 2] = ["apiVersion", "kind"];
/// Fields of metadata that neither selectors nor columns look at. The managed fields are most of it.
const UNREAD: [&str; 2] = ["managedFields", "uid"];

/// The document without its type, `metadata.managedFields` and `metadata.uid`: for whoever looks at an object and does not show it. It
/// has neither a resourceVersion nor what bootstrap constants derive.
pub(crate) fn parse(document: &[u8]) -> Result<Value, ApiError> {
    let mut reader = serde_json::Deserializer::from_slice(document);
    Object { in_metadata: false }.deserialize(&mut reader).map_err(ApiError::internal)
}

/// The document itself, or its metadata.
struct Object {
    in_metadata: bool,
}

impl<'de> DeserializeSeed<'de> for Object {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let skipped = if self.in_metadata { UNREAD } else { TYPE };
        while let Some(name) = entries.next_key_seed(Name { skipped })? {
            let Some(name) = name else {
                entries.next_value::<IgnoredAny>()?;
                continue;
            };
            let value = if !self.in_metadata && name == "metadata" {
                entries.next_value_seed(Metadata)?
            } else {
                entries.next_value()?
            };
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

/// The name of a field, unless it is skipped.
struct Name {
    skipped: [&'static str; 2],
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<String>;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok((!self.skipped.contains(&name)).then(|| name.to_owned()))
    }
}

struct Metadata;

impl<'de> DeserializeSeed<'de> for Metadata {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Metadata {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        Value::deserialize(reader).map_err(D::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Value, A::Error> {
        Object { in_metadata: true }.visit_map(entries)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_that_is_read_is_there() {
        let document = json!({
            "apiVersion": "v1", "kind": "K", "metadata": { "name": "a", "uid": "u", "labels": { "l": "v" }, "managedFields": [{ "fieldsV1": { "f:a": {} } }] },
            "spec": { "managedFields": [1], "uid": "u", "kind": "K", "n": [1.5, null, true] },
        });
        let mut expected = document.clone();
        for (of, unread) in [("", "apiVersion"), ("", "kind"), ("/metadata", "managedFields"), ("/metadata", "uid")] {
            expected.pointer_mut(of).and_then(Value::as_object_mut).unwrap().remove(unread);
        }
        assert_eq!(parse(document.to_string().as_bytes()).unwrap(), expected);
        assert_eq!(parse(b"{\"metadata\":null}").unwrap(), json!({ "metadata": null }));
        assert!(parse(b"[]").is_err() && parse(b"{\"metadata\":1}").is_err());
    }
}
