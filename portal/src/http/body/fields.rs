//! Fields of a body that nobody knows. What is taken is what the OpenAPI document says: both are the schema of the same type. So a field that
//! is misspelt is an error, and not a change that does not happen.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

use crate::error::{Error, nearest};

/// Schemas of bodies by their ids. There are as many as types of bodies.
static SCHEMAS: Mutex<Option<HashMap<String, Arc<Value>>>> = Mutex::new(None);

/// The schema of a type, whole: without references.
fn schema_of<T: JsonSchema>() -> Arc<Value> {
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
        Arc::new(settings.into_generator().into_root_schema_for::<T>().to_value())
    };
    schemas.get_or_insert_default().entry(T::schema_id().into_owned()).or_insert_with(make).clone()
}

/// That everything in a body is a field of its type.
///
/// # Errors
/// [`Error::Invalid`] naming the first field that is not, and those near it.
pub(super) fn check<T: JsonSchema>(sent: &Value) -> Result<(), Error> {
    let Some(Unknown { place, name, known }) = unknown(&schema_of::<T>(), sent) else { return Ok(()) };
    let inside = if place.is_empty() { String::new() } else { format!(" in {place}") };
    let takes = if known.is_empty() { "none at all".to_owned() } else { known.join(", ") };
    let detail = format!("the body is not what this takes: there is no field {name:?}{inside}; fields are {takes}");
    let nearest = nearest(&name, known.iter().map(String::as_str));
    Err(Error::Invalid { kind: "invalid-body", detail, nearest })
}

/// Names in a body itself that are no fields of its type.
pub(super) fn unknown_of<T: JsonSchema>(sent: &Map<String, Value>) -> Vec<String> {
    let schema = schema_of::<T>();
    if schema["additionalProperties"] != false {
        return Vec::new();
    }
    sent.keys().filter(|name| schema["properties"].get(name.as_str()).is_none()).cloned().collect()
}

/// A field that is not there.
#[derive(Debug, PartialEq, Eq)]
struct Unknown {
    /// What it was sent in, such as `members[0]`; empty for the body itself.
    place: String,
    name: String,
    known: Vec<String>,
}

fn unknown(schema: &Value, sent: &Value) -> Option<Unknown> {
    // Of what may be absent, what it is when it is there.
    let alternatives = ["anyOf", "oneOf"].iter().filter_map(|of| schema[of].as_array()).flatten();
    let mut present = alternatives.filter(|alternative| alternative["type"] != "null");
    if let (Some(one), None) = (present.next(), present.next()) {
        return unknown(one, sent);
    }
    match sent {
        Value::Object(sent) => sent.iter().find_map(|(name, value)| {
            let declared = schema["properties"].get(name);
            match declared.unwrap_or(&schema["additionalProperties"]) {
                Value::Bool(false) => {
                    let known = schema["properties"].as_object().into_iter().flatten();
                    let known = known.map(|(name, _)| name.clone()).collect();
                    Some(Unknown { place: String::new(), name: name.clone(), known })
                }
                inner => Some(unknown(inner, value)?.inside(name)),
            }
        }),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(at, item)| Some(unknown(&schema["items"], item)?.inside(&format!("[{at}]"))))
        }
        _ => None,
    }
}

impl Unknown {
    fn inside(mut self, outer: &str) -> Self {
        let dot = if self.place.is_empty() || self.place.starts_with('[') { "" } else { "." };
        self.place = format!("{outer}{dot}{}", self.place);
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vctl_api::rest::{ApprovalRuleSettings, CreateEnvironment, CreateProject, PlatformSettings, PublishTemplate};

    use super::*;

    fn said<T: JsonSchema>(sent: &Value) -> (String, Vec<String>) {
        match check::<T>(sent) {
            Err(Error::Invalid { kind: "invalid-body", detail, nearest }) => (detail, nearest),
            other => panic!("{sent}: {other:?}"),
        }
    }

    #[test]
    fn a_field_that_is_not_there_is_named_with_its_place_and_those_near_it() {
        let (detail, near) = said::<CreateProject>(&json!({"name": "web", "allowedTemplate": ["team-x"]}));
        assert!(detail.contains("no field \"allowedTemplate\"; fields are "), "{detail}");
        assert_eq!(near[0], "allowedTemplates");
        let (detail, near) = said::<CreateProject>(&json!({"name": "web", "quota": {"environment": 3}}));
        assert!(detail.contains("no field \"environment\" in quota;"), "{detail}");
        assert_eq!(near, ["environments"]);
        let member = json!({"kind": "user", "name": "ann", "rol": "viewer"});
        let (detail, near) = said::<PlatformSettings>(&json!({"members": [member]}));
        assert!(detail.contains("no field \"rol\" in members[0];"), "{detail}");
        assert_eq!(near, ["role"]);
        let (detail, _) = said::<ApprovalRuleSettings>(&json!({"largerThan": {"cpus": "4"}}));
        assert!(detail.contains("\"cpus\" in largerThan"), "also where it may be absent: {detail}");
    }

    #[test]
    fn what_is_free_is_free() {
        let create =
            json!({"name": "a", "template": "b", "parameters": {"any": {"thing": 1}}, "authentication": {"jwt": [{}]}});
        assert!(check::<CreateEnvironment>(&create).is_ok());
        assert!(check::<PublishTemplate>(&json!({"files": {"template.yaml": "a", "x/y": "b"}})).is_ok());
        assert!(check::<CreateEnvironment>(&json!([])).is_ok(), "what has no fields is somebody else's to refuse");
    }
}
