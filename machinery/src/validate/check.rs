//! Collecting field errors while walking a document by path.

use serde_json::Value;

use super::FieldError;
use crate::{names, quantity};

/// What `field is immutable` says.
const IMMUTABLE: &str = "field is immutable";

/// A value and the path to it.
#[derive(Debug, Clone)]
pub(super) struct At<'v> {
    pub(super) value: &'v Value,
    pub(super) path: String,
}

static NULL: Value = Value::Null;

impl<'v> At<'v> {
    pub(super) fn root(value: &'v Value) -> Self {
        Self { value, path: String::new() }
    }

    /// A field; null when absent.
    pub(super) fn field(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { value: self.value.get(name).unwrap_or(&NULL), path }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> + '_ {
        self.value
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(i, value)| Self { value, path: format!("{}[{i}]", self.path) })
    }

    /// The entries of a map.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'v String, Self)> + '_ {
        self.value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key, Self { value, path: format!("{}[{key}]", self.path) }))
    }

    pub(super) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// Null, empty text, empty list or empty map.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        }
    }

    pub(super) fn exists(&self) -> bool {
        !self.value.is_null()
    }
}

/// The errors found so far.
#[derive(Debug, Default)]
pub(super) struct Errors(pub(super) Vec<FieldError>);

impl Errors {
    fn push(&mut self, reason: &'static str, at: &At<'_>, body: String) {
        self.0.push(FieldError { reason, field: at.path.clone(), body });
    }

    pub(super) fn required(&mut self, at: &At<'_>, why: &str) {
        let body = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        self.push("FieldValueRequired", at, body);
    }

    pub(super) fn invalid(&mut self, at: &At<'_>, why: &str) {
        let value = if at.value.is_null() { "null".to_owned() } else { at.value.to_string() };
        self.push("FieldValueInvalid", at, format!("Invalid value: {value}: {why}"));
    }

    /// As `invalid`, where the value shown is a number.
    pub(super) fn invalid_number(&mut self, at: &At<'_>, value: i64, why: &str) {
        self.push("FieldValueInvalid", at, format!("Invalid value: {value}: {why}"));
    }

    /// As `invalid`, where the value shown is another one.
    pub(super) fn invalid_value(&mut self, at: &At<'_>, value: &str, why: &str) {
        self.push("FieldValueInvalid", at, format!("Invalid value: {value:?}: {why}"));
    }

    pub(super) fn forbidden(&mut self, at: &At<'_>, why: &str) {
        self.push("FieldValueForbidden", at, format!("Forbidden: {why}"));
    }

    pub(super) fn duplicate(&mut self, at: &At<'_>) {
        self.push("FieldValueDuplicate", at, format!("Duplicate value: {}", at.value));
    }

    /// As `duplicate`, where the value shown is another one.
    pub(super) fn duplicate_value(&mut self, at: &At<'_>, shown: &str) {
        self.push("FieldValueDuplicate", at, format!("Duplicate value: {shown:?}"));
    }

    pub(super) fn too_long(&mut self, at: &At<'_>, max: usize) {
        self.push("FieldValueTooLong", at, format!("Too long: may not be more than {max} bytes"));
    }

    pub(super) fn too_many(&mut self, at: &At<'_>, max: usize) {
        let count = at.value.as_array().map_or(0, Vec::len);
        self.push("FieldValueTooMany", at, format!("Too many: {count}: must have at most {max} items"));
    }

    pub(super) fn not_found(&mut self, at: &At<'_>) {
        self.push("FieldValueNotFound", at, format!("Not found: {}", at.value));
    }

    /// Required, and one of these.
    pub(super) fn one_of(&mut self, at: &At<'_>, allowed: &[&str]) {
        if at.is_empty() {
            self.required(at, "");
        } else {
            self.if_set_one_of(at, allowed);
        }
    }

    /// One of these, if there.
    pub(super) fn if_set_one_of(&mut self, at: &At<'_>, allowed: &[&str]) {
        if at.exists() && !allowed.contains(&at.text()) {
            let list: Vec<String> = allowed.iter().map(|a| format!("{a:?}")).collect();
            self.push(
                "FieldValueNotSupported",
                at,
                format!("Unsupported value: {}: supported values: {}", at.value, list.join(", ")),
            );
        }
    }

    /// None of these; `shown` is the value as messages show it.
    pub(super) fn not_supported(&mut self, at: &At<'_>, shown: &str, allowed: &[&str]) {
        let list: Vec<String> = allowed.iter().map(|a| format!("{a:?}")).collect();
        self.push(
            "FieldValueNotSupported",
            at,
            format!("Unsupported value: {shown}: supported values: {}", list.join(", ")),
        );
    }

    /// Required, and of a form of [`names`].
    pub(super) fn named(&mut self, at: &At<'_>, form: fn(&str) -> Vec<String>) {
        if at.is_empty() {
            self.required(at, "");
        }
        self.if_named(at, form);
    }

    pub(super) fn if_named(&mut self, at: &At<'_>, form: fn(&str) -> Vec<String>) {
        if !at.is_empty() {
            for why in form(at.text()) {
                self.invalid(at, &why);
            }
        }
    }

    pub(super) fn non_negative(&mut self, at: &At<'_>) {
        if at.value.as_i64().is_some_and(|n| n < 0) {
            self.invalid(at, "must be greater than or equal to 0");
        }
    }

    pub(super) fn positive(&mut self, at: &At<'_>) {
        if at.value.as_i64().is_some_and(|n| n <= 0) {
            self.invalid(at, "must be greater than 0");
        }
    }

    pub(super) fn port(&mut self, at: &At<'_>) {
        if at.value.as_i64().is_none_or(|n| !(1..=65535).contains(&n)) {
            self.invalid(at, "must be between 1 and 65535, inclusive");
        }
    }

    /// A port by number or name.
    pub(super) fn port_or_name(&mut self, at: &At<'_>) {
        match at.value {
            Value::String(_) => {
                for why in port_name_errors(at.text()) {
                    self.invalid(at, &why);
                }
            }
            _ => self.port(at),
        }
    }

    pub(super) fn labels(&mut self, at: &At<'_>) {
        for (key, value) in at.entries() {
            for why in names::qualified_name_errors(key) {
                self.invalid_value(at, key, &why);
            }
            for why in names::label_value_errors(value.text()) {
                self.invalid_value(at, value.text(), &why);
            }
        }
    }

    /// A `meta/v1 LabelSelector`.
    pub(super) fn selector(&mut self, at: &At<'_>) {
        self.labels(&at.field("matchLabels"));
        for expression in at.field("matchExpressions").items() {
            let (operator, values) = (expression.field("operator"), expression.field("values"));
            match operator.text() {
                "In" | "NotIn" if values.is_empty() => {
                    self.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
                }
                "Exists" | "DoesNotExist" if !values.is_empty() => {
                    self.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
                }
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                _ => self.invalid(&operator, "not a valid selector operator"),
            }
            let key = expression.field("key");
            for why in names::qualified_name_errors(key.text()) {
                self.invalid(&key, &why);
            }
        }
    }

    pub(super) fn quantity(&mut self, at: &At<'_>) {
        match quantity::of(at.value) {
            None => self.invalid(
                at,
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            Some(n) if n < 0 => self.invalid(at, "must be greater than or equal to 0"),
            Some(_) => {}
        }
    }

    /// A quantity above zero.
    pub(super) fn positive_quantity(&mut self, at: &At<'_>) {
        if at.value.as_str().and_then(quantity::parse) == Some(0) || at.value.as_i64() == Some(0) {
            self.invalid_value(at, at.value.as_str().unwrap_or("0"), "must be greater than zero");
        } else {
            self.quantity(at);
        }
    }

    /// `field is immutable` unless equal.
    pub(super) fn immutable(&mut self, new: &At<'_>, old: &At<'_>) {
        if !same(new.value, old.value) {
            self.invalid(new, IMMUTABLE);
        }
    }
}

/// Equal, where nothing, null and empty are the same (`apiequality.Semantic`).
pub(super) fn same(a: &Value, b: &Value) -> bool {
    let void = |v: &Value| match v {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(Value::is_null),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    match (a, b) {
        _ if void(a) && void(b) => true,
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(k, v)| same(v, b.get(k).unwrap_or(&NULL)))
                && b.iter().all(|(k, v)| a.contains_key(k) || void(v))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b,
    }
}

/// The name of a port (IANA service name).
pub(super) fn port_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 15 {
        errors.push("must be no more than 15 characters".to_owned());
    }
    if !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// A key in the data of a ConfigMap or Secret (`IsConfigMapKey`).
pub(super) fn config_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if key.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        errors.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or \
             'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}
