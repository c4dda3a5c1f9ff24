//! Environments that sleep: their pods stay as objects, and nothing of them runs. A pod that is put to sleep ends as if it had been
//! deleted, with its grace; then its status says that it is to start. When the environment wakes it is started where it was, as after
//! a restart of its node.

use serde_json::Value;
use vctl_api::agent::{self, container_state::State};
use vctl_store::Tenant;

use super::{
    Inner,
    engine::{Work, WorkError, document},
    names::expected,
    pods::Bound,
    state::PodKey,
};
use crate::{
    json::{Json, time},
    target::Observation,
    translate::Context,
};

/// `status.message` of a pod that sleeps.
const MESSAGE: &str = "the environment sleeps; a write, or `vctl wake`, starts the pod again";
/// Grace of a pod that does not say.
const GRACE_SECONDS: i64 = 30;

/// Whether a pod has ended for good: it is left as it is.
pub(super) fn is_finished(pod: &Value) -> bool {
    matches!(pod.text("/status/phase"), "Succeeded" | "Failed")
}

/// Whether its status says that it sleeps.
pub(super) fn is_stopped(pod: &Value) -> bool {
    pod.text("/status/message") == MESSAGE && pod.there("/status/startTime").is_none()
}

impl Inner {
    /// An environment has gone to sleep, or is awake: its pods are looked at when that is news.
    pub(super) fn set_asleep(&self, tenant: Tenant, asleep: bool) {
        let news = {
            let mut state = self.lock();
            if asleep { state.asleep.insert(tenant) } else { state.asleep.remove(&tenant) }
        };
        if news {
            self.add_first(Work::Pods(tenant));
        }
    }

    pub(super) fn is_asleep(&self, tenant: Tenant) -> bool {
        self.lock().asleep.contains(&tenant)
    }

    /// Looks at all pods of an environment that are bound.
    pub(super) async fn reconcile_pods(&self, tenant: Tenant) -> Result<(), WorkError> {
        for entry in self.list(tenant, "pods", None).await? {
            if document(&entry)?.some_text("/spec/nodeName").is_some() {
                let (namespace, name) = (entry.key.namespace.clone(), entry.key.name.clone());
                self.add_first(Work::Pod(PodKey { tenant, namespace, name }));
            }
        }
        Ok(())
    }

    /// Stops a pod of an environment that sleeps; when nothing of it is left, its status says so and it is forgotten.
    pub(super) async fn stop_asleep(&self, key: &PodKey, bound: &Bound, pod: Value) -> Result<(), WorkError> {
        let now = self.now_ms();
        if !bound.gone {
            let mut ending = pod.clone();
            let grace = pod.number("/spec/terminationGracePeriodSeconds").unwrap_or(GRACE_SECONDS);
            ending["metadata"]["deletionTimestamp"] = time(now + grace.saturating_mul(1000)).into();
            ending["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            let context = if bound.target.needs_context() {
                self.context(key, &ending, bound).await?.0
            } else {
                Context { environment: bound.environment.to_string(), ..Context::default() }
            };
            if bound.target.expect(&ending, expected(key, &ending, &context), now) != Observation::Gone {
                // It reports when it has ended.
                return Ok(());
            }
        }
        let observed = stopped(&pod);
        let mut pod = pod;
        if let Some(status) = pod["status"].as_object_mut() {
            for field in ["podIP", "podIPs", "startTime"] {
                status.remove(field);
            }
        }
        let mut new = crate::status::status(&pod, &observed, now);
        if let Some(status) = new.as_object_mut() {
            // It starts anew when it wakes: its deadline counts from then.
            status.remove("startTime");
        }
        self.put_status(key, bound, pod, new).await?;
        self.drop_pod(key);
        Ok(())
    }

    /// See [`super::Hub::running_asleep`].
    pub(super) fn running_asleep(&self, environment: &str) -> Vec<String> {
        if !*self.synced.borrow() {
            return vec!["workers that have not been looked at since the server started".to_owned()];
        }
        let state = self.lock();
        let Some(tenant) = state.by_name.get(environment).copied() else { return Vec::new() };
        if !state.asleep.contains(&tenant) {
            return vec!["workers that have not been told yet".to_owned()];
        }
        // What a worker that is away for long still runs ends when it comes back.
        let away = |node: &str| state.workers.get(node).is_some_and(|worker| worker.away);
        let mut left: Vec<String> = state
            .pods
            .iter()
            .filter(|(key, pod)| key.tenant == tenant && !pod.finished && !away(&pod.node))
            .map(|(key, pod)| format!("pod {}/{} on worker {}", key.namespace, key.name, pod.node))
            .collect();
        left.sort();
        left
    }
}

/// What is observed of a pod that sleeps: all its containers wait, with the restarts they had.
fn stopped(pod: &Value) -> agent::PodStatus {
    let waiting = |container: &Value, before: &[Value]| {
        let name = container.text("/name");
        let restarts = before.iter().find(|s| s.text("/name") == name).and_then(|s| s.number("/restartCount"));
        agent::ContainerStatus {
            name: name.to_owned(),
            state: Some(agent::ContainerState {
                state: Some(State::Waiting(agent::Waiting {
                    reason: "Sleeping".to_owned(),
                    message: MESSAGE.to_owned(),
                })),
            }),
            restart_count: restarts.and_then(|n| i32::try_from(n).ok()).unwrap_or_default(),
            ..agent::ContainerStatus::default()
        }
    };
    let all = |kind: &str, statuses: &str| {
        let before = pod.items(statuses);
        pod.items(kind).iter().map(|c| waiting(c, before)).collect()
    };
    agent::PodStatus {
        uid: pod.text("/metadata/uid").to_owned(),
        message: MESSAGE.to_owned(),
        init_containers: all("/spec/initContainers", "/status/initContainerStatuses"),
        containers: all("/spec/containers", "/status/containerStatuses"),
        ..agent::PodStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stopped_pod_is_pending_and_keeps_its_restarts() {
        let pod = json!({
            "metadata": { "uid": "u" },
            "spec": { "restartPolicy": "Always", "initContainers": [{ "name": "i" }], "containers": [{ "name": "c", "image": "x" }] },
            "status": { "phase": "Running", "containerStatuses": [{ "name": "c", "restartCount": 3 }] },
        });
        let status = crate::status::status(&pod, &stopped(&pod), 1_000);
        assert_eq!(status["phase"], "Pending");
        assert_eq!(status["containerStatuses"][0]["restartCount"], 3);
        assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "Sleeping");
        let ready = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!(ready["status"], "False");
        let mut slept = pod;
        slept["status"] = status;
        assert!(!is_stopped(&slept), "with a start time it is taken for one that runs");
        slept["status"].as_object_mut().unwrap().remove("startTime");
        assert!(is_stopped(&slept) && !is_finished(&slept));
    }
}
