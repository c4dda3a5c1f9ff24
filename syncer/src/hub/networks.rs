//! Services and names of the environments that have pods on a worker.

use std::sync::Arc;

use vctl_store::Tenant;

use super::{Inner, engine::WorkError};
use crate::{network::network, remote::Remote};

impl Inner {
    pub(super) async fn reconcile_network(&self, tenant: Tenant) -> Result<(), WorkError> {
        let Some(environment) = self.lock().tenants.get(&tenant).cloned() else { return Ok(()) };
        if self.lock().networks.keys().any(|(t, _)| *t == tenant) {
            let services = self.documents(tenant, "services", None).await?;
            let slices = self.documents(tenant, "endpointslices.discovery.k8s.io", None).await?;
            let network = network(&environment, &services, &slices);
            for remote in self.remotes(tenant, true) {
                remote.set_network(&environment, Some(network.clone()));
            }
        }
        for remote in self.remotes(tenant, false) {
            remote.set_network(&environment, None);
        }
        Ok(())
    }

    /// Workers that have pods of an environment, or those that have none.
    fn remotes(&self, tenant: Tenant, with_pods: bool) -> Vec<Arc<Remote>> {
        let state = self.lock();
        state
            .workers
            .iter()
            .filter(|(name, _)| state.networks.contains_key(&(tenant, (*name).clone())) == with_pods)
            .filter_map(|(_, worker)| worker.remote.clone())
            .collect()
    }
}
