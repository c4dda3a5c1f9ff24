//! Pods: what is expected, what is there, and the one next change that brings them together.

pub(crate) mod backoff;
pub(crate) mod cgroup;
pub(crate) mod env;
pub(crate) mod handler;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod record;
pub(crate) mod spec;
pub(crate) mod status;
pub(crate) mod volumes;
pub(crate) mod worker;

/// The UID of a pod in its virtual cluster, as people know it; `id` is what the pod is called here (`agent.proto`, `Pod.uid`).
pub(crate) fn shown_uid(id: &str) -> &str {
    id.rsplit_once('.').map_or(id, |(_, uid)| uid)
}

/// Labels on containers: by these they are found again.
pub(crate) mod label {
    pub(crate) const WORKER: &str = "vctl.dev/worker";
    pub(crate) const UID: &str = "vctl.dev/pod-uid";
    pub(crate) const ENVIRONMENT: &str = "vctl.dev/environment";
    pub(crate) const NAMESPACE: &str = "vctl.dev/pod-namespace";
    pub(crate) const POD: &str = "vctl.dev/pod-name";
    pub(crate) const CONTAINER: &str = "vctl.dev/container";
    pub(crate) const ATTEMPT: &str = "vctl.dev/attempt";
}
