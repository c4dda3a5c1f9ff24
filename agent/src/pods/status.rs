//! The status of a pod as the server is told it, from record and live state. Pure.

use std::collections::BTreeMap;

use vctl_api::agent::{
    Container, ContainerState, ContainerStatus, Pod, PodStatus, Running, Terminated, Waiting, container_state::State,
};

use super::{
    backoff,
    plan::{ImageState, Live, finished, initialized, is_sidecar, restart_at, restarts},
    record::{ContainerRecord, Exit, Phase, PodRecord},
    shown_uid,
};

fn state(state: State) -> ContainerState {
    ContainerState { state: Some(state) }
}

fn waits(reason: &str, message: impl Into<String>) -> ContainerState {
    state(State::Waiting(Waiting { reason: reason.to_owned(), message: message.into() }))
}

/// The reasons of the containers that wait, by name.
pub(crate) fn waiting(status: &PodStatus) -> BTreeMap<String, String> {
    let all = status.containers.iter().chain(&status.init_containers);
    all.filter_map(|c| match c.state.as_ref()?.state.as_ref()? {
        State::Waiting(waiting) => Some((c.name.clone(), waiting.reason.clone())),
        _ => None,
    })
    .collect()
}

fn terminated(exit: &Exit) -> ContainerState {
    state(State::Terminated(Terminated {
        exit_code: exit.code,
        signal: 0,
        reason: exit.reason.clone(),
        message: exit.message.clone(),
        started_at_ms: exit.started_ms,
        finished_at_ms: exit.finished_ms,
        container_id: if exit.id.is_empty() { String::new() } else { format!("podman://{}", exit.id) },
    }))
}

/// Why a container that does not run does not run.
fn reason(
    pod: &Pod,
    container: &Container,
    init: bool,
    record: &ContainerRecord,
    whole: &PodRecord,
    live: &Live,
    now: i64,
) -> ContainerState {
    if !init && !initialized(pod, whole, live) {
        return waits("PodInitializing", "");
    }
    if !container.config_error.is_empty() {
        return waits("CreateContainerConfigError", container.config_error.clone());
    }
    if let Some(error) = live.sandbox_error.as_ref().or(live.volumes_error.as_ref()) {
        return waits("ContainerCreating", error.clone());
    }
    if let Some(ImageState::Failed { reason, message, failures, at_ms }) = live.images.get(&container.image) {
        // As on the kubelet the reason alternates: the error first, then the wait.
        return if now - at_ms < 1500 || reason != "ErrImagePull" {
            waits(reason, message.clone())
        } else {
            let delay = backoff::show(backoff::pull_delay_ms(*failures));
            waits(
                "ImagePullBackOff",
                format!(
                    "Back-off pulling image \"{}\": ErrImagePull: {message} (next try within {delay})",
                    container.image
                ),
            )
        };
    }
    if let Some((reason, message)) = &record.start_error {
        return waits(reason, message.clone());
    }
    waits(if init { "PodInitializing" } else { "ContainerCreating" }, "")
}

fn container(
    pod: &Pod,
    container: &Container,
    init: bool,
    whole: &PodRecord,
    live: &Live,
    over: bool,
    now: i64,
) -> ContainerStatus {
    let record = whole.container(&container.name);
    let probes = live.probes.get(&container.name).copied().unwrap_or_default();
    let sidecar = init && is_sidecar(container);
    let again = |exit: &Exit| match (init, sidecar) {
        (_, true) => true,
        (true, false) => exit.code != 0 && pod.restart_policy != "Never",
        (false, _) => restarts(&pod.restart_policy, exit),
    };
    let mut last = record.last.as_ref().map(terminated);
    let mut ready = false;
    let mut started = false;
    let present = match &record.phase {
        Phase::Running { started_ms } => {
            (ready, started) = if init && !sidecar { (false, probes.started) } else { (probes.ready, probes.started) };
            state(State::Running(Running { started_at_ms: *started_ms }))
        }
        Phase::Exited(exit) if over || pod.deletion_grace_seconds.is_some() || !again(exit) => {
            ready = init && !sidecar && exit.code == 0;
            terminated(exit)
        }
        Phase::Exited(exit) => {
            let at = restart_at(&record, exit);
            if at > now || record.start_error.is_some() {
                last = Some(terminated(exit));
                match &record.start_error {
                    Some((reason, message)) => waits(reason, message.clone()),
                    None => waits(
                        "CrashLoopBackOff",
                        format!(
                            "back-off {} restarting failed container={} pod={}_{}({})",
                            backoff::show(backoff::restart_delay_ms(record.crashes)),
                            container.name,
                            pod.name,
                            pod.namespace,
                            shown_uid(&pod.uid)
                        ),
                    ),
                }
            } else {
                terminated(exit)
            }
        }
        Phase::Absent => reason(pod, container, init, &record, whole, live, now),
    };
    ContainerStatus {
        name: container.name.clone(),
        state: Some(present),
        last_state: last,
        ready,
        started,
        restart_count: record.restarts,
        image: container.image.clone(),
        image_id: record.image_id.clone(),
        container_id: if record.id.is_empty() { String::new() } else { format!("podman://{}", record.id) },
    }
}

/// The whole status.
pub(crate) fn status(pod: &Pod, record: &PodRecord, live: &Live, host_ip: &str, now: i64) -> PodStatus {
    let over = finished(pod, record);
    let (reason, message) = record.failed.clone().unwrap_or_default();
    PodStatus {
        uid: pod.uid.clone(),
        environment: pod.environment.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        pod_ip: if pod.host_network {
            host_ip.to_owned()
        } else {
            record.pod_ip.map(|ip| ip.to_string()).unwrap_or_default()
        },
        host_ip: host_ip.to_owned(),
        start_time_ms: record.start_ms,
        init_containers: pod.init_containers.iter().map(|c| container(pod, c, true, record, live, over, now)).collect(),
        containers: pod.containers.iter().map(|c| container(pod, c, false, record, live, over, now)).collect(),
        sandbox_ready: live.sandbox_ready,
        reason,
        message,
    }
}
