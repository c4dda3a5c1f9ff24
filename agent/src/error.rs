//! Why an agent cannot start or go on.

use crate::{config::ConfigError, podman::PodmanError};

/// An error that ends the agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A setting.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Podman or one of the tools it needs is not installed.
    #[error(
        "no {0} on this machine: install the container tools (apt-get install podman runc conmon iproute2 nftables), or run without containers: --workers simulated"
    )]
    ToolMissing(String),
    /// The agent creates network namespaces and firewall rules.
    #[error(
        "the agent must run as root (it creates network namespaces and nftables rules); or run without containers: --workers simulated"
    )]
    NotRoot,
    /// Podman's service does not work.
    #[error(transparent)]
    Podman(#[from] PodmanError),
    /// A file of the state directory.
    #[error("{what} {path}: {why}; make the state directory writable, or remove the damaged file and start again")]
    State {
        /// What was done.
        what: &'static str,
        /// The file.
        path: String,
        /// The system's message.
        why: String,
    },
    /// Addresses, namespaces or firewall rules.
    #[error("worker network: {0}")]
    Network(String),
    /// No certificate and no way to get one.
    #[error("worker certificate: {0}")]
    Identity(String),
    /// The measurements could not be served.
    #[error("measurements on {address}: {why}; choose another address for --metrics-listen, or leave it out")]
    Measurements {
        /// Address they were to be served on.
        address: String,
        /// Why not.
        why: String,
    },
    /// The resolver could not be started.
    #[error(
        "worker resolver on {address}: {why}; end the service that holds this address, or choose another --pod-cidr"
    )]
    Dns {
        /// Address it was to listen on.
        address: String,
        /// Why not.
        why: String,
    },
}

/// Wraps an I/O error with the path it is about.
pub(crate) fn state(what: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> AgentError {
    let path = path.display().to_string();
    move |e| AgentError::State { what, path, why: e.to_string() }
}
