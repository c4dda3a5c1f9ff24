//! Joins what projects allow and limit with the virtual control planes that hold environments to it.

use std::sync::{Arc, OnceLock};

use vctl_machinery::requests::Requests;
use vctl_portal::{ClusterRules, Portal, Taken};
use vctl_vcluster::limits::{Limited, PlatformLimits, Rules, Take, Turn};

/// The portal, once there is one: it needs the control planes first. Until then nothing is allowed; nothing is served either.
#[derive(Default)]
pub(crate) struct Limits(OnceLock<Portal>);

impl Limits {
    pub(crate) fn connect(&self, portal: Portal) {
        // Connected once, by the one place that makes both.
        let _ = self.0.set(portal);
    }

    fn portal(&self) -> Result<&Portal, String> {
        self.0.get().ok_or_else(|| "the server is starting".to_owned())
    }
}

#[async_trait::async_trait]
impl PlatformLimits for Limits {
    async fn rules(&self, cluster: &str) -> Result<Option<Arc<Rules>>, String> {
        let rules = self.portal()?.cluster_rules(cluster).await.map_err(|e| e.to_string())?;
        Ok(rules.map(|ClusterRules { project, images, workers, cpu, memory, storage }| {
            Arc::new(Rules { project, images, workers, limited: Limited { cpu, memory, storage } })
        }))
    }

    async fn take(&self, cluster: &str, more: Requests) -> Result<Take, String> {
        match self.portal()?.take(cluster, more).await.map_err(|e| e.to_string())? {
            Taken::Yes(turn) => Ok(Take::Taken(Turn::new(turn))),
            Taken::Exceeded(why) => Ok(Take::Exceeded(why)),
        }
    }
}
