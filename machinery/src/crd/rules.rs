//! `x-kubernetes-validations`: rules in CEL, with transitions, messages and ratcheting. Source: apiextensions-apiserver
//! `pkg/apiserver/schema/cel/{compilation,validation}.go`.

use std::{cell::OnceCell, collections::BTreeMap};

use serde_json::Value;

use super::{
    correlate::{Correlated, OldItems},
    errors, field_path,
    schema::{Rule, Schema, Type as JsonType},
};
use crate::{
    cel::{self, BUDGET, Environment, PER_CALL_LIMIT, Program, Type, Variables},
    validate::FieldError,
};

/// Longest message that an expression may make, in bytes.
const MAX_MESSAGE: usize = 5 << 10;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// A rule that has been compiled, or why it cannot be.
#[derive(Debug)]
pub(super) struct Compiled {
    rule: Rule,
    pub(super) program: Result<Program, String>,
    pub(super) message: Option<Result<Program, String>>,
    pub(super) uses_old_self: bool,
    path: String,
}

/// The rules of a schema and of what is below it.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Compiled>,
    resource: bool,
    properties: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    values: Option<Box<Rules>>,
}

/// Compiles the rules of one schema, without those below.
pub(super) fn compile(schema: &Schema, resource: bool) -> Vec<Compiled> {
    if schema.rules.is_empty() {
        return Vec::new();
    }
    let Some(kind) = cel::object_type(schema, resource, "selfType") else { return Vec::new() };
    schema.rules.iter().map(|rule| one(schema, rule, &kind)).collect()
}

fn one(schema: &Schema, rule: &Rule, kind: &Type) -> Compiled {
    let old = if rule.optional_old_self == Some(true) { Type::optional(kind.clone()) } else { kind.clone() };
    let environment = Environment::new().variable("self", kind.clone()).variable("oldSelf", old);
    let program = environment.compile(&rule.rule).map_err(|e| format!("compilation failed: {e}")).and_then(|p| {
        if *p.output() == Type::Bool { Ok(p) } else { Err("cel expression must evaluate to a bool".to_owned()) }
    });
    let message = (!rule.message_expression.is_empty()).then(|| {
        let compiled = environment.compile(&rule.message_expression);
        let compiled = compiled.map_err(|e| format!("messageExpression compilation failed: {e}"))?;
        if *compiled.output() == Type::String {
            Ok(compiled)
        } else {
            Err("messageExpression must evaluate to a string".to_owned())
        }
    });
    let uses_old_self = program.as_ref().is_ok_and(|p| p.references("oldSelf"));
    let path = if rule.field_path.is_empty() { None } else { field_path::normalize(&rule.field_path, schema).ok() };
    Compiled { rule: rule.clone(), program, message, uses_old_self, path: path.unwrap_or_default() }
}

/// Whether CEL validation makes no sense after these errors.
fn blocks(error: &FieldError) -> bool {
    matches!(
        error.reason,
        "FieldValueNotSupported"
            | "FieldValueRequired"
            | "FieldValueTooLong"
            | "FieldValueTooMany"
            | "FieldValueTypeInvalid"
    )
}

/// What a node was before, for ratcheting.
#[derive(Clone, Copy, Default)]
struct Before<'v> {
    current: Option<Correlated<'v>>,
    /// Also whether it is unchanged, once that is known: all its items may ask.
    parent: Option<(Correlated<'v>, &'v OnceCell<bool>)>,
}

impl<'v> Before<'v> {
    fn unchanged(&self) -> bool {
        match (self.current, self.parent) {
            (Some(current), _) => current.is_equal(),
            (None, Some((parent, known))) => *known.get_or_init(|| parent.is_equal()),
            (None, None) => false,
        }
    }

    /// `known` is for what is found out of this value.
    fn field(self, name: &str, known: &'v OnceCell<bool>) -> Self {
        match (self.current, self.parent) {
            (None, _) => self,
            // Type and version are those of the request, before and after.
            (Some(_), None) if matches!(name, "apiVersion" | "kind") => Self::default(),
            (Some(current), _) => Self { current: current.field(name), parent: Some((current, known)) },
        }
    }

    /// `old` are the items of what it was.
    fn item(self, index: usize, old: Option<&OldItems<'v>>, known: &'v OnceCell<bool>) -> Self {
        match self.current {
            None => self,
            Some(current) => {
                Self { current: old.and_then(|old| current.item(index, old)), parent: Some((current, known)) }
            }
        }
    }
}

/// A check on its way: what was found, and what may still be spent.
struct Check<'f> {
    found: &'f mut Vec<FieldError>,
    left: Option<u64>,
}

impl Rules {
    /// Compiles all rules of a schema; none when there are none.
    pub(super) fn new(schema: &Schema, resource: bool) -> Option<Self> {
        if !schema.has_rules() {
            return None;
        }
        let properties = schema.properties.iter();
        Some(Self {
            rules: compile(schema, resource),
            resource: resource || schema.embedded,
            properties: properties.filter_map(|(n, of)| Some((n.clone(), Self::new(of, of.embedded)?))).collect(),
            items: schema.items.as_deref().and_then(|of| Self::new(of, of.embedded)).map(Box::new),
            values: schema.values().and_then(|of| Self::new(of, of.embedded)).map(Box::new),
        })
    }

    /// Checks an object; `old` is what it was.
    pub(super) fn check(&self, new: &Value, old: Option<&Value>, schema: &Schema, found: &mut Vec<FieldError>) {
        if found.iter().any(blocks) {
            found.push(errors::invalid(
                "",
                &Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            ));
            return;
        }
        let before = Before { current: old.map(|old| Correlated { new, old, schema }), parent: None };
        self.node(new, old, schema, "", before, &mut Check { found, left: Some(BUDGET) });
    }

    fn node(
        &self,
        new: &Value,
        old: Option<&Value>,
        schema: &Schema,
        path: &str,
        before: Before<'_>,
        check: &mut Check<'_>,
    ) {
        if new.is_null() || check.left.is_none() {
            return;
        }
        let old = old.filter(|o| !o.is_null());
        self.expressions(new, old, schema, path, before, check);
        let known = OnceCell::new();
        match new {
            Value::Object(map) => {
                for (name, value) in map {
                    if check.left.is_none() {
                        return;
                    }
                    let was = old.and_then(|o| o.get(name));
                    if let (Some(rules), Some(of)) = (self.properties.get(name), schema.properties.get(name)) {
                        rules.node(value, was, of, &errors::child(path, name), before.field(name, &known), check);
                    } else if let (Some(rules), Some(of)) = (&self.values, schema.values()) {
                        rules.node(value, was, of, &errors::key(path, name), before.field(name, &known), check);
                    }
                }
            }
            Value::Array(items) => {
                let (Some(rules), Some(of)) = (&self.items, &schema.items) else { return };
                let were = old.map(|old| OldItems::new(schema, old));
                let current = before.current.map(|c| c.items());
                for (i, item) in items.iter().enumerate() {
                    if check.left.is_none() {
                        return;
                    }
                    let was = were.as_ref().and_then(|were| were.like(item));
                    let before = before.item(i, current.as_ref(), &known);
                    rules.node(item, was, of, &errors::index(path, i), before, check);
                }
            }
            _ => {}
        }
    }

    fn expressions(
        &self,
        new: &Value,
        old: Option<&Value>,
        schema: &Schema,
        path: &str,
        before: Before<'_>,
        check: &mut Check<'_>,
    ) {
        if self.rules.is_empty() {
            return;
        }
        let self_value = cel::typed(new, schema, self.resource);
        let plain = Variables::new().with("self", self_value);
        let old_value = old.map(|old| cel::typed(old, schema, self.resource));
        for compiled in &self.rules {
            let Some(left) = check.left else { return };
            let kind = Value::from(schema.type_name());
            let mut fail = |why: &str| check.found.push(errors::invalid(path, &kind, why));
            let program = match &compiled.program {
                Ok(program) => program,
                Err(why) => {
                    fail(&format!("rule compile error: {why}"));
                    continue;
                }
            };
            let optional = compiled.rule.optional_old_self == Some(true);
            if compiled.uses_old_self && old.is_none() && !optional {
                continue;
            }
            let mut variables = plain.clone();
            match (&old_value, optional) {
                (Some(value), true) => variables.set("oldSelf", cel::Value::some(value.clone())),
                (None, true) => variables.set("oldSelf", cel::Value::none()),
                (Some(value), false) => variables.set("oldSelf", value.clone()),
                (None, false) => {}
            }
            let evaluation = program.evaluate(&variables, PER_CALL_LIMIT);
            if evaluation.cost > left {
                fail(OUT_OF_BUDGET);
                check.left = None;
                return;
            }
            check.left = Some(left - evaluation.cost);
            let shown = shown(&compiled.rule);
            match &evaluation.result {
                Ok(cel::Value::Bool(true)) => continue,
                Ok(_) => {}
                Err(why) if why.starts_with("no such overload") => {
                    fail(&format!(
                        "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
                    ));
                    continue;
                }
                Err(why) if evaluation.is_over_limit() => {
                    fail(&format!(
                        "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
                    ));
                    check.left = None;
                    return;
                }
                Err(why) => {
                    fail(&format!("{why} evaluating rule: {shown}"));
                    continue;
                }
            }
            let detail = match &compiled.message {
                Some(Ok(expression)) => match message(expression, &variables, check) {
                    Ok(message) => message,
                    Err(why) => {
                        check.found.push(errors::invalid(path, &kind, &why));
                        check.left = None;
                        return;
                    }
                },
                _ => None,
            };
            // What has not changed is let be, unless the rule is about the change.
            if !compiled.uses_old_self && before.unchanged() {
                continue;
            }
            let detail = detail.unwrap_or_else(|| match compiled.rule.message.trim() {
                "" => format!("failed rule: {shown}"),
                message => message.to_owned(),
            });
            let at = if compiled.path.is_empty() { path.to_owned() } else { errors::child(path, &compiled.path) };
            let large = matches!(schema.kind, Some(JsonType::Object | JsonType::Array));
            check.found.push(match compiled.rule.reason.as_str() {
                "FieldValueForbidden" => errors::forbidden(&at, &detail),
                "FieldValueRequired" => errors::required(&at, &detail),
                "FieldValueDuplicate" if large => errors::duplicate_omitted(&at),
                "FieldValueDuplicate" => errors::duplicate(&at, new),
                _ if large => errors::invalid_omitted(&at, &detail),
                _ => errors::invalid(&at, new, &detail),
            });
        }
    }
}

/// A rule as errors name it.
fn shown(rule: &Rule) -> &str {
    let message = rule.message.trim();
    if message.is_empty() { rule.rule.trim() } else { message }
}

/// What a message expression says; none when it fails or says nothing usable.
///
/// # Errors
/// When it costs more than is left.
fn message(expression: &Program, variables: &Variables, check: &mut Check<'_>) -> Result<Option<String>, String> {
    let evaluation = expression.evaluate(variables, PER_CALL_LIMIT);
    let left = check.left.unwrap_or(0);
    if evaluation.cost > left || evaluation.is_over_limit() {
        return Err("messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".into());
    }
    check.left = Some(left - evaluation.cost);
    let text = evaluation.result.ok().and_then(|v| v.as_str().map(|t| t.trim().to_owned()));
    Ok(text.filter(|t| !t.is_empty() && t.len() <= MAX_MESSAGE && !t.contains('\n')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
        let schema = Schema::parse(schema);
        let mut found = Vec::new();
        Rules::new(&schema, true).unwrap().check(new, old, &schema, &mut found);
        found.iter().map(|e| format!("{} ({})", e, e.reason)).collect()
    }

    fn schema(rules: Value) -> Value {
        json!({ "type": "object", "properties": { "spec": { "type": "object", "x-kubernetes-validations": rules, "properties": {
            "min": { "type": "integer" }, "max": { "type": "integer" }, "name": { "type": "string" },
            "a-b": { "type": "string" }, "size": { "x-kubernetes-int-or-string": true },
            "list": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "properties": { "k": { "type": "string" }, "v": { "type": "integer",
                    "x-kubernetes-validations": [{ "rule": "self >= oldSelf", "message": "v only grows" }] } },
            } },
        } } } })
    }

    #[test]
    fn rules_fail_with_their_messages() {
        let schema = schema(json!([
            { "rule": "self.min <= self.max", "message": "min must not be above max", "fieldPath": ".min" },
            { "rule": "self.min > 0", "messageExpression": "'min is ' + string(self.min) + ', not positive'", "reason": "FieldValueForbidden" },
            { "rule": "!has(self.a__dash__b)" },
        ]));
        assert_eq!(check(&schema, &json!({ "spec": { "min": 1, "max": 2 } }), None), Vec::<String>::new());
        assert_eq!(
            check(&schema, &json!({ "spec": { "min": -1, "max": -2, "a-b": "x" } }), None),
            [
                "spec.min: Invalid value: min must not be above max (FieldValueInvalid)",
                "spec: Forbidden: min is -1, not positive (FieldValueForbidden)",
                "spec: Invalid value: failed rule: !has(self.a__dash__b) (FieldValueInvalid)",
            ]
        );
        assert_eq!(
            check(&schema, &json!({ "spec": { "min": 1 } }), None),
            [
                "spec: Invalid value: \"object\": no such key: max evaluating rule: min must not be above max (FieldValueInvalid)"
            ]
        );
    }

    #[test]
    fn transitions_compare_with_what_was() {
        let schema = schema(json!([
            { "rule": "self.name == oldSelf.name", "message": "name is immutable" },
            { "rule": "!oldSelf.hasValue() || self.min >= oldSelf.value().min", "optionalOldSelf": true },
        ]));
        let old = json!({ "spec": { "name": "a", "min": 3, "list": [{ "k": "x", "v": 5 }] } });
        assert_eq!(check(&schema, &old, None), Vec::<String>::new());
        let new = json!({ "spec": { "name": "b", "min": 1, "list": [{ "k": "y", "v": 1 }, { "k": "x", "v": 4 }] } });
        assert_eq!(
            check(&schema, &new, Some(&old)),
            [
                "spec: Invalid value: name is immutable (FieldValueInvalid)",
                "spec: Invalid value: failed rule: !oldSelf.hasValue() || self.min >= oldSelf.value().min (FieldValueInvalid)",
                "spec.list[1].v: Invalid value: 4: v only grows (FieldValueInvalid)",
            ]
        );
    }

    #[test]
    fn what_has_not_changed_is_let_be() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": "object", "properties": { "x": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self < 5" }] } } },
            "b": { "type": "integer" },
        } });
        let old = json!({ "a": { "x": 9 }, "b": 1 });
        assert_eq!(check(&schema, &json!({ "a": { "x": 9 }, "b": 2 }), Some(&old)), Vec::<String>::new());
        assert_eq!(
            check(&schema, &json!({ "a": { "x": 8 }, "b": 1 }), Some(&old)),
            ["a.x: Invalid value: 8: failed rule: self < 5 (FieldValueInvalid)"]
        );
    }

    /// In proportion to its size: were it quadratic, this would take minutes.
    #[test]
    fn long_lists_are_compared_soon() {
        const N: usize = 50_000;
        let rules = json!([{ "rule": "self < 5", "message": "small" }]);
        let schema = json!({ "type": "object", "properties": {
            "atomic": { "type": "array", "items": { "type": "integer", "x-kubernetes-validations": rules } },
            "keyed": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "properties": { "k": { "type": "integer" }, "v": { "type": "integer", "x-kubernetes-validations": rules } } } },
        } });
        let item = |k: usize| json!({ "k": k, "v": if k == N / 2 { 9 } else { 1 } });
        let keyed = json!({ "keyed": (0..N).map(item).collect::<Vec<_>>() });
        let turned = json!({ "keyed": (0..N).rev().map(item).collect::<Vec<_>>() });
        assert_eq!(check(&schema, &turned, Some(&keyed)), Vec::<String>::new());
        let last = |last: usize| {
            let items = [vec![9; N], vec![last]].concat();
            json!({ "atomic": items })
        };
        assert_eq!(check(&schema, &last(9), Some(&last(9))), Vec::<String>::new());
        assert_eq!(check(&schema, &last(1), Some(&last(2))).len(), N);
        let validated = super::super::value::check(&turned, &Schema::parse(&schema), "", Some(&keyed));
        assert!(validated.is_empty());
    }

    #[test]
    fn cost_is_bounded() {
        let schema = json!({ "type": "object", "properties": { "l": { "type": "array", "items": { "type": "integer" },
            "x-kubernetes-validations": [{ "rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))" }] } } });
        let list: Vec<i64> = (0..500).collect();
        let found = check(&schema, &json!({ "l": list }), None);
        assert!(found[0].contains("actual cost limit exceeded"), "{found:?}");
    }
}
