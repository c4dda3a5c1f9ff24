//! JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic merge patch.

mod json;
mod merge;
mod strategic;

pub use json::{MAX_OPERATIONS, json};
pub use merge::merge;
pub use strategic::strategic;

use serde_json::json;

use crate::status::ApiError;

/// 422 for a patch that does not apply, as apimachinery's `NewGenericServerResponse` words it: the cause carries the reason.
fn unprocessable(why: impl std::fmt::Display) -> ApiError {
    ApiError {
        code: 422,
        reason: "Invalid",
        message: "the server rejected our request due to an error in our request".to_owned(),
        details: json!({ "causes": [{ "reason": "UnexpectedServerResponse", "message": why.to_string() }] }),
    }
}
