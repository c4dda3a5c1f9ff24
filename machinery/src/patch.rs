//! JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic merge patch.

mod json;
mod merge;
mod strategic;

pub use json::{MAX_OPERATIONS, json};
pub use merge::merge;
pub use strategic::strategic;

use serde_json::json;

use crate::status::ApiError;

/// 500 for what upstream's patching does not know how to answer: an error that is no API error has no reason.
fn unknown(why: String) -> ApiError {
    ApiError { code: 500, reason: "", message: why, details: serde_json::Value::Null }
}

/// A document as Go prints it with `%+v`: upstream's messages show patches so.
pub fn go_text(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().map(|(k, v)| format!("{k}:{}", go_text(v))).collect();
            entries.sort();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

/// 422 for a patch that does not apply, as apimachinery's `NewGenericServerResponse` words it: the cause carries the reason.
fn unprocessable(why: impl std::fmt::Display) -> ApiError {
    ApiError {
        code: 422,
        reason: "Invalid",
        message: "the server rejected our request due to an error in our request".to_owned(),
        details: json!({ "causes": [{ "reason": "UnexpectedServerResponse", "message": why.to_string() }] }),
    }
}
