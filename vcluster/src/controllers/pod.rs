//! What controllers want to know of a pod (`pkg/api/v1/pod/util.go`, `pkg/controller/controller_utils.go` upstream).

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::object::{annotation, condition, int, is_deleting, list, text, time};

/// `status.phase`; a pod without status is pending.
pub(super) fn phase(pod: &Value) -> &str {
    match text(pod, "/status/phase") {
        "" => "Pending",
        phase => phase,
    }
}

/// Has ended for good.
pub(super) fn is_terminal(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Neither ended nor being deleted: counts for its controller.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_terminal(pod) && !is_deleting(pod)
}

/// Being deleted but not yet ended.
pub(super) fn is_terminating(pod: &Value) -> bool {
    !is_terminal(pod) && is_deleting(pod)
}

/// The condition Ready is True.
pub(super) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|c| text(c, "/status") == "True")
}

/// When it became ready.
pub(super) fn ready_since(pod: &Value) -> Option<Timestamp> {
    condition(pod, "Ready").filter(|c| text(c, "/status") == "True").and_then(|c| time(c, "/lastTransitionTime"))
}

/// When it is, or will be, available: ready for `min_ready_seconds`. None when it is not ready.
pub(super) fn available_at(pod: &Value, min_ready_seconds: i64) -> Option<Timestamp> {
    if !is_ready(pod) {
        return None;
    }
    if min_ready_seconds == 0 {
        return Some(Timestamp::UNIX_EPOCH);
    }
    ready_since(pod)?.checked_add(SignedDuration::from_secs(min_ready_seconds)).ok()
}

/// Ready for at least `min_ready_seconds`.
pub(super) fn is_available(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> bool {
    available_at(pod, min_ready_seconds).is_some_and(|at| at <= now)
}

/// Restarts of the container that restarted most, ordinary containers and sidecars.
pub(super) fn most_restarts(pod: &Value) -> i64 {
    list(pod, "/status/containerStatuses").iter().filter_map(|s| int(s, "/restartCount")).max().unwrap_or(0)
}

/// `controller.kubernetes.io/pod-deletion-cost`; 0 when absent or not a number.
pub(super) fn deletion_cost(pod: &Value) -> i32 {
    annotation(pod, "controller.kubernetes.io/pod-deletion-cost").and_then(|c| c.parse().ok()).unwrap_or(0)
}

/// A pod of a template, controlled by `owner`, with a generated name.
pub(super) fn from_template(template: &Value, owner: &Value, reference: Value) -> Value {
    let mut metadata = json!({
        "generateName": name_prefix(super::object::name(owner)),
        "namespace": super::object::namespace(owner),
        "ownerReferences": [reference],
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.pointer("/metadata").and_then(|m| m.get(field)).filter(|v| !v.is_null()) {
            metadata[field] = value.clone();
        }
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] })
}

/// `name-`, or the bare name where a dash would make it too long for a DNS subdomain.
pub(super) fn name_prefix(owner: &str) -> String {
    if owner.len() < 253 { format!("{owner}-") } else { owner.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn availability_counts_from_the_transition_to_ready() {
        let pod = json!({ "status": { "phase": "Running", "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z" } ] } });
        let at = |s: &str| s.parse::<Timestamp>().unwrap();
        assert!(is_available(&pod, 0, at("2026-01-01T00:00:10Z")));
        assert!(!is_available(&pod, 5, at("2026-01-01T00:00:14Z")));
        assert!(is_available(&pod, 5, at("2026-01-01T00:00:15Z")));
        assert!(!is_available(&json!({}), 0, at("2026-01-01T00:00:15Z")));
    }
}
