//! Strategic merge patch.

use serde_json::Value;

use crate::{catalog::Descriptor, status::ApiError};

/// Strategic merge by the schema's patch strategies and merge keys, with all directives.
///
/// # Errors
/// 400/415/422 as upstream.
pub fn strategic(descriptor: &Descriptor, object: &Value, patch: &Value) -> Result<Value, ApiError> {
    let _ = (descriptor, object, patch);
    Err(ApiError::internal("strategic merge is not built"))
}
