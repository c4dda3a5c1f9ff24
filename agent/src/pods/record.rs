//! What the agent remembers of a pod, on disk: restart counts, ends of containers, and which container is the present one.

use std::{collections::BTreeMap, fs, net::Ipv4Addr, path::Path};

use serde::{Deserialize, Serialize};
use vctl_api::agent::Pod;

use crate::{
    error::{AgentError, state},
    files,
};

/// How a container ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) started_ms: i64,
    pub(crate) finished_ms: i64,
    pub(crate) id: String,
}

/// The present attempt of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Never created, or to be created again.
    #[default]
    Absent,
    Running {
        started_ms: i64,
    },
    Exited(Exit),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    pub(crate) attempt: u32,
    pub(crate) id: String,
    pub(crate) image: String,
    pub(crate) image_id: String,
    pub(crate) phase: Phase,
    pub(crate) last: Option<Exit>,
    pub(crate) restarts: i32,
    /// Restarts in a row, each after a short run: what the back-off grows with.
    pub(crate) crashes: u32,
    /// The last attempt to start failed: reason and message.
    pub(crate) start_error: Option<(String, String)>,
    pub(crate) retry_at_ms: i64,
    /// The agent itself ends it.
    pub(crate) killed: bool,
}

/// All of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PodRecord {
    pub(crate) uid: String,
    pub(crate) environment: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) start_ms: i64,
    pub(crate) pod_ip: Option<Ipv4Addr>,
    pub(crate) containers: BTreeMap<String, ContainerRecord>,
    /// The pod has ended for a reason of its own: reason and message.
    pub(crate) failed: Option<(String, String)>,
    /// When the containers of a pod that is being deleted are killed.
    pub(crate) stop_deadline_ms: Option<i64>,
}

impl PodRecord {
    pub(crate) fn new(pod: &Pod, now_ms: i64) -> Self {
        Self {
            uid: pod.uid.clone(),
            environment: pod.environment.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            start_ms: now_ms,
            ..Self::default()
        }
    }

    pub(crate) fn container(&self, name: &str) -> ContainerRecord {
        self.containers.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn container_mut(&mut self, name: &str) -> &mut ContainerRecord {
        self.containers.entry(name.to_owned()).or_default()
    }

    pub(crate) fn load(dir: &Path) -> Result<Option<Self>, AgentError> {
        let path = dir.join("record.json");
        match files::read_if_present(&path).map_err(state("reading", &path))? {
            None => Ok(None),
            Some(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| AgentError::State {
                what: "reading",
                path: path.display().to_string(),
                why: e.to_string(),
            }),
        }
    }

    pub(crate) fn save(&self, dir: &Path) -> Result<(), AgentError> {
        fs::create_dir_all(dir).map_err(state("creating", dir))?;
        let path = dir.join("record.json");
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        files::replace(&path, &bytes, 0o600).map_err(state("writing", &path))
    }
}
