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
//! Values can be encrypted before they reach a database ([`EncryptionKeys`]), and whole tenants be taken out and put back ([`Backup`]).
//!
//! Layer L1. Only this crate speaks SQL.

mod backup;
#[cfg(test)]
mod battery;
mod directory;
#[cfg(test)]
mod durability;
mod encryption;
mod engine;
mod entry;
mod error;
mod event;
mod export;
mod fanout;
mod feed;
mod key;
mod list;
mod memory;
mod postgres;
mod sqlite;
mod store;
mod tenant;
mod watch;
mod write;

pub use backup::{Backup, BackupEncoder, BackupError, TenantBackup};
pub use directory::DirectoryLock;
pub use encryption::EncryptionKeys;
pub use engine::options::StoreOptions;
pub use entry::Entry;
pub use error::StoreError;
pub use event::{Committed, Event};
pub use export::Export;
pub use feed::Feed;
pub use key::{Key, Scope};
pub use list::{List, ListOptions};
pub use memory::MemoryStore;
pub use postgres::{PostgresAddress, PostgresStore};
pub use sqlite::SqliteStore;
pub use store::Store;
pub use tenant::{Tenant, TenantInfo};
pub use watch::{Watch, WatchError, WatchSource};
pub use write::{Expect, Write};

/// A position in a tenant's log. The first write gets 1; 0 is "before everything".
pub type Revision = u64;
