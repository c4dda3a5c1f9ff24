//! Field errors in upstream's form: apimachinery `field.Error`.

use serde_json::Value;

use crate::validate::FieldError;

/// The path of an error that has none, as Go prints a nil path.
pub(super) const NOWHERE: &str = "<nil>";

/// `a.b`, or `b` at the root.
pub(super) fn child(path: &str, name: &str) -> String {
    if path.is_empty() || path == NOWHERE { name.to_owned() } else { format!("{path}.{name}") }
}

/// `a[b]`
pub(super) fn key(path: &str, key: &str) -> String {
    format!("{path}[{key}]")
}

/// `a[0]`
pub(super) fn index(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

fn at(path: &str) -> String {
    if path.is_empty() { NOWHERE.to_owned() } else { path.to_owned() }
}

fn error(reason: &'static str, path: &str, body: String) -> FieldError {
    FieldError { reason, field: at(path), body }
}

pub(super) fn required(path: &str, why: &str) -> FieldError {
    let body = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
    error("FieldValueRequired", path, body)
}

pub(super) fn invalid(path: &str, value: &Value, why: &str) -> FieldError {
    error("FieldValueInvalid", path, format!("Invalid value: {value}: {why}"))
}

/// Where the value is shown in a form of its own.
pub(super) fn invalid_text(path: &str, shown: &str, why: &str) -> FieldError {
    error("FieldValueInvalid", path, format!("Invalid value: {shown}: {why}"))
}

/// Without the value: it may be large.
pub(super) fn invalid_omitted(path: &str, why: &str) -> FieldError {
    error("FieldValueInvalid", path, format!("Invalid value: {why}"))
}

pub(super) fn type_invalid(path: &str, value: &Value, why: &str) -> FieldError {
    error("FieldValueTypeInvalid", path, format!("Invalid value: {value}: {why}"))
}

pub(super) fn forbidden(path: &str, why: &str) -> FieldError {
    error("FieldValueForbidden", path, format!("Forbidden: {why}"))
}

pub(super) fn duplicate(path: &str, value: &Value) -> FieldError {
    error("FieldValueDuplicate", path, format!("Duplicate value: {value}"))
}

pub(super) fn duplicate_omitted(path: &str) -> FieldError {
    error("FieldValueDuplicate", path, "Duplicate value".to_owned())
}

pub(super) fn not_supported<'a>(
    path: &str,
    value: &Value,
    supported: impl IntoIterator<Item = std::borrow::Cow<'a, str>>,
) -> FieldError {
    let supported: Vec<String> = supported.into_iter().map(|s| format!("{s:?}")).collect();
    error(
        "FieldValueNotSupported",
        path,
        format!("Unsupported value: {value}: supported values: {}", supported.join(", ")),
    )
}

pub(super) fn too_long(path: &str, max: i64) -> FieldError {
    error("FieldValueTooLong", path, format!("Too long: may not be more than {max} bytes"))
}

pub(super) fn too_many(path: &str, actual: usize, max: i64) -> FieldError {
    error("FieldValueTooMany", path, format!("Too many: {actual}: must have at most {max} items"))
}
