//! Failures of the store in the words of the API.

use serde_json::{Value, json};
use vctl_machinery::status::ApiError;
use vctl_store::StoreError;

/// What a client is told. Conflicts are decided where the write is known and never come here.
pub(crate) fn error(e: StoreError) -> ApiError {
    match e {
        StoreError::Compacted { requested, oldest } => {
            ApiError::expired(format!("too old resource version: {requested} ({oldest})"))
        }
        StoreError::Future { requested, newest } => ApiError::resource_version_too_large(requested, newest),
        StoreError::NoTenant(_) => gone(),
        StoreError::Closed => unavailable("the server is shutting down, please try again later"),
        // Paths and addresses are the operator's.
        StoreError::Locked(_) | StoreError::Unusable(_) | StoreError::Backend(_) => {
            tracing::error!(error = %e, "a request failed: the store cannot be used");
            ApiError::internal("the store cannot be used at the moment; the server's log says why")
        }
        StoreError::Conflict { .. } => ApiError::internal(e),
    }
}

/// 503.
pub(crate) fn unavailable(message: &str) -> ApiError {
    ApiError {
        code: 503,
        reason: "ServiceUnavailable",
        message: message.to_owned(),
        details: json!({ "retryAfterSeconds": 1 }),
    }
}

/// The virtual cluster is not there (any more).
pub(crate) fn gone() -> ApiError {
    ApiError {
        code: 404,
        reason: "NotFound",
        message: "the virtual cluster does not exist".into(),
        details: Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_operators_is_not_told() {
        let refused = error(StoreError::Backend("/srv/data/store.db: No space left on device".into()));
        assert_eq!(refused.code, 500);
        assert!(!refused.message.contains("/srv") && !refused.details.to_string().contains("/srv"), "{refused:?}");
    }
}
