//! The history of a cluster: what watches are resumed from and lists continued at.

use vctl_api::names::EnvironmentName;
use vctl_machinery::status::ApiError;

use super::ControlPlanes;
use crate::storage;

impl ControlPlanes {
    /// Drops all history of a cluster before this moment; the revision that is its oldest from now on. What is current stays, and so
    /// do open watches; whoever resumes a watch or reads a list at an older revision gets 410 `Expired` and lists again.
    ///
    /// # Errors
    /// 404 when there is no such cluster.
    pub async fn compact(&self, name: &EnvironmentName) -> Result<u64, ApiError> {
        let store = &self.shared.store;
        let info = store.tenant(name.as_str()).await.map_err(storage::error)?.ok_or_else(storage::gone)?;
        let newest = store.revision(info.tenant).await.map_err(storage::error)?;
        store.compact(info.tenant, newest).await.map_err(storage::error)?;
        Ok(newest)
    }
}
