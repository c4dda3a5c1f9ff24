//! JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic merge patch.

use serde_json::Value;

use crate::{catalog::Descriptor, status::ApiError};

/// RFC 6902. At most 10,000 operations.
///
/// # Errors
/// 422 for a failed `test` or a path that does not apply, 400 for a patch that is none, 413 for too many operations.
pub fn json(object: &Value, patch: &Value) -> Result<Value, ApiError> {
    let _ = (object, patch);
    Err(ApiError::internal("not built"))
}

/// RFC 7386.
pub fn merge(object: &Value, patch: &Value) -> Value {
    let _ = patch;
    object.clone()
}

/// Strategic merge by the schema's patch strategies and merge keys, with all directives.
///
/// # Errors
/// 400/415/422 as upstream.
pub fn strategic(descriptor: &Descriptor, object: &Value, patch: &Value) -> Result<Value, ApiError> {
    let _ = (descriptor, object, patch);
    Err(ApiError::internal("not built"))
}
