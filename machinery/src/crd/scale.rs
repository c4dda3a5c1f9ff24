//! The scale subresource of custom resources. Source: apiextensions-apiserver `pkg/registry/customresource/etcd.go`.

use serde_json::{Value, json};

use super::errors;
use crate::validate::FieldError;

/// `subresources.scale` of a version.
#[derive(Debug)]
pub(super) struct Scale {
    pub(super) spec_replicas: String,
    pub(super) status_replicas: String,
    pub(super) selector: Option<String>,
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

/// Go's name of the type of a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The value at a path of fields.
fn nested<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let mut value = object;
    let mut seen = String::new();
    for part in parts(path) {
        match value {
            Value::Object(map) => match map.get(part) {
                Some(found) => value = found,
                None => return Ok(None),
            },
            other => {
                return Err(format!(
                    "{seen} accessor error: {} is of the type {}, expected map[string]interface{{}}",
                    go_value(other),
                    go_type(other)
                ));
            }
        }
        seen.push('.');
        seen.push_str(part);
    }
    Ok(Some(value))
}

fn go_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

fn number(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match nested(object, path)? {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(n) => Ok(Some(n)),
            None => Err(wrong(path, value, "int64")),
        },
    }
}

fn text<'v>(object: &'v Value, path: &str) -> Result<Option<&'v str>, String> {
    match nested(object, path)? {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| wrong(path, value, "string")),
    }
}

fn wrong(path: &str, value: &Value, expected: &str) -> String {
    let path = path.strip_prefix('.').unwrap_or(path);
    format!(".{path} accessor error: {} is of the type {}, expected {expected}", go_value(value), go_type(value))
}

impl Scale {
    pub(super) fn parse(json: &Value) -> Self {
        let text = |key: &str| json.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            spec_replicas: text("specReplicasPath"),
            status_replicas: text("statusReplicasPath"),
            selector: Some(text("labelSelectorPath")).filter(|p| !p.is_empty()),
        }
    }

    /// The `autoscaling/v1 Scale` of an object, and whether it has replicas at all.
    ///
    /// # Errors
    /// A path that leads to something of another type.
    pub(super) fn show(&self, object: &Value) -> Result<(Value, bool), String> {
        let replicas = number(object, &self.spec_replicas)?;
        let observed = number(object, &self.status_replicas)?.unwrap_or(0);
        let selector =
            self.selector.as_deref().map(|path| text(object, path)).transpose()?.flatten().unwrap_or_default();
        let mut status = json!({ "replicas": observed });
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
        let mut metadata = json!({});
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.get("metadata").and_then(|m| m.get(field)) {
                metadata[field] = value.clone();
            }
        }
        let scale = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata,
            "spec": { "replicas": replicas.unwrap_or(0) }, "status": status,
        });
        Ok((scale, replicas.is_some()))
    }

    /// Sets the replicas of an object.
    ///
    /// # Errors
    /// A path that leads through something that is no object.
    pub(super) fn set(&self, object: &mut Value, replicas: i64) -> Result<(), String> {
        let mut value = object;
        for part in parts(&self.spec_replicas) {
            if value.is_null() {
                *value = json!({});
            }
            let Some(map) = value.as_object_mut() else {
                return Err(format!("value cannot be set because {} is not a map", self.spec_replicas));
            };
            value = map.entry(part).or_insert(Value::Null);
        }
        *value = replicas.into();
        Ok(())
    }

    pub(super) fn validate_spec(&self, object: &Value, found: &mut Vec<FieldError>) {
        count(object, &self.spec_replicas, found);
    }

    pub(super) fn validate_status(&self, object: &Value, found: &mut Vec<FieldError>) {
        count(object, &self.status_replicas, found);
        if let Some(path) = &self.selector
            && let Err(why) = text(object, path)
        {
            found.push(errors::invalid(path, &Value::from(""), &why));
        }
    }
}

fn count(object: &Value, path: &str, found: &mut Vec<FieldError>) {
    match number(object, path) {
        Err(why) => found.push(errors::invalid(path, &Value::from(0), &why)),
        Ok(Some(n)) if n < 0 => found.push(errors::invalid(path, &n.into(), "should be a non-negative integer")),
        Ok(Some(n)) if n > i64::from(i32::MAX) => {
            found.push(errors::invalid(path, &n.into(), &format!("should be less than or equal to {}", i32::MAX)));
        }
        Ok(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_a_view_by_paths() {
        let scale = Scale::parse(&json!({
            "specReplicasPath": ".spec.size.count", "statusReplicasPath": ".status.count", "labelSelectorPath": ".status.selector",
        }));
        let mut object = json!({ "metadata": { "name": "n", "uid": "u", "labels": {} }, "status": { "count": 2, "selector": "a=b" } });
        let (shown, there) = scale.show(&object).unwrap();
        assert!(!there);
        assert_eq!(shown["status"], json!({ "replicas": 2, "selector": "a=b" }));
        assert_eq!(shown["metadata"], json!({ "name": "n", "uid": "u" }));
        scale.set(&mut object, 3).unwrap();
        assert_eq!(object["spec"], json!({ "size": { "count": 3 } }));
        assert!(scale.show(&object).unwrap().1);
        let mut found = Vec::new();
        scale.validate_spec(&json!({ "spec": { "size": { "count": -1 } } }), &mut found);
        scale.validate_spec(&json!({ "spec": { "size": { "count": "x" } } }), &mut found);
        scale.validate_spec(&json!({ "spec": { "size": 1 } }), &mut found);
        let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                ".spec.size.count: Invalid value: -1: should be a non-negative integer",
                ".spec.size.count: Invalid value: 0: .spec.size.count accessor error: x is of the type string, expected int64",
                ".spec.size.count: Invalid value: 0: .spec.size accessor error: 1 is of the type int64, expected map[string]interface{}",
            ]
        );
    }
}
