//! Lists of documents that are read once per change.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use vctl_store::{Revision, Tenant};

use super::{Document, Documents, Stored, decode};
use crate::error::Error;

/// Documents of a kind as they were read last, by name and revision. What has not changed since is not read again: a list of 10,000 costs
/// no more than to look at their revisions. Nothing is kept before somebody lists.
pub(crate) struct Read<T> {
    kept: Mutex<Kept<T>>,
}

type Kept<T> = HashMap<Arc<str>, (Revision, Arc<T>)>;

impl<T> Default for Read<T> {
    fn default() -> Self {
        Self { kept: Mutex::default() }
    }
}

impl<T: Document> Read<T> {
    /// All documents of the kind, by name, as they are now.
    ///
    /// # Errors
    /// When the store fails, or a document cannot be read.
    pub(crate) async fn list(&self, documents: &Documents) -> Result<Vec<Stored<Arc<T>>>, Error> {
        let options = vctl_store::ListOptions { scope: super::scope::<T>(), at: None, after: None, limit: 0 };
        let entries = documents.store.list(Tenant::SYSTEM, options).await?.entries;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::with_capacity(entries.len());
        for entry in &entries {
            let known = kept.get(&*entry.key.name).filter(|(revision, _)| *revision == entry.revision);
            let value = match known {
                Some((_, value)) => Arc::clone(value),
                None => {
                    let value = Arc::new(decode::<T>(&entry.value)?);
                    kept.insert((*entry.key.name).into(), (entry.revision, Arc::clone(&value)));
                    value
                }
            };
            found.push(Stored { value, revision: entry.revision, created: entry.created });
        }
        if kept.len() > entries.len() {
            let there: std::collections::HashSet<&str> = entries.iter().map(|entry| &*entry.key.name).collect();
            kept.retain(|name, _| there.contains(&**name));
        }
        Ok(found)
    }
}
