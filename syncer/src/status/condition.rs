//! Conditions of a pod.

use serde_json::{Value, json};
use vctl_api::agent;

use super::phase;
use crate::json::{Json, time};

/// A condition as computed, before it is compared with the present one.
struct Condition {
    kind: &'static str,
    status: bool,
    reason: &'static str,
    message: String,
}

impl Condition {
    fn yes(kind: &'static str) -> Self {
        Self { kind, status: true, reason: "", message: String::new() }
    }
    fn no(kind: &'static str, reason: &'static str, message: String) -> Self {
        Self { kind, status: false, reason, message }
    }
}

/// The kubelet's conditions in its order, then those of others.
pub(super) fn conditions(pod: &Value, observed: &agent::PodStatus, phase: &str, now_ms: i64) -> Vec<Value> {
    let previous = pod.items("/status/conditions");
    let ended = matches!(phase, "Succeeded" | "Failed");
    let sandbox = if observed.sandbox_ready && !ended {
        Condition::yes("PodReadyToStartContainers")
    } else {
        Condition::no("PodReadyToStartContainers", "", String::new())
    };
    let containers = containers_ready(pod, observed, phase);
    let ours = [sandbox, initialized(pod, observed, phase), ready(pod, &containers), containers];
    let present = |kind: &str| previous.iter().find(|c| c.text("/type") == kind);
    let mut out: Vec<Value> = ours.iter().map(|c| c.against(present(c.kind), now_ms)).collect();
    match present("PodScheduled") {
        Some(scheduled) => out.push(scheduled.clone()),
        None => out.push(Condition::yes("PodScheduled").against(None, now_ms)),
    }
    for other in previous {
        let kind = other.text("/type");
        if kind != "PodScheduled" && ours.iter().all(|c| c.kind != kind) {
            out.push(other.clone());
        }
    }
    out
}

impl Condition {
    /// As a document. The time of the last transition stays while the status does.
    fn against(&self, present: Option<&Value>, now_ms: i64) -> Value {
        let status = if self.status { "True" } else { "False" };
        let since = present
            .filter(|p| p.text("/status") == status)
            .and_then(|p| p.some_text("/lastTransitionTime"))
            .map_or_else(|| time(now_ms), ToOwned::to_owned);
        let mut condition =
            json!({ "type": self.kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since });
        if !self.reason.is_empty() {
            condition["reason"] = self.reason.into();
        }
        if !self.message.is_empty() {
            condition["message"] = self.message.as_str().into();
        }
        condition
    }
}

fn initialized(pod: &Value, observed: &agent::PodStatus, phase: &str) -> Condition {
    if phase == "Succeeded" {
        return Condition { kind: "Initialized", status: true, reason: "PodCompleted", message: String::new() };
    }
    if phase::initialized(pod, observed) {
        return Condition::yes("Initialized");
    }
    let incomplete: Vec<&str> = pod
        .items("/spec/initContainers")
        .iter()
        .filter(|c| !phase::is_done(c, &observed.init_containers))
        .map(|c| c.text("/name"))
        .collect();
    let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
    Condition::no("Initialized", "ContainersNotInitialized", message)
}

fn containers_ready(pod: &Value, observed: &agent::PodStatus, phase: &str) -> Condition {
    const KIND: &str = "ContainersReady";
    match phase {
        "Succeeded" => return Condition::no(KIND, "PodCompleted", String::new()),
        "Failed" => return Condition::no(KIND, "PodFailed", String::new()),
        _ => {}
    }
    let (mut unknown, mut unready) = (Vec::new(), Vec::new());
    let sidecars = pod.items("/spec/initContainers").iter().filter(|c| phase::is_sidecar(c)).map(|c| (c, true));
    for (container, init) in sidecars.chain(pod.items("/spec/containers").iter().map(|c| (c, false))) {
        let name = container.text("/name");
        let among = if init { &observed.init_containers } else { &observed.containers };
        match among.iter().find(|o| o.name == name) {
            // The kubelet makes up a waiting status, so that a container not heard of is unready, not unknown.
            None if observed.start_time_ms > 0 || !observed.containers.is_empty() => unready.push(name),
            None => unknown.push(name),
            Some(status) if !status.ready => unready.push(name),
            Some(_) => {}
        }
    }
    if unknown.is_empty() && unready.is_empty() {
        return Condition::yes(KIND);
    }
    let mut messages = Vec::new();
    if !unknown.is_empty() {
        messages.push(format!("containers with unknown status: [{}]", unknown.join(" ")));
    }
    if !unready.is_empty() {
        messages.push(format!("containers with unready status: [{}]", unready.join(" ")));
    }
    Condition::no(KIND, "ContainersNotReady", messages.join(", "))
}

/// ContainersReady and every readiness gate.
fn ready(pod: &Value, containers: &Condition) -> Condition {
    const KIND: &str = "Ready";
    if !containers.status {
        return Condition::no(KIND, containers.reason, containers.message.clone());
    }
    let mut messages = Vec::new();
    for gate in pod.items("/spec/readinessGates") {
        let gate = gate.text("/conditionType");
        match pod.items("/status/conditions").iter().find(|c| c.text("/type") == gate) {
            None => messages.push(format!("corresponding condition of pod readiness gate \"{gate}\" does not exist.")),
            Some(c) if c.text("/status") != "True" => messages.push(format!(
                "the status of pod readiness gate \"{gate}\" is not \"True\", but {}",
                c.text("/status")
            )),
            Some(_) => {}
        }
    }
    if messages.is_empty() {
        Condition::yes(KIND)
    } else {
        Condition::no(KIND, "ReadinessGatesNotReady", messages.join(", "))
    }
}
