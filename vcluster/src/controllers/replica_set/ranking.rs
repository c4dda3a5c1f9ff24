//! Which pods go first when there are too many (`ActivePodsWithRanks` upstream).

use std::{cmp::Ordering, collections::HashMap};

use jiff::Timestamp;
use serde_json::Value;

use crate::controllers::{
    object::{text, time, uid},
    pod,
};

/// The `count` pods that are least missed: unassigned, pending, not ready, cheap (deletion cost), crowded on their node, ready or
/// created recently (by order of magnitude, then by UID), restarted often.
pub(in crate::controllers) fn first_to_go(
    active: &[Value],
    related: &[Value],
    count: usize,
    now: Timestamp,
) -> Vec<Value> {
    if count >= active.len() {
        return active.to_vec();
    }
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related {
        *on_node.entry(node(pod)).or_default() += 1;
    }
    let mut order: Vec<&Value> = active.iter().collect();
    order.sort_by(|a, b| {
        let rank = |p: &Value| on_node.get(node(p)).copied().unwrap_or(0);
        compare(a, rank(a), b, rank(b), now)
    });
    order.into_iter().take(count).cloned().collect()
}

fn node(pod: &Value) -> &str {
    text(pod, "/spec/nodeName")
}

fn phase_order(pod: &Value) -> u8 {
    match pod::phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

/// `Less`: the first goes before the second.
fn compare(a: &Value, rank_a: usize, b: &Value, rank_b: usize, now: Timestamp) -> Ordering {
    let assigned = |p: &Value| !node(p).is_empty();
    assigned(a)
        .cmp(&assigned(b))
        .then_with(|| phase_order(a).cmp(&phase_order(b)))
        .then_with(|| pod::is_ready(a).cmp(&pod::is_ready(b)))
        .then_with(|| pod::deletion_cost(a).cmp(&pod::deletion_cost(b)))
        .then_with(|| rank_b.cmp(&rank_a))
        .then_with(|| match (pod::ready_since(a), pod::ready_since(b)) {
            (Some(ta), Some(tb)) if ta != tb => younger_first(ta, tb, now).then_with(|| uid(a).cmp(uid(b))),
            _ => Ordering::Equal,
        })
        .then_with(|| pod::most_restarts(b).cmp(&pod::most_restarts(a)))
        .then_with(|| match (created(a), created(b)) {
            (Some(ta), Some(tb)) if ta != tb => younger_first(ta, tb, now).then_with(|| uid(a).cmp(uid(b))),
            _ => Ordering::Equal,
        })
}

fn created(pod: &Value) -> Option<Timestamp> {
    time(pod, "/metadata/creationTimestamp")
}

/// Compares ages by their power of two in nanoseconds, so that pods of about the same age go in random order.
fn younger_first(a: Timestamp, b: Timestamp, now: Timestamp) -> Ordering {
    let magnitude = |t: Timestamp| {
        let age = now.duration_since(t).as_nanos();
        if age > 0 { i64::from(age.ilog2()) } else { -1 }
    };
    magnitude(a).cmp(&magnitude(b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, node: &str, phase: &str, ready_since: Option<&str>) -> Value {
        let conditions = ready_since.map(|t| json!([{ "type": "Ready", "status": "True", "lastTransitionTime": t }]));
        json!({
            "metadata": { "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "nodeName": node }, "status": { "phase": phase, "conditions": conditions },
        })
    }

    #[test]
    fn the_least_missed_pod_goes_first() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let old = Some("2026-01-01T00:00:00Z");
        let recent = Some("2026-01-01T23:59:50Z");
        let mut cheap = pod("c", "n1", "Running", old);
        cheap["metadata"]["annotations"] = json!({ "controller.kubernetes.io/pod-deletion-cost": "-1" });
        let mut restarted = pod("r", "n1", "Running", old);
        restarted["status"]["containerStatuses"] = json!([{ "restartCount": 3 }]);
        let plain = pod("p", "n1", "Running", old);
        for (what, first, second) in [
            ("unassigned", pod("a", "", "Pending", None), pod("b", "n1", "Pending", None)),
            ("pending", pod("a", "n1", "Pending", None), pod("b", "n1", "Running", None)),
            ("not ready", pod("a", "n1", "Running", None), plain.clone()),
            ("cheap", cheap, plain.clone()),
            ("recently ready", pod("z", "n1", "Running", recent), plain.clone()),
            ("restarted", restarted, plain.clone()),
        ] {
            let gone = first_to_go(&[second.clone(), first.clone()], &[], 1, now);
            assert_eq!(uid(&gone[0]), uid(&first), "{what}");
            let gone = first_to_go(&[first.clone(), second], &[], 1, now);
            assert_eq!(uid(&gone[0]), uid(&first), "{what}, other order");
        }
    }

    #[test]
    fn of_equal_pods_the_one_on_the_crowded_node_goes_first() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let on = |uid: &str, node: &str| pod(uid, node, "Running", Some("2026-01-01T00:00:00Z"));
        let pods = [on("a", "n1"), on("b", "n2"), on("c", "n2")];
        let gone = first_to_go(&pods, &pods, 1, now);
        assert_eq!(node(&gone[0]), "n2");
    }
}
