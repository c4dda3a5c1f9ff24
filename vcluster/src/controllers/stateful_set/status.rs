//! The status of a StatefulSet.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::controllers::{
    history::pod_revision,
    object::{int, is_deleting, text},
    pod,
};

/// Running and ready.
pub(super) fn is_ready(pod: &Value) -> bool {
    pod::phase(pod) == "Running" && pod::is_ready(pod)
}

/// Running and ready for `spec.minReadySeconds`.
pub(super) fn is_available(set: &Value, pod: &Value, now: Timestamp) -> bool {
    is_ready(pod) && pod::is_available(pod, int(set, "/spec/minReadySeconds").unwrap_or(0), now)
}

/// The whole status. When a rolling update is complete the update revision becomes the current one.
pub(super) fn of(set: &Value, current: &str, update: &str, collisions: i64, pods: &[Value], now: Timestamp) -> Value {
    let count = |holds: &dyn Fn(&Value) -> bool| pods.iter().filter(|p| holds(p)).count() as i64;
    let ready = count(&is_ready);
    let of_revision = |revision: &str| count(&|p| !is_deleting(p) && pod_revision(p) == revision);
    let (mut current, mut current_replicas, updated) = (current, of_revision(current), of_revision(update));
    let (replicas, wanted) = (pods.len() as i64, super::wanted(set));
    let rolling = text(set, "/spec/updateStrategy/type") != "OnDelete";
    if rolling && updated == wanted && ready == wanted && replicas == wanted {
        (current, current_replicas) = (update, updated);
    }
    let mut status = Map::new();
    status.insert("observedGeneration".into(), int(set, "/metadata/generation").unwrap_or(0).into());
    status.insert("replicas".into(), replicas.into());
    for (field, number) in
        [("readyReplicas", ready), ("currentReplicas", current_replicas), ("updatedReplicas", updated)]
    {
        if number > 0 {
            status.insert(field.into(), number.into());
        }
    }
    status.insert("availableReplicas".into(), count(&|p| is_available(set, p, now)).into());
    status.insert("currentRevision".into(), current.into());
    status.insert("updateRevision".into(), update.into());
    status.insert("collisionCount".into(), collisions.into());
    if let Some(conditions) = set.pointer("/status/conditions") {
        status.insert("conditions".into(), conditions.clone());
    }
    Value::Object(status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_complete_update_makes_its_revision_the_current_one() {
        let pod = |revision: &str, ready: bool| {
            json!({ "metadata": { "labels": { "controller-revision-hash": revision } },
                "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }] } })
        };
        let set = json!({ "metadata": { "generation": 3 }, "spec": { "replicas": 2 } });
        let half = of(&set, "a", "b", 0, &[pod("a", true), pod("b", false)], Timestamp::UNIX_EPOCH);
        assert_eq!(
            half,
            json!({ "observedGeneration": 3, "replicas": 2, "readyReplicas": 1, "currentReplicas": 1, "updatedReplicas": 1,
                "availableReplicas": 1, "currentRevision": "a", "updateRevision": "b", "collisionCount": 0 })
        );
        let done = of(&set, "a", "b", 0, &[pod("b", true), pod("b", true)], Timestamp::UNIX_EPOCH);
        assert_eq!((&done["currentRevision"], &done["currentReplicas"]), (&json!("b"), &json!(2)));
    }
}
