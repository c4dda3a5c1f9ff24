//! What workers tell of pods, as core/v1 Events in the kubelet's shape.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};
use vctl_api::agent::PodEvent;
use vctl_store::Tenant;

use crate::json::time;

/// Events whose repetitions are counted; older ones start a new Event.
const REMEMBERED: usize = 2048;
/// Events of one pod at once, and seconds until one more is allowed: the kubelet's figures.
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;

/// What makes two events the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Same {
    tenant: Tenant,
    uid: String,
    container: String,
    kind: String,
    reason: String,
    message: String,
}

/// What to write for an event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    /// A new Event.
    Create(Value),
    /// The Event of this name happened again: its new count.
    Repeat {
        /// Name of the Event.
        name: String,
        /// How often it has happened.
        count: i64,
        /// Written when the Event is gone.
        fresh: Value,
    },
}

/// Counts repetitions and limits how many a pod may cause.
#[derive(Default)]
pub(crate) struct Correlator {
    seen: HashMap<Same, (String, i64)>,
    order: VecDeque<Same>,
    budgets: HashMap<String, (f64, i64)>,
}

impl Correlator {
    /// What to write; none when the pod has used up its budget.
    pub(crate) fn record(&mut self, tenant: Tenant, node: &str, event: &PodEvent, now_ms: i64) -> Option<Record> {
        if self.budgets.len() > REMEMBERED {
            self.budgets.clear();
        }
        let (left, at) = self.budgets.entry(event.uid.clone()).or_insert((BURST, now_ms));
        *left = (*left + (now_ms - *at).max(0) as f64 / 1000.0 / REFILL_SECONDS).min(BURST);
        *at = now_ms;
        if *left < 1.0 {
            return None;
        }
        *left -= 1.0;
        let same = Same {
            tenant,
            uid: event.uid.clone(),
            container: event.container.clone(),
            kind: event.r#type.clone(),
            reason: event.reason.clone(),
            message: event.message.clone(),
        };
        let at = if event.time_ms > 0 { event.time_ms } else { now_ms };
        if let Some((name, count)) = self.seen.get_mut(&same) {
            *count += 1;
            return Some(Record::Repeat { name: name.clone(), count: *count, fresh: document(node, event, name, at) });
        }
        // Unique per pod: the time in nanoseconds, moved on by how many events are remembered within one millisecond.
        let name = format!("{}.{:x}", event.name, at.saturating_mul(1_000_000) + self.seen.len() as i64);
        let object = document(node, event, &name, at);
        self.seen.insert(same.clone(), (name, 1));
        self.order.push_back(same);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        Some(Record::Create(object))
    }
}

fn document(node: &str, event: &PodEvent, name: &str, at_ms: i64) -> Value {
    let mut involved = json!({
        "kind": "Pod", "apiVersion": "v1", "namespace": event.namespace, "name": event.name, "uid": event.uid,
    });
    if !event.container.is_empty() {
        let list = if event.init { "initContainers" } else { "containers" };
        involved["fieldPath"] = format!("spec.{list}{{{}}}", event.container).into();
    }
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": name, "namespace": event.namespace },
        "involvedObject": involved,
        "reason": event.reason, "message": event.message,
        "type": if event.r#type == "Warning" { "Warning" } else { "Normal" },
        "source": { "component": "kubelet", "host": node },
        "reportingComponent": "kubelet", "reportingInstance": node,
        "firstTimestamp": time(at_ms), "lastTimestamp": time(at_ms), "count": 1, "eventTime": null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: &str) -> PodEvent {
        PodEvent {
            uid: "u".into(),
            namespace: "default".into(),
            name: "web".into(),
            r#type: "Warning".into(),
            reason: reason.into(),
            message: "m".into(),
            container: "app".into(),
            time_ms: 5_000,
            ..PodEvent::default()
        }
    }

    #[test]
    fn repetitions_are_counted() {
        let mut correlator = Correlator::default();
        let Some(Record::Create(first)) = correlator.record(Tenant(1), "w", &event("BackOff"), 5_000) else {
            panic!("the first is new")
        };
        assert_eq!(first["involvedObject"]["fieldPath"], "spec.containers{app}");
        assert_eq!(first["source"], json!({ "component": "kubelet", "host": "w" }));
        let again = correlator.record(Tenant(1), "w", &event("BackOff"), 6_000);
        assert!(matches!(again, Some(Record::Repeat { count: 2, ref name, .. }) if *name == first["metadata"]["name"]));
        let other = correlator.record(Tenant(2), "w", &event("BackOff"), 6_000);
        assert!(matches!(other, Some(Record::Create(_))), "another environment's pod with the same uid is another one");
    }

    #[test]
    fn a_pod_cannot_flood() {
        let mut correlator = Correlator::default();
        let written =
            (0..1000).filter(|n| correlator.record(Tenant(1), "w", &event(&n.to_string()), 5_000).is_some()).count();
        assert_eq!(written, 25);
        assert!(correlator.record(Tenant(1), "w", &event("later"), 5_000 + 300_000).is_some());
    }
}
