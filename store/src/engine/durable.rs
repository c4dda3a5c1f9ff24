//! What the engine needs of a database. Decisions, caches and watches are the engine's; a database only keeps.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Entry, Event, Export, Key, Revision, Scope, StoreError, Tenant};

/// One row of the log.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) event: Arc<Event>,
    /// Revision of the creation of the document that was written or deleted.
    pub(crate) created: Revision,
    /// The revision before is not kept.
    pub(crate) replaces: bool,
}

/// The revisions that the changes make useless (see [`Record::replaces`]): they are not written, and what is there of them is removed.
pub(crate) fn replaced<'a>(
    records: impl IntoIterator<Item = (Tenant, &'a Record)>,
) -> std::collections::BTreeSet<(Tenant, Revision)> {
    let replacing = records.into_iter().filter(|(_, record)| record.replaces);
    replacing.filter_map(|(tenant, record)| Some((tenant, record.event.previous.as_ref()?.0))).collect()
}

/// A tenant as it is found at start.
#[derive(Debug)]
pub(crate) struct KnownTenant {
    pub(crate) tenant: Tenant,
    pub(crate) name: String,
    pub(crate) head: Revision,
    pub(crate) compacted: Revision,
}

/// Something to be made durable.
#[derive(Debug)]
pub(crate) enum Change {
    /// Rows of the log, in order.
    Write { tenant: Tenant, records: Vec<Record> },
    /// A tenant appears, with its first documents. Its revisions begin after `base`: there is no history before. The tenant that it
    /// replaces is gone at the same moment.
    Create { tenant: Tenant, name: Arc<str>, base: Revision, replaces: Option<Tenant>, records: Vec<Record> },
    /// A tenant is gone. Its rows may be removed later, but it must never be seen again.
    Delete { tenant: Tenant },
    /// History up to and including a revision is gone. Its rows may be removed later.
    Compact { tenant: Tenant, revision: Revision },
    /// Values of the log are kept in another form; they mean the same. Those that are gone by now stay gone.
    Rewrite { values: Vec<(Tenant, Revision, Bytes)> },
    /// Values are sealed with these keys, and no others.
    UseKeys { ids: Vec<String> },
    /// Nothing to write: afterwards [`Journal::tidy`].
    Tidy,
    /// Nothing: waits for what was queued before.
    Barrier,
}

impl Change {
    /// How many rows of the log it writes.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Write { records, .. } | Self::Create { records, .. } => records.len(),
            Self::Rewrite { values } => values.len(),
            Self::Delete { .. } | Self::Compact { .. } | Self::UseKeys { .. } | Self::Tidy | Self::Barrier => 0,
        }
    }
}

/// A value as the database has it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) tenant: Tenant,
    pub(crate) revision: Revision,
    pub(crate) key: Key,
    pub(crate) value: Bytes,
}

/// The reading side; called concurrently.
#[async_trait::async_trait]
pub(crate) trait Reader: Send + Sync {
    /// The resources of which a tenant has documents.
    async fn resources(&self, tenant: Tenant) -> Result<Vec<String>, StoreError>;

    /// All current documents of a resource.
    async fn current(&self, tenant: Tenant, resource: &Arc<str>) -> Result<Vec<Entry>, StoreError>;

    /// The first `limit` changes of a scope in `(after, until]`, in order.
    async fn changes(
        &self,
        tenant: Tenant,
        scope: &Scope,
        after: Revision,
        until: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, StoreError>;

    /// For every document of a scope that changed in `(at, until]`: what it was right after `at`, or none.
    async fn before(
        &self,
        tenant: Tenant,
        scope: &Scope,
        at: Revision,
        until: Revision,
    ) -> Result<Vec<(Key, Option<Entry>)>, StoreError>;

    /// All current documents of a tenant, by key, as they were at one moment.
    async fn export(&self, tenant: Tenant) -> Result<Export, StoreError>;

    /// The first `limit` values of the log after a place, by tenant and revision, in the form in which they are kept.
    async fn kept(&self, after: (Tenant, Revision), limit: usize) -> Result<Vec<Kept>, StoreError>;

    /// Closes what it has open.
    async fn close(&self);
}

/// The writing side; one caller.
#[async_trait::async_trait]
pub(crate) trait Journal: Send {
    /// Makes all changes durable, in order, in one transaction, before it returns.
    ///
    /// # Errors
    /// Nothing of it will ever be seen, unless the process ends before the next success.
    async fn commit(&mut self, changes: &[Change]) -> Result<(), CommitError>;

    /// Removes a bounded number of rows that nobody can see any more. False when there was nothing to do.
    async fn sweep(&mut self) -> Result<bool, StoreError>;

    /// Gives unused space back, and leaves nothing behind of values that were replaced or removed. May take long; nothing is written
    /// meanwhile.
    async fn tidy(&mut self) -> Result<(), StoreError>;

    /// Closes what it has open.
    async fn close(self: Box<Self>) -> Result<(), StoreError>;
}

/// A commit that did not happen.
#[derive(Debug)]
pub(crate) struct CommitError {
    pub(crate) error: StoreError,
    pub(crate) failure: Failure,
}

/// What a failed commit means for what is to be written next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// One of the changes cannot be written: the others may be.
    Rejected,
    /// The database cannot be reached now: nothing was written, and to try one by one is in vain.
    Unreachable,
    /// What is on the disk is not known any more: nothing may be written before a restart has looked.
    Unknown,
    /// The database belongs to another server by now: this one must end.
    Lost,
}
