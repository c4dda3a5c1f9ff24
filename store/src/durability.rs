//! What a durable backend promises beyond the battery: over restarts, crashes, failing disks and foreign files.

mod child;
mod disk;
mod files;
mod history;
mod kill;
mod model;
mod sync;
mod trace;

use std::{path::Path, time::Duration};

use vctl_runtime::tasks::Tasks;

use crate::{Event, Revision, Scope, SqliteStore, Store, StoreOptions, Tenant};

const SYSTEM: Tenant = Tenant::SYSTEM;

/// Nothing happens by itself.
fn options() -> StoreOptions {
    StoreOptions { maintenance: Duration::from_hours(1), ..StoreOptions::default() }
}

async fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open_with(directory, &Tasks::new(), options()).await.unwrap()
}

/// The whole log of a resource of [`SYSTEM`], which nobody has compacted.
async fn log(store: &dyn Store, resource: &str, count: u64) -> Vec<std::sync::Arc<Event>> {
    let mut watch = store.watch(SYSTEM, Scope::all(resource), 0).await.unwrap();
    let mut events = Vec::new();
    while (events.len() as u64) < count {
        let batch = tokio::time::timeout(Duration::from_secs(20), watch.next()).await.expect("the log is cut short");
        events.extend(batch.unwrap());
    }
    let revisions: Vec<Revision> = events.iter().map(|e| e.revision).collect();
    assert_eq!(revisions, (1..=count).collect::<Vec<_>>(), "revisions are dense");
    events
}

/// Polls a condition.
async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "not within 20 s: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
