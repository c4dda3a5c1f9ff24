//! The revisioned multi-tenant store: everything that vctl keeps is a document here.
//!
//! A *tenant* is one virtual cluster (or, as [`Tenant::SYSTEM`], the platform itself: environments, jobs,
//! audit). Each has a dense sequence of revisions of its own; a revision is what Kubernetes calls a
//! resourceVersion. Values are opaque bytes: a document never contains its own revision.
//!
//! Guarantees, the same on every backend (`battery` holds them to it):
//! * a write is acknowledged and published only after it is durable; a revision that anyone has seen is
//!   never issued again;
//! * all watchers of a tenant see one order, without gap, repetition or skipping: one that cannot follow is
//!   closed with [`WatchError::Lagged`] and one that asks for compacted history gets [`WatchError::Compacted`];
//! * a list at a revision is the state right after that revision.
//!
//! Layer L1. Only this crate speaks SQL.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

/// A position in a tenant's log. The first write gets 1; 0 is "before everything".
pub type Revision = u64;

/// Number of a tenant; never re-used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(pub u32);

impl Tenant {
    /// The platform's own documents.
    pub const SYSTEM: Self = Self(0);
}

/// Where a document lives: `resource` is `plural` or `plural.group` (as Kubernetes' GroupResource prints
/// itself), `namespace` is empty for cluster-scoped resources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `pods`, `deployments.apps`, ..
    pub resource: Arc<str>,
    /// Namespace, or empty.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl Key {
    /// Puts the three parts together.
    pub fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// A document as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it lives.
    pub key: Key,
    /// Revision of its last change.
    pub revision: Revision,
    /// Revision of its creation.
    pub created: Revision,
    /// The document.
    pub value: Bytes,
}

/// What a write expects of the document that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// None is there (create).
    Absent,
    /// Its revision is this (compare-and-swap).
    Revision(Revision),
    /// Anything, also none. A delete of an absent key fails all the same.
    Any,
}

/// One change of one document.
#[derive(Debug, Clone)]
pub struct Write {
    /// Which document.
    pub key: Key,
    /// What must hold for the write to happen.
    pub expect: Expect,
    /// The new document, or none to delete it.
    pub value: Option<Bytes>,
}

/// A committed change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its revision. Writes of one transaction have consecutive ones.
    pub revision: Revision,
    /// Which document.
    pub key: Key,
    /// The new document; none for a deletion.
    pub value: Option<Bytes>,
    /// The document before, with its revision; none for a creation.
    pub previous: Option<(Revision, Bytes)>,
}

/// Which documents a list or watch is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The resource.
    pub resource: Arc<str>,
    /// One namespace, or none for all.
    pub namespace: Option<Arc<str>>,
}

/// What to list.
#[derive(Debug, Clone)]
pub struct ListOptions {
    /// Which documents.
    pub scope: Scope,
    /// State right after this revision; none for the newest.
    pub at: Option<Revision>,
    /// Continue after this (namespace, name), exclusive.
    pub after: Option<(String, String)>,
    /// At most so many; 0 for all.
    pub limit: usize,
}

/// A list, ordered by (namespace, name) bytewise.
#[derive(Debug, Clone)]
pub struct List {
    /// The revision it shows.
    pub revision: Revision,
    /// The documents.
    pub entries: Vec<Entry>,
    /// How many follow after the last one.
    pub remaining: usize,
}

/// A failure of the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// An expectation did not hold; nothing of the transaction was written.
    #[error("write {index} of the transaction does not apply: the document has changed")]
    Conflict {
        /// Which write of the transaction.
        index: usize,
        /// What is there now.
        current: Option<Entry>,
    },
    /// The revision asked for is older than the history that is kept.
    #[error("revision {requested} has been compacted; the oldest kept is {oldest}")]
    Compacted {
        /// Asked for.
        requested: Revision,
        /// Oldest that can be read.
        oldest: Revision,
    },
    /// The revision asked for has not been issued yet.
    #[error("revision {requested} is in the future; the newest is {newest}")]
    Future {
        /// Asked for.
        requested: Revision,
        /// Newest.
        newest: Revision,
    },
    /// No such tenant (any more).
    #[error("tenant {0:?} does not exist")]
    NoTenant(Tenant),
    /// Another process has the data directory.
    #[error("{0}")]
    Locked(String),
    /// The data file cannot be used: newer format, truncated, not ours.
    #[error("{0}")]
    Unusable(String),
    /// The backend failed.
    #[error("storage failed: {0}")]
    Backend(Arc<str>),
    /// The store is shutting down.
    #[error("the store is shutting down")]
    Closed,
}

/// Why a watch ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The watcher was too slow; list again.
    #[error("the watch fell behind and was closed")]
    Lagged,
    /// The start is older than the history that is kept; list again.
    #[error("the requested history has been compacted")]
    Compacted,
    /// The tenant was deleted, or the store closes.
    #[error("the watch was closed")]
    Closed,
}

/// A stream of committed changes, in order. `next` is cancel-safe. Dropping it ends the watch.
pub struct Watch {
    receiver: Box<dyn WatchSource>,
}

/// Where a [`Watch`] gets its events from; implemented by backends.
pub trait WatchSource: Send {
    /// The next batch: never empty.
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Event>>, WatchError>>;
}

impl Watch {
    /// Wraps a backend's source.
    pub fn new(receiver: Box<dyn WatchSource>) -> Self {
        Self { receiver }
    }

    /// Waits for the next changes; at least one, and whatever else is ready.
    ///
    /// # Errors
    /// [`WatchError`] when the watch is over; calling again returns the same.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, WatchError> {
        self.receiver.next().await
    }
}

/// What one transaction changed, as told to [`Store::feed`].
#[derive(Debug, Clone)]
pub struct Committed {
    /// Whose documents.
    pub tenant: Tenant,
    /// The changes, in order. Empty when the tenant was created or deleted.
    pub events: Arc<[Arc<Event>]>,
}

/// A stream of everything that is committed, of all tenants. It never blocks a writer: a reader that falls too far behind gets
/// [`WatchError::Lagged`] once and must look at everything anew; then it continues.
#[async_trait::async_trait]
pub trait Feed: Send {
    /// Waits for the next commit.
    async fn next(&mut self) -> Result<Committed, WatchError>;
}

/// A tenant with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantInfo {
    /// Its number.
    pub tenant: Tenant,
    /// Its unique name: the virtual cluster's.
    pub name: String,
    /// Its newest revision.
    pub revision: Revision,
}

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

    /// Ends all watches, finishes what was begun, closes files. Later calls return [`StoreError::Closed`].
    async fn close(&self) -> Result<(), StoreError>;
}
