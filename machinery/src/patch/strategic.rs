//! Strategic merge patch: a merge patch that knows which lists are maps by key. Source: apimachinery
//! `pkg/util/strategicpatch/patch.go` and the API conventions.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{go_text, unknown};
use crate::{
    catalog::Descriptor,
    shape::{PatchList, Shape},
    status::ApiError,
};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Strategic merge by the patch strategies and merge keys of the fields, with all directives: `$patch: replace|delete|merge`,
/// `$retainKeys`, `$deleteFromPrimitiveList/FIELD` and `$setElementOrder/FIELD`.
///
/// # Errors
/// 415 for custom resources, 400 for directives of the wrong form, 500 for list items without their merge key (as upstream).
pub fn strategic(descriptor: &Descriptor, object: &Value, patch: &Value) -> Result<Value, ApiError> {
    if descriptor.custom {
        return Err(ApiError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        ));
    }
    let (Value::Object(original), Value::Object(patch)) = (object, patch) else {
        return Err(ApiError::bad_request("invalid JSON document: a strategic merge patch is an object"));
    };
    merge_map(original.clone(), patch, &Shape::root(descriptor)).map(Value::Object)
}

fn bad(why: impl Into<String>) -> ApiError {
    ApiError::bad_request(why)
}

fn list_of<'v>(value: &'v Value, directive: &str) -> Result<&'v Vec<Value>, ApiError> {
    value.as_array().ok_or_else(|| bad(format!("invalid patch format of {directive}: it must be a list")))
}

fn merge_map(
    mut original: Map<String, Value>,
    patch: &Map<String, Value>,
    shape: &Shape<'_>,
) -> Result<Map<String, Value>, ApiError> {
    match patch.get(DIRECTIVE).map(|d| d.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => {
            let rest: Map<_, _> =
                patch.iter().filter(|(k, _)| *k != DIRECTIVE).map(|(k, v)| (k.clone(), v.clone())).collect();
            return Ok(rest);
        }
        Some("delete") => return Ok(Map::new()),
        Some(other) => return Err(bad(format!("unknown patch type: {other}"))),
    }
    if let Some(keep) = patch.get(RETAIN_KEYS) {
        let keep: HashSet<&str> = list_of(keep, RETAIN_KEYS)?.iter().filter_map(Value::as_str).collect();
        let keeps = |key: &str| keep.contains(key);
        if let Some(extra) = patch.iter().find(|(k, v)| !k.starts_with('$') && !v.is_null() && !keeps(k)) {
            return Err(bad(format!(
                "invalid patch format of {RETAIN_KEYS}: it does not list \"{}\", which the patch sets",
                extra.0
            )));
        }
        original.retain(|k, _| keeps(k));
    }
    for (key, value) in patch {
        if key == DIRECTIVE || key == RETAIN_KEYS || key.starts_with(ORDER) {
            continue;
        }
        if let Some(field) = key.strip_prefix(DELETE_FROM) {
            let gone: HashSet<&Value> = list_of(value, DELETE_FROM)?.iter().collect();
            if let Some(Value::Array(items)) = original.get_mut(field) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if value.is_null() {
            original.remove(key);
            continue;
        }
        let here = shape.field(key);
        let merged = match (original.remove(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) if !here.patch_map_replaces() => {
                Value::Object(merge_map(old, new, &here)?)
            }
            (Some(Value::Array(old)), Value::Array(new)) => Value::Array(merge_list(old, new, &here)?),
            (_, Value::Object(new)) => {
                if matches!(new.get(DIRECTIVE).and_then(Value::as_str), Some("delete")) {
                    continue;
                }
                Value::Object(merge_map(Map::new(), new, &here)?)
            }
            (_, Value::Array(new)) => Value::Array(merge_list(Vec::new(), new, &here)?),
            (_, scalar) => scalar.clone(),
        };
        original.insert(key.clone(), merged);
    }
    for (key, value) in patch {
        let Some(field) = key.strip_prefix(ORDER) else { continue };
        let order = list_of(value, ORDER)?;
        if let Some(Value::Array(items)) = original.get_mut(field) {
            let before = std::mem::take(items);
            let server: Vec<Value> = before.clone();
            *items = arrange(before, order, &server, merge_key(&shape.field(field)));
        }
    }
    Ok(original)
}

fn merge_key(shape: &Shape<'_>) -> Option<&'static str> {
    match shape.patch_list() {
        PatchList::Merge(key) => Some(key),
        PatchList::MergeValues | PatchList::Replace => None,
    }
}

/// Without directives that have done their work, and without nulls.
fn clean(value: &Value, shape: &Shape<'_>) -> Result<Value, ApiError> {
    match value {
        Value::Object(map) => Ok(Value::Object(merge_map(Map::new(), map, shape)?)),
        other => Ok(other.clone()),
    }
}

fn merge_list(original: Vec<Value>, patch: &[Value], shape: &Shape<'_>) -> Result<Vec<Value>, ApiError> {
    match shape.patch_list() {
        PatchList::Replace => {
            patch.iter().filter(|item| item.get(DIRECTIVE).is_none()).map(|item| clean(item, shape)).collect()
        }
        PatchList::MergeValues => {
            let mut known: HashSet<&Value> = original.iter().collect();
            let added: Vec<Value> = patch.iter().filter(|item| known.insert(item)).cloned().collect();
            let merged = original.iter().cloned().chain(added).collect();
            Ok(arrange(merged, patch, &original, None))
        }
        PatchList::Merge(key) => merge_keyed(&original, patch, key, shape),
    }
}

fn merge_keyed(original: &[Value], patch: &[Value], key: &str, shape: &Shape<'_>) -> Result<Vec<Value>, ApiError> {
    let missing = |item: &Value| unknown(format!("map: {} does not contain declared merge key: {key}", go_text(item)));
    let mut rest = Vec::with_capacity(patch.len());
    let mut gone = HashSet::new();
    let mut replace = false;
    for item in patch {
        match item.get(DIRECTIVE).map(|d| d.as_str().unwrap_or_default()) {
            None | Some("merge") => rest.push(item),
            Some("replace") => replace = true,
            Some("delete") => {
                gone.insert(item.get(key).ok_or_else(|| missing(item))?);
            }
            Some(other) => return Err(bad(format!("unknown patch type: {other}"))),
        }
    }
    if replace {
        return rest.into_iter().map(|item| clean(item, shape)).collect();
    }
    let stays = |old: &&Value| old.get(key).is_none_or(|value| !gone.contains(value));
    let mut merged: Vec<Value> = original.iter().filter(stays).cloned().collect();
    let mut at: HashMap<Value, usize> = HashMap::with_capacity(merged.len());
    for (index, item) in merged.iter().enumerate() {
        if let Some(value) = item.get(key) {
            at.entry(value.clone()).or_insert(index);
        }
    }
    for item in &rest {
        let value = item.get(key).ok_or_else(|| missing(item))?;
        let found = at.get(value).and_then(|index| merged.get_mut(*index));
        match (found, item) {
            (Some(slot), Value::Object(new)) => {
                if let Value::Object(old) = slot.take() {
                    *slot = Value::Object(merge_map(old, new, shape)?);
                }
            }
            _ => {
                at.entry(value.clone()).or_insert(merged.len());
                merged.push(clean(item, shape)?);
            }
        }
    }
    let order: Vec<Value> = rest.into_iter().cloned().collect();
    Ok(arrange(merged, &order, original, Some(key)))
}

/// What two items of a list have in common when they are the same one.
fn identity<'v>(item: &'v Value, key: Option<&str>) -> Option<&'v Value> {
    match key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

/// Where each item first stands.
fn positions<'v>(list: &'v [Value], key: Option<&str>) -> HashMap<&'v Value, usize> {
    let mut at = HashMap::with_capacity(list.len());
    for (index, item) in list.iter().enumerate() {
        if let Some(identity) = identity(item, key) {
            at.entry(identity).or_insert(index);
        }
    }
    at
}

/// Puts the items that the patch names into its order; all others keep the server's, and stand before a named item only when they
/// stood before it on the server.
fn arrange(items: Vec<Value>, order: &[Value], server: &[Value], key: Option<&str>) -> Vec<Value> {
    let (order, server) = (positions(order, key), positions(server, key));
    let position = |list: &HashMap<&Value, usize>, item: &Value| {
        identity(item, key).and_then(|identity| list.get(identity).copied())
    };
    let (mut named, mut others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| position(&order, item).is_some());
    named.sort_by_key(|item| position(&order, item));
    others.sort_by_key(|item| position(&server, item));
    let mut result = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        let at = position(&server, &item);
        while let Some(other) = others.next_if(|other| match (position(&server, other), at) {
            (Some(a), Some(b)) => a < b,
            _ => false,
        }) {
            result.push(other);
        }
        result.push(item);
    }
    result.extend(others);
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::selector::testing::descriptor;

    fn patch(resource: &str, object: Value, patch: Value) -> Value {
        strategic(&descriptor(resource), &object, &patch).unwrap()
    }

    #[test]
    fn keyed_lists_merge_by_their_keys() {
        let cases = [
            (
                json!({"spec":{"containers":[{"name":"a","image":"1","env":[{"name":"X","value":"1"}]}]}}),
                json!({"spec":{"containers":[{"name":"a","image":"2"}]}}),
                json!({"spec":{"containers":[{"name":"a","image":"2","env":[{"name":"X","value":"1"}]}]}}),
            ),
            (
                json!({"spec":{"containers":[{"name":"a"},{"name":"b"}]}}),
                json!({"spec":{"containers":[{"name":"a","$patch":"delete"}]}}),
                json!({"spec":{"containers":[{"name":"b"}]}}),
            ),
            (
                json!({"spec":{"containers":[{"name":"a"},{"name":"b"}]}}),
                json!({"spec":{"containers":[{"name":"c"},{"$patch":"replace"}]}}),
                json!({"spec":{"containers":[{"name":"c"}]}}),
            ),
            (
                json!({"spec":{"containers":[{"name":"a"},{"name":"b"}]}}),
                json!({"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"c"},{"name":"a"}],"containers":[{"name":"c","image":"x"}]}}),
                json!({"spec":{"containers":[{"name":"b"},{"name":"c","image":"x"},{"name":"a"}]}}),
            ),
            (
                json!({"metadata":{"finalizers":["a","b"]}}),
                json!({"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"finalizers":["c"]}}),
                json!({"metadata":{"finalizers":["c","b"]}}),
            ),
            (
                json!({"spec":{"template":{"spec":{"tolerations":[{"key":"a"}],"nodeSelector":{"x":"1","y":"2"}}}}}),
                json!({"spec":{"template":{"spec":{"tolerations":[{"key":"b"}],"nodeSelector":{"x":null}}}}}),
                json!({"spec":{"template":{"spec":{"tolerations":[{"key":"b"}],"nodeSelector":{"y":"2"}}}}}),
            ),
            (
                json!({"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}}),
                json!({"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}),
                json!({"spec":{"strategy":{"type":"Recreate"}}}),
            ),
            (
                json!({"spec":{"selector":{"a":"b"}}}),
                json!({"spec":{"selector":{"$patch":"replace","c":"d"}}}),
                json!({"spec":{"selector":{"c":"d"}}}),
            ),
            (json!({}), json!({"metadata":{"labels":{"a":"b","c":null}}}), json!({"metadata":{"labels":{"a":"b"}}})),
        ];
        for (object, change, expected) in cases {
            let template = object.pointer("/spec/strategy").or(object.pointer("/spec/template")).is_some();
            let resource = if template { "deployments.apps" } else { "pods" };
            assert_eq!(patch(resource, object, change.clone()), expected, "{change}");
        }
    }

    #[test]
    fn ports_have_the_key_of_their_parent() {
        let service = json!({"spec":{"ports":[{"port":80,"targetPort":1},{"port":81}]}});
        let change = json!({"spec":{"ports":[{"port":80,"targetPort":2}]}});
        assert_eq!(
            patch("services", service, change),
            json!({"spec":{"ports":[{"port":80,"targetPort":2},{"port":81}]}})
        );
        let pod = json!({"spec":{"containers":[{"name":"a","ports":[{"containerPort":80}]}]}});
        let change = json!({"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"http"}]}]}});
        assert_eq!(
            patch("pods", pod, change),
            json!({"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"http"}]}]}})
        );
    }

    #[test]
    fn a_disruption_budgets_selector_is_replaced() {
        let change = json!({"spec":{"selector":{"matchLabels":{"b":"2"}}}});
        let object = json!({"spec":{"selector":{"matchLabels":{"a":"1"}}}});
        assert_eq!(patch("poddisruptionbudgets.policy", object, change.clone()), change);
    }

    /// In proportion to its size: were it quadratic, this would take minutes.
    #[test]
    fn long_lists_merge_soon() {
        let name = |prefix: &str, i: usize| json!({ "name": format!("{prefix}{i}"), "value": "v" });
        let many = |prefix: &str| (0..30_000).map(|i| name(prefix, i)).collect::<Vec<_>>();
        let gone: Vec<_> = (0..15_000).map(|i| json!({ "name": format!("a{i}"), "$patch": "delete" })).collect();
        let env = [gone, many("b")].concat();
        let finalizers = |prefix: &str| (0..30_000).map(|i| format!("{prefix}/{i}")).collect::<Vec<_>>();
        let object = json!({ "metadata": { "finalizers": finalizers("a") },
            "spec": { "containers": [{ "name": "c", "env": many("a") }] } });
        let change = json!({
            "metadata": {
                "finalizers": finalizers("b"),
                "$deleteFromPrimitiveList/finalizers": finalizers("a"),
                "$setElementOrder/finalizers": finalizers("b"),
            },
            "spec": { "containers": [{ "name": "c", "$setElementOrder/env": many("b"), "env": env }] },
        });
        let patched = patch("pods", object, change);
        assert_eq!(patched["metadata"]["finalizers"], json!(finalizers("b")));
        let env = patched["spec"]["containers"][0]["env"].as_array().unwrap();
        assert_eq!((env.len(), &env[0], &env[44_999]), (45_000, &name("b", 0), &name("a", 29_999)));
    }

    #[test]
    fn wrong_patches_are_refused() {
        let pods = descriptor("pods");
        let object = json!({"spec":{"containers":[{"name":"a"}]}});
        for (change, code) in [
            (json!({"spec":{"containers":[{"image":"x"}]}}), 500),
            (json!({"spec":{"$patch":"frobnicate"}}), 400),
            (json!({"spec":{"$retainKeys":"x"}}), 400),
            (json!([]), 400),
        ] {
            assert_eq!(strategic(&pods, &object, &change).unwrap_err().code, code, "{change}");
        }
        let mut custom = descriptor("widgets.example.com");
        custom.custom = true;
        assert_eq!(strategic(&custom, &object, &json!({})).unwrap_err().code, 415);
    }
}
