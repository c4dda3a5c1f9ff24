//! Merging a configuration into an object, the fields a configuration sets, and taking fields away.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::set::{FieldSet, key_element};
use crate::shape::{ListType, Shape};

/// The path element of a list item.
pub(super) fn element(item: &Value, list: ListType<'_>, shape: &Shape<'_>) -> Result<String, String> {
    match list {
        ListType::Map(keys) => {
            let Some(fields) = item.as_object() else {
                return Err("associative list with keys may not have non-map elements".into());
            };
            let mut values = BTreeMap::new();
            for key in keys.iter() {
                let value = match fields.get(key).filter(|v| !v.is_null()) {
                    Some(value) => value.clone(),
                    None => shape.key_default(key).ok_or_else(|| {
                        format!("associative list with keys has an element that omits key field \"{key}\" (and doesn't have default value)")
                    })?,
                };
                values.insert(key.to_owned(), value);
            }
            Ok(key_element(&values))
        }
        _ if item.is_array() || item.is_object() => {
            Err("associative list without keys has an element that's a map or list type".into())
        }
        _ => Ok(format!("v:{item}")),
    }
}

/// Whether a value is one leaf for ownership.
pub(super) fn is_leaf(value: &Value, shape: &Shape<'_>) -> bool {
    match value {
        Value::Object(map) => map.is_empty() || shape.map_is_atomic(),
        Value::Array(items) => items.is_empty() || shape.list_type() == ListType::Atomic,
        _ => true,
    }
}

/// The fields that a configuration sets.
pub(super) fn field_set(value: &Value, shape: &Shape<'_>) -> Result<FieldSet, String> {
    let mut set = FieldSet::default();
    collect(value, shape, &mut Vec::new(), &mut set)?;
    Ok(set)
}

fn collect(value: &Value, shape: &Shape<'_>, path: &mut Vec<String>, set: &mut FieldSet) -> Result<(), String> {
    if is_leaf(value, shape) {
        // An empty list of keyed items owns nothing.
        if !value.as_array().is_some_and(|a| a.is_empty() && shape.list_type() != ListType::Atomic) {
            set.insert(path);
        }
        return Ok(());
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                path.push(format!("f:{key}"));
                collect(value, &shape.field(key), path, set)?;
                path.pop();
            }
        }
        Value::Array(items) => {
            let list = shape.list_type();
            let mut seen = BTreeSet::new();
            for item in items {
                let element = element(item, list, shape)
                    .map_err(|why| format!(".{}: {why}", path.join(".").replace("f:", "")))?;
                if !seen.insert(element.clone()) {
                    return Err(format!(
                        "duplicate entries for key {}",
                        element.trim_start_matches("k:").trim_start_matches("v:")
                    ));
                }
                path.push(element);
                set.insert(path);
                if let Value::Object(map) = item
                    && !shape.map_is_atomic()
                {
                    for (key, value) in map {
                        path.push(format!("f:{key}"));
                        collect(value, &shape.field(key), path, set)?;
                        path.pop();
                    }
                }
                path.pop();
            }
        }
        _ => {}
    }
    Ok(())
}

/// The paths of lists, maps and structs that are one value each.
pub(super) fn atomics(value: &Value, shape: &Shape<'_>, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if shape.map_is_atomic() {
                found.push(path.to_owned());
            }
            for (key, value) in map {
                atomics(value, &shape.field(key), &format!("{path}.{key}"), found);
            }
        }
        Value::Array(items) => {
            if shape.list_type() == ListType::Atomic {
                found.push(path.to_owned());
            }
            for (i, item) in items.iter().enumerate().filter(|(_, item)| item.is_object()) {
                atomics(item, shape, &format!("{path}[{i}]"), found);
            }
        }
        _ => {}
    }
}

/// The object with the configuration merged in. A null in the configuration takes the place of what is there, as any value does.
pub(super) fn merge(live: &Value, config: &Value, shape: &Shape<'_>) -> Result<Value, String> {
    match (live, config) {
        (Value::Object(old), Value::Object(new)) if !shape.map_is_atomic() => {
            merge_maps(old, new, shape).map(Value::Object)
        }
        (Value::Array(old), Value::Array(new)) if shape.list_type() != ListType::Atomic => {
            merge_lists(old, new, shape).map(Value::Array)
        }
        _ => Ok(config.clone()),
    }
}

fn merge_maps(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    shape: &Shape<'_>,
) -> Result<Map<String, Value>, String> {
    let mut result = old.clone();
    for (key, value) in new {
        let merged = match old.get(key) {
            Some(before) => merge(before, value, &shape.field(key))?,
            None => value.clone(),
        };
        result.insert(key.clone(), merged);
    }
    Ok(result)
}

/// Items of the live list keep their places; shared ones follow the order of the configuration, and new ones stand where it has them.
fn merge_lists(old: &[Value], new: &[Value], shape: &Shape<'_>) -> Result<Vec<Value>, String> {
    let list = shape.list_type();
    let left = old.iter().map(|i| element(i, list, shape)).collect::<Result<Vec<_>, _>>()?;
    let right = new.iter().map(|i| element(i, list, shape)).collect::<Result<Vec<_>, _>>()?;
    let in_right: BTreeSet<&str> = right.iter().map(|e| &**e).collect();
    let in_left: HashMap<&str, usize> = left.iter().enumerate().rev().map(|(i, e)| (&**e, i)).collect();
    let merged = |r: usize| -> Result<Value, String> {
        match in_left.get(&*right[r]) {
            Some(&l) => match (&old[l], &new[r]) {
                (Value::Object(a), Value::Object(b)) if !shape.map_is_atomic() => {
                    merge_maps(a, b, shape).map(Value::Object)
                }
                _ => Ok(new[r].clone()),
            },
            None => Ok(new[r].clone()),
        }
    };
    let mut shared = right.iter().filter(|e| in_left.contains_key(&***e)).map(|e| &**e);
    let mut next_shared = shared.next();
    let mut done = BTreeSet::new();
    let mut out = Vec::with_capacity(old.len().max(new.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if l < left.len() && r < right.len() {
            if left[l] == right[r] {
                done.insert(&*right[r]);
                out.push(merged(r)?);
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            if in_right.contains(&*left[l]) && next_shared.is_some_and(|n| n != left[l]) {
                l += 1;
                continue;
            }
        }
        if l < left.len() {
            if !in_right.contains(&*left[l]) {
                out.push(old[l].clone());
                l += 1;
                continue;
            } else if done.contains(&*left[l]) {
                l += 1;
            }
        }
        if r < right.len() {
            done.insert(&*right[r]);
            out.push(merged(r)?);
            if next_shared == Some(&*right[r]) {
                next_shared = shared.next();
            }
            r += 1;
        }
    }
    Ok(out)
}

/// Takes away what was applied `last`, is not in `owned` (by others, or by what is applied now).
pub(super) fn prune(merged: Value, last: &FieldSet, owned: &FieldSet, shape: &Shape<'_>) -> Value {
    let last = last.with_named_fields();
    let members = |value: &Value| field_set(value, shape).map(|s| s.with_named_fields()).unwrap_or_default();
    let all = members(&merged);
    let pruned = without(&merged, &last, shape, Emptied::Null);
    let mut keep = members(&pruned);
    keep.extend(&owned.with_named_fields());
    let pruned = without(&merged, &all.difference(&keep), shape, Emptied::Null);
    let gone = all.difference(&members(&pruned)).intersection(&last);
    if gone.is_empty() { merged } else { without(&merged, &gone, shape, Emptied::Gone) }
}

/// What stays of a field whose members were all taken away.
#[derive(Clone, Copy)]
enum Emptied {
    /// Nothing.
    Gone,
    /// The field itself, without a value: it was not what was taken away. Source: structured-merge-diff `typed/remove.go`.
    Null,
}

/// The value without these fields.
fn without(value: &Value, gone: &FieldSet, shape: &Shape<'_>, emptied: Emptied) -> Value {
    remove(value, gone, shape, emptied).unwrap_or_else(|| Value::Object(Map::new()))
}

fn remove(value: &Value, gone: &FieldSet, shape: &Shape<'_>, emptied: Emptied) -> Option<Value> {
    match value {
        Value::Object(map) => {
            if map.is_empty() || shape.map_is_atomic() {
                return Some(value.clone());
            }
            let mut kept = Map::new();
            for (key, value) in map {
                let element = format!("f:{key}");
                if gone.has(&element) {
                    continue;
                }
                let left = match gone.below(&element) {
                    Some(below) => remove(value, below, &shape.field(key), emptied),
                    None => Some(value.clone()),
                };
                match (left, emptied) {
                    (Some(left), _) => drop(kept.insert(key.clone(), left)),
                    (None, Emptied::Null) => drop(kept.insert(key.clone(), Value::Null)),
                    (None, Emptied::Gone) => {}
                }
            }
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(items) => {
            let list = shape.list_type();
            if items.is_empty() || list == ListType::Atomic {
                return Some(value.clone());
            }
            let mut kept = Vec::with_capacity(items.len());
            for item in items {
                let Ok(element) = element(item, list, shape) else {
                    kept.push(item.clone());
                    continue;
                };
                if gone.has(&element) {
                    continue;
                }
                match gone.below(&element) {
                    Some(below) => kept.extend(remove(item, below, shape, emptied)),
                    None => kept.push(item.clone()),
                }
            }
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        other => Some(other.clone()),
    }
}
