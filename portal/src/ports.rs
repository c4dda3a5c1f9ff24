//! What the portal needs of the rest of the platform. Implemented in `vctl/` over the virtual control planes and the syncer.
//!
//! Every call may be repeated after a crash and must then have the same effect as one call.

use axum::body::Body;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vctl_api::{
    names::EnvironmentName,
    rest::{PodCounts, Worker},
};
use vctl_machinery::{requests::Requests, version::MinorVersion};
use vctl_store::TenantBackup;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// May pass by itself: the job tries again.
    #[error("{0}")]
    Temporary(String),
    /// Trying again cannot help: the job fails with this text, which says what to do.
    #[error("{0}")]
    Permanent(String),
}

/// How far one workload is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Kind in lower case, as kubectl prints it: `deployment`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Ready replicas of the newest revision.
    pub ready: u32,
    /// Replicas wanted.
    pub desired: u32,
    /// The controller has seen the newest spec and all wanted replicas of it are ready.
    pub done: bool,
    /// Why it has fewer pods than it wants, as its controller says: a quota, perhaps. Empty where it does not say.
    pub why: String,
}

/// A pod that is not ready, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadyPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Container or condition with the reason: `container web: ImagePullBackOff: image not known`.
    pub reason: String,
}

/// How far the workloads of an environment are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Its workloads: Deployments, StatefulSets, DaemonSets, Jobs, bare ReplicaSets.
    pub workloads: Vec<Workload>,
    /// Its pods that are not ready.
    pub unready_pods: Vec<UnreadyPod>,
}

/// An object of a virtual cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for `default`, and for objects without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What applying a document did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It was not there.
    Created,
    /// It was changed.
    Configured,
    /// It was as wanted already.
    Unchanged,
}

/// A step on the way to another certificate authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorityStep {
    /// A new one is made and trusted beside the old one. With `at_once`, an overlap that is under way is left as it is, for
    /// [`AuthorityStep::Drop`] to end.
    Announce {
        /// The old one is to be dropped in the same job.
        at_once: bool,
    },
    /// All namespaces hold what is trusted.
    Publish,
    /// The new one signs; the old one is trusted for a while.
    Switch {
        /// How long.
        overlap: std::time::Duration,
    },
    /// The old one is trusted no more.
    Drop,
}

/// Who asks an environment's Kubernetes API by way of the portal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesUser {
    /// User name.
    pub name: String,
    /// Stable id.
    pub uid: String,
    /// Whether they may do everything in it, or only see what the role `view` shows.
    pub admin: bool,
}

/// What an environment uses at this moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consumption {
    /// Its name.
    pub environment: String,
    /// Processors, in billionths: what workers have measured last.
    pub cpu_nano_cores: u64,
    /// Working set in bytes.
    pub memory_bytes: u64,
    /// Requests that its API server has answered since the server was started. Smaller than before: another one has its name.
    pub requests: u64,
}

/// The virtual control planes.
#[async_trait::async_trait]
pub trait ControlPlanes: Send + Sync {
    /// Creates the virtual cluster of an environment; nothing when it is there already.
    async fn create(
        &self,
        name: &EnvironmentName,
        kubernetes: MinorVersion,
        authentication: Option<Value>,
    ) -> Result<(), PortError>;

    /// Checks an AuthenticationConfiguration.
    ///
    /// # Errors
    /// Everything that is wrong with it, for people.
    fn check_authentication(&self, configuration: &Value) -> Result<(), String>;

    /// Sets whose tokens count in the virtual cluster besides its own.
    async fn set_authentication(&self, name: &EnvironmentName, configuration: Option<Value>) -> Result<(), PortError>;

    /// Checks an audit Policy.
    ///
    /// # Errors
    /// Everything that is wrong with it, for people.
    fn check_audit_policy(&self, policy: &Value) -> Result<(), String>;

    /// Sets what is recorded of requests to the virtual cluster; none: what the server's own policy says.
    async fn set_audit_policy(&self, name: &EnvironmentName, policy: Option<Value>) -> Result<(), PortError>;

    /// Whether the virtual cluster is there.
    async fn exists(&self, name: &EnvironmentName) -> Result<bool, PortError>;

    /// Applies one document (server-side apply, forced, as field manager `vctl-template`) with the rights of a cluster
    /// administrator. A namespaced document without a namespace goes to `default`.
    async fn apply(&self, name: &EnvironmentName, document: &Value) -> Result<Applied, PortError>;

    /// Removes an object that the template wrote (as field manager `vctl-template`), with all that it owns; false when it is not there,
    /// or nothing of it is the template's.
    async fn remove(&self, name: &EnvironmentName, object: &ObjectRef) -> Result<bool, PortError>;

    /// How far its workloads are.
    async fn readiness(&self, name: &EnvironmentName) -> Result<Readiness, PortError>;

    /// Its pods: ready, and all that have not finished. Zero when the virtual cluster is not there.
    async fn pods(&self, name: &EnvironmentName) -> Result<PodCounts, PortError>;

    /// Stops everything that runs for the environment and returns what is left on workers, for people (`pod default/web-1 on
    /// worker local`). Called again until nothing is left; nothing new may start after the first call. Empty when the virtual
    /// cluster is not there and no worker has anything of it.
    async fn drain(&self, name: &EnvironmentName) -> Result<Vec<String>, PortError>;

    /// Puts the virtual cluster to sleep: its controllers do nothing from now on, and workers stop what they run of it.
    async fn sleep(&self, name: &EnvironmentName) -> Result<(), PortError>;

    /// What workers still run of a virtual cluster that sleeps, for people; empty for one that is awake.
    async fn running_asleep(&self, name: &EnvironmentName) -> Result<Vec<String>, PortError>;

    /// Wakes the virtual cluster: controllers look at all of it, and workers run it again.
    async fn wake(&self, name: &EnvironmentName) -> Result<(), PortError>;

    /// When somebody last sent a request to its API, its own pods and nodes apart; none since the server was started.
    async fn last_request(&self, name: &EnvironmentName) -> Result<Option<Timestamp>, PortError>;

    /// Waits for a write to a virtual cluster that sleeps: it is to wake.
    async fn wake_requested(&self) -> EnvironmentName;

    /// What is requested in it, asleep or awake, also by what is about to be written; nothing when it is not there.
    async fn requested(&self, name: &EnvironmentName) -> Result<Requests, PortError>;

    /// What is requested in one that is put back from a backup.
    async fn requested_by(&self, backup: &TenantBackup) -> Requests;

    /// On which workers its pods may be has changed ([`crate::Portal::cluster_rules`]): those that wait are looked at again.
    async fn placement_changed(&self, name: &EnvironmentName);

    /// What all environments use. Those that use nothing may be left out.
    async fn consumption(&self) -> Result<Vec<Consumption>, PortError>;

    /// Removes the virtual cluster with everything in it; nothing when it is not there.
    async fn delete(&self, name: &EnvironmentName) -> Result<(), PortError>;

    /// One step of giving the virtual cluster another certificate authority; a step that was made already changes nothing.
    async fn change_authority(&self, name: &EnvironmentName, step: AuthorityStep) -> Result<(), PortError>;

    /// Everything in the virtual cluster, at one moment.
    async fn snapshot(&self, name: &EnvironmentName) -> Result<TenantBackup, PortError>;

    /// Puts a virtual cluster back under a name, in place of what has that name: whole, or nothing changes.
    async fn restore(&self, name: &EnvironmentName, backup: &TenantBackup) -> Result<(), PortError>;

    /// Drops its history before this moment; the revision that is its oldest from now on.
    async fn compact(&self, name: &EnvironmentName) -> Result<u64, PortError>;

    /// A kubeconfig for its administrator, as YAML. Its context is named `vctl_NAME`.
    async fn kubeconfig(&self, name: &EnvironmentName) -> Result<String, PortError>;

    /// The same for programs that the server runs: by the address that it listens on.
    async fn local_kubeconfig(&self, name: &EnvironmentName) -> Result<String, PortError>;

    /// Answers a request to its API server, which has come by way of the portal and has been authenticated there. The request's path is
    /// that of the API server; `prefix` is what was taken off it.
    async fn serve(
        &self,
        name: &EnvironmentName,
        user: KubernetesUser,
        prefix: String,
        request: http::Request<Body>,
    ) -> http::Response<Body>;

    /// Address of its API server.
    fn server(&self, name: &EnvironmentName) -> String;
}

/// The workers.
#[async_trait::async_trait]
pub trait Workers: Send + Sync {
    /// All workers that the server knows.
    async fn list(&self) -> Result<Vec<Worker>, PortError>;
}
