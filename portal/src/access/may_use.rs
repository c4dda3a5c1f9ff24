//! Who may use an environment's Kubernetes API: whoever has `environments.connect` for it as its administrator, whoever has
//! `environments.connectReadOnly` as one who reads.

use super::{Access, permission::Permission, policy::Limit};
use crate::{
    auth::{
        Identity,
        may_use::{EnvironmentUse, MayUse},
    },
    documents::EnvironmentDoc,
    error::Error,
};

#[async_trait::async_trait]
impl MayUse for Access {
    async fn may_use(&self, identity: &Identity, environment: &EnvironmentDoc) -> Result<EnvironmentUse, Error> {
        let allowed = self.permit(identity.into(), Limit::NONE).await?.on(environment);
        Ok(if allowed.contains(Permission::EnvironmentsConnect) {
            EnvironmentUse::Admin
        } else if allowed.contains(Permission::EnvironmentsConnectReadOnly) {
            EnvironmentUse::Viewer
        } else {
            EnvironmentUse::None
        })
    }
}
