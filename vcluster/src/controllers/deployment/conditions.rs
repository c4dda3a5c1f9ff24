//! Conditions of a Deployment.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::object::{list, rfc3339, text};

/// A condition as of now.
pub(super) fn new(kind: &str, status: &str, reason: &str, message: String, now: Timestamp) -> Value {
    json!({
        "type": kind, "status": status, "lastUpdateTime": rfc3339(now), "lastTransitionTime": rfc3339(now),
        "reason": reason, "message": message,
    })
}

pub(super) fn progressing(status: &str, reason: &str, message: String, now: Timestamp) -> Value {
    new("Progressing", status, reason, message, now)
}

/// The condition of a type in a status.
pub(super) fn get<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    list(status, "/conditions").iter().find(|c| text(c, "/type") == kind)
}

/// Sets a condition. One with the same status and reason stays untouched; with the same status the transition time stays.
pub(super) fn set(status: &mut Value, mut condition: Value) {
    let kind = text(&condition, "/type").to_owned();
    if let Some(current) = get(status, &kind) {
        if current["status"] == condition["status"] && current["reason"] == condition["reason"] {
            return;
        }
        if current["status"] == condition["status"] {
            condition["lastTransitionTime"] = current["lastTransitionTime"].clone();
        }
    }
    remove(status, &kind);
    match status["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => status["conditions"] = json!([condition]),
    }
}

/// Removes a condition.
pub(super) fn remove(status: &mut Value, kind: &str) {
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|c| text(c, "/type") != kind);
        if conditions.is_empty()
            && let Some(status) = status.as_object_mut()
        {
            status.remove("conditions");
        }
    }
}
