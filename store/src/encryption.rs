//! Encryption at rest: every value is sealed before it reaches the database, and opened when it comes back. Backends see sealed values
//! only; names of documents and revisions stay readable.
//!
//! An envelope: the keys that people manage (key encryption keys, [`EncryptionKeys`]) seal a key that the process makes for itself at
//! start (data key), and that one seals values with AES-256-GCM. The sealed data key stands in front of each value, so that a value
//! needs nothing but one of the keys. What it belongs to (tenant, document, revision) is authenticated with it: a value that was
//! moved elsewhere in the database does not open.

mod cipher;
mod keys;
mod sealed;
#[cfg(test)]
mod tests;

pub(crate) use cipher::{Cipher, Place};
pub use keys::EncryptionKeys;
pub(crate) use sealed::{SealedJournal, SealedReader};

use crate::StoreError;

/// Whether the keys that were given open what the store holds; `used` are the ids of those that sealed it.
///
/// # Errors
/// [`StoreError::Unusable`], saying which key is missing.
pub(crate) fn check(used: &[String], given: Option<&EncryptionKeys>) -> Result<(), StoreError> {
    let given = given.map(EncryptionKeys::ids).unwrap_or_default();
    let missing: Vec<&str> = used.iter().filter(|id| !given.contains(id)).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    Err(StoreError::Unusable(if given.is_empty() {
        format!(
            "the store is encrypted with key {missing}: give it with --encryption-key-file FILE or --encryption-key-command COMMAND"
        )
    } else {
        format!(
            "the store is encrypted with key {missing}, which is not among the given ones ({}): add it after the first one, or give the \
             right one",
            given.join(", ")
        )
    }))
}
