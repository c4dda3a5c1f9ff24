//! The status of a DaemonSet.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{nodes, plan::by_node};
use crate::controllers::{
    history::pod_revision,
    object::{int, name},
    pod,
};

/// The whole status; on each node its oldest pod counts.
pub(super) fn of(set: &Value, nodes: &[Value], pods: &[Value], hash: &str, collisions: i64, now: Timestamp) -> Value {
    let template = nodes::template_pod(set);
    let min_ready = int(set, "/spec/minReadySeconds").unwrap_or(0);
    let map = by_node(nodes, pods);
    let (mut desired, mut current, mut misscheduled, mut ready, mut available, mut updated) = (0, 0, 0, 0, 0, 0);
    for node in nodes {
        let oldest = map.get(name(node)).and_then(|p| p.first());
        if !nodes::fits(&template, node).0 {
            misscheduled += i64::from(oldest.is_some());
            continue;
        }
        desired += 1;
        let Some(pod) = oldest else { continue };
        current += 1;
        ready += i64::from(pod::is_ready(pod));
        available += i64::from(pod::is_available(pod, min_ready, now));
        updated += i64::from(pod_revision(pod) == hash);
    }
    let mut status = Map::new();
    for (field, number) in [
        ("currentNumberScheduled", current),
        ("desiredNumberScheduled", desired),
        ("numberMisscheduled", misscheduled),
        ("numberReady", ready),
        ("observedGeneration", int(set, "/metadata/generation").unwrap_or(0)),
    ] {
        status.insert(field.into(), number.into());
    }
    for (field, number) in [
        ("numberAvailable", available),
        ("numberUnavailable", desired - available),
        ("updatedNumberScheduled", updated),
        ("collisionCount", collisions),
    ] {
        if number > 0 {
            status.insert(field.into(), number.into());
        }
    }
    if let Some(conditions) = set.pointer("/status/conditions") {
        status.insert("conditions".into(), conditions.clone());
    }
    Value::Object(status)
}
