//! What a pod can run on.

use serde_json::Value;
use vctl_api::agent;
use vctl_machinery::status::ApiError;

use crate::{
    ports::Duplex,
    streams::{ContainerTarget, ExecOptions, ExecSession, LogOptions, LogStream},
};

/// What a target knows of a pod right after it was told to have it.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// It will report.
    Later,
    /// This is its state now.
    Now {
        /// The state.
        status: Box<agent::PodStatus>,
        /// When to ask again, as Unix time in milliseconds; none when nothing will change by itself.
        again_ms: Option<i64>,
    },
    /// Nothing of the pod is left (it was to be deleted).
    Gone,
}

/// Where pods run: an agent's worker or a simulated one. All calls are idempotent.
#[async_trait::async_trait]
pub trait Target: Send + Sync {
    /// `podman`, `simulated`: shown to people.
    fn kind(&self) -> &'static str;

    /// Whether pods must be translated with all that they refer to. Without, references stay empty.
    fn needs_context(&self) -> bool;

    /// Makes a pod expected as it is now, also one that is being deleted. `pod` is the virtual object; `expected.uid` is what workers
    /// call it, and so is `uid` in all other calls.
    fn expect(&self, pod: &Value, expected: agent::Pod, now_ms: i64) -> Observation;

    /// The pod is no longer wanted; it is removed without grace.
    fn forget(&self, uid: &str);

    /// Use of resources by a pod, if known.
    fn stats(&self, uid: &str, now_ms: i64) -> Option<agent::PodStats>;

    /// Opens the log of a container.
    async fn logs(&self, target: ContainerTarget, options: LogOptions) -> Result<LogStream, ApiError>;

    /// Starts (or attaches to) a command in a container.
    async fn exec(&self, target: ContainerTarget, options: ExecOptions) -> Result<ExecSession, ApiError>;

    /// Connects to a TCP port inside the pod's network namespace. A refused connection is an error of the first read.
    async fn port_forward(&self, target: ContainerTarget, port: u16) -> Result<Box<dyn Duplex>, ApiError>;
}
