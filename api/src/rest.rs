//! Types of the REST API under `/api/v1`. Field names are camelCase on the wire; times are RFC 3339 in UTC.

mod access;
mod approvals;
mod audit;
mod identity;
mod lifecycle;
mod resources;
mod templates;
mod usage;
mod webhooks;

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    access::{
        CreateProject, DEFAULT_PROJECT, EnvironmentQuota, LimitHolder, LimitUnit, LimitUsage, Member, MemberKind,
        Permissions, Platform, PlatformSettings, Project, ProjectSettings, Quota, QuotaUsage, Role, RoleSettings,
        Share, ShareAccess, Team, TeamSettings, Usage,
    },
    approvals::*,
    audit::*,
    identity::*,
    lifecycle::*,
    resources::*,
    templates::*,
    usage::*,
    webhooks::*,
};
use crate::names::EnvironmentName;

/// An environment: a virtual cluster made from a version of a template, with its jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    /// Unique name; also the name of the virtual cluster.
    pub name: EnvironmentName,
    /// Unique over time: a deleted and re-created environment has another one.
    pub uid: String,
    /// Name of the template it was made from.
    pub template: String,
    /// Version of that template.
    pub template_version: String,
    /// The newest stable version, when it is newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer_version: Option<String>,
    /// The parameters given, with defaults filled in; passwords are never returned.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// What its dependencies are.
    #[serde(default)]
    pub kind: EnvironmentKind,
    /// The resources that it is bound to, by the template's bindings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, String>,
    /// Where it is in its life.
    pub phase: Phase,
    /// What that phase is about, for people; empty when there is nothing to say.
    pub message: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was first ready.
    pub ready_at: Option<Timestamp>,
    /// Address of its API server.
    pub server: String,
    /// Kubernetes version it serves, such as `v1.36.0`.
    pub kubernetes_version: String,
    /// The project it belongs to.
    #[serde(default = "default_project")]
    pub project: String,
    /// Who asked for it; may do everything with it.
    pub owner: String,
    /// With whom it is shared, and how.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, ShareAccess>,
    /// The job that last worked on it.
    pub job: Option<String>,
    /// Pods that are ready, of all its pods.
    pub pods: PodCounts,
    /// What happens to it at which time.
    #[serde(default)]
    pub lifecycle: Lifecycle,
    /// Revision for conditional requests (`ETag`).
    pub revision: u64,
}

fn default_project() -> String {
    DEFAULT_PROJECT.to_owned()
}

/// Ready pods of all pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodCounts {
    /// Pods whose Ready condition is true.
    pub ready: u32,
    /// All pods that have not finished.
    pub total: u32,
}

/// Where an environment is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Asked for; its job has not finished.
    Creating,
    /// Its control plane serves and the workloads of its template are ready.
    Ready,
    /// Its job has failed; `message` says why.
    Failed,
    /// Being deleted.
    Deleting,
    /// Nothing of it runs; its objects can be read, and a write wakes it. While it is going to sleep `message` says what still runs.
    Sleeping,
    /// It slept, and is being started again.
    Waking,
    /// It is brought to another version or to other parameters.
    Updating,
}

/// Body of `POST /api/v1/environments`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [{"name": "my-env", "template": "blank"}]))]
pub struct CreateEnvironment {
    /// The name asked for. Checked by the server, so that its error can carry a suggestion.
    #[schemars(regex(pattern = crate::names::PATTERN))]
    pub name: String,
    /// The project it is to belong to.
    #[serde(default = "default_project")]
    pub project: String,
    /// The template: `NAME` for its newest stable version, `NAME@VERSION` or `NAME@CHANNEL`.
    pub template: String,
    /// Parameters by name: JSON values, or strings, which are parsed by the parameter's type.
    #[serde(default)]
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Minor version of Kubernetes, such as `1.35`; else the template's, else the server's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Whose tokens count besides the cluster's own: an `AuthenticationConfiguration` of `apiserver.config.k8s.io/v1`; else the
    /// template's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<serde_json::Value>,
    /// What its dependencies are: `mocked` unless it is said.
    #[serde(default)]
    pub kind: EnvironmentKind,
    /// Resources by the template's bindings, for the kind `real`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, String>,
    /// It is deleted so long from now; else as the template says. At most as far as the template allows an extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Period>,
    /// Why it is wanted. Where rules ask for approval a request without it is refused (`approval-required`); with it, it waits for approval.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Body of `PUT`, and answer of `GET /api/v1/environments/NAME/authentication`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authentication {
    /// Whose tokens count besides the cluster's own: an `AuthenticationConfiguration` of `apiserver.config.k8s.io/v1`, or null.
    #[serde(default)]
    pub authentication: Option<serde_json::Value>,
}

/// Body of `POST /api/v1/environments/NAME/rotate-ca`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateCa {
    /// The old authority counts no more as soon as the new one signs. Ends an overlap that is under way.
    #[serde(default)]
    pub now: bool,
    /// Seconds for which the old authority still counts: a day when nothing is said, at most 90 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 7_776_000))]
    pub overlap_seconds: Option<u64>,
}

/// A template, with what a person can set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Unique name.
    pub name: String,
    /// Version (semver).
    pub version: String,
    /// One line for lists.
    pub title: String,
    /// What it gives, for people.
    pub description: String,
    /// What can be set.
    pub parameters: Vec<Parameter>,
    /// Its dependencies, which can be stand-ins or registered resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bindings: Vec<Binding>,
}

/// A parameter of a template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameter {
    /// Its name, as in `--set name=value`.
    pub name: String,
    /// What values it takes.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// One line for people.
    #[serde(default)]
    pub help: String,
    /// Heading under which forms show it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub section: String,
    /// Must be given (when there is no default).
    #[serde(default)]
    pub required: bool,
    /// Used when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<serde_json::Value>,
    /// Allowed values of a choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Smallest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// Largest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// Only whole numbers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub integer: bool,
    /// Only the minimum (or 0) and whole steps from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// Regular expression that the whole string must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Only resources of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_kind: Option<ResourceKind>,
}

/// Type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Text.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Text that is never shown again.
    Password,
    /// One of `choices`.
    Choice,
    /// Text of several lines.
    Text,
    /// Name of a registered resource, of `resourceKind` when that is said.
    Resource,
}

/// A durable piece of work on an environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Unique id.
    pub id: String,
    /// The environment it works on.
    pub environment: EnvironmentName,
    /// What it does.
    pub operation: Operation,
    /// Whether it is done.
    pub state: JobState,
    /// How often it was started; a crash in the middle starts it again.
    pub attempt: u32,
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it failed and what to do next; empty otherwise.
    pub error: String,
    /// What it has said so far, oldest first; only the last lines of a long job.
    #[serde(default)]
    pub log: Vec<LogLine>,
    /// Revision, for `GET /api/v1/jobs/ID?changedAfter=REVISION`.
    #[serde(default)]
    pub revision: u64,
}

/// One line of a job's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// When it was said.
    pub at: Timestamp,
    /// Name of the step that said it.
    pub step: String,
    /// What it said.
    pub message: String,
}

/// Answer of `GET /api/v1/session`: who is asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Who, as the audit trail says it.
    pub actor: String,
    /// May do everything on this server.
    pub administrator: bool,
    /// Goes into `X-CSRF-Token` of every change that a browser makes; none for a bearer token, which needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csrf_token: Option<String>,
    /// Version of the server.
    pub server_version: String,
}

/// Data of an event of `GET /api/v1/events` (`text/event-stream`); the event's name is `change`; its id is only
/// good for `Last-Event-ID`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Change {
    /// An environment was created or changed.
    Environment {
        /// As it is now, without pod counts.
        object: Box<Environment>,
    },
    /// An environment is gone.
    EnvironmentDeleted {
        /// Its name.
        name: EnvironmentName,
    },
    /// A job was enqueued or made progress.
    Job {
        /// As it is now.
        object: Box<Job>,
    },
    /// Somebody asked for approval, or it was decided, carried out or came to its end.
    Approval {
        /// Id of the request. What it is now is to be read: it differs with who reads.
        id: String,
        /// Its state.
        state: ApprovalState,
    },
    /// Events were missed: read everything again.
    Reset,
}

/// The file `server.json` in the data dir of a running server, by which local commands find it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerFile {
    /// Base address, such as `https://127.0.0.1:8443`.
    pub url: String,
    /// Address it listens on.
    pub listen: String,
    /// Its process id.
    pub pid: u32,
    /// Version of the server.
    pub version: String,
    /// PEM file with the certificate authority that signed its certificate; relative to the data dir or absolute.
    pub ca_file: String,
    /// File with the local administrator's bearer token; relative to the data dir or absolute.
    pub token_file: String,
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Creates an environment.
    Create,
    /// Deletes an environment and everything it has on workers.
    Delete,
    /// Gives an environment another certificate authority.
    #[serde(rename = "rotate-ca")]
    RotateCa,
    /// Stops what runs for an environment.
    Sleep,
    /// Starts it again.
    Wake,
    /// Brings an environment to another version of its template, or to other parameters.
    Update,
}

/// Whether a job or step is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waiting for its turn.
    Pending,
    /// Being worked on.
    Running,
    /// Done.
    Succeeded,
    /// Given up; see the error.
    Failed,
    /// Stopped because another job made it pointless.
    Cancelled,
}

/// One step of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// What it does, for people: `apply manifests`.
    pub name: String,
    /// Whether it is done.
    pub state: JobState,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The latest news from it, for people.
    pub message: String,
}

/// A machine or cluster that runs pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Worker {
    /// Name; also that of its Node in each environment.
    pub name: String,
    /// `podman` or `simulated`.
    pub kind: String,
    /// Whether its agent is connected.
    pub connected: bool,
    /// When its agent was last heard of.
    pub last_seen: Option<Timestamp>,
    /// Pods on it.
    pub pods: u32,
    /// Allocatable CPU in thousandths of a core.
    pub cpu_millis: i64,
    /// Allocatable memory in bytes.
    pub memory_bytes: i64,
    /// Container runtime and version.
    pub runtime: String,
}

/// Answer of `GET /api/v1/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    /// Version of the server.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Address it listens on.
    pub listen: String,
    /// When it started.
    pub started_at: Timestamp,
    /// Number of environments.
    pub environments: u32,
    /// Its workers.
    pub workers: Vec<Worker>,
    /// Resident memory in bytes, where it can be read.
    pub resident_bytes: Option<u64>,
}

/// Answer of `GET /api/v1/environments/NAME/kubeconfig`: a kubeconfig as YAML text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kubeconfig {
    /// The kubeconfig.
    pub kubeconfig: String,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PageOf{T}")]
pub struct Page<T> {
    /// Its items.
    pub items: Vec<T>,
    /// Pass as `?cursor=` for the items that follow; none on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How many items match, on this page and all others; not said of lists that are read further and further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// How many items that match have which value, by field, where `?counts=` asks for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, BTreeMap<String, u64>>,
}

/// An error as `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// HTTP status.
    pub status: u16,
    /// Short name of the kind of error: `not-found`, `already-exists`, `invalid`, `unauthorized`, ..
    #[serde(rename = "type")]
    pub kind: String,
    /// What happened and what to do next, for people.
    pub detail: String,
    /// Names near the one that was not found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
    /// Request id to quote to an operator.
    #[serde(default, rename = "requestId")]
    pub request_id: String,
    /// Of a 412: what is there now, so that both can be shown and merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Box<serde_json::Value>>,
}
