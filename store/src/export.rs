use crate::{Entry, Revision};

/// All documents of a tenant as they were at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The revision.
    pub revision: Revision,
    /// The documents, ordered by (resource, namespace, name) bytewise.
    pub entries: Vec<Entry>,
}
