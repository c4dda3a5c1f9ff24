//! Clusters that sleep: nothing of them runs, their objects can be read.

use jiff::Timestamp;
use serde_json::json;
use vctl_api::{names::EnvironmentName, sleep};
use vctl_machinery::status::ApiError;
use vctl_store::{Expect, Key, StoreError, Tenant, Write};

use super::ControlPlanes;
use crate::storage;

fn key() -> Key {
    Key::new(sleep::RESOURCE, "", sleep::NAME)
}

impl ControlPlanes {
    /// Puts a cluster to sleep: its controllers do nothing from now on, and workers stop what they run of it. Repeated, it changes
    /// nothing.
    ///
    /// # Errors
    /// 404 when there is no such cluster.
    pub async fn sleep(&self, name: &EnvironmentName) -> Result<(), ApiError> {
        let since = self.shared.config.clock.now();
        let value = json!({ "since": since.to_string() }).to_string().into();
        self.set_sleep(name, Write { key: key(), expect: Expect::Absent, value: Some(value) }).await
    }

    /// Wakes a cluster: workers run it again, and controllers look at all of it, or, when nothing was left to do and nothing has happened
    /// since it fell asleep, at what is due. Repeated, it changes nothing.
    ///
    /// # Errors
    /// 404 when there is no such cluster.
    pub async fn wake(&self, name: &EnvironmentName) -> Result<(), ApiError> {
        let tenant = self.info(name).await?;
        let (entry, _) = self.shared.store.get(tenant, &key()).await.map_err(storage::error)?;
        let Some(entry) = entry else { return Ok(()) };
        self.set_sleep(name, Write { key: key(), expect: Expect::Revision(entry.revision), value: None }).await
    }

    /// Whether a cluster sleeps; one that is not there does not.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_asleep(&self, name: &EnvironmentName) -> Result<bool, ApiError> {
        let store = &self.shared.store;
        let Some(info) = store.tenant(name.as_str()).await.map_err(storage::error)? else { return Ok(false) };
        match store.get(info.tenant, &key()).await {
            Ok((entry, _)) => Ok(entry.is_some()),
            Err(StoreError::NoTenant(_)) => Ok(false),
            Err(e) => Err(storage::error(e)),
        }
    }

    async fn set_sleep(&self, name: &EnvironmentName, write: Write) -> Result<(), ApiError> {
        let tenant = self.info(name).await?;
        match self.shared.store.transact(tenant, vec![write]).await {
            // It was so already.
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(e) => return Err(storage::error(e)),
        }
        // The feed says so too, but a request that comes before that must meet it as it is.
        let mut planes = self.lock();
        if planes.get(name.as_str()).is_some_and(|plane| plane.tenant == tenant) {
            planes.remove(name.as_str());
        }
        Ok(())
    }

    /// When somebody outside of the cluster last sent a request to it; none since the process was started.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn last_request(&self, name: &EnvironmentName) -> Result<Option<Timestamp>, ApiError> {
        let info = self.shared.store.tenant(name.as_str()).await.map_err(storage::error)?;
        let seconds = info.and_then(|info| self.shared.activity.last(info.tenant));
        Ok(seconds.and_then(|s| Timestamp::from_second(s).ok()))
    }

    /// Waits for a write to a cluster that sleeps; which one is to wake. Each is told once until the next write.
    pub async fn wake_requested(&self) -> String {
        self.shared.activity.next_wake().await
    }

    async fn info(&self, name: &EnvironmentName) -> Result<Tenant, ApiError> {
        let info = self.shared.store.tenant(name.as_str()).await.map_err(storage::error)?;
        Ok(info.ok_or_else(storage::gone)?.tenant)
    }
}
