//! Which pods of a DaemonSet are created and deleted; pure. First every node gets its pod; only then is a rolling update moved on.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::nodes;
use crate::controllers::{
    event::EventType,
    history::pod_revision,
    int_or_percent::scaled,
    object::{int, is_deleting, name, namespace, text, time},
    pod,
};

/// Pods created, and pods deleted, in one reconcile.
const BURST: usize = 250;
/// A pod that failed within its first minute is replaced only so long after it was created (upstream: a back-off per node).
const SHORT_LIFE: SignedDuration = SignedDuration::from_secs(60);

/// One step.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Names of nodes that get a pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Value>,
    /// Type, reason and message.
    pub(super) events: Vec<(EventType, &'static str, String)>,
    /// When a failed pod is due to be replaced.
    pub(super) again: Option<Timestamp>,
}

/// The pods of each node, oldest first; every node that is there has an entry.
pub(super) fn by_node<'a>(nodes: &'a [Value], pods: &'a [Value]) -> BTreeMap<&'a str, Vec<&'a Value>> {
    let mut map: BTreeMap<&str, Vec<&Value>> = nodes.iter().map(|n| (name(n), Vec::new())).collect();
    let mut sorted: Vec<&Value> = pods.iter().collect();
    sorted.sort_by_key(|p| {
        // Of the same age the one that is bound counts as older.
        (text(p, "/metadata/creationTimestamp"), text(p, "/spec/nodeName").is_empty(), name(p))
    });
    for pod in sorted {
        map.entry(nodes::of_pod(pod)).or_default().push(pod);
    }
    map
}

/// `hash` is that of the current template.
pub(super) fn plan(set: &Value, nodes: &[Value], pods: &[Value], hash: &str, now: Timestamp) -> Plan {
    let map = by_node(nodes, pods);
    let template = nodes::template_pod(set);
    let rolling = Rolling::of(set, nodes, &template, hash, now);
    let mut plan = Plan::default();
    for node in nodes {
        let (run, stay) = nodes::fits(&template, node);
        let there = map.get(name(node)).map_or(&[][..], Vec::as_slice);
        if run && there.is_empty() {
            plan.create.push(name(node).to_owned());
        } else if stay {
            plan.tidy(node, there, &rolling, now);
        } else {
            plan.delete.extend(there.iter().filter(|p| !is_deleting(p)).map(|p| (*p).clone()));
        }
    }
    // Pods that wait for a node that is gone.
    let is_missing = |of: &str| !nodes.iter().any(|n| name(n) == of);
    for pod in pods {
        if text(pod, "/spec/nodeName").is_empty() && is_missing(nodes::of_pod(pod)) && !is_deleting(pod) {
            plan.delete.push(pod.clone());
        }
    }
    if plan.create.is_empty() && plan.delete.is_empty() && text(set, "/spec/updateStrategy/type") != "OnDelete" {
        rolling.step(&map, &mut plan);
    }
    plan.create.truncate(BURST);
    plan.delete.truncate(BURST);
    plan
}

impl Plan {
    /// Deletes what has ended on a node, and what there is too much of.
    fn tidy(&mut self, node: &Value, there: &[&Value], rolling: &Rolling<'_>, now: Timestamp) {
        let mut running = Vec::new();
        for pod in there.iter().copied().filter(|p| !is_deleting(p)) {
            let said = |what: &str, will: &str| {
                format!(
                    "Found {what} daemon pod {}/{} on node {}, will try to {will} it",
                    namespace(pod),
                    name(pod),
                    name(node)
                )
            };
            match pod::phase(pod) {
                "Failed" => {
                    let due = time(pod, "/metadata/creationTimestamp").and_then(|t| t.checked_add(SHORT_LIFE).ok());
                    if let Some(due) = due.filter(|d| *d > now) {
                        self.again = Some(self.again.map_or(due, |a| a.min(due)));
                        continue;
                    }
                    self.events.push((EventType::Warning, "FailedDaemonPod", said("failed", "kill")));
                    self.delete.push(pod.clone());
                }
                "Succeeded" => {
                    self.events.push((EventType::Normal, "SucceededDaemonPod", said("succeeded", "delete")));
                    self.delete.push(pod.clone());
                }
                _ => running.push(pod),
            }
        }
        if running.len() <= 1 {
            return;
        }
        if rolling.surge == 0 {
            self.delete.extend(running[1..].iter().map(|p| (*p).clone()));
            return;
        }
        // While surging a node may have the oldest pod of the new template and the oldest of a former one.
        let (new, old): (Vec<&Value>, Vec<&Value>) = running.into_iter().partition(|p| rolling.is_new(p));
        self.delete.extend(new.iter().skip(1).chain(old.iter().skip(1)).map(|p| (*p).clone()));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!pod::is_ready(old) || rolling.is_available(new))
        {
            self.delete.push((*old).clone());
        }
    }
}

/// How a rolling update may move.
struct Rolling<'a> {
    hash: &'a str,
    surge: i64,
    unavailable: i64,
    min_ready: i64,
    now: Timestamp,
}

impl<'a> Rolling<'a> {
    fn of(set: &Value, nodes: &[Value], template: &Value, hash: &'a str, now: Timestamp) -> Self {
        let desired = nodes.iter().filter(|n| nodes::fits(template, n).0).count() as i64;
        let rolling = set.pointer("/spec/updateStrategy/rollingUpdate").unwrap_or(&Value::Null);
        let field = |f: &str| rolling.get(f).unwrap_or(&Value::Null);
        let surge = scaled(field("maxSurge"), desired, true);
        let unavailable = match field("maxUnavailable") {
            Value::Null => 1,
            value => scaled(value, desired, true),
        };
        // Both 0 could not move.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self { hash, surge, unavailable, min_ready: int(set, "/spec/minReadySeconds").unwrap_or(0), now }
    }

    fn is_new(&self, pod: &Value) -> bool {
        pod_revision(pod) == self.hash
    }

    fn is_available(&self, pod: &Value) -> bool {
        pod::is_available(pod, self.min_ready, self.now)
    }

    /// (new, old) pod of a node; none when there are several of one sort.
    fn of_node<'p>(&self, there: &[&'p Value]) -> Option<(Option<&'p Value>, Option<&'p Value>)> {
        let (new, old): (Vec<&Value>, Vec<&Value>) =
            there.iter().copied().filter(|p| !is_deleting(p)).partition(|p| self.is_new(p));
        (new.len() <= 1 && old.len() <= 1).then(|| (new.first().copied(), old.first().copied()))
    }

    fn step(&self, map: &BTreeMap<&str, Vec<&Value>>, plan: &mut Plan) {
        if self.surge == 0 { self.replace(map, plan) } else { self.surge(map, plan) }
    }

    /// Deletes old pods, as many as may be unavailable; those that are unavailable anyway first.
    fn replace(&self, map: &BTreeMap<&str, Vec<&Value>>, plan: &mut Plan) {
        let mut unavailable = 0;
        let mut candidates = Vec::new();
        for there in map.values() {
            match self.of_node(there) {
                Some((Some(new), None)) => unavailable += i64::from(!self.is_available(new)),
                Some((None, Some(old))) if !self.is_available(old) => plan.delete.push(old.clone()),
                Some((None, Some(old))) => candidates.push(old.clone()),
                // Something is being created or deleted there.
                _ => unavailable += 1,
            }
        }
        let room = usize::try_from(self.unavailable - unavailable - plan.delete.len() as i64).unwrap_or(0);
        plan.delete.extend(candidates.into_iter().take(room));
    }

    /// Creates new pods next to old ones, up to the surge; old ones go when theirs is available.
    fn surge(&self, map: &BTreeMap<&str, Vec<&Value>>, plan: &mut Plan) {
        let mut surging = 0;
        let mut candidates = Vec::new();
        for (node, there) in map {
            match self.of_node(there) {
                None => surging += 1,
                Some((_, None)) => {}
                Some((None, Some(old))) if !self.is_available(old) => plan.create.push((*node).to_owned()),
                Some((None, Some(_))) => candidates.push((*node).to_owned()),
                Some((Some(new), Some(_))) if !self.is_available(new) => surging += 1,
                Some((Some(_), Some(old))) => plan.delete.push(old.clone()),
            }
        }
        let room = usize::try_from(self.surge - surging).unwrap_or(0);
        plan.create.extend(candidates.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn node(name: &str) -> Value {
        json!({ "metadata": { "name": name }, "spec": {}, "status": { "conditions": [{ "type": "Ready", "status": "True" }] } })
    }

    fn pod(node: &str, hash: &str, ready: bool) -> Value {
        json!({ "metadata": { "name": format!("{node}-{hash}"), "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "controller-revision-hash": hash } },
            "spec": { "nodeName": node },
            "status": { "phase": "Running", "conditions": [
                { "type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:00Z" }] } })
    }

    fn set(rolling: Value) -> Value {
        json!({ "metadata": { "name": "d", "uid": "u" },
            "spec": { "template": { "spec": {} }, "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": rolling } } })
    }

    fn told(set: &Value, nodes: &[Value], pods: &[Value]) -> String {
        let plan = plan(set, nodes, pods, "b", NOW.parse().unwrap());
        let created = plan.create.iter().map(|n| format!("+{n}"));
        created.chain(plan.delete.iter().map(|p| format!("-{}", name(p)))).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_node_gets_one_pod() {
        let s = set(json!({ "maxUnavailable": 1 }));
        let nodes = [node("n1"), node("n2")];
        assert_eq!(told(&s, &nodes, &[]), "+n1 +n2");
        assert_eq!(told(&s, &nodes, &[pod("n1", "b", true)]), "+n2");
        assert_eq!(
            told(&s, &nodes[..1], &[pod("n1", "b", true), pod("n1", "a", true)]),
            "-n1-b",
            "the older stays: a before b"
        );
        let mut cordoned = node("n1");
        cordoned["spec"]["taints"] = json!([{ "key": "x", "effect": "NoExecute" }]);
        assert_eq!(told(&s, &[cordoned], &[pod("n1", "b", true)]), "-n1-b");
        let mut failed = pod("n1", "b", false);
        failed["status"]["phase"] = "Failed".into();
        assert_eq!(told(&s, &nodes[..1], &[failed.clone()]), "-n1-b");
        failed["metadata"]["creationTimestamp"] = "2026-01-01T00:09:30Z".into();
        let waits = plan(&s, &nodes[..1], &[failed], "b", NOW.parse().unwrap());
        assert_eq!((waits.delete.len(), waits.again.unwrap().to_string()), (0, "2026-01-01T00:10:30Z".to_owned()));
    }

    #[test]
    fn a_rolling_update_replaces_so_many_at_a_time() {
        let nodes = [node("n1"), node("n2"), node("n3")];
        let old = [pod("n1", "a", true), pod("n2", "a", true), pod("n3", "a", true)];
        assert_eq!(told(&set(json!({ "maxUnavailable": 1 })), &nodes, &old), "-n1-a");
        assert_eq!(told(&set(json!({ "maxUnavailable": "50%" })), &nodes, &old), "-n1-a -n2-a");
        let moving = [pod("n1", "b", false), pod("n2", "a", true), pod("n3", "a", true)];
        assert_eq!(told(&set(json!({ "maxUnavailable": 1 })), &nodes, &moving), "");
        let broken = [pod("n1", "b", false), pod("n2", "a", false), pod("n3", "a", true)];
        assert_eq!(told(&set(json!({ "maxUnavailable": 1 })), &nodes, &broken), "-n2-a", "it is unavailable anyway");
        let mut manual = set(json!({}));
        manual["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
        assert_eq!(told(&manual, &nodes, &old), "");
    }

    #[test]
    fn with_a_surge_the_new_pod_comes_first() {
        let s = set(json!({ "maxSurge": 1, "maxUnavailable": 0 }));
        let nodes = [node("n1"), node("n2")];
        assert_eq!(told(&s, &nodes, &[pod("n1", "a", true), pod("n2", "a", true)]), "+n1");
        assert_eq!(told(&s, &nodes, &[pod("n1", "a", true), pod("n1", "b", false), pod("n2", "a", true)]), "");
        assert_eq!(told(&s, &nodes, &[pod("n1", "a", true), pod("n1", "b", true), pod("n2", "a", true)]), "-n1-a");
    }
}
