use bytes::Bytes;

use crate::{Key, Revision};

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

impl Expect {
    /// Whether the expectation holds for a document of this revision (none: absent), to be deleted or not.
    pub(crate) fn holds(self, current: Option<Revision>, deletes: bool) -> bool {
        match self {
            Self::Absent => current.is_none() && !deletes,
            Self::Revision(expected) => current == Some(expected),
            Self::Any => current.is_some() || !deletes,
        }
    }
}

/// One change of one document.
#[derive(Debug, Clone)]
pub struct Write {
    /// Which document.
    pub key: Key,
    /// What must hold for the write to happen. A later write of a transaction sees what an earlier one did.
    pub expect: Expect,
    /// The new document, or none to delete it.
    pub value: Option<Bytes>,
}

impl Write {
    /// Creates a document that must not exist.
    pub fn create(key: Key, value: impl Into<Bytes>) -> Self {
        Self { key, expect: Expect::Absent, value: Some(value.into()) }
    }

    /// Replaces the document of exactly this revision.
    pub fn replace(key: Key, revision: Revision, value: impl Into<Bytes>) -> Self {
        Self { key, expect: Expect::Revision(revision), value: Some(value.into()) }
    }

    /// Writes a document whatever is there.
    pub fn put(key: Key, value: impl Into<Bytes>) -> Self {
        Self { key, expect: Expect::Any, value: Some(value.into()) }
    }

    /// Deletes a document if `expect` holds.
    pub fn delete(key: Key, expect: Expect) -> Self {
        Self { key, expect, value: None }
    }
}
