//! Who may use an environment's Kubernetes API.

use super::Identity;
use crate::{documents::EnvironmentDoc, error::Error};

/// What somebody may do inside of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EnvironmentUse {
    /// Nothing.
    None,
    /// See what the role `view` shows.
    Viewer,
    /// Everything.
    Admin,
}

/// Decides who may use which environment. Asked for every request: no answer is kept.
#[async_trait::async_trait]
pub(crate) trait MayUse: Send + Sync {
    /// What this user may do inside of this environment. What the credential allows is not looked at.
    async fn may_use(&self, identity: &Identity, environment: &EnvironmentDoc) -> Result<EnvironmentUse, Error>;
}
