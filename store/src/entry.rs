use bytes::Bytes;

use crate::{Key, Revision};

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
