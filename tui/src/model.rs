//! What the dashboard shows, and what it asks for.

use jiff::Timestamp;
use tokio::sync::mpsc;
use vctl_api::rest::{Environment, Worker};

/// A pod of the environment that is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Containers that are ready.
    pub ready: u32,
    /// All its containers.
    pub containers: u32,
    /// As kubectl shows it: `Running`, `Init:0/1`, `ImagePullBackOff`, ..
    pub status: String,
    /// Restarts of all containers.
    pub restarts: u32,
    /// Address, or empty.
    pub ip: String,
    /// Worker it is bound to, or empty.
    pub node: String,
    /// When it was created.
    pub created: Option<Timestamp>,
}

/// An Event of the environment that is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When it was seen last.
    pub at: Option<Timestamp>,
    /// It is a warning.
    pub warning: bool,
    /// `CamelCase` reason.
    pub reason: String,
    /// What it is about: `Pod default/web-1`.
    pub object: String,
    /// How often it was seen.
    pub count: u32,
    /// What happened.
    pub message: String,
}

/// News for the dashboard. Each replaces what was known of its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// All environments.
    Environments(Vec<Environment>),
    /// All workers.
    Workers(Vec<Worker>),
    /// All pods of an environment.
    Pods {
        /// Of which.
        environment: String,
        /// The pods.
        pods: Vec<Pod>,
    },
    /// The events of an environment, newest first.
    Events {
        /// Of which.
        environment: String,
        /// The events.
        events: Vec<Event>,
    },
    /// Pods and events of an environment cannot be had (yet); this is shown in their place while none are known.
    Unreachable {
        /// Of which.
        environment: String,
        /// Why.
        why: String,
    },
    /// Data cannot be had; what is shown grows old. The text is shown until [`Data::Connected`].
    Trouble(String),
    /// Data flows (again).
    Connected,
}

/// What the dashboard asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Bring pods and events of this environment from now on, and of no other.
    Follow(String),
}

/// Where the data comes from.
#[async_trait::async_trait]
pub trait Source: Send {
    /// Sends what there is and every change of it, and follows requests, until one of the channels closes. It must not block its thread.
    async fn feed(self: Box<Self>, requests: mpsc::Receiver<Request>, data: mpsc::Sender<Data>);
}
