//! Uniqueness in lists of type set and map. Source: apiextensions-apiserver `pkg/apiserver/schema/listtype/validation.go`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    errors,
    schema::{ListKind, Schema},
};
use crate::validate::FieldError;

/// Adds an error for each second appearance.
pub(super) fn check(value: &Value, schema: &Schema, path: &str, found: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(of) = schema.properties.get(name) {
                    check(value, of, &errors::child(path, name), found);
                } else if let Some(of) = schema.values() {
                    check(value, of, &errors::key(path, name), found);
                }
            }
        }
        Value::Array(items) => {
            match schema.list {
                ListKind::Atomic => {}
                ListKind::Set => {
                    for i in repeated(items.iter()) {
                        found.push(errors::duplicate(&errors::index(path, i), &items[i]));
                    }
                }
                ListKind::Map => keyed(items, schema, path, found),
            }
            if let Some(of) = &schema.items {
                for (i, item) in items.iter().enumerate() {
                    check(item, of, &errors::index(path, i), found);
                }
            }
        }
        _ => {}
    }
}

fn keyed(items: &[Value], schema: &Schema, path: &str, found: &mut Vec<FieldError>) {
    if let Some(i) = items.iter().position(|i| !i.is_object() && !i.is_null()) {
        found.push(errors::invalid(
            &errors::index(path, i),
            &items[i],
            "must be an object for an array of list-type map",
        ));
        return;
    }
    let keys: Vec<Value> = items.iter().map(|item| keys_of(item, schema)).collect();
    for i in repeated(keys.iter()) {
        found.push(errors::duplicate(&errors::index(path, i), &keys[i]));
    }
}

/// The key fields of an item.
pub(super) fn keys_of(item: &Value, schema: &Schema) -> Value {
    let mut keys = Map::new();
    for key in &schema.list_keys {
        if let Some(value) = item.get(key) {
            keys.insert(key.clone(), value.clone());
        }
    }
    Value::Object(keys)
}

/// Where a value stands for the second time.
fn repeated<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut second = Vec::new();
    for (i, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            second.push(i);
        }
    }
    second
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors_of(schema: &Value, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        check(value, &Schema::parse(schema), "", &mut found);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn repetitions_are_named() {
        let schema = json!({ "type": "object", "properties": {
            "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "map": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
                "items": { "type": "object", "properties": { "name": { "type": "string" } } } },
        } });
        let value = json!({
            "set": ["a", "b", "a", "a"],
            "map": [{ "name": "x", "port": 1 }, { "name": "x", "port": 2 }, { "name": "x", "port": 1, "v": 3 }],
        });
        assert_eq!(
            errors_of(&schema, &value),
            ["map[2]: Duplicate value: {\"name\":\"x\",\"port\":1}", "set[2]: Duplicate value: \"a\"",]
        );
    }
}
