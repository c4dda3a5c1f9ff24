//! Validation of custom resources: the order and the ratcheting of upstream's `pkg/registry/customresource/{strategy,validator}.go`.

use serde_json::Value;

use super::{Version, errors, lists, schema::Schema, value};
use crate::{names, validate, validate::FieldError};

impl Version {
    /// Checks a new object; its own metadata has been checked.
    pub fn validate_create(&self, object: &Value, found: &mut Vec<FieldError>) {
        found.extend(value::check(object, &self.schema, "", None));
        if let Some(scale) = &self.scale {
            scale.validate_spec(object, found);
            scale.validate_status(object, found);
        }
        embedded(object, &self.schema, "", false, found);
        lists::check(object, &self.schema, "", found);
        self.rules(object, None, found);
    }

    /// Checks a change. What was wrong before and has not changed is let be.
    pub fn validate_update(&self, subresource: &str, new: &Value, old: &Value, found: &mut Vec<FieldError>) {
        if subresource == "status" {
            if let (Some(schema), Some(status)) = (self.schema.field("status"), new.get("status")) {
                found.extend(value::check(status, schema, "status", old.get("status")));
            }
        } else {
            found.extend(value::check(new, &self.schema, "", Some(old)));
            if let Some(scale) = &self.scale {
                scale.validate_spec(new, found);
            }
            embedded(new, &self.schema, "", false, found);
        }
        if let Some(scale) = &self.scale {
            scale.validate_status(new, found);
        }
        let mut before = Vec::new();
        lists::check(old, &self.schema, "", &mut before);
        if before.is_empty() {
            lists::check(new, &self.schema, "", found);
        }
        self.rules(new, Some(old), found);
    }
}

/// Type and metadata of resources inside of the object.
pub(super) fn embedded(value: &Value, schema: &Schema, path: &str, resource: bool, found: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if resource || schema.embedded {
                one(map, path, found);
            }
            for (name, value) in map {
                if let Some(of) = schema.properties.get(name) {
                    embedded(value, of, &errors::child(path, name), false, found);
                } else if let Some(of) = schema.values() {
                    embedded(value, of, &errors::key(path, name), false, found);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for (i, item) in items.iter().enumerate() {
                    embedded(item, of, &errors::index(path, i), false, found);
                }
            }
        }
        _ => {}
    }
}

fn one(map: &serde_json::Map<String, Value>, path: &str, found: &mut Vec<FieldError>) {
    for field in ["apiVersion", "kind"] {
        let at = errors::child(path, field);
        match map.get(field) {
            None => found.push(errors::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                found.push(errors::invalid(&at, &Value::from(""), "must not be empty"));
            }
            Some(value @ Value::String(text)) if field == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let why = format!("unexpected GroupVersion string: {text}");
                    found.push(errors::invalid(&at, value, &why));
                }
            }
            Some(value @ Value::String(text)) => {
                let wrong = names::dns_1035_label_errors(&text.to_lowercase());
                if !wrong.is_empty() {
                    let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                    found.push(errors::invalid(&at, value, &why));
                }
            }
            Some(other) => found.push(errors::invalid(&at, other, "must be a string")),
        }
    }
    if let Some(metadata) = map.get("metadata") {
        found.extend(validate::embedded_metadata(metadata, &errors::child(path, "metadata")));
    }
}
