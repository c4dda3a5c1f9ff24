//! Environments taken out as a file, which [`super::restore`] puts back.
//!
//! The file holds the environment's own document (in the part of the system tenant) and its virtual cluster.

use serde_json::json;
use vctl_store::{Entry, Expect, Export, StoreError, Tenant, TenantBackup};

use super::{Caller, Environments};
use crate::{
    audit::{Subject, entry},
    documents::put,
    error::Error,
};

impl Environments {
    /// An environment as the parts of a backup, while it goes on.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] before it is there and while it is deleted.
    pub async fn snapshot(&self, caller: Caller<'_>, name: &str) -> Result<Vec<TenantBackup>, Error> {
        let stored = self.stored(name).await?;
        let cluster = self.planes.snapshot(&stored.value.name).await?;
        let detail = json!({ "documents": cluster.export.entries.len(), "revision": cluster.export.revision });
        let subject = Subject::environment(&stored.value);
        let entry = entry(self.clock.now(), caller, "environment.snapshot", subject, detail)?;
        self.documents.transact(vec![entry]).await?;
        let write = put(&stored.value, Expect::Any)?;
        let own = Entry {
            key: write.key,
            revision: stored.revision,
            created: stored.created,
            value: write.value.unwrap_or_default(),
        };
        let system =
            TenantBackup { name: String::new(), export: Export { revision: stored.revision, entries: vec![own] } };
        Ok(vec![system, cluster])
    }

    /// The tenants of a backup of everything, one after the other; the system tenant first.
    pub(crate) async fn begin_backup(&self, caller: Caller<'_>) -> Result<Vec<(Tenant, String)>, Error> {
        let nothing = serde_json::Value::Null;
        let entry = entry(self.clock.now(), caller, "store.backup", Subject::platform(""), nothing)?;
        self.documents.transact(vec![entry]).await?;
        let infos = self.documents.store().tenants().await?;
        let others = infos.into_iter().map(|info| (info.tenant, info.name));
        Ok(std::iter::once((Tenant::SYSTEM, String::new())).chain(others).collect())
    }

    /// One of them; none when it was deleted meanwhile.
    pub(crate) async fn exported(&self, tenant: Tenant, name: String) -> Result<Option<TenantBackup>, Error> {
        match self.documents.store().export(tenant).await {
            Ok(export) => Ok(Some(TenantBackup { name, export })),
            Err(StoreError::NoTenant(_)) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Drops the history of an environment before this moment; the revision that is its oldest from now on.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn compact(&self, caller: Caller<'_>, name: &str) -> Result<u64, Error> {
        let stored = self.stored(name).await?;
        let revision = self.planes.compact(&stored.value.name).await?;
        let detail = json!({ "revision": revision });
        let subject = Subject::environment(&stored.value);
        let entry = entry(self.clock.now(), caller, "environment.compact", subject, detail)?;
        self.documents.transact(vec![entry]).await?;
        Ok(revision)
    }

    /// Encrypts everything that is kept with the first of the server's keys.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the server has no key.
    pub async fn reencrypt(&self, caller: Caller<'_>) -> Result<u64, Error> {
        let changed = self.documents.store().reencrypt().await.map_err(|e| match e {
            StoreError::Unusable(why) => Error::Conflict(why),
            other => other.into(),
        })?;
        let detail = json!({ "values": changed });
        let entry = entry(self.clock.now(), caller, "store.reencrypt", Subject::platform(""), detail)?;
        self.documents.transact(vec![entry]).await?;
        Ok(changed)
    }
}
