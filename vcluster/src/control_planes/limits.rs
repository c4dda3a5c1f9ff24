//! What clusters request, for whoever limits it.

use vctl_api::names::EnvironmentName;
use vctl_machinery::{requests::Requests, status::ApiError};
use vctl_store::TenantBackup;

use super::ControlPlanes;
use crate::{limits::counting, storage};

impl ControlPlanes {
    /// What the pods of a cluster that have not ended, and its claims and volumes, request: of all its namespaces, and also of those that
    /// are being written. Nothing when there is no such cluster. Loads nothing into memory but what it has counted.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn requested(&self, name: &EnvironmentName) -> Result<Requests, ApiError> {
        let store = &*self.shared.store;
        let Some(info) = store.tenant(name.as_str()).await.map_err(storage::error)? else { return Ok(Requests::NONE) };
        self.shared.counting.requested(store, info.tenant, self.shared.config.clock.now()).await
    }

    /// The same of a cluster that is put back from a backup.
    pub async fn requested_by(&self, backup: &TenantBackup) -> Requests {
        counting::exported(&backup.export.entries, self.shared.config.clock.now()).await
    }
}
