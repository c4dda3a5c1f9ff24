//! Kubernetes' named formats: `format.dns1123Label().validate(x)`.

use crate::{cel::value::Value, crd::matches_format, names};

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

pub(in crate::cel) fn call(function: &str, member: bool, values: &[Value]) -> Option<Result<Value, String>> {
    let named = |name: &str| NAMES.into_iter().find(|n| *n == name);
    Some(match (function, values) {
        ("format.named", [Value::String(name)]) => {
            Ok(named(name).map_or_else(Value::none, |n| Value::some(Value::Format(n))))
        }
        ("validate", [Value::Format(name), Value::String(text)]) if member => {
            let wrong = validate(name, text);
            Ok(if wrong.is_empty() {
                Value::none()
            } else {
                Value::some(Value::list(wrong.iter().map(|w| Value::string(w)).collect()))
            })
        }
        (_, []) => match function.strip_prefix("format.").and_then(named) {
            Some(name) => Ok(Value::Format(name)),
            None => return None,
        },
        _ => return None,
    })
}

fn validate(format: &str, text: &str) -> Vec<String> {
    // What is appended to a prefix makes a trailing separator right.
    let masked = text.strip_suffix('-').map_or_else(|| text.to_owned(), |base| format!("{base}a"));
    match format {
        "dns1123Label" => names::dns_label_errors(text),
        "dns1123Subdomain" => names::dns_subdomain_errors(text),
        "dns1035Label" => names::dns_1035_label_errors(text),
        "dns1123LabelPrefix" => names::dns_label_errors(&masked),
        "dns1123SubdomainPrefix" => names::dns_subdomain_errors(&masked),
        "dns1035LabelPrefix" => names::dns_1035_label_errors(&masked),
        "qualifiedName" => names::qualified_name_errors(text),
        "labelValue" => names::label_value_errors(text),
        "uuid" if !matches_format("uuid", text) => vec!["does not match the UUID format".to_owned()],
        "byte" if !matches_format("byte", text) => vec!["invalid base64".to_owned()],
        "date" if !matches_format("date", text) => vec!["invalid date".to_owned()],
        "datetime" if !matches_format("date-time", text) => vec!["invalid datetime".to_owned()],
        "uri" if !matches_format("uri", text) => vec![format!("parse {text:?}: invalid URI for request")],
        _ => Vec::new(),
    }
}
