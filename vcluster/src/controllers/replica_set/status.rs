//! The status of a ReplicaSet or ReplicationController.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use vctl_machinery::selector::LabelSelector;

use crate::controllers::{
    object::{int, labels, list, rfc3339, text},
    pod,
};

/// The whole status; `terminating` is left out where the kind has no such field. `failure` is the reason and message of what could not be done in this reconcile.
pub(super) fn of(
    set: &Value,
    active: &[Value],
    terminating: Option<usize>,
    failure: Option<(&str, &str)>,
    now: Timestamp,
) -> Value {
    let template = LabelSelector::from_object(&json!({ "matchLabels": set.pointer("/spec/template/metadata/labels") }))
        .unwrap_or_default();
    let min_ready = int(set, "/spec/minReadySeconds").unwrap_or(0);
    let mut status = Map::new();
    status.insert("replicas".into(), active.len().into());
    let mut count = |field: &str, number: usize| {
        if number > 0 {
            status.insert(field.into(), number.into());
        }
    };
    count("fullyLabeledReplicas", active.iter().filter(|p| template.matches(labels(p))).count());
    count("readyReplicas", active.iter().filter(|p| pod::is_ready(p)).count());
    count("availableReplicas", active.iter().filter(|p| pod::is_available(p, min_ready, now)).count());
    if let Some(terminating) = terminating {
        status.insert("terminatingReplicas".into(), terminating.into());
    }
    status.insert("observedGeneration".into(), int(set, "/metadata/generation").unwrap_or(0).into());
    let mut conditions = list(set, "/status/conditions").to_vec();
    let present = conditions.iter().any(|c| text(c, "/type") == "ReplicaFailure");
    match failure {
        Some((reason, message)) if !present => conditions.push(json!({
            "type": "ReplicaFailure", "status": "True", "lastTransitionTime": rfc3339(now),
            "reason": reason, "message": message,
        })),
        None if present => conditions.retain(|c| text(c, "/type") != "ReplicaFailure"),
        _ => {}
    }
    if !conditions.is_empty() {
        status.insert("conditions".into(), conditions.into());
    }
    Value::Object(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_upstreams_and_a_failure_shows_until_it_is_over() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let mut set = json!({
            "metadata": { "generation": 4 },
            "spec": { "minReadySeconds": 30, "template": { "metadata": { "labels": { "a": "b", "c": "d" } } } },
        });
        let pod = |labels: Value, since: &str| {
            json!({ "metadata": { "labels": labels }, "status": { "phase": "Running", "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": since } ] } })
        };
        let pods = [
            pod(json!({ "a": "b", "c": "d" }), "2026-01-01T00:00:00Z"),
            pod(json!({ "a": "b" }), "2026-01-01T00:00:45Z"),
            json!({}),
        ];
        let status = of(&set, &pods, Some(1), Some(("FailedCreate", "no")), now);
        assert_eq!(
            status,
            json!({
                "replicas": 3, "fullyLabeledReplicas": 1, "readyReplicas": 2, "availableReplicas": 1, "terminatingReplicas": 1,
                "observedGeneration": 4,
                "conditions": [{ "type": "ReplicaFailure", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z",
                    "reason": "FailedCreate", "message": "no" }],
            })
        );
        set["status"] = status;
        assert_eq!(
            of(&set, &[], Some(0), None, now),
            json!({ "replicas": 0, "terminatingReplicas": 0, "observedGeneration": 4 })
        );
    }
}
