use std::{sync::Arc, time::Duration};

use vctl_runtime::clock::Clock;

use crate::{EncryptionKeys, fanout::DEFAULT_WATCH_BUFFER, feed::DEFAULT_FEED_CAPACITY};

/// How a durable store uses memory and how much history it keeps.
#[derive(Clone)]
pub struct StoreOptions {
    /// A watch with so many unread events is closed with [`crate::WatchError::Lagged`].
    pub watch_buffer: usize,
    /// So many unread commits are kept for a slow reader of a feed (rounded up to a power of two).
    pub feed_capacity: usize,
    /// History younger than this is kept, so that lists can be continued and watches resumed.
    pub history_age: Duration,
    /// But never more than so many revisions of one tenant, however young: a runaway writer must not fill the disk.
    pub history_rows: u64,
    /// Resources of which only the newest revision of each document is kept: what is renewed all the time would fill the history. Who
    /// watches from before sees the last change of a document, and a list at an older revision the newest documents.
    pub newest_only: Vec<Arc<str>>,
    /// Documents held in memory, in bytes, over all tenants; the least recently used go when there are more.
    pub cache_bytes: usize,
    /// How often history is compacted and memory of idle tenants given back. A resource is forgotten when it has not been used
    /// for one to two such intervals.
    pub maintenance: Duration,
    /// Keys that encrypt what is kept; none: it is kept as it is.
    pub encryption: Option<EncryptionKeys>,
    /// The time of day, for the age of history.
    pub clock: Clock,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            watch_buffer: DEFAULT_WATCH_BUFFER,
            feed_capacity: DEFAULT_FEED_CAPACITY,
            history_age: Duration::from_mins(5),
            history_rows: 500_000,
            newest_only: vec!["leases.coordination.k8s.io".into()],
            cache_bytes: 256 << 20,
            maintenance: Duration::from_secs(30),
            encryption: None,
            clock: Clock::system(),
        }
    }
}
