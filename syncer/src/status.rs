//! The pure inverse of translation: what a worker observes becomes the `status` of the pod.
//!
//! The rules for phase and conditions are the kubelet's (`pkg/kubelet/kubelet_pods.go`, `pkg/kubelet/status/generate.go`): clients
//! wait on them and print them.

mod condition;
mod phase;
mod qos;

use serde_json::{Map, Value, json};
use vctl_api::agent::{self, container_state::State};

use crate::json::{Json, time};

pub use qos::qos_class;

/// The new `status` of `pod`; its present one is the base, so that what others wrote (`PodScheduled`, conditions of readiness
/// gates, `nominatedNodeName`) stays. Equal to the present one when nothing has changed. `now_ms` becomes the transition time of
/// conditions that change.
pub fn status(pod: &Value, observed: &agent::PodStatus, now_ms: i64) -> Value {
    let previous = &pod["status"];
    let phase = phase::phase(pod, observed);
    let mut status: Map<String, Value> = previous.as_object().cloned().unwrap_or_default();
    status.insert("phase".into(), phase.into());
    let mut set = |key: &str, value: Option<Value>| match value {
        Some(value) => {
            status.insert(key.to_owned(), value);
        }
        None => {
            status.remove(key);
        }
    };
    let text = |text: &str| (!text.is_empty()).then(|| Value::from(text));
    set("reason", text(&observed.reason));
    set("message", text(&observed.message));
    if !observed.host_ip.is_empty() {
        set("hostIP", text(&observed.host_ip));
        set("hostIPs", Some(json!([{ "ip": observed.host_ip }])));
    }
    let ip =
        if observed.pod_ip.is_empty() && pod.flag("/spec/hostNetwork") { &observed.host_ip } else { &observed.pod_ip };
    if !ip.is_empty() {
        set("podIP", text(ip));
        set("podIPs", Some(json!([{ "ip": ip }])));
    }
    if previous.some_text("/startTime").is_none() {
        let start = if observed.start_time_ms > 0 { observed.start_time_ms } else { now_ms };
        set("startTime", Some(time(start).into()));
    }
    if previous.some_text("/qosClass").is_none() {
        set("qosClass", Some(qos_class(pod).into()));
    }
    let waiting = if phase::initialized(pod, observed) { "ContainerCreating" } else { "PodInitializing" };
    let init = statuses(pod.items("/spec/initContainers"), &observed.init_containers, "PodInitializing");
    let main = statuses(pod.items("/spec/containers"), &observed.containers, waiting);
    set("initContainerStatuses", (!init.is_empty()).then_some(Value::Array(init)));
    set("containerStatuses", (!main.is_empty()).then_some(Value::Array(main)));
    let conditions = condition::conditions(pod, observed, phase, now_ms);
    set("conditions", Some(Value::Array(conditions)));
    Value::Object(status)
}

/// One status per container of the spec, in its order.
fn statuses(containers: &[Value], observed: &[agent::ContainerStatus], waiting: &str) -> Vec<Value> {
    containers
        .iter()
        .map(|container| {
            let name = container.text("/name");
            match observed.iter().find(|o| o.name == name) {
                Some(observed) => of_container(container, observed, waiting),
                None => json!({
                    "name": name, "ready": false, "restartCount": 0, "started": false,
                    "image": container.text("/image"), "imageID": "",
                    "state": { "waiting": { "reason": waiting } }, "lastState": {},
                }),
            }
        })
        .collect()
}

fn of_container(container: &Value, observed: &agent::ContainerStatus, waiting: &str) -> Value {
    let current = match state(observed.state.as_ref()) {
        Value::Object(state) if state.is_empty() => json!({ "waiting": { "reason": waiting } }),
        state => state,
    };
    let image = if observed.image.is_empty() { container.text("/image") } else { &observed.image };
    let mut status = json!({
        "name": observed.name, "ready": observed.ready, "restartCount": observed.restart_count, "started": observed.started,
        "image": image, "imageID": observed.image_id, "state": current, "lastState": state(observed.last_state.as_ref()),
    });
    if !observed.container_id.is_empty() {
        status["containerID"] = observed.container_id.as_str().into();
    }
    status
}

fn state(state: Option<&agent::ContainerState>) -> Value {
    let mut out = Map::new();
    let text = |into: &mut Map<String, Value>, key: &str, value: &str| {
        if !value.is_empty() {
            into.insert(key.to_owned(), value.into());
        }
    };
    match state.and_then(|s| s.state.as_ref()) {
        None => json!({}),
        Some(State::Waiting(waiting)) => {
            text(&mut out, "reason", &waiting.reason);
            text(&mut out, "message", &waiting.message);
            json!({ "waiting": out })
        }
        Some(State::Running(running)) => json!({ "running": { "startedAt": time(running.started_at_ms) } }),
        Some(State::Terminated(ended)) => {
            out.insert("exitCode".into(), ended.exit_code.into());
            if ended.signal != 0 {
                out.insert("signal".into(), ended.signal.into());
            }
            text(&mut out, "reason", &ended.reason);
            text(&mut out, "message", &ended.message);
            // A container that never started has no times; the API prints null.
            let at = |ms: i64| if ms > 0 { Value::from(time(ms)) } else { Value::Null };
            out.insert("startedAt".into(), at(ended.started_at_ms));
            out.insert("finishedAt".into(), at(ended.finished_at_ms));
            text(&mut out, "containerID", &ended.container_id);
            json!({ "terminated": out })
        }
    }
}

#[cfg(test)]
mod tests;
