//! What changed between two objects, as sets of fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    merge::{element, is_leaf},
    set::FieldSet,
};
use crate::shape::{ListType, Shape};

/// The difference of two objects.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

/// Compares two objects. Items of keyed lists are matched by key; atomic lists and maps are one value.
pub(super) fn compare(old: &Value, new: &Value, shape: &Shape<'_>) -> Change {
    let mut change = Change::default();
    if let (Value::Object(old), Value::Object(new)) = (old, new) {
        maps(old, new, shape, &mut Vec::new(), &mut change);
    }
    change
}

fn maps(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    shape: &Shape<'_>,
    path: &mut Vec<String>,
    change: &mut Change,
) {
    for (key, before) in old {
        let after = new.get(key);
        if after == Some(before) {
            continue;
        }
        path.push(format!("f:{key}"));
        pair(Some(before), after, &shape.field(key), path, change);
        path.pop();
    }
    for (key, after) in new {
        if !old.contains_key(key) {
            path.push(format!("f:{key}"));
            pair(None, Some(after), &shape.field(key), path, change);
            path.pop();
        }
    }
}

fn pair(old: Option<&Value>, new: Option<&Value>, shape: &Shape<'_>, path: &mut Vec<String>, change: &mut Change) {
    match (old, new) {
        (Some(before), Some(after)) => match (before, after) {
            (Value::Object(a), Value::Object(b)) if !shape.map_is_atomic() => maps(a, b, shape, path, change),
            (Value::Array(a), Value::Array(b)) if shape.list_type() != ListType::Atomic => {
                lists(a, b, shape, path, change)
            }
            _ if before != after => change.modified.insert(path),
            _ => {}
        },
        (None, Some(after)) => one_side(after, shape, path, &mut change.added),
        (Some(before), None) => one_side(before, shape, path, &mut change.removed),
        (None, None) => {}
    }
}

fn lists(old: &[Value], new: &[Value], shape: &Shape<'_>, path: &mut Vec<String>, change: &mut Change) {
    let list = shape.list_type();
    // Items without their keys cannot be owned; of duplicates the first counts.
    let index = |items: &[Value]| {
        let mut map: BTreeMap<String, usize> = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            if let Ok(element) = element(item, list, shape) {
                map.entry(element).or_insert(at);
            }
        }
        map
    };
    let (left, right) = (index(old), index(new));
    for (element, &l) in &left {
        path.push(element.clone());
        match right.get(element) {
            Some(&r) => match (&old[l], &new[r]) {
                (Value::Object(a), Value::Object(b)) if !shape.map_is_atomic() => maps(a, b, shape, path, change),
                (a, b) if a != b => change.modified.insert(path),
                _ => {}
            },
            None => item(&old[l], shape, path, &mut change.removed),
        }
        path.pop();
    }
    for (element, &r) in &right {
        if !left.contains_key(element) {
            path.push(element.clone());
            item(&new[r], shape, path, &mut change.added);
            path.pop();
        }
    }
}

fn item(value: &Value, shape: &Shape<'_>, path: &mut Vec<String>, set: &mut FieldSet) {
    set.insert(path);
    if let Value::Object(map) = value
        && !shape.map_is_atomic()
    {
        fields(map, shape, path, set);
    }
}

fn fields(map: &Map<String, Value>, shape: &Shape<'_>, path: &mut Vec<String>, set: &mut FieldSet) {
    for (key, value) in map {
        path.push(format!("f:{key}"));
        one_side(value, &shape.field(key), path, set);
        path.pop();
    }
}

fn one_side(value: &Value, shape: &Shape<'_>, path: &mut Vec<String>, set: &mut FieldSet) {
    if is_leaf(value, shape) || !shape.is_embedded() {
        set.insert(path);
    }
    if is_leaf(value, shape) {
        return;
    }
    match value {
        Value::Object(map) => fields(map, shape, path, set),
        Value::Array(items) => {
            let list = shape.list_type();
            for value in items {
                if let Ok(element) = element(value, list, shape) {
                    path.push(element);
                    item(value, shape, path, set);
                    path.pop();
                }
            }
        }
        _ => {}
    }
}
