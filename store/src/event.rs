use std::sync::Arc;

use bytes::Bytes;

use crate::{Key, Revision, Tenant};

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

/// What one transaction changed, as told to [`crate::Store::feed`].
#[derive(Debug, Clone)]
pub struct Committed {
    /// Whose documents.
    pub tenant: Tenant,
    /// The changes, in order. Empty when the tenant was created or deleted; the first documents of a new tenant
    /// follow as a commit of their own.
    pub events: Arc<[Arc<Event>]>,
}
