//! Why Helm did not do something.

use std::path::PathBuf;

use crate::error::Error;

/// Why Helm did not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HelmError {
    /// It is not installed.
    #[error(
        "the template installs Helm charts, and there is no {0:?} where the server runs: install Helm 3 or 4 there \
         (https://helm.sh/docs/intro/install/), or say where it is (`vctl up --helm FILE`)"
    )]
    Absent(PathBuf),
    /// Nobody has looked at what a chart would ask for, and the network cannot be taken away from Helm.
    #[error(
        "chart {chart:?} is an archive: what its schemas refer to is not looked at, so Helm may render it only without a network, which the \
         server cannot take away from it here ({why}). Let the server's user make namespaces (as root, by the sysctls \
         user.max_user_namespaces and kernel.unprivileged_userns_clone, by the seccomp profile of its container), or have the chart in \
         the template as a directory"
    )]
    Online {
        /// The chart, as the template names it.
        chart: String,
        /// Why it cannot be taken away.
        why: String,
    },
    /// It may work later.
    #[error("{command}: {why}")]
    Temporary {
        /// What was run.
        command: String,
        /// What it said.
        why: String,
    },
    /// It said no.
    #[error("{command}: {why}")]
    Refused {
        /// What was run.
        command: String,
        /// What it said.
        why: String,
    },
}

impl From<HelmError> for Error {
    fn from(e: HelmError) -> Self {
        match e {
            HelmError::Absent(_) => Self::invalid("helm-missing", e.to_string()),
            HelmError::Online { .. } => Self::invalid("helm-online", e.to_string()),
            HelmError::Temporary { .. } => Self::Unavailable(e.to_string()),
            HelmError::Refused { .. } => Self::invalid("broken-chart", e.to_string()),
        }
    }
}
