//! The phase of a pod.

use serde_json::Value;
use vctl_api::agent::{self, ContainerStatus, container_state::State};

use crate::json::Json;

fn find<'a>(observed: &'a [ContainerStatus], container: &Value) -> Option<&'a ContainerStatus> {
    let name = container.text("/name");
    observed.iter().find(|o| o.name == name)
}

fn state(status: &ContainerStatus) -> Option<&State> {
    status.state.as_ref().and_then(|s| s.state.as_ref())
}

/// Exit code of the last instance that ended.
fn last_exit(status: &ContainerStatus) -> Option<i32> {
    match status.last_state.as_ref().and_then(|s| s.state.as_ref()) {
        Some(State::Terminated(ended)) => Some(ended.exit_code),
        _ => None,
    }
}

pub(super) fn is_sidecar(container: &Value) -> bool {
    container.text("/restartPolicy") == "Always"
}

/// Whether an init container has done its part: ended with 0, or, as a sidecar, started.
pub(super) fn is_done(container: &Value, observed: &[ContainerStatus]) -> bool {
    let Some(status) = find(observed, container) else { return false };
    if is_sidecar(container) {
        return status.started;
    }
    matches!(state(status), Some(State::Terminated(ended)) if ended.exit_code == 0)
}

/// Whether all init containers are done. Once a main container has been started they are, whatever became of them since.
pub(super) fn initialized(pod: &Value, observed: &agent::PodStatus) -> bool {
    let started = observed
        .containers
        .iter()
        .any(|c| matches!(state(c), Some(State::Running(_) | State::Terminated(_))) || last_exit(c).is_some());
    started || pod.items("/spec/initContainers").iter().all(|c| is_done(c, &observed.init_containers))
}

/// The phase, by the kubelet's rules. A pod that has finished never runs again.
pub(super) fn phase(pod: &Value, observed: &agent::PodStatus) -> &'static str {
    match pod.text("/status/phase") {
        "Succeeded" => return "Succeeded",
        "Failed" => return "Failed",
        _ => {}
    }
    // DeadlineExceeded, Evicted ..: the worker has given the pod up.
    if !observed.reason.is_empty() {
        return "Failed";
    }
    let policy = pod.some_text("/spec/restartPolicy").unwrap_or("Always");
    let (mut pending_init, mut failed_init) = (0, 0);
    if !initialized(pod, observed) {
        for container in pod.items("/spec/initContainers") {
            if is_done(container, &observed.init_containers) {
                continue;
            }
            let status = find(&observed.init_containers, container);
            let exit = match status.and_then(state) {
                Some(State::Terminated(ended)) => Some(ended.exit_code),
                Some(State::Waiting(_)) => status.and_then(last_exit).filter(|code| *code != 0),
                _ => None,
            };
            if exit.is_some() && !is_sidecar(container) { failed_init += 1 } else { pending_init += 1 }
        }
    }
    if failed_init > 0 && policy == "Never" {
        return "Failed";
    }
    if pending_init + failed_init > 0 {
        return "Pending";
    }
    let (mut unknown, mut running, mut waiting, mut stopped, mut succeeded) = (0, 0, 0, 0, 0);
    for container in pod.items("/spec/containers") {
        match find(&observed.containers, container) {
            None => unknown += 1,
            Some(status) => match state(status) {
                Some(State::Running(_)) => running += 1,
                Some(State::Terminated(ended)) => {
                    stopped += 1;
                    succeeded += i32::from(ended.exit_code == 0);
                }
                Some(State::Waiting(_)) if last_exit(status).is_some() => stopped += 1,
                Some(State::Waiting(_)) => waiting += 1,
                None => unknown += 1,
            },
        }
    }
    if waiting > 0 {
        "Pending"
    } else if running > 0 && unknown == 0 {
        "Running"
    } else if running == 0 && stopped > 0 && unknown == 0 {
        // Sidecars that still run do not keep a finished pod alive.
        match policy {
            "Always" => "Running",
            _ if stopped == succeeded => "Succeeded",
            "Never" => "Failed",
            _ => "Running",
        }
    } else {
        "Pending"
    }
}
