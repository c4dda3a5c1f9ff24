//! What is to be done with the pods of a StatefulSet; pure. One plan is one step: what it changes leads to the next reconcile.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    identity,
    status::{is_available, is_ready},
};
use crate::controllers::{
    history::pod_revision,
    int_or_percent::scaled,
    object::{int, is_deleting, name, text, uid},
    pod,
};

/// Pods created in one reconcile of a Parallel set.
const BURST: usize = 500;

/// One thing to do, in order.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Create the pod of this ordinal, with its claims.
    Create(i64),
    Delete(Value),
    /// Create claims of a pending pod that are missing.
    Claims(Value),
    /// Bring labels, volumes and claims of a pod in line with its ordinal.
    Repair(Value),
    /// Bring the owners of the claims of a pod in line with the retention policy.
    Retain(Value),
}

/// `pods` in order of their ordinals; `update` is the name of the revision they are to have.
pub(super) fn plan(set: &Value, pods: &[Value], update: &str, now: Timestamp) -> Vec<Step> {
    let ordered = text(set, "/spec/podManagementPolicy") != "Parallel";
    let mut steps = Vec::new();
    let ordinal = |p: &Value| identity::ordinal(name(set), name(p)).unwrap_or(-1);
    let (replicas, mut condemned): (Vec<&Value>, Vec<&Value>) =
        pods.iter().partition(|p| identity::in_range(set, ordinal(p)));
    condemned.reverse();
    let first = identity::start(set);
    let slots: Vec<(i64, Option<&Value>)> =
        (first..first + super::wanted(set)).map(|o| (o, replicas.iter().find(|p| ordinal(p) == o).copied())).collect();
    let unavailable = |p: &Value| is_deleting(p) || !is_available(set, p, now);

    let mut created = 0;
    for (ordinal, slot) in &slots {
        let Some(replica) = slot else {
            if created < BURST {
                steps.push(Step::Create(*ordinal));
                created += 1;
            }
            if ordered {
                return steps;
            }
            continue;
        };
        if pod::is_terminal(replica) {
            // Evicted, or ended for another reason: a StatefulSet's pod is to run. Its successor comes when it is gone.
            if !is_deleting(replica) {
                steps.push(Step::Delete((*replica).clone()));
            }
            if ordered {
                return steps;
            }
            continue;
        }
        if pod::phase(replica) == "Pending" && !is_deleting(replica) {
            steps.push(Step::Claims((*replica).clone()));
        }
        if ordered && unavailable(replica) {
            return steps;
        }
        if !identity::matches(set, replica) {
            steps.push(Step::Repair((*replica).clone()));
        } else if has_claims(set) && !is_deleting(replica) {
            steps.push(Step::Retain((*replica).clone()));
        }
    }
    if has_claims(set) {
        steps.extend(condemned.iter().filter(|p| !is_deleting(p)).map(|p| Step::Retain((*p).clone())));
    }
    let before_scaling = steps.len();
    scale_down(set, &slots, &condemned, ordered, now, &mut steps);
    if ordered && (steps.len() > before_scaling || !condemned.is_empty()) {
        return steps;
    }
    if text(set, "/spec/updateStrategy/type") != "OnDelete" {
        roll(set, &slots, update, &unavailable, &mut steps);
    }
    steps
}

fn has_claims(set: &Value) -> bool {
    !crate::controllers::object::list(set, "/spec/volumeClaimTemplates").is_empty()
}

/// Deletes what is not wanted any more: in order from the highest ordinal, one after the other and none before all others are available,
/// but for the first that is not.
fn scale_down(
    set: &Value,
    slots: &[(i64, Option<&Value>)],
    condemned: &[&Value],
    ordered: bool,
    now: Timestamp,
    steps: &mut Vec<Step>,
) {
    if !ordered {
        steps.extend(condemned.iter().filter(|p| !is_deleting(p)).map(|p| Step::Delete((*p).clone())));
        return;
    }
    let Some(target) = condemned.first() else { return };
    if is_deleting(target) {
        return;
    }
    let unavailable = |p: &&Value| is_deleting(p) || !is_available(set, p, now);
    let first_unavailable = slots
        .iter()
        .filter_map(|(_, p)| *p)
        .find(unavailable)
        .or_else(|| condemned.iter().rev().copied().find(unavailable));
    let waits = !(is_ready(target) && is_available(set, target, now));
    if waits && first_unavailable.is_none_or(|f| uid(f) != uid(target)) {
        return;
    }
    steps.push(Step::Delete((*target).clone()));
}

/// Replaces pods of other revisions, from the highest ordinal down to the partition: `maxUnavailable` (1) at a time.
fn roll(
    set: &Value,
    slots: &[(i64, Option<&Value>)],
    update: &str,
    unavailable: &dyn Fn(&Value) -> bool,
    steps: &mut Vec<Step>,
) {
    let rolling = set.pointer("/spec/updateStrategy/rollingUpdate").unwrap_or(&Value::Null);
    let partition = usize::try_from(int(rolling, "/partition").unwrap_or(0)).unwrap_or(0);
    let outdated = |p: &Value| pod_revision(p) != update && !is_deleting(p) && !pod::is_terminal(p);
    if let Some(most) = rolling.get("maxUnavailable").filter(|m| !m.is_null()) {
        let most = scaled(most, slots.len() as i64, false).max(1) as usize;
        let missing = slots.iter().filter(|(_, p)| p.is_none_or(unavailable)).count();
        let targets = slots.iter().skip(partition).rev().filter_map(|(_, p)| *p).filter(|p| outdated(p));
        steps.extend(targets.take(most.saturating_sub(missing)).map(|p| Step::Delete(p.clone())));
        return;
    }
    for (_, slot) in slots.iter().skip(partition).rev() {
        // One that is missing was created by this very plan.
        let Some(replica) = slot else { return };
        if outdated(replica) {
            steps.push(Step::Delete((*replica).clone()));
            return;
        }
        if unavailable(replica) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(replicas: i64, policy: &str) -> Value {
        json!({ "metadata": { "name": "web" }, "spec": { "replicas": replicas, "podManagementPolicy": policy,
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } } } })
    }

    fn pod(ordinal: i64, revision: &str, ready: bool) -> Value {
        json!({
            "metadata": { "name": format!("web-{ordinal}"), "uid": ordinal.to_string(), "labels": {
                "controller-revision-hash": revision, "statefulset.kubernetes.io/pod-name": format!("web-{ordinal}"),
                "apps.kubernetes.io/pod-index": ordinal.to_string() } },
            "spec": {},
            "status": { "phase": "Running", "conditions": [
                { "type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
        })
    }

    fn deleting(mut pod: Value) -> Value {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        pod
    }

    fn told(set: &Value, pods: &[Value]) -> Vec<String> {
        plan(set, pods, "b", "2026-01-01T00:01:00Z".parse().unwrap())
            .into_iter()
            .map(|s| match s {
                Step::Create(o) => format!("+{o}"),
                Step::Delete(p) => format!("-{}", uid(&p)),
                Step::Claims(p) => format!("claims {}", uid(&p)),
                Step::Repair(p) => format!("repair {}", uid(&p)),
                Step::Retain(p) => format!("retain {}", uid(&p)),
            })
            .collect()
    }

    #[test]
    fn ordered_pods_come_one_after_the_other_and_parallel_ones_at_once() {
        let ordered = set(3, "OrderedReady");
        assert_eq!(told(&ordered, &[]), ["+0"]);
        assert_eq!(told(&ordered, &[pod(0, "b", false)]), [""; 0]);
        assert_eq!(told(&ordered, &[pod(0, "b", true)]), ["+1"]);
        assert_eq!(told(&ordered, &[deleting(pod(0, "b", true)), pod(1, "b", true)]), [""; 0]);
        assert_eq!(told(&set(3, "Parallel"), &[pod(1, "b", false)]), ["+0", "+2"]);
        let mut slow = set(2, "OrderedReady");
        slow["spec"]["minReadySeconds"] = 120.into();
        assert_eq!(told(&slow, &[pod(0, "b", true)]), [""; 0], "not yet available");
    }

    #[test]
    fn scaling_down_goes_from_the_highest_and_waits_for_the_others() {
        let one = set(1, "OrderedReady");
        let all = [pod(0, "b", true), pod(1, "b", true), pod(2, "b", true)];
        assert_eq!(told(&one, &all), ["-2"]);
        assert_eq!(told(&one, &[pod(0, "b", true), pod(1, "b", true), deleting(pod(2, "b", true))]), [""; 0]);
        assert_eq!(told(&one, &[pod(0, "b", true), pod(1, "b", false), pod(2, "b", false)]), [""; 0], "1 comes first");
        assert_eq!(
            told(&one, &[pod(0, "b", true), pod(1, "b", true), pod(2, "b", false)]),
            ["-2"],
            "the unhealthy one"
        );
        assert_eq!(told(&set(1, "Parallel"), &all), ["-2", "-1"]);
    }

    #[test]
    fn a_rolling_update_replaces_one_pod_at_a_time_down_to_the_partition() {
        let old = [pod(0, "a", true), pod(1, "a", true), pod(2, "a", true)];
        assert_eq!(told(&set(3, "OrderedReady"), &old), ["-2"]);
        assert_eq!(told(&set(3, "Parallel"), &[pod(0, "a", true), pod(1, "a", true), pod(2, "b", false)]), [""; 0]);
        let mut part = set(3, "OrderedReady");
        part["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 2.into();
        assert_eq!(told(&part, &[pod(0, "a", true), pod(1, "a", true), pod(2, "b", true)]), [""; 0]);
        let mut manual = set(3, "OrderedReady");
        manual["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
        assert_eq!(told(&manual, &old), [""; 0]);
        let mut two = set(3, "OrderedReady");
        two["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = 2.into();
        assert_eq!(told(&two, &old), ["-2", "-1"]);
    }

    #[test]
    fn an_ended_pod_is_replaced() {
        let mut ended = pod(0, "b", false);
        ended["status"]["phase"] = "Failed".into();
        assert_eq!(told(&set(1, "OrderedReady"), &[ended.clone()]), ["-0"]);
        assert_eq!(told(&set(1, "OrderedReady"), &[deleting(ended)]), [""; 0]);
    }
}
