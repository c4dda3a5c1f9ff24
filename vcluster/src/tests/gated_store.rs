//! A store whose writes of pods wait: as they do while it is busy, and happen also when nobody waits for them any more.

use tokio::sync::{RwLock, oneshot};
use vctl_store::{
    Entry, Export, Feed, Key, List, ListOptions, Revision, Scope, Store, StoreError, Tenant, TenantInfo, Watch, Write,
};

use super::*;

pub(super) struct GatedStore {
    pub(super) inner: Arc<MemoryStore>,
    /// Pods are written while this can be read.
    pub(super) gate: Arc<RwLock<()>>,
    pub(super) tasks: Tasks,
}

#[async_trait::async_trait]
impl Store for GatedStore {
    async fn transact(&self, tenant: Tenant, writes: Vec<Write>) -> Result<Vec<Revision>, StoreError> {
        if writes.iter().all(|w| &*w.key.resource != "pods") {
            return self.inner.transact(tenant, writes).await;
        }
        let (inner, gate) = (self.inner.clone(), self.gate.clone());
        let (tell, told) = oneshot::channel();
        self.tasks.spawn("write", async move {
            let _open = gate.read().await;
            let _ = tell.send(inner.transact(tenant, writes).await);
        });
        told.await.unwrap_or(Err(StoreError::Closed))
    }

    async fn create_tenant(&self, name: &str, documents: Vec<Write>) -> Result<Tenant, StoreError> {
        self.inner.create_tenant(name, documents).await
    }
    async fn delete_tenant(&self, tenant: Tenant) -> Result<(), StoreError> {
        self.inner.delete_tenant(tenant).await
    }
    async fn tenants(&self) -> Result<Vec<TenantInfo>, StoreError> {
        self.inner.tenants().await
    }
    async fn tenant(&self, name: &str) -> Result<Option<TenantInfo>, StoreError> {
        self.inner.tenant(name).await
    }
    async fn revision(&self, tenant: Tenant) -> Result<Revision, StoreError> {
        self.inner.revision(tenant).await
    }
    async fn get(&self, tenant: Tenant, key: &Key) -> Result<(Option<Entry>, Revision), StoreError> {
        self.inner.get(tenant, key).await
    }
    async fn list(&self, tenant: Tenant, options: ListOptions) -> Result<List, StoreError> {
        self.inner.list(tenant, options).await
    }
    async fn watch(&self, tenant: Tenant, scope: Scope, after: Revision) -> Result<Watch, StoreError> {
        self.inner.watch(tenant, scope, after).await
    }
    fn feed(&self) -> Box<dyn Feed> {
        self.inner.feed()
    }
    async fn compact(&self, tenant: Tenant, revision: Revision) -> Result<(), StoreError> {
        self.inner.compact(tenant, revision).await
    }
    async fn export(&self, tenant: Tenant) -> Result<Export, StoreError> {
        self.inner.export(tenant).await
    }
    async fn restore_tenant(
        &self,
        name: &str,
        documents: Vec<Write>,
        above: Revision,
        replace: bool,
    ) -> Result<Tenant, StoreError> {
        self.inner.restore_tenant(name, documents, above, replace).await
    }
    async fn reencrypt(&self) -> Result<u64, StoreError> {
        self.inner.reencrypt().await
    }
    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
    async fn ended(&self) -> Result<(), StoreError> {
        self.inner.ended().await
    }
}
