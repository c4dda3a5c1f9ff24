//! Whether a schema is structural: every field is specified outside of alternatives, which only add checks. Source:
//! apiextensions-apiserver `pkg/apiserver/schema/{validation,complete}.go`.

use serde_json::{Map, Value, json};

use super::{Pattern, errors};
use crate::validate::FieldError;

/// Longest pattern that an error shows, in bytes.
const SHOWN: usize = 1024;

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Everything that is not structural, sorted.
pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut found = Vec::new();
    invariants(schema, Level::Root, path, &mut found);
    complete(schema, Some(schema), path, path, &mut found);
    found.sort_by_key(ToString::to_string);
    found
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn text<'v>(schema: &'v Value, key: &str) -> &'v str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn map<'v>(schema: &'v Value, key: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    schema.get(key).and_then(Value::as_object).into_iter().flatten()
}

fn list<'v>(schema: &'v Value, key: &str) -> &'v [Value] {
    schema.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn is_int_or_string(alternatives: &[Value]) -> bool {
    *alternatives == [json!({ "type": "integer" }), json!({ "type": "string" })]
}

fn invariants(s: &Value, level: Level, path: &str, found: &mut Vec<FieldError>) {
    let child = |name: &str| format!("{path}.{name}");
    let kind = text(s, "type");
    let items = s.get("items").filter(|i| i.is_object());
    if kind == "array" && items.is_none() {
        found.push(errors::required(&child("items"), "must be specified"));
    }
    if let Some(items) = items {
        invariants(items, Level::Item, &child("items"), found);
    }
    for (name, of) in map(s, "properties") {
        invariants(of, Level::Field, &format!("{path}.properties[{name}]"), found);
    }
    let additional = s.get("additionalProperties").filter(|a| !a.is_null());
    if let Some(additional) = additional {
        if level == Level::Root {
            found.push(errors::forbidden(&child("additionalProperties"), "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(additional, Level::Field, &child("additionalProperties"), found);
        }
    }
    let (int_or_string, preserves, embedded) = (
        flag(s, "x-kubernetes-int-or-string"),
        flag(s, "x-kubernetes-preserve-unknown-fields"),
        flag(s, "x-kubernetes-embedded-resource"),
    );
    for (other, set) in [("preserve-unknown-fields", preserves), ("embedded-resource", embedded)] {
        if int_or_string && set {
            found.push(errors::invalid(
                &child(&format!("x-kubernetes-{other}")),
                &Value::Bool(true),
                "must be false if x-kubernetes-int-or-string is true",
            ));
        }
    }
    let skip_any = is_int_or_string(list(s, "anyOf"));
    let skip_first_all = list(s, "allOf").first().is_some_and(|a| is_int_or_string(list(a, "anyOf")));
    junctors(s, skip_any, skip_first_all, path, found);

    let type_at = child("type");
    if embedded && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        found.push(if kind.is_empty() {
            errors::required(&type_at, why)
        } else {
            errors::invalid(&type_at, &kind.into(), why)
        });
    } else if kind.is_empty() && !int_or_string && !preserves {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        found.push(errors::required(&type_at, why));
    }
    if embedded && additional.is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        found.push(errors::forbidden(&child("additionalProperties"), why));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        found.push(errors::invalid(&type_at, &kind.into(), "must be object at the root"));
    }
    if level == Level::Root || embedded {
        for (field, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
            if let Some(of) = s.pointer(&format!("/properties/{field}"))
                && text(of, "type") != wanted
            {
                let at = format!("{path}.properties[{field}].type");
                found.push(errors::invalid(&at, &text(of, "type").into(), &format!("must be {wanted}")));
            }
        }
    }
    if level == Level::Root
        && let Some(Value::Object(metadata)) = s.pointer("/properties/metadata")
        && !only_names(metadata)
    {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        found.push(errors::forbidden(&format!("{path}.properties[metadata]"), why));
    }
    if embedded && !preserves && map(s, "properties").next().is_none() {
        let why =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        found.push(errors::required(&child("properties"), why));
    }
}

/// Whether metadata says nothing but what names may be.
fn only_names(metadata: &Map<String, Value>) -> bool {
    metadata.iter().all(|(key, value)| match key.as_str() {
        "type" | "default" => true,
        "properties" => value.as_object().is_some_and(|p| p.keys().all(|k| k == "name" || k == "generateName")),
        "description" => value == "",
        _ => false,
    })
}

fn junctors(s: &Value, skip_any: bool, skip_first_all: bool, path: &str, found: &mut Vec<FieldError>) {
    if !skip_any {
        for (i, of) in list(s, "anyOf").iter().enumerate() {
            nested(of, false, &format!("{path}.anyOf[{i}]"), found);
        }
    }
    for (i, of) in list(s, "allOf").iter().enumerate() {
        nested(of, skip_first_all && i == 0, &format!("{path}.allOf[{i}]"), found);
    }
    for (i, of) in list(s, "oneOf").iter().enumerate() {
        nested(of, false, &format!("{path}.oneOf[{i}]"), found);
    }
    if let Some(not) = s.get("not").filter(|n| n.is_object()) {
        nested(not, false, &format!("{path}.not"), found);
    }
    let pattern = text(s, "pattern");
    if let Some(why) = Pattern::new(pattern).error().filter(|_| !pattern.is_empty()) {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        let at = format!("{path}.pattern");
        found.push(if pattern.len() > SHOWN {
            errors::invalid_omitted(&at, &why)
        } else {
            errors::invalid(&at, &pattern.into(), &why)
        });
    }
}

/// Inside of an alternative only checks may stand.
fn nested(v: &Value, skip_any: bool, path: &str, found: &mut Vec<FieldError>) {
    junctors(v, skip_any, false, path, found);
    if let Some(items) = v.get("items").filter(|i| i.is_object()) {
        nested(items, false, &format!("{path}.items"), found);
    }
    for (name, of) in map(v, "properties") {
        nested(of, false, &format!("{path}.properties[{name}]"), found);
    }
    for (key, words) in [
        ("type", "must be empty"),
        ("additionalProperties", "must be undefined"),
        ("default", "must be undefined"),
        ("title", "must be empty"),
        ("description", "must be empty"),
        ("nullable", "must be false"),
        ("x-kubernetes-preserve-unknown-fields", "must be false"),
        ("x-kubernetes-embedded-resource", "must be false"),
        ("x-kubernetes-int-or-string", "must be false"),
        ("x-kubernetes-list-map-keys", "must be empty"),
        ("x-kubernetes-list-type", "must be undefined"),
        ("x-kubernetes-map-type", "must be undefined"),
        ("x-kubernetes-validations", "must be empty"),
    ] {
        let set = match v.get(key) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        if set {
            found.push(errors::forbidden(&format!("{path}.{key}"), &format!("{words} to be structural")));
        }
    }
    if v.pointer("/properties/metadata").is_some() {
        found.push(errors::forbidden(
            &format!("{path}.properties[metadata]"),
            "must not be specified in a nested context",
        ));
    }
}

/// What an alternative is about is also specified outside.
fn complete(v: &Value, s: Option<&Value>, at: &str, from: &str, found: &mut Vec<FieldError>) {
    let mut alternatives: Vec<(String, &Value)> = Vec::new();
    alternatives.extend(v.get("not").filter(|n| n.is_object()).map(|n| (format!("{from}.not"), n)));
    for key in ["allOf", "anyOf", "oneOf"] {
        alternatives.extend(list(v, key).iter().enumerate().map(|(i, of)| (format!("{from}.{key}[{i}]"), of)));
    }
    for (from, of) in alternatives {
        nested_complete(of, s, at, &from, found);
    }
}

fn nested_complete(v: &Value, s: Option<&Value>, at: &str, from: &str, found: &mut Vec<FieldError>) {
    let Some(s) = s else {
        found.push(errors::required(at, &format!("because it is defined in {from}")));
        return;
    };
    complete(v, Some(s), at, from, found);
    if let Some(items) = v.get("items").filter(|i| i.is_object()) {
        let of = s.get("items").filter(|i| i.is_object());
        nested_complete(items, of, &format!("{at}.items"), &format!("{from}.items"), found);
    }
    for (name, of) in map(v, "properties") {
        let (at, from) = (format!("{at}.properties[{name}]"), format!("{from}.properties[{name}]"));
        nested_complete(of, s.get("properties").and_then(|p| p.get(name)), &at, &from, found);
    }
}
