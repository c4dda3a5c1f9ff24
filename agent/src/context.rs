//! What all parts of a running agent share.

use std::{path::PathBuf, sync::Arc};

use tokio::sync::Semaphore;
use vctl_api::agent::{Pod, PodEvent};
use vctl_runtime::{clock::Clock, tasks::Tasks};

use crate::{
    config::Config, hooks::DnsService, measured::Measured, network::Network, outbox::Outbox, podman::Podman,
    pods::cgroup, volumes::PersistentVolumes,
};

pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) podman: Podman,
    pub(crate) network: Network,
    pub(crate) outbox: Outbox,
    pub(crate) dns: Arc<dyn DnsService>,
    /// Volumes that outlive pods.
    pub(crate) volumes: PersistentVolumes,
    /// What is counted.
    pub(crate) measured: Measured,
    /// One permit per pod that is being worked on.
    pub(crate) permits: Semaphore,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
}

impl Context {
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    /// Name of this agent's control group: the same after a restart, and not another agent's.
    pub(crate) fn group(&self) -> String {
        cgroup::root(&self.config.worker, &self.config.state_dir)
    }

    pub(crate) fn pods_dir(&self) -> PathBuf {
        self.config.state_dir.join("pods")
    }

    pub(crate) fn pod_dir(&self, uid: &str) -> PathBuf {
        self.pods_dir().join(uid)
    }

    /// Reports an event of a pod, or of one of its containers.
    pub(crate) fn event(&self, pod: &Pod, warning: bool, reason: &str, message: impl Into<String>, container: &str) {
        let kind = if warning { "Warning" } else { "Normal" };
        self.measured.event(kind);
        self.outbox.event(PodEvent {
            uid: pod.uid.clone(),
            environment: pod.environment.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            r#type: kind.to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            container: container.to_owned(),
            init: pod.init_containers.iter().any(|c| c.name == container),
            time_ms: self.now_ms(),
        });
    }
}
