use crate::{
    Entry, Export, Feed, Key, List, ListOptions, Revision, Scope, StoreError, Tenant, TenantInfo, Watch, Write,
};

/// The store. Cheap to share as `Arc<dyn Store>`.
#[async_trait::async_trait]
pub trait Store: Send + Sync {
    /// Creates a tenant together with its first documents, in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] with index 0 when the name is taken.
    async fn create_tenant(&self, name: &str, documents: Vec<Write>) -> Result<Tenant, StoreError>;

    /// Deletes a tenant with everything in it; its watches end. Deleting an absent one is no error.
    async fn delete_tenant(&self, tenant: Tenant) -> Result<(), StoreError>;

    /// All tenants but [`Tenant::SYSTEM`].
    async fn tenants(&self) -> Result<Vec<TenantInfo>, StoreError>;

    /// The tenant of this name.
    async fn tenant(&self, name: &str) -> Result<Option<TenantInfo>, StoreError>;

    /// The newest revision of a tenant.
    async fn revision(&self, tenant: Tenant) -> Result<Revision, StoreError>;

    /// One document as it stands, with the tenant's newest revision at that moment.
    async fn get(&self, tenant: Tenant, key: &Key) -> Result<(Option<Entry>, Revision), StoreError>;

    /// Documents of a scope.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] and [`StoreError::Future`] for revisions that cannot be read.
    async fn list(&self, tenant: Tenant, options: ListOptions) -> Result<List, StoreError>;

    /// Applies all writes or none; each gets a revision of its own, in order. Returns them.
    /// When the future is dropped the writes may or may not happen.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for the first expectation that does not hold.
    async fn transact(&self, tenant: Tenant, writes: Vec<Write>) -> Result<Vec<Revision>, StoreError>;

    /// Changes of a scope strictly after a revision, then whatever comes.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] when the history from there is gone, [`StoreError::Future`] when `after` has not been issued.
    async fn watch(&self, tenant: Tenant, scope: Scope, after: Revision) -> Result<Watch, StoreError>;

    /// Everything committed from now on.
    fn feed(&self) -> Box<dyn Feed>;

    /// Drops history up to and including a revision: reads before it and watches from before it fail afterwards. Current documents stay.
    async fn compact(&self, tenant: Tenant, revision: Revision) -> Result<(), StoreError>;

    /// All documents of a tenant at one revision, while others read and write.
    async fn export(&self, tenant: Tenant) -> Result<Export, StoreError>;

    /// Creates a tenant from documents that were exported at revision `above`. With `replace`, a tenant of the same name is gone in
    /// the same moment, or everything stays as it was. The new one has a number of its own, and revisions well above `above` and
    /// those of the replaced one: watches from before end, and cannot be resumed, so that everybody lists again.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] with index 0 when the name is taken and `replace` was not said.
    async fn restore_tenant(
        &self,
        name: &str,
        documents: Vec<Write>,
        above: Revision,
        replace: bool,
    ) -> Result<Tenant, StoreError>;

    /// Encrypts everything that is kept with the first of the keys, and leaves nothing behind of what was there before; afterwards
    /// the other keys are not needed any more. Returns how many values were changed. Goes on beside other reads and writes, but for
    /// a pause at the end that grows with what is kept.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] when there is no key, or a value does not open.
    async fn reencrypt(&self) -> Result<u64, StoreError>;

    /// Ends all watches, finishes what was begun, closes files. Later calls return [`StoreError::Closed`].
    async fn close(&self) -> Result<(), StoreError>;

    /// Completes when the store has ended: it was closed, or stopped with its tasks.
    ///
    /// # Errors
    /// Why it ended by itself: [`StoreError::Locked`] when another server has taken the database over.
    async fn ended(&self) -> Result<(), StoreError>;
}
