//! Validation of the schema of a definition. Source: apiextensions-apiserver `ValidateCustomResourceDefinitionOpenAPISchema` and
//! `pkg/apiserver/schema/defaulting/validation.go`.

use serde_json::Value;

use super::{
    errors, field_path, instance, prune,
    rule_cost::{Costs, cardinality},
    rules,
    rules::Rules,
    schema::{Rule, Schema},
    structural, value,
};
use crate::{cel::Shape, validate::FieldError};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const AT_ROOT: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

/// Checks a schema; one that has not changed is not asked again for what only later versions ask.
pub(super) fn validate(schema: &Value, before: Option<&Value>, status: bool, path: &str, found: &mut Vec<FieldError>) {
    if before == Some(schema) {
        return;
    }
    let start = found.len();
    if status {
        if text(schema, "type") != "object" {
            let why =
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            found.push(errors::invalid(&format!("{path}.type"), &text(schema, "type").into(), why));
        } else if schema.as_object().is_some_and(|s| s.keys().any(|k| !AT_ROOT.iter().any(|(name, _)| name == k))) {
            let names: Vec<&str> = AT_ROOT.iter().map(|(_, go)| *go).collect();
            let why = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                names.join(" ")
            );
            found.push(errors::invalid(path, schema, &why));
        }
    }
    if flag(schema, "nullable") {
        found.push(errors::forbidden(&format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    let structural = structural::check(schema, path);
    let is_structural = structural.is_empty();
    found.extend(structural);
    let parsed = Schema::parse(schema);
    if is_structural {
        defaults(&parsed, path, true, found);
    }
    let walk = Walk {
        inside_meta: false,
        no_defaults: None,
        uncorrelatable: None,
        rules: is_structural && found.len() == start,
        cardinality: Some(1),
    };
    let mut costs = Costs::default();
    node(schema, path, true, &walk, &mut costs, found);
    costs.check(path, found);
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn text<'v>(schema: &'v Value, key: &str) -> &'v str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(schema: &'v Value, key: &str) -> &'v [Value] {
    schema.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Defaults are of their schema and have no unknown fields. Those inside of metadata are checked as metadata.
fn defaults(schema: &Schema, path: &str, resource: bool, found: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        let at = format!("{path}.default");
        let mut pruned = default.clone();
        prune::prune_value(&mut pruned, schema);
        if pruned != *default {
            found.push(errors::invalid(&at, default, "must not have unknown fields"));
        }
        let before = found.len();
        if schema.embedded {
            instance::embedded(default, schema, &at, true, found);
        }
        if found.len() == before {
            found.extend(value::check(default, schema, &at, None));
        }
        if found.len() == before
            && let Some(rules) = Rules::new(schema, resource)
        {
            let mut broken = Vec::new();
            rules.check(default, None, schema, &mut broken);
            found.extend(broken.into_iter().map(|e| FieldError {
                field: if e.field == errors::NOWHERE { at.clone() } else { format!("{at}.{}", e.field) },
                ..e
            }));
        }
    }
    if let Some(items) = &schema.items {
        defaults(items, &format!("{path}.items"), items.embedded, found);
    }
    for (name, of) in &schema.properties {
        if (resource || schema.embedded) && matches!(name.as_str(), "metadata" | "apiVersion" | "kind") {
            continue;
        }
        defaults(of, &format!("{path}.properties[{name}]"), of.embedded, found);
    }
}

/// What holds on the way down.
#[derive(Clone)]
struct Walk {
    inside_meta: bool,
    /// Why defaults are forbidden.
    no_defaults: Option<String>,
    /// The first place above whose old value cannot be found.
    uncorrelatable: Option<String>,
    /// Whether rules are compiled: not in alternatives.
    rules: bool,
    /// How often there can be something here in one object; none where nothing says.
    cardinality: Option<u64>,
}

fn node(s: &Value, path: &str, root: bool, walk: &Walk, costs: &mut Costs, found: &mut Vec<FieldError>) {
    let start = found.len();
    let child = |name: &str| format!("{path}.{name}");
    supported(s, path, walk, found);
    if flag(s, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.push(errors::forbidden(&child("uniqueItems"), why));
    }
    let below = Walk { cardinality: cardinality(s, walk.cardinality), ..walk.clone() };
    let properties = s.get("properties").and_then(Value::as_object).filter(|p| !p.is_empty());
    if let Some(additional) = s.get("additionalProperties").filter(|a| !a.is_null()) {
        if properties.is_some() && *additional != Value::Bool(true) {
            let why = "additionalProperties and properties are mutual exclusive";
            found.push(errors::forbidden(&child("additionalProperties"), why));
        }
        let mut walk = below.clone();
        if walk.inside_meta {
            walk.no_defaults = Some("inside additionalProperties applying to object metadata".into());
        }
        if additional.is_object() {
            node(additional, &child("additionalProperties"), false, &walk, costs, found);
        }
    }
    for (name, of) in properties.into_iter().flatten() {
        let mut walk = below.clone();
        if (root || flag(s, "x-kubernetes-embedded-resource"))
            && matches!(name.as_str(), "metadata" | "kind" | "apiVersion")
        {
            walk.inside_meta = true;
            if root {
                walk.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        node(of, &format!("{path}.properties[{name}]"), false, &walk, costs, found);
    }
    let alternative = Walk { rules: false, ..walk.clone() };
    if let Some(not) = s.get("not").filter(|n| n.is_object()) {
        node(not, &child("not"), false, &alternative, costs, found);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (i, of) in list(s, key).iter().enumerate() {
            node(of, &format!("{path}.{key}[{i}]"), false, &alternative, costs, found);
        }
    }
    if let Some(items) = s.get("items").filter(|i| i.is_object()) {
        let mut walk = below.clone();
        if text(s, "x-kubernetes-list-type") != "map" {
            walk.uncorrelatable.get_or_insert_with(|| path.to_owned());
        }
        node(items, &child("items"), false, &walk, costs, found);
    }
    extensions(s, path, found);
    let parsed = Schema::parse(s);
    for (i, rule) in parsed.rules.iter().enumerate() {
        rule_texts(rule, &parsed, &format!("{path}.x-kubernetes-validations[{i}]"), found);
    }
    if walk.rules && found.len() == start && !parsed.rules.is_empty() {
        compiled(&parsed, root, path, walk, costs, found);
    }
}

fn supported(s: &Value, path: &str, walk: &Walk, found: &mut Vec<FieldError>) {
    let child = |name: &str| format!("{path}.{name}");
    let kind = text(s, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        found.push(errors::not_supported(&child("type"), &kind.into(), TYPES.iter().map(|t| (*t).into())));
    }
    if let Some(reason) = walk.no_defaults.as_ref().filter(|_| s.get("default").is_some_and(|d| !d.is_null())) {
        found.push(errors::forbidden(&child("default"), &format!("must not be set {reason}")));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let set = match s.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::Object(map)) if key != "dependencies" => !map.is_empty(),
            Some(Value::String(text)) => !text.is_empty(),
            Some(_) => true,
        };
        if set {
            found.push(errors::forbidden(&child(key), &format!("{key} is not supported")));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        found.push(errors::forbidden(&child("type"), why));
    }
    if s.get("items").is_some_and(Value::is_array) {
        found.push(errors::forbidden(&child("items"), "items must be a schema object and not an array"));
    }
    if walk.inside_meta && flag(s, "x-kubernetes-embedded-resource") {
        let why = "must not be used inside of resource meta";
        found.push(errors::forbidden(&child("x-kubernetes-embedded-resource"), why));
    }
}

fn extensions(s: &Value, path: &str, found: &mut Vec<FieldError>) {
    let child = |name: &str| format!("{path}.{name}");
    let kind = text(s, "type");
    if s.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = child("x-kubernetes-preserve-unknown-fields");
        found.push(errors::invalid(&at, &Value::Bool(false), "must be true or undefined"));
    }
    for (key, wanted, allowed) in [
        ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
        ("x-kubernetes-list-type", "array", &["atomic", "set", "map"]),
    ] {
        let Some(value) = s.get(key).and_then(Value::as_str) else { continue };
        if kind != wanted {
            let why = format!("must be {wanted} if {key} is specified");
            found.push(if kind.is_empty() {
                errors::required(&child("type"), &why)
            } else {
                errors::invalid(&child("type"), &kind.into(), &why)
            });
        }
        if !allowed.contains(&value) {
            found.push(errors::not_supported(&child(key), &value.into(), allowed.iter().map(|a| (*a).into())));
        }
    }
    let list_type = s.get("x-kubernetes-list-type").and_then(Value::as_str);
    let items = s.get("items").filter(|i| i.is_object());
    let keys = list(s, "x-kubernetes-list-map-keys");
    if kind == "array"
        && list_type == Some("set")
        && let Some(items) = items
    {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let of = items.get("x-kubernetes-list-type").cloned().unwrap_or_default();
        if text(items, "type") == "array" && !matches!(of.as_str(), None | Some("atomic")) {
            found.push(errors::invalid(&child("items.x-kubernetes-list-type"), &of, why));
        } else if text(items, "type") == "object" && text(items, "x-kubernetes-map-type") != "atomic" {
            found.push(errors::invalid(&child("items.x-kubernetes-map-type"), &of, why));
        }
    }
    if !keys.is_empty() && list_type != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        let at = child("x-kubernetes-list-type");
        found.push(list_type.map_or_else(|| errors::required(&at, why), |t| errors::invalid(&at, &t.into(), why)));
    }
    if list_type == Some("map") {
        let keys_at = child("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            found.push(errors::required(&keys_at, "must not be empty if x-kubernetes-list-type is map"));
        }
        match items {
            None => {
                found.push(errors::required(&child("items"), "must have a schema if x-kubernetes-list-type is map"))
            }
            Some(items) if text(items, "type") != "object" => {
                let why = "must be object if parent array's x-kubernetes-list-type is map";
                found.push(errors::invalid(&child("items.type"), &text(items, "type").into(), why));
            }
            Some(items) => map_keys(items, keys, path, found),
        }
    }
    if let (Some(kind @ ("set" | "map")), Some(items)) = (list_type, items)
        && flag(items, "nullable")
    {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        found.push(errors::forbidden(&child("items.nullable"), &why));
    }
}

fn map_keys(items: &Value, keys: &[Value], path: &str, found: &mut Vec<FieldError>) {
    let keys_at = format!("{path}.x-kubernetes-list-map-keys");
    for (i, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match items.get("properties").and_then(|p| p.get(name)) {
            None => found.push(errors::invalid(&keys_at, &keys.into(), "entries must all be names of item properties")),
            Some(of) => {
                let at = format!("{path}.items.properties[{name}]");
                if matches!(text(of, "type"), "array" | "object") {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    found.push(errors::invalid(&format!("{at}.type"), &text(items, "type").into(), why));
                }
                let required = list(items, "required").contains(key);
                if !required && of.get("default").is_none_or(Value::is_null) {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    found.push(errors::required(&format!("{at}.default"), why));
                }
                if flag(of, "nullable") {
                    let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    found.push(errors::forbidden(&format!("{at}.nullable"), why));
                }
            }
        }
        if keys[..i].contains(key) {
            found.push(errors::invalid(&keys_at, &keys.into(), "must not contain duplicate entries"));
        }
    }
}

fn rule_texts(rule: &Rule, schema: &Schema, path: &str, found: &mut Vec<FieldError>) {
    let child = |name: &str| format!("{path}.{name}");
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let (text, message) = (rule.rule.trim(), rule.message.trim());
    if text.is_empty() {
        found.push(errors::required(&child("rule"), "rule is not specified"));
    } else if !rule.message.is_empty() && message.is_empty() {
        found.push(errors::invalid(&child("message"), &rule.message.as_str().into(), "must be non-empty if specified"));
    } else if breaks(message) {
        found.push(errors::invalid(&child("message"), &rule.message.as_str().into(), "must not contain line breaks"));
    } else if breaks(text) && message.is_empty() {
        found.push(errors::required(&child("message"), "message must be specified if rule contains line breaks"));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        found.push(errors::required(&child("messageExpression"), why));
    }
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    if !rule.reason.is_empty() && !REASONS.contains(&rule.reason.as_str()) {
        let reason = rule.reason.as_str().into();
        found.push(errors::not_supported(&child("reason"), &reason, REASONS.iter().map(|r| (*r).into())));
    }
    if !rule.field_path.is_empty() && field_path::normalize(&rule.field_path, schema).is_err() {
        found.push(errors::invalid(&child("fieldPath"), &rule.field_path.as_str().into(), "must be a valid path"));
    }
}

/// What the compiler says of the rules.
fn compiled(schema: &Schema, root: bool, path: &str, walk: &Walk, costs: &mut Costs, found: &mut Vec<FieldError>) {
    let resource = root || schema.embedded;
    let Some(shape) = Shape::of(schema, resource) else { return };
    for (i, (compiled, rule)) in rules::compile(schema, resource).iter().zip(&schema.rules).enumerate() {
        let at = format!("{path}.x-kubernetes-validations[{i}]");
        if let Ok(program) = &compiled.program {
            let times = walk.cardinality.unwrap_or_else(|| shape.most());
            let cost = program.max_cost(&shape).saturating_mul(times);
            costs.add(&format!("{at}.rule"), "estimated rule cost", cost, found);
        }
        if let Err(why) = &compiled.program {
            found.push(errors::invalid_text(&format!("{at}.rule"), &shown(rule), why));
        }
        match &compiled.message {
            Some(Err(why)) => {
                found.push(errors::invalid_text(&format!("{at}.messageExpression"), &shown(rule), why));
            }
            Some(Ok(message)) if compiled.program.is_ok() => {
                let cost = message.max_cost(&shape);
                costs.add(&format!("{at}.messageExpression"), "estimated messageExpression cost", cost, found);
            }
            _ => {}
        }
        if compiled.uses_old_self {
            if let Some(above) = &walk.uncorrelatable {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {above}");
                found.push(errors::invalid(&format!("{at}.rule"), &rule.rule.as_str().into(), &why));
            }
        } else if let Some(set) = rule.optional_old_self.filter(|_| compiled.program.is_ok()) {
            let why = "may not be set if oldSelf is not used in rule";
            found.push(errors::invalid(&format!("{at}.optionalOldSelf"), &set.into(), why));
        }
    }
}

/// A rule as upstream prints its struct.
fn shown(rule: &Rule) -> String {
    let text = |t: &str| Value::from(t).to_string();
    let reason = if rule.reason.is_empty() { "null".to_owned() } else { text(&rule.reason) };
    let optional = rule.optional_old_self.map_or_else(|| "null".to_owned(), |b| b.to_string());
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        text(&rule.field_path)
    )
}
