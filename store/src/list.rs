use crate::{Entry, Revision, Scope};

/// What to list.
#[derive(Debug, Clone)]
pub struct ListOptions {
    /// Which documents.
    pub scope: Scope,
    /// State right after this revision (0: before the first write, so nothing); none for the newest.
    pub at: Option<Revision>,
    /// Continue after this (namespace, name), exclusive.
    pub after: Option<(String, String)>,
    /// At most so many; 0 for all.
    pub limit: usize,
}

impl ListOptions {
    /// Everything of a scope, as it stands now.
    pub fn newest(scope: Scope) -> Self {
        Self { scope, at: None, after: None, limit: 0 }
    }
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
