//! Server-side apply and field ownership (`metadata.managedFields`).

use serde_json::Value;

use crate::{catalog::Descriptor, status::ApiError};

/// Who changes an object, and how.
#[derive(Debug, Clone)]
pub struct Manager<'a> {
    /// Field manager.
    pub name: &'a str,
    /// Subresource through which, or empty.
    pub subresource: &'a str,
    /// RFC 3339 time with seconds.
    pub now: &'a str,
}

/// Merges an apply configuration into the live object (none: create) and records ownership. Returns the new object, equal to the
/// live one when nothing changes (then also `managedFields` is untouched).
///
/// # Errors
/// 409 Conflict with `FieldManagerConflict` causes unless `force`; 400/422 for configurations that cannot be merged.
pub fn apply(
    descriptor: &Descriptor,
    live: Option<&Value>,
    configuration: &Value,
    manager: &Manager<'_>,
    force: bool,
) -> Result<Value, ApiError> {
    let _ = (descriptor, live, configuration, manager, force);
    Err(ApiError::internal("not built"))
}

/// Records ownership of what a create, update or patch changed: sets `metadata.managedFields` of `new`, in place.
/// `old` is none on create.
pub fn record_update(descriptor: &Descriptor, old: Option<&Value>, new: &mut Value, manager: &Manager<'_>) {
    let _ = (descriptor, old, new, manager);
}
