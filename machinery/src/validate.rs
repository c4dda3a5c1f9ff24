//! Validation per kind, with upstream's field paths, reasons and messages.

use serde_json::Value;

use crate::catalog::Descriptor;

/// One field that is not right: `field.Error` of apimachinery.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// `FieldValueRequired`, `FieldValueInvalid`, `FieldValueNotSupported`, `FieldValueForbidden`, `FieldValueTooLong`,
    /// `FieldValueTooMany`, `FieldValueDuplicate`, `FieldValueNotFound`, `FieldValueTypeInvalid`, `InternalError`.
    pub reason: &'static str,
    /// Path: `spec.containers[0].name`.
    pub field: String,
    /// The text after `path: `, such as `Required value` or `Invalid value: "x": must be ..`.
    pub body: String,
}

impl FieldError {
    /// The message without the path, as in `causes[].message`.
    pub fn body(&self) -> &str {
        &self.body
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// Checks a new object (after defaulting, with its metadata filled in).
pub fn create(descriptor: &Descriptor, object: &Value) -> Vec<FieldError> {
    let _ = (descriptor, object);
    Vec::new()
}

/// Checks a change: the new object by itself, and what must not change. `subresource` is "" or "status", "scale", ..
pub fn update(descriptor: &Descriptor, subresource: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let _ = (descriptor, subresource, new, old);
    Vec::new()
}
