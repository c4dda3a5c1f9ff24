//! The simulated worker: pods become Ready without running, for scale tests and demos.
//!
//! Annotations of a pod shape its life; times are Kubernetes durations (`500ms`, `2s`, `1m30s`):
//! * `vctl.dev/sim-ready-after`: time from start to Ready; at once by default;
//! * `vctl.dev/sim-complete-after`: time from start to the end of its containers; never by default;
//! * `vctl.dev/sim-exit-code`: with which they end; 0 by default;
//! * `vctl.dev/sim-cpu`, `vctl.dev/sim-memory`: what each of them uses, as quantities; by default a little, the same each time.
//!
//! The state of a pod is a pure function of the object and the time, so that nothing is lost over a restart and there is no task
//! per pod.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;
use sha2::{Digest, Sha256};
use vctl_api::agent::{self, NodeReport, container_state::State};
use vctl_machinery::{quantity, status::ApiError};

use crate::{
    json::{Json, millis},
    ports::Duplex,
    streams::{ContainerTarget, ExecOptions, ExecSession, LogOptions, LogStream},
    target::{Observation, Target},
};

/// The shortest life of a container that is restarted again and again, as after some back-off.
const RESTART_MILLIS: i64 = 10_000;

/// Over which time the use of processors is said to be the mean, as an agent measures it.
const WINDOW_MILLIS: i64 = 15_000;

/// A worker that only pretends.
#[derive(Debug, Default)]
pub struct Simulated {
    /// What pods use; the time is filled in when it is asked for.
    usage: Mutex<HashMap<String, agent::PodStats>>,
}

impl Simulated {
    /// A worker without pods.
    pub fn new() -> Self {
        Self::default()
    }

    /// What it says it has: enough for thousands of pods.
    pub fn report(name: &str) -> NodeReport {
        NodeReport {
            cpu_millis: 4_096_000,
            memory_bytes: 64 << 40,
            max_pods: 1_000_000,
            ephemeral_storage_bytes: 64 << 40,
            internal_ip: "127.0.0.1".into(),
            hostname: name.to_owned(),
            os: "linux".into(),
            architecture: match std::env::consts::ARCH {
                "aarch64" => "arm64",
                _ => "amd64",
            }
            .into(),
            kernel_version: "simulated".into(),
            os_image: "simulated".into(),
            container_runtime_version: format!("simulated://{}", env!("CARGO_PKG_VERSION")),
            machine_id: String::new(),
            boot_id: String::new(),
            pod_cidr: "10.128.0.0/9".into(),
            images: Vec::new(),
        }
    }

    fn refuse(what: &str) -> ApiError {
        ApiError::bad_request(format!(
            "{what} not available: this pod is on a simulated worker, where no container runs; start the server with \
             --workers podman to run pods"
        ))
    }
}

/// A Go duration in milliseconds.
fn duration(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    let mut total = 0f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest.get(..end)?.parse().ok()?;
        rest = rest.get(end..)?;
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        total += number
            * match rest.get(..end)? {
                "ms" => 1.0,
                "s" => 1_000.0,
                "m" => 60_000.0,
                "h" => 3_600_000.0,
                _ => return None,
            };
        rest = rest.get(end..)?;
    }
    Some(total.min(1e15) as i64)
}

fn annotation<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    pod.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// What a container uses that does not say: 1 to 16 thousandths of a core and 4 to 35 MiB, the same each time.
fn little(uid: &str, container: &str) -> (i64, i64) {
    let hash = Sha256::digest(format!("{uid}/{container}").as_bytes());
    let byte = |at: usize| i64::from(hash.get(at).copied().unwrap_or_default());
    ((byte(0) % 16 + 1) * 1_000_000, (byte(1) % 32 + 4) << 20)
}

/// An address that is the same for a pod each time and hardly ever that of another.
fn address(uid: &str) -> String {
    let hash = Sha256::digest(uid.as_bytes());
    let byte = |at: usize| hash.get(at).copied().unwrap_or_default();
    format!("10.{}.{}.{}", byte(0) | 0x80, byte(1), byte(2).clamp(1, 254))
}

/// What the worker would observe of a pod at a time, and when that changes.
fn observe(pod: &Value, now_ms: i64) -> (agent::PodStatus, Option<i64>) {
    let started = pod.some_text("/status/startTime").and_then(millis).unwrap_or(now_ms);
    let uid = pod.text("/metadata/uid");
    let life = |name: &str| annotation(pod, name).and_then(duration);
    let ready_at = started + life("vctl.dev/sim-ready-after").unwrap_or_default();
    let exit_code = annotation(pod, "vctl.dev/sim-exit-code").and_then(|c| c.trim().parse().ok()).unwrap_or_default();
    let policy = pod.some_text("/spec/restartPolicy").unwrap_or("Always");
    let restarts = policy == "Always" || (policy == "OnFailure" && exit_code != 0);
    let ended = |from: i64, to: i64, code: i32| agent::ContainerState {
        state: Some(State::Terminated(agent::Terminated {
            exit_code: code,
            reason: if code == 0 { "Completed" } else { "Error" }.to_owned(),
            started_at_ms: from,
            finished_at_ms: to,
            ..agent::Terminated::default()
        })),
    };
    let running =
        |from: i64| agent::ContainerState { state: Some(State::Running(agent::Running { started_at_ms: from })) };
    let (mut state, mut last_state, mut count, mut ready, mut next) =
        (running(started), None, 0, now_ms >= ready_at, None);
    if !ready {
        next = Some(ready_at);
    }
    if let Some(life) = life("vctl.dev/sim-complete-after") {
        if !restarts {
            let end = started + life;
            if now_ms >= end {
                (state, ready, next) = (ended(started, end, exit_code), false, None);
            } else {
                next = Some(next.map_or(end, |n| n.min(end)));
            }
        } else {
            let life = life.max(RESTART_MILLIS);
            count = (now_ms - started).max(0) / life;
            let from = started + count * life;
            if count > 0 {
                state = running(from);
                last_state = Some(ended(from - life, from, exit_code));
            }
            next = Some(next.map_or(from + life, |n| n.min(from + life)));
        }
    }
    let status = |container: &Value, state: agent::ContainerState, last_state, ready, started, count: i64| {
        let image = container.text("/image");
        agent::ContainerStatus {
            name: container.text("/name").to_owned(),
            state: Some(state),
            last_state,
            ready,
            started,
            restart_count: count as i32,
            image: image.to_owned(),
            image_id: image.to_owned(),
            container_id: format!("simulated://{uid}-{}", container.text("/name")),
        }
    };
    let init = |container: &Value| {
        if container.text("/restartPolicy") == "Always" {
            status(container, running(started), None, true, true, 0)
        } else {
            status(container, ended(started, started, 0), None, true, false, 0)
        }
    };
    let alive = matches!(state.state, Some(State::Running(_)));
    let observed = agent::PodStatus {
        uid: uid.to_owned(),
        pod_ip: pod.some_text("/status/podIP").map_or_else(|| address(uid), ToOwned::to_owned),
        host_ip: "127.0.0.1".into(),
        start_time_ms: started,
        init_containers: pod.items("/spec/initContainers").iter().map(init).collect(),
        containers: pod
            .items("/spec/containers")
            .iter()
            .map(|c| status(c, state.clone(), last_state.clone(), ready, alive, count))
            .collect(),
        sandbox_ready: alive,
        ..agent::PodStatus::default()
    };
    (observed, next)
}

#[async_trait::async_trait]
impl Target for Simulated {
    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn needs_context(&self) -> bool {
        false
    }

    fn expect(&self, pod: &Value, expected: agent::Pod, now_ms: i64) -> Observation {
        if expected.deletion_grace_seconds.is_some() {
            self.forget(&expected.uid);
            return Observation::Gone;
        }
        let amount = |name: &str| annotation(pod, name).and_then(quantity::parse);
        let (cpu, memory) = (amount("vctl.dev/sim-cpu"), amount("vctl.dev/sim-memory"));
        let containers = expected
            .containers
            .iter()
            .map(|c| {
                let (little_cpu, little_memory) = little(&expected.uid, &c.name);
                let memory = memory.map(|m| m / quantity::NANOS);
                agent::ContainerStats {
                    name: c.name.clone(),
                    cpu_nano_cores: cpu.map_or(little_cpu, |n| n.try_into().unwrap_or(i64::MAX)),
                    memory_working_set_bytes: memory.map_or(little_memory, |n| n.try_into().unwrap_or(i64::MAX)),
                }
            })
            .collect();
        let stats = agent::PodStats {
            uid: expected.uid.clone(),
            environment: expected.environment,
            namespace: expected.namespace,
            name: expected.name,
            containers,
            time_ms: now_ms,
            window_ms: WINDOW_MILLIS,
        };
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).insert(expected.uid, stats);
        let (status, again_ms) = observe(pod, now_ms);
        Observation::Now { status: Box::new(status), again_ms }
    }

    fn forget(&self, uid: &str) {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    fn stats(&self, uid: &str, now_ms: i64) -> Option<agent::PodStats> {
        let mut stats = self.usage.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()?;
        stats.time_ms = now_ms;
        Some(stats)
    }

    async fn logs(&self, _: ContainerTarget, _: LogOptions) -> Result<LogStream, ApiError> {
        Err(Self::refuse("logs are"))
    }

    async fn exec(&self, _: ContainerTarget, _: ExecOptions) -> Result<ExecSession, ApiError> {
        Err(Self::refuse("exec and attach are"))
    }

    async fn port_forward(&self, _: ContainerTarget, _: u16) -> Result<Box<dyn Duplex>, ApiError> {
        Err(Self::refuse("port-forward is"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(policy: &str, annotations: Value) -> Value {
        json!({
            "metadata": { "uid": "u", "annotations": annotations },
            "spec": { "restartPolicy": policy, "containers": [{ "name": "c", "image": "i" }] },
            "status": { "startTime": "1970-01-01T00:00:10Z" },
        })
    }

    fn at(pod: &Value, ms: i64) -> (bool, Option<i32>, i32, Option<i64>) {
        let (status, next) = observe(pod, ms);
        let c = &status.containers[0];
        let code = match c.state.as_ref().and_then(|s| s.state.as_ref()) {
            Some(State::Terminated(t)) => Some(t.exit_code),
            _ => None,
        };
        (c.ready, code, c.restart_count, next)
    }

    #[test]
    fn life_follows_the_annotations() {
        assert_eq!(at(&pod("Always", json!({})), 10_000), (true, None, 0, None));
        let slow = pod("Always", json!({ "vctl.dev/sim-ready-after": "1.5s" }));
        assert_eq!(at(&slow, 10_000), (false, None, 0, Some(11_500)));
        assert_eq!(at(&slow, 11_500), (true, None, 0, None));
        let job = pod("Never", json!({ "vctl.dev/sim-complete-after": "1m2s", "vctl.dev/sim-exit-code": "3" }));
        assert_eq!(at(&job, 10_000), (true, None, 0, Some(72_000)));
        assert_eq!(at(&job, 72_000), (false, Some(3), 0, None));
        let crash = pod("OnFailure", json!({ "vctl.dev/sim-complete-after": "1s", "vctl.dev/sim-exit-code": "1" }));
        assert_eq!(at(&crash, 31_000), (true, None, 2, Some(40_000)));
    }

    #[test]
    fn durations_are_gos() {
        for (text, ms) in [("500ms", 500), ("2s", 2_000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("0s", 0)] {
            assert_eq!(duration(text), Some(ms), "{text}");
        }
        for text in ["", "5", "s", "1x", "-1s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
