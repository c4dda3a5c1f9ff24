//! Checking a value against a schema, with upstream's messages and paths. Sources: kube-openapi `pkg/validation/{validate,errors}` and
//! apiextensions-apiserver `pkg/apiserver/validation`.

use std::borrow::Cow;

use serde_json::{Number, Value};

use super::{
    correlate::Correlated,
    errors, format,
    schema::{Additional, Checks, Schema, Type},
};
use crate::validate::FieldError;

/// What came of a check: the errors, and how much of the schema matched (alternatives that match more are reported first).
#[derive(Debug, Default)]
struct Outcome {
    errors: Vec<FieldError>,
    matches: usize,
}

impl Outcome {
    fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.matches += other.matches;
    }

    fn fail(&mut self, error: FieldError) {
        self.errors.push(error);
    }
}

/// Where in the object, and what it was before.
#[derive(Clone, Copy)]
struct Place<'p, 'v> {
    path: &'p str,
    /// Where the whole value is (`status`), for errors.
    base: &'p str,
    old: Option<Correlated<'v>>,
}

/// Checks a value. `base` is the path of the value itself, empty for an object; with `old` what has not changed is not refused.
pub(super) fn check<'v>(value: &'v Value, schema: &'v Schema, base: &str, old: Option<&'v Value>) -> Vec<FieldError> {
    let old = old.map(|old| Correlated { new: value, old, schema });
    ratcheted(value, schema, Place { path: "", base, old }).errors
}

/// Go's `%v` of a float.
fn float(n: f64) -> String {
    if n != 0.0 && (n.abs() >= 1e21 || n.abs() < 1e-4) {
        let text = format!("{n:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = exponent.strip_prefix('-').map_or(("+", exponent), |d| ("-", d));
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    n.to_string()
}

/// A value as errors show it.
fn shown(value: &Value) -> Value {
    match value.as_f64().filter(|_| value.is_f64()) {
        // Go prints whole floats without a fraction.
        Some(n) if n.fract() == 0.0 && n.abs() < 9e15 => Value::from(n as i64),
        _ => value.clone(),
    }
}

/// Type and format of a value in the words of the schema.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(n) if is_integer(n) => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

/// Go reads what fits as int64 and everything else as float64.
fn is_integer(n: &Number) -> bool {
    n.is_i64()
}

impl<'v> Place<'_, 'v> {
    fn at(&self) -> String {
        let path = self.path.trim_start_matches('.');
        if path.is_empty() { self.base.to_owned() } else { errors::child(self.base, path) }
    }

    /// `spec.a in body should ..`
    fn say(&self, what: impl std::fmt::Display) -> String {
        format!("{} in body {what}", self.path)
    }

    fn type_error(&self, wanted: &str, value: &Value) -> FieldError {
        let text = match value {
            Value::String(text) => format!("must be of type {wanted}: {text:?}"),
            _ => format!("must be of type {wanted}"),
        };
        errors::type_invalid(&self.at(), value, &self.say(text))
    }

    fn invalid(&self, value: &Value, what: impl std::fmt::Display) -> FieldError {
        errors::invalid(&self.at(), value, &self.say(what))
    }

    /// An error of a whole alternative: upstream knows no path for it.
    fn alternatives(&self, what: &str) -> FieldError {
        errors::invalid(self.base, &Value::from(""), &format!("{:?} {what}", self.path))
    }

    fn old_field(&self, name: &str) -> Option<Correlated<'v>> {
        // Type and version are those of the request, before and after.
        if self.path.is_empty() && matches!(name, "kind" | "apiVersion") {
            return None;
        }
        self.old.and_then(|o| o.field(name))
    }
}

fn ratcheted(value: &Value, schema: &Schema, place: Place<'_, '_>) -> Outcome {
    let mut outcome = node(value, schema, place);
    if !outcome.errors.is_empty() && place.old.is_some_and(|o| o.is_equal()) {
        outcome.errors.clear();
    }
    outcome
}

/// One value against one schema, in the order of upstream's validators.
fn node(value: &Value, schema: &Schema, place: Place<'_, '_>) -> Outcome {
    let mut outcome = Outcome::default();
    let format = format::supported(schema.kind, &schema.checks.format);
    if value.is_null() {
        outcome.merge(type_check(value, schema, format, place));
        outcome.merge(allowed(value, &schema.checks, place));
        return outcome;
    }
    if schema.kind.is_some() || schema.int_or_string || format.is_some() {
        outcome.merge(type_check(value, schema, format, place));
        outcome.matches += 1;
    }
    outcome.merge(alternatives(value, &schema.checks, place));
    outcome.matches += 1;
    match value {
        Value::String(text) => {
            outcome.merge(string(text, value, &schema.checks, place));
            outcome.matches += 1;
            if let Some(format) = format.filter(|_| !matches!(schema.kind, Some(Type::Integer | Type::Number))) {
                if !format::matches(format, text) {
                    outcome.fail(place.type_error(format, value));
                }
                outcome.matches += 1;
            }
        }
        Value::Number(n) => {
            outcome.merge(number(n, value, schema, format, place));
            outcome.matches += 1;
        }
        Value::Array(items) => {
            outcome.merge(list(items, schema, place));
            outcome.matches += 1;
        }
        _ => {}
    }
    outcome.merge(allowed(value, &schema.checks, place));
    outcome.matches += 1;
    if let Value::Object(map) = value {
        outcome.merge(object(map, schema, place));
        outcome.matches += 1;
    }
    outcome.matches += 1;
    outcome
}

fn type_check(value: &Value, schema: &Schema, format: Option<&str>, place: Place<'_, '_>) -> Outcome {
    let types = schema.types();
    let fail =
        |wanted: &str, found: &str| Outcome { errors: vec![place.type_error(wanted, &Value::from(found))], matches: 0 };
    let pass = Outcome { errors: Vec::new(), matches: 1 };
    if value.is_null() {
        return if types.is_empty() || schema.nullable { pass } else { fail(&types.join(","), "null") };
    }
    let (found, found_format) = type_of(value);
    let has = |name: &str| types.contains(&name);
    let whole = found == "number" && value.as_f64().is_some_and(|n| n.fract() == 0.0) && has("integer");
    let as_float = found == "integer" && has("number");
    let text_or_list = matches!(value, Value::String(_) | Value::Array(_));
    if let Some(format) = format {
        let fits = text_or_list || has(found) || found_format == format || whole || as_float;
        if !fits {
            return fail(format, found_format);
        }
        if !has("number") && !has("integer") && text_or_list {
            return pass;
        }
    }
    if has(found) || whole || as_float { pass } else { fail(&types.join(","), found) }
}

fn string(text: &str, value: &Value, checks: &Checks, place: Place<'_, '_>) -> Outcome {
    let mut outcome = Outcome::default();
    let length = text.chars().count() as i64;
    if let Some(max) = checks.max_length.filter(|m| length > *m) {
        outcome.fail(errors::too_long(&place.at(), max));
    } else if let Some(min) = checks.min_length.filter(|m| length < *m) {
        outcome.fail(place.invalid(value, format_args!("should be at least {min} chars long")));
    } else if let Some(pattern) = checks.pattern.as_ref().filter(|p| !p.is_match(text)) {
        let source = match pattern.error() {
            Some(why) => format!("{}, but pattern is invalid: {why}", pattern.source()),
            None => pattern.source().to_owned(),
        };
        outcome.fail(place.invalid(value, format_args!("should match '{source}'")));
    }
    outcome
}

fn number(n: &Number, value: &Value, schema: &Schema, format: Option<&str>, place: Place<'_, '_>) -> Outcome {
    let mut outcome = Outcome { errors: Vec::new(), matches: 1 };
    let checks = &schema.checks;
    let as_float = n.as_f64().unwrap_or_default();
    // Values beyond their type.
    let beyond = match (schema.kind, format) {
        (Some(Type::Integer), Some("int32")) => {
            as_float.abs() > f64::from(i32::MAX) && n.as_i64() != Some(i64::from(i32::MIN))
        }
        (Some(Type::Integer), _) => !n.is_i64() && as_float.abs() >= 9.223_372_036_854_776e18,
        (Some(Type::Number), Some("float")) => as_float.abs() > f64::from(f32::MAX),
        _ => false,
    };
    if beyond {
        let kind = schema.type_name();
        let text = match format {
            Some(format) => format!("Checked value must be of type {kind} with format {format} in {}", place.path),
            None => format!("Checked value must be of type {kind} (default format) in {}", place.path),
        };
        outcome.fail(errors::invalid(place.base, &Value::from(""), &text));
    }
    let value = shown(value);
    if let Some(factor) = checks.multiple_of {
        if factor <= 0.0 {
            let text = format!("factor MultipleOf declared for {} must be positive: {}", place.path, float(factor));
            outcome.fail(errors::invalid(&place.at(), &Value::from(float(factor)), &text));
        } else {
            let multiple = match n.as_i64() {
                Some(i) if factor.fract() == 0.0 => i % factor as i64 == 0,
                _ => {
                    let times = if factor < 1.0 { 1.0 / factor * as_float } else { as_float / factor };
                    (times - times.round()).abs() < 1e-9 * times.abs().max(1.0)
                }
            };
            if !multiple {
                outcome.fail(place.invalid(&value, format_args!("should be a multiple of {}", float(factor))));
            }
        }
    }
    // Bounds of integers are compared as integers.
    let bound = |bound: f64| if n.is_i64() { bound.trunc() } else { bound };
    if let Some((max, exclusive)) = checks.maximum {
        let max = bound(max);
        if as_float > max || (exclusive && as_float >= max) {
            let words = if exclusive { "less than" } else { "less than or equal to" };
            outcome.fail(place.invalid(&value, format_args!("should be {words} {}", float(max))));
        }
    }
    if let Some((min, exclusive)) = checks.minimum {
        let min = bound(min);
        if as_float < min || (exclusive && as_float <= min) {
            let words = if exclusive { "greater than" } else { "greater than or equal to" };
            outcome.fail(place.invalid(&value, format_args!("should be {words} {}", float(min))));
        }
    }
    outcome
}

fn list(items: &[Value], schema: &Schema, place: Place<'_, '_>) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(of) = &schema.items {
        let were = place.old.map(|o| (o, o.items()));
        for (i, item) in items.iter().enumerate() {
            let path = format!("{}[{i}]", place.path);
            let old = were.as_ref().and_then(|(list, were)| list.item(i, were));
            outcome.merge(ratcheted(item, of, Place { path: &path, base: place.base, old }));
        }
    }
    let (checks, size) = (&schema.checks, items.len() as i64);
    if let Some(min) = checks.min_items.filter(|m| size < *m) {
        outcome.fail(place.invalid(&Value::from(size), format_args!("should have at least {min} items")));
    }
    if let Some(max) = checks.max_items.filter(|m| size > *m) {
        outcome.fail(errors::too_many(&place.at(), items.len(), max));
    }
    if checks.unique_items && items.iter().enumerate().any(|(i, item)| items[..i].contains(item)) {
        outcome.fail(place.invalid(&Value::from(""), "shouldn't contain duplicates"));
    }
    outcome.matches += 1;
    outcome
}

fn object(map: &serde_json::Map<String, Value>, schema: &Schema, place: Place<'_, '_>) -> Outcome {
    let mut outcome = Outcome::default();
    let (checks, size) = (&schema.checks, map.len() as i64);
    if let Some(min) = checks.min_properties.filter(|m| size < *m) {
        outcome.fail(place.invalid(&Value::from(size), format_args!("should have at least {min} properties")));
    }
    if let Some(max) = checks.max_properties.filter(|m| size > *m) {
        outcome.fail(errors::too_many(&place.at(), map.len(), max));
    }
    for (name, value) in map {
        if schema.properties.contains_key(name) {
            continue;
        }
        match &schema.additional {
            Some(Additional::Any(false)) => {
                let text = format!("{}.{name} in body is a forbidden property", place.path);
                outcome.fail(errors::invalid(&place.at(), &Value::from(name.as_str()), &text));
            }
            Some(Additional::Schema(of)) => {
                let path = format!("{}.{name}", place.path);
                let place = Place { path: &path, base: place.base, old: place.old_field(name) };
                outcome.merge(ratcheted(value, of, place));
            }
            _ => {}
        }
    }
    for (name, of) in &schema.properties {
        if let Some(value) = map.get(name) {
            let path = if place.path.is_empty() { name.clone() } else { format!("{}.{name}", place.path) };
            let place = Place { path: &path, base: place.base, old: place.old_field(name) };
            outcome.merge(ratcheted(value, of, place));
        }
    }
    for name in checks.required.iter().filter(|r| !map.contains_key(*r)) {
        let at = errors::child(&place.at(), name);
        outcome.fail(errors::required(&at, ""));
    }
    outcome
}

fn alternatives(value: &Value, checks: &Checks, place: Place<'_, '_>) -> Outcome {
    let mut outcome = Outcome::default();
    if !checks.any_of.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut passed = None;
        for schema in &checks.any_of {
            let result = node(value, schema, place);
            if result.errors.is_empty() {
                passed = Some(result);
                break;
            }
            if best.as_ref().is_none_or(|b| result.matches > b.matches) {
                best = Some(result);
            }
        }
        match (passed, best) {
            (Some(passed), _) => outcome.merge(passed),
            (None, best) => {
                outcome.fail(place.alternatives("must validate at least one schema (anyOf)"));
                outcome.merge(best.unwrap_or_default());
            }
        }
    }
    if !checks.one_of.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut first = None;
        let mut passed = 0;
        for schema in &checks.one_of {
            let result = node(value, schema, place);
            if result.errors.is_empty() {
                passed += 1;
                best = None;
                first.get_or_insert(result);
            } else if passed == 0 && best.as_ref().is_none_or(|b| result.matches > b.matches) {
                best = Some(result);
            }
        }
        if passed == 1 {
            outcome.merge(first.unwrap_or_default());
        } else {
            let found =
                if passed == 0 { "Found none valid".to_owned() } else { format!("Found {passed} valid alternatives") };
            outcome.fail(place.alternatives(&format!("must validate one and only one schema (oneOf). {found}")));
            outcome.merge(best.unwrap_or_default());
        }
    }
    if !checks.all_of.is_empty() {
        let mut passed = 0;
        for schema in &checks.all_of {
            let result = node(value, schema, place);
            passed += usize::from(result.errors.is_empty());
            outcome.merge(result);
        }
        if passed != checks.all_of.len() {
            let none = if passed == 0 { ". None validated" } else { "" };
            outcome.fail(place.alternatives(&format!("must validate all the schemas (allOf){none}")));
        }
    }
    if let Some(schema) = &checks.not
        && node(value, schema, place).errors.is_empty()
    {
        outcome.fail(place.alternatives("must not validate the schema (not)"));
    }
    outcome.matches += 1;
    outcome
}

fn allowed(value: &Value, checks: &Checks, place: Place<'_, '_>) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(allowed) = &checks.allowed
        && !allowed.iter().any(|a| a == value || (a.is_number() && value.is_number() && a.as_f64() == value.as_f64()))
    {
        let supported = allowed.iter().map(|a| match a {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            other => Cow::Owned(other.to_string()),
        });
        outcome.fail(errors::not_supported(&place.at(), &shown(value), supported));
    }
    outcome
}

#[cfg(test)]
#[path = "value/tests.rs"]
mod tests;
