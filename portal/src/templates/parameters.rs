//! Checks parameters: declared, of the right type, within their limits.

use std::collections::BTreeMap;

use rand::{Rng, distr::Alphanumeric};
use serde_json::{Number, Value};
use vctl_api::rest::{Parameter, ParameterType};

use crate::error::{Error, nearest};

/// Length of a password that is made because none was given.
const GENERATED: usize = 24;
/// Longest text of a parameter in bytes.
const TEXT_LIMIT: usize = 64 * 1024;
/// Largest compiled regular expression in bytes.
const PATTERN_SIZE: usize = 1024 * 1024;

/// Values by name, all declared parameters of them that have one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resolved {
    /// What may be shown.
    pub public: BTreeMap<String, Value>,
    /// Passwords.
    pub secret: BTreeMap<String, String>,
}

/// Checks what was given, fills in defaults, and makes passwords that are neither given nor required.
///
/// # Errors
/// [`Error::Invalid`] naming the parameter, what it takes, and near names of an unknown one.
pub fn resolve(declared: &[Parameter], given: &BTreeMap<String, Value>) -> Result<Resolved, Error> {
    for name in given.keys() {
        if !declared.iter().any(|p| p.name == *name) {
            return Err(unknown(name, declared));
        }
    }
    let mut resolved = Resolved::default();
    for parameter in declared {
        let value = match given.get(&parameter.name).or(parameter.default.as_ref()) {
            Some(value) => check(parameter, value).map_err(|e| wrong(parameter, &e))?,
            None if parameter.required => return Err(wrong(parameter, "it must be given")),
            None if parameter.kind == ParameterType::Password => Value::String(generate()),
            None => Value::Null,
        };
        match (parameter.kind, value) {
            (ParameterType::Password, Value::String(text)) => {
                resolved.secret.insert(parameter.name.clone(), text);
            }
            (_, value) => {
                resolved.public.insert(parameter.name.clone(), value);
            }
        }
    }
    Ok(resolved)
}

/// Brings a value to the parameter's type and checks its limits; strings are parsed.
pub(crate) fn check(parameter: &Parameter, value: &Value) -> Result<Value, String> {
    let shown = || if parameter.kind == ParameterType::Password { "the value".to_owned() } else { value.to_string() };
    let value = match (parameter.kind, value) {
        (
            ParameterType::String
            | ParameterType::Text
            | ParameterType::Password
            | ParameterType::Choice
            | ParameterType::Resource,
            Value::String(_),
        ) => value.clone(),
        (ParameterType::String | ParameterType::Text, Value::Number(_) | Value::Bool(_)) => {
            Value::String(value.to_string())
        }
        (ParameterType::Number, Value::Number(_)) => value.clone(),
        (ParameterType::Number, Value::String(text)) => {
            Value::Number(number(text).ok_or_else(|| format!("{} is not a number", shown()))?)
        }
        (ParameterType::Boolean, Value::Bool(_)) => value.clone(),
        (ParameterType::Boolean, Value::String(text)) if text == "true" => Value::Bool(true),
        (ParameterType::Boolean, Value::String(text)) if text == "false" => Value::Bool(false),
        (ParameterType::Boolean, _) => return Err(format!("{} is neither true nor false", shown())),
        (kind, _) => return Err(format!("{} is not a {}", shown(), kind_name(kind))),
    };
    if let Value::String(text) = &value {
        if text.len() > TEXT_LIMIT {
            return Err(format!("it has {} bytes; at most {TEXT_LIMIT} are allowed", text.len()));
        }
        if parameter.kind == ParameterType::Resource && text.is_empty() {
            return Err("it names no resource".to_owned());
        }
        if parameter.kind == ParameterType::Choice && !parameter.choices.contains(text) {
            return Err(format!("{} is not one of {}", shown(), parameter.choices.join(", ")));
        }
        if let Some(pattern) = &parameter.pattern
            && !self::pattern(pattern)?.is_match(text)
        {
            return Err(format!("{} does not match {pattern}", shown()));
        }
    }
    let outside = |number: f64| {
        parameter.minimum.is_some_and(|least| number < least) || parameter.maximum.is_some_and(|most| number > most)
    };
    if value.as_f64().is_some_and(outside) {
        return Err(format!("{} is not {}", shown(), range(parameter)));
    }
    if let Some(number) = value.as_f64() {
        if parameter.integer && number.fract() != 0.0 {
            return Err(format!("{} is not a whole number", shown()));
        }
        let base = parameter.minimum.unwrap_or_default();
        let off = parameter.step.is_some_and(|step| {
            let steps = (number - base) / step;
            (steps - steps.round()).abs() > 1e-9
        });
        if off {
            let step = parameter.step.unwrap_or_default();
            return Err(format!("{} is not {base} plus a multiple of {step}", shown()));
        }
    }
    Ok(value)
}

/// A regular expression that the whole of a text must match; of bounded size, and matched in linear time.
pub(crate) fn pattern(pattern: &str) -> Result<regex::Regex, String> {
    let whole = format!("^(?:{pattern})$");
    let made = regex::RegexBuilder::new(&whole).size_limit(PATTERN_SIZE).build();
    made.map_err(|e| format!("pattern: {e}"))
}

fn number(text: &str) -> Option<Number> {
    let text = text.trim();
    text.parse::<i64>().map(Number::from).ok().or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
}

fn range(parameter: &Parameter) -> String {
    match (parameter.minimum, parameter.maximum) {
        (Some(least), Some(most)) => format!("between {least} and {most}"),
        (Some(least), None) => format!("{least} or more"),
        (_, most) => format!("{} or less", most.unwrap_or(f64::INFINITY)),
    }
}

fn kind_name(kind: ParameterType) -> &'static str {
    match kind {
        ParameterType::String => "string",
        ParameterType::Number => "number",
        ParameterType::Boolean => "boolean",
        ParameterType::Password => "password (a string)",
        ParameterType::Choice => "string",
        ParameterType::Text => "text",
        ParameterType::Resource => "name of a resource",
    }
}

fn unknown(name: &str, declared: &[Parameter]) -> Error {
    let near = nearest(name, declared.iter().map(|p| p.name.as_str()));
    let hint = if !near.is_empty() {
        format!("did you mean {}?", near.join(", "))
    } else if declared.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", declared.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", "))
    };
    Error::Invalid {
        kind: "unknown-parameter",
        detail: format!("the template has no parameter {name:?}: {hint}"),
        nearest: near,
    }
}

fn wrong(parameter: &Parameter, why: &str) -> Error {
    let help = if parameter.help.is_empty() { String::new() } else { format!(" ({})", parameter.help) };
    let detail = format!("parameter {:?}{help}: {why}; set it with --set {}=VALUE", parameter.name, parameter.name);
    Error::invalid("invalid-parameter", detail)
}

fn generate() -> String {
    rand::rng().sample_iter(Alphanumeric).take(GENERATED).map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declared() -> Vec<Parameter> {
        serde_json::from_value(json!([
            {"name": "greeting", "type": "string", "default": "hi", "pattern": "[a-z ]+"},
            {"name": "replicas", "type": "number", "minimum": 1.0, "maximum": 3.0, "default": 1},
            {"name": "debug", "type": "boolean", "default": false},
            {"name": "size", "type": "choice", "choices": ["small", "large"], "required": true},
            {"name": "password", "type": "password"},
            {"name": "motd", "type": "text", "section": "Texts", "default": "one\ntwo"},
            {"name": "memory", "type": "number", "integer": true, "minimum": 64, "step": 32, "default": 128},
        ]))
        .expect("parameters")
    }

    fn resolve_json(given: Value) -> Result<Resolved, Error> {
        resolve(&declared(), &serde_json::from_value(given).expect("map"))
    }

    #[test]
    fn fills_defaults_parses_strings_and_keeps_passwords_apart() {
        let got = resolve_json(json!({"size": "small", "replicas": "2", "debug": "true"})).expect("resolved");
        assert_eq!(got.public.get("replicas"), Some(&json!(2)));
        assert_eq!(got.public.get("debug"), Some(&json!(true)));
        assert_eq!(got.public.get("greeting"), Some(&json!("hi")));
        assert!(!got.public.contains_key("password"));
        assert_eq!(got.secret.get("password").map(String::len), Some(GENERATED));
    }

    #[test]
    fn refuses_with_a_text_that_says_what_to_do() {
        let cases = [
            (json!({"size": "small", "repilcas": 1}), "did you mean replicas?"),
            (json!({}), "parameter \"size\": it must be given; set it with --set size=VALUE"),
            (json!({"size": "huge"}), "\"huge\" is not one of small, large"),
            (json!({"size": "small", "replicas": "many"}), "\"many\" is not a number"),
            (json!({"size": "small", "replicas": 4}), "4 is not between 1 and 3"),
            (json!({"size": "small", "replicas": [1]}), "[1] is not a number"),
            (json!({"size": "small", "debug": "yes"}), "\"yes\" is neither true nor false"),
            (json!({"size": "small", "greeting": "HI"}), "\"HI\" does not match [a-z ]+"),
            (json!({"size": "small", "password": 5}), "the value is not a password"),
            (json!({"size": "small", "memory": 64.5}), "64.5 is not a whole number"),
            (json!({"size": "small", "memory": 100}), "100 is not 64 plus a multiple of 32"),
            (json!({"size": "small", "motd": []}), "[] is not a text"),
        ];
        for (given, expected) in cases {
            let error = resolve_json(given.clone()).expect_err("refused").to_string();
            assert!(error.contains(expected), "{given}: {error}");
        }
    }
}
