//! Schemas of custom resources, and what may stand in the place of one. Source: `types_jsonschema.go` and `marshal.go` of
//! `apiextensions-apiserver/pkg/apis/apiextensions/v1`.

use serde_json::{Map, Value};

use super::{Decoder, FieldType, Path, go_kind};

impl Decoder {
    /// A schema, or a list of them, a boolean, or a list of names. As in Go, anything else counts as nothing, and is refused only where
    /// a boolean may stand.
    pub(super) fn either(&mut self, kind: &FieldType, value: &mut Value, path: Path<'_>) -> Result<(), String> {
        match (kind, value) {
            (_, value @ Value::Object(_)) => self.schema(value, path),
            (FieldType::SchemaOrBool, Value::Bool(_)) | (_, Value::Null) => Ok(()),
            (FieldType::SchemaOrBool, _) => Err("boolean or JSON schema expected".to_owned()),
            (FieldType::SchemaOrArray, Value::Array(items)) => {
                items.iter_mut().enumerate().try_for_each(|(i, item)| match item {
                    Value::Null => {
                        *item = Value::Object(Map::new());
                        Ok(())
                    }
                    Value::Object(_) => self.schema(item, Path::Item(&path, i)),
                    _ => Err(format!(
                        "json: cannot unmarshal {} into Go value of type v1.JSONSchemaProps",
                        go_kind(item)
                    )),
                })
            }
            (_, Value::Array(items)) => items.iter_mut().try_for_each(|item| match item {
                Value::Null => {
                    *item = "".into();
                    Ok(())
                }
                Value::String(_) => Ok(()),
                _ => Err(format!("json: cannot unmarshal {} into Go value of type string", go_kind(item))),
            }),
            (_, value) => {
                *value = Value::Null;
                Ok(())
            }
        }
    }

    fn schema(&mut self, value: &mut Value, path: Path<'_>) -> Result<(), String> {
        match self.graph.named("apiextensions.v1.JSONSchemaProps") {
            Some(of) => self.object(self.graph.get(of), value, path),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{protobuf, schema::decode_kind, version::MinorVersion};

    fn decoded(properties: Value) -> Result<Value, String> {
        let mut object = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {},
            "spec": { "versions": [{ "schema": { "openAPIV3Schema": properties } }] } });
        let kind = "CustomResourceDefinition";
        decode_kind(MinorVersion::DEFAULT, "apiextensions.k8s.io", "v1", kind, &mut object)?;
        let schema = |object: &Value| object["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        // What was taken can be written as protobuf, and is the same then.
        let written = protobuf::encode(&object).and_then(|body| protobuf::decode(&body).ok());
        assert_eq!(schema(&written.expect("it is read")), schema(&object));
        Ok(schema(&object))
    }

    #[test]
    fn what_may_stand_in_the_place_of_a_schema() {
        for same in [
            json!({ "items": { "type": "string" }, "additionalProperties": false }),
            json!({ "items": [{ "type": "string" }, {}], "additionalProperties": { "type": "string" } }),
            json!({ "default": false, "example": "", "enum": [0, "", null], "nullable": true }),
            json!({ "additionalProperties": true, "dependencies": { "a": ["b", "c"], "d": { "type": "string" } } }),
        ] {
            assert_eq!(decoded(same.clone()), Ok(same));
        }
    }

    #[test]
    fn what_may_not_is_nothing_or_refused() {
        assert_eq!(
            decoded(json!({ "dependencies": { "a": true, "b": 1 } })),
            Ok(json!({ "dependencies": { "a": null, "b": null } }))
        );
        for (schema, why) in [
            (json!({ "additionalProperties": "x" }), "boolean or JSON schema expected"),
            (json!({ "additionalProperties": [{}] }), "boolean or JSON schema expected"),
            (json!({ "items": ["x"] }), "cannot unmarshal string into Go value of type v1.JSONSchemaProps"),
            (json!({ "dependencies": { "a": [{}] } }), "cannot unmarshal object into Go value of type string"),
        ] {
            let refused = decoded(schema).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
