use std::sync::Arc;

use crate::{Entry, Revision, Tenant};

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

impl StoreError {
    /// A failure of the backend with its reason and what to do.
    pub(crate) fn backend(reason: impl std::fmt::Display) -> Self {
        Self::Backend(reason.to_string().into())
    }
}
