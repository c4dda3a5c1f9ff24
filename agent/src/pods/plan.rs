//! `plan(expected, record, live) -> the one next change`. Pure: time is passed in, nothing is done here.

use std::collections::{BTreeMap, BTreeSet};

use vctl_api::agent::{Container, Pod};

use super::{
    backoff,
    record::{ContainerRecord, Exit, Phase, PodRecord},
};

/// How often it is said again why something is refused: Events expire, the reason does not.
const REFUSAL_PERIOD_MS: i64 = 300_000;

/// What is known of an image of the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ImageState {
    Pulling,
    Present,
    Failed { reason: String, message: String, failures: u32, at_ms: i64 },
}

/// Results of probes of one container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProbeView {
    pub(crate) started: bool,
    pub(crate) ready: bool,
}

/// What is going on in a pod besides what its record says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Live {
    pub(crate) sandbox_ready: bool,
    pub(crate) sandbox_error: Option<String>,
    pub(crate) volumes: Option<u64>,
    pub(crate) volumes_error: Option<String>,
    pub(crate) images: BTreeMap<String, ImageState>,
    pub(crate) stopping: BTreeSet<String>,
    pub(crate) hooks: BTreeSet<String>,
    pub(crate) probes: BTreeMap<String, ProbeView>,
    /// Containers to be ended: why, and how long they may take.
    pub(crate) kill: BTreeMap<String, (String, Option<i64>)>,
    /// Why a container is refused, or the pod as a whole (no name), as it was said last, and when that was.
    pub(crate) refused: BTreeMap<String, (String, i64)>,
    pub(crate) retry_at_ms: i64,
}

impl Live {
    /// Until when a refusal has been said; none when it is to be said now.
    pub(crate) fn said_until(&self, container: &str, message: &str, now: i64) -> Option<i64> {
        let (said, at) = self.refused.get(container)?;
        let until = at + REFUSAL_PERIOD_MS;
        (said == message && until > now).then_some(until)
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    SetUpSandbox,
    SyncVolumes,
    EnsureImage { container: String },
    Refuse { container: String },
    Start { container: String },
    Stop { container: String, grace_seconds: i64, message: String },
    Fail { reason: &'static str, message: String },
    ReleaseSandbox,
    TearDown,
}

impl Action {
    /// All names.
    pub(crate) const NAMES: [&str; 9] =
        ["SetUpSandbox", "SyncVolumes", "EnsureImage", "Refuse", "Start", "Stop", "Fail", "ReleaseSandbox", "TearDown"];

    /// What it does, without to what: for traces.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::SetUpSandbox => "SetUpSandbox",
            Self::SyncVolumes => "SyncVolumes",
            Self::EnsureImage { .. } => "EnsureImage",
            Self::Refuse { .. } => "Refuse",
            Self::Start { .. } => "Start",
            Self::Stop { .. } => "Stop",
            Self::Fail { .. } => "Fail",
            Self::ReleaseSandbox => "ReleaseSandbox",
            Self::TearDown => "TearDown",
        }
    }
}

/// The next change, or until when there is nothing to do (absent: until something happens).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    Do(Action),
    Wait(Option<i64>),
}

pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy == "Always"
}

pub(crate) fn restarts(policy: &str, exit: &Exit) -> bool {
    match policy {
        "Never" => false,
        "OnFailure" => exit.code != 0,
        _ => true,
    }
}

/// Policy of one container: sidecars always restart; init containers run until they succeed.
fn policy<'a>(pod: &'a Pod, container: &Container, init: bool) -> &'a str {
    match (init, is_sidecar(container)) {
        (true, true) => "Always",
        (true, false) if pod.restart_policy != "Never" => "OnFailure",
        _ => &pod.restart_policy,
    }
}

/// When a container that has ended may be started again.
pub(crate) fn restart_at(record: &ContainerRecord, exit: &Exit) -> i64 {
    let crashes = if exit.finished_ms - exit.started_ms >= backoff::RESET_MS { 0 } else { record.crashes };
    exit.finished_ms + backoff::restart_delay_ms(crashes)
}

fn running(record: &PodRecord, name: &str) -> bool {
    matches!(record.containers.get(name), Some(ContainerRecord { phase: Phase::Running { .. }, .. }))
}

/// Whether all init containers have done their part.
pub(crate) fn initialized(pod: &Pod, record: &PodRecord, live: &Live) -> bool {
    let main_ran = pod
        .containers
        .iter()
        .any(|c| record.containers.get(&c.name).is_some_and(|r| r.phase != Phase::Absent || r.last.is_some()));
    main_ran
        || pod.init_containers.iter().all(|c| match record.container(&c.name).phase {
            Phase::Exited(exit) => !is_sidecar(c) && exit.code == 0,
            Phase::Running { .. } => is_sidecar(c) && live.probes.get(&c.name).is_some_and(|p| p.started),
            Phase::Absent => false,
        })
}

/// Whether the pod has ended for good: its containers do not come back.
pub(crate) fn finished(pod: &Pod, record: &PodRecord) -> bool {
    if record.failed.is_some() {
        return true;
    }
    let over = |c: &Container, init: bool| matches!(record.container(&c.name).phase, Phase::Exited(ref e) if !restarts(policy(pod, c, init), e));
    let init_failed = pod
        .init_containers
        .iter()
        .any(|c| over(c, true) && matches!(record.container(&c.name).phase, Phase::Exited(ref e) if e.code != 0));
    init_failed || (!pod.containers.is_empty() && pod.containers.iter().all(|c| over(c, false)))
}

/// Stops what still runs: sidecars after the others, the last one first.
fn stop_all(pod: &Pod, record: &PodRecord, live: &Live, grace: i64, now: i64) -> Option<Plan> {
    let grace = record.stop_deadline_ms.map_or(grace, |deadline| ((deadline - now).max(0) + 999) / 1000);
    let stop = |name: &String| {
        Plan::Do(Action::Stop {
            container: name.clone(),
            grace_seconds: grace,
            message: format!("Stopping container {name}"),
        })
    };
    let ordinary: Vec<&String> = pod
        .containers
        .iter()
        .chain(pod.init_containers.iter().filter(|c| !is_sidecar(c)))
        .map(|c| &c.name)
        .chain(
            record
                .containers
                .keys()
                .filter(|n| !pod.containers.iter().chain(&pod.init_containers).any(|c| c.name == **n)),
        )
        .filter(|n| running(record, n))
        .collect();
    if let Some(name) = ordinary.iter().find(|n| !live.stopping.contains(**n)) {
        return Some(stop(name));
    }
    if !ordinary.is_empty() {
        return Some(Plan::Wait(None));
    }
    let sidecar = pod.init_containers.iter().rev().map(|c| &c.name).find(|n| running(record, n))?;
    Some(if live.stopping.contains(sidecar) { Plan::Wait(None) } else { stop(sidecar) })
}

/// What is next for one container that ought to run; none when it runs or is over.
fn advance(pod: &Pod, container: &Container, init: bool, record: &PodRecord, live: &Live, now: i64) -> Option<Plan> {
    let known = record.container(&container.name);
    let start = |at: i64| {
        if at > now {
            return Plan::Wait(Some(at));
        }
        if !container.config_error.is_empty() {
            let said = live.said_until(&container.name, &container.config_error, now);
            let refuse = || Plan::Do(Action::Refuse { container: container.name.clone() });
            return said.map_or_else(refuse, |until| Plan::Wait(Some(until)));
        }
        match live.images.get(&container.image) {
            Some(ImageState::Pulling) => Plan::Wait(None),
            Some(ImageState::Failed { failures, at_ms, .. }) if at_ms + backoff::pull_delay_ms(*failures) > now => {
                Plan::Wait(Some(at_ms + backoff::pull_delay_ms(*failures)))
            }
            Some(ImageState::Present) => Plan::Do(Action::Start { container: container.name.clone() }),
            _ => Plan::Do(Action::EnsureImage { container: container.name.clone() }),
        }
    };
    match &known.phase {
        Phase::Running { .. } => {
            if live.stopping.contains(&container.name) {
                return None;
            }
            let stop = |message: String, grace: Option<i64>| {
                let grace_seconds = grace.unwrap_or(pod.termination_grace_seconds);
                Some(Plan::Do(Action::Stop { container: container.name.clone(), grace_seconds, message }))
            };
            if let Some((message, grace)) = live.kill.get(&container.name) {
                return stop(message.clone(), *grace);
            }
            if known.image != container.image {
                return stop(format!("Container {} definition changed, will be restarted", container.name), None);
            }
            None
        }
        Phase::Absent => Some(start(known.retry_at_ms)),
        Phase::Exited(exit) if init && !is_sidecar(container) && exit.code == 0 => None,
        Phase::Exited(exit) if restarts(policy(pod, container, init), exit) => {
            Some(start(restart_at(&known, exit).max(known.retry_at_ms)))
        }
        Phase::Exited(_) => None,
    }
}

/// Decides the next change.
pub(crate) fn plan(pod: &Pod, volumes: u64, record: &PodRecord, live: &Live, now: i64) -> Plan {
    if let Some(grace) = pod.deletion_grace_seconds {
        return stop_all(pod, record, live, grace, now).unwrap_or(if live.retry_at_ms > now {
            Plan::Wait(Some(live.retry_at_ms))
        } else {
            Plan::Do(Action::TearDown)
        });
    }
    let deadline = pod.active_deadline_seconds.map(|s| record.start_ms + s * 1000);
    if finished(pod, record) {
        return stop_all(pod, record, live, pod.termination_grace_seconds, now).unwrap_or(if live.sandbox_ready {
            Plan::Do(Action::ReleaseSandbox)
        } else {
            Plan::Wait(None)
        });
    }
    if deadline.is_some_and(|d| d <= now) {
        return Plan::Do(Action::Fail {
            reason: "DeadlineExceeded",
            message: "Pod was active on the node longer than the specified deadline".into(),
        });
    }
    let until = |at: Option<i64>| Plan::Wait([at, deadline].into_iter().flatten().min());
    if !live.sandbox_ready || live.volumes != Some(volumes) {
        if live.retry_at_ms > now {
            return until(Some(live.retry_at_ms));
        }
        return Plan::Do(if live.sandbox_ready { Action::SyncVolumes } else { Action::SetUpSandbox });
    }
    let mut wake: Option<i64> = None;
    let mut note = |at: Option<i64>| wake = [wake, at].into_iter().flatten().min();
    let initialized = initialized(pod, record, live);
    for container in &pod.init_containers {
        let sidecar = is_sidecar(container);
        if initialized && !sidecar {
            continue;
        }
        match advance(pod, container, true, record, live, now) {
            Some(Plan::Do(action)) => return Plan::Do(action),
            Some(Plan::Wait(at)) => note(at),
            None => {}
        }
        let done = match record.container(&container.name).phase {
            Phase::Exited(exit) => !sidecar && exit.code == 0,
            Phase::Running { .. } => sidecar && live.probes.get(&container.name).is_some_and(|p| p.started),
            Phase::Absent => false,
        };
        if !initialized && !done {
            return until(wake);
        }
    }
    for container in &pod.containers {
        // The next container waits for the post-start hook of the one before.
        if live.hooks.contains(&container.name) {
            break;
        }
        match advance(pod, container, false, record, live, now) {
            Some(Plan::Do(action)) => return Plan::Do(action),
            Some(Plan::Wait(at)) => note(at),
            None => {}
        }
    }
    until(wake)
}

#[cfg(test)]
mod tests;
