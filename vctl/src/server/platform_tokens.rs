//! Joins the tokens that the portal makes with the virtual control planes that they are for.

use std::sync::OnceLock;

use vctl_portal::{EnvironmentUser, Portal};
use vctl_vcluster::config::{PlatformTokens as Port, PlatformUser};

/// The portal, once there is one: it needs the control planes first. Until then no token counts; nothing is served either.
#[derive(Default)]
pub(crate) struct PlatformTokens(OnceLock<Portal>);

impl PlatformTokens {
    pub(crate) fn connect(&self, portal: Portal) {
        // Connected once, by the one place that makes both.
        let _ = self.0.set(portal);
    }
}

#[async_trait::async_trait]
impl Port for PlatformTokens {
    fn recognises(&self, token: &str) -> bool {
        Portal::is_environment_token(token)
    }

    async fn authenticate(&self, cluster: &str, token: &str) -> Result<PlatformUser, String> {
        let portal = self.0.get().ok_or("the server is starting")?;
        let EnvironmentUser { name, uid, admin } =
            portal.environment_user(cluster, token).await.map_err(|e| e.to_string())?;
        Ok(PlatformUser { name, uid, admin })
    }
}
