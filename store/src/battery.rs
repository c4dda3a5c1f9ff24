//! What every backend must do: one list of scenarios, run on each. Many retell those of kubernetes/apiserver
//! `pkg/storage/testing` in the words of this crate.
//!
//! `sqlite_cold` (and `all_cold` of `postgres`) is a store that forgets everything it holds in memory before every call, so that each answer comes from the database.

mod backup;
mod compaction;
mod feeds;
mod lists;
mod tenants;
mod transactions;
mod watches;
mod writes;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use vctl_runtime::tasks::Tasks;

use crate::{
    EncryptionKeys, Entry, Event, Expect, Export, Feed, Key, List, ListOptions, MemoryStore, PostgresStore, Revision,
    Scope, SqliteStore, Store, StoreError, StoreOptions, Tenant, TenantInfo, Watch, WatchError, Write,
    postgres::testing::Server,
};

/// Small enough to be filled by a scenario.
const WATCH_BUFFER: usize = 64;
const FEED_CAPACITY: usize = 64;
const SYSTEM: Tenant = Tenant::SYSTEM;

macro_rules! scenarios {
    ($($area:ident: $($name:ident)+;)+) => {
        mod memory {
            $($(#[tokio::test] async fn $name() {
                let store = super::MemoryStore::with_buffers(super::WATCH_BUFFER, super::FEED_CAPACITY);
                super::$area::$name(std::sync::Arc::new(store)).await;
            })+)+
        }
        mod sqlite {
            $($(#[tokio::test] async fn $name() {
                let (store, _directory) = super::sqlite().await;
                super::$area::$name(std::sync::Arc::new(store)).await;
            })+)+
        }
        mod sqlite_cold {
            $($(#[tokio::test] async fn $name() {
                let (store, _directory) = super::sqlite().await;
                super::$area::$name(std::sync::Arc::new(super::Cold(store))).await;
            })+)+
        }
        mod sqlite_encrypted {
            $($(#[tokio::test] async fn $name() {
                let (store, _directory) = super::sqlite_with(super::encrypted()).await;
                super::$area::$name(std::sync::Arc::new(super::Cold(store))).await;
            })+)+
        }
        mod postgres {
            /// All on one server, each in a database of its own; to start a server takes longer than any scenario.
            #[tokio::test]
            async fn all() {
                super::postgres(false, vec![$($((stringify!($name), |s| Box::pin(super::$area::$name(s))),)+)+]).await;
            }

            #[tokio::test]
            async fn all_cold() {
                super::postgres(true, vec![$($((stringify!($name), |s| Box::pin(super::$area::$name(s))),)+)+]).await;
            }
        }
    };
}

scenarios! {
    writes: create create_of_an_existing_document_shows_it create_after_delete_is_a_new_document get_of_an_absent_document
        put_creates_and_replaces replace_of_a_stale_revision_shows_the_current_document replace_of_an_absent_document
        conditional_delete unconditional_delete delete_of_an_absent_document delete_of_a_document_expected_absent
        revisions_are_dense any_bytes_are_kept a_document_of_two_mebibytes one_of_many_concurrent_creates_wins
        concurrent_counters_lose_no_increment a_dropped_write_leaves_no_gap;
    lists: list_of_nothing list_is_ordered_bytewise list_of_a_namespace list_takes_the_resource_whole
        cluster_scoped_documents_have_no_namespace paging_says_how_many_remain paging_shows_one_revision_while_documents_change
        continuation_after_a_document_that_is_gone continuation_from_before_the_namespace list_at_every_revision
        list_before_the_first_write list_at_a_future_revision newest_list_sees_every_acknowledged_write;
    watches: watch_from_zero watch_from_a_revision watch_from_now watch_from_the_future deletions_carry_the_last_document
        updates_carry_the_previous_document watch_of_a_namespace watch_sees_no_other_resource all_watchers_see_one_order
        a_dropped_watch_disturbs_nobody next_can_be_cancelled a_long_history_is_replayed_whole
        a_watch_begun_among_writes_misses_nothing a_slow_watch_ends_as_lagged a_lagging_watch_disturbs_nobody
        events_of_others_do_not_count_as_lag watch_ends_with_the_store large_documents_fill_a_watch_sooner
        watchers_of_leases_see_the_newest;
    compaction: compacted_lists_are_refused compacted_watches_are_refused the_compacted_revision_is_still_readable
        current_documents_stay compaction_can_be_repeated compaction_of_the_future a_running_watch_survives_compaction
        previous_documents_survive_compaction compacted_revisions_are_not_issued_again history_after_compaction_is_whole;
    transactions: all_or_nothing revisions_follow_the_writes later_writes_see_earlier_ones the_same_document_created_twice
        delete_and_create_again an_empty_transaction a_transaction_over_several_resources the_first_failure_is_reported
        a_transaction_is_one_commit_of_the_feed;
    tenants: a_tenant_with_its_first_documents a_taken_name one_of_many_concurrent_tenants_wins tenants_do_not_see_each_other
        tenants_are_listed_with_their_revisions deletion_ends_watches_and_reads deletion_of_an_absent_tenant
        a_name_can_be_used_again_a_number_cannot the_system_tenant_stays a_tenant_whose_documents_conflict_is_not_created
        an_unknown_tenant a_tenant_is_found_only_with_its_first_documents;
    feeds: the_feed_tells_commits_of_all_tenants_in_order the_feed_tells_of_tenants a_slow_feed_is_told_once_and_goes_on
        the_feed_shows_what_can_be_read a_closed_store_refuses_everything the_end_of_a_store_is_told;
    backup: an_export_has_every_document_at_one_revision an_export_beside_writes_is_of_one_moment an_absent_tenant_has_no_export
        a_tenant_is_restored_under_a_new_name a_restored_tenant_replaces_another a_taken_name_is_not_replaced_unasked
        a_failed_restore_changes_nothing who_watched_a_replaced_tenant_lists_again one_of_many_concurrent_restores_is_left;
}

fn options() -> StoreOptions {
    StoreOptions {
        watch_buffer: WATCH_BUFFER,
        feed_capacity: FEED_CAPACITY,
        history_age: Duration::from_hours(1),
        maintenance: Duration::from_hours(1),
        ..StoreOptions::default()
    }
}

fn encrypted() -> StoreOptions {
    let keys = EncryptionKeys::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "a test").unwrap();
    StoreOptions { encryption: Some(keys), ..options() }
}

async fn sqlite() -> (SqliteStore, tempfile::TempDir) {
    sqlite_with(options()).await
}

async fn sqlite_with(options: StoreOptions) -> (SqliteStore, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_with(directory.path(), &Tasks::new(), options).await.unwrap();
    (store, directory)
}

type Scenario = fn(Backend) -> futures::future::BoxFuture<'static, ()>;

/// Runs the scenarios on Postgres, a few at a time, and names those that fail.
async fn postgres(cold: bool, scenarios: Vec<(&'static str, Scenario)>) {
    use futures::{FutureExt, StreamExt};

    let server = Server::start();
    let run = |(name, scenario): (&'static str, Scenario)| {
        let server = &server;
        async move {
            let address = server.database().await;
            let options = if cold { encrypted() } else { options() };
            let store = PostgresStore::open_with(&address, &Tasks::new(), options).await.unwrap();
            let store: Backend = if cold { Arc::new(Cold(store)) } else { Arc::new(store) };
            let done = std::panic::AssertUnwindSafe(scenario(store.clone())).catch_unwind().await;
            // Its connections make room for those of the next.
            let _ = store.close().await;
            (name, done.is_err())
        }
    };
    let done: Vec<_> = futures::stream::iter(scenarios).map(run).buffer_unordered(4).collect().await;
    let failed: Vec<_> = done.iter().filter(|(_, failed)| *failed).map(|(name, _)| name).collect();
    assert!(failed.is_empty(), "these scenarios failed: {failed:?}");
    assert!(done.len() > 80, "{}", done.len());
}

/// A store that can be told to forget what it holds in memory.
#[async_trait::async_trait]
trait Maintain: Store {
    async fn maintain(&self) -> Result<(), StoreError>;
}

#[async_trait::async_trait]
impl Maintain for SqliteStore {
    async fn maintain(&self) -> Result<(), StoreError> {
        Self::maintain(self).await
    }
}

#[async_trait::async_trait]
impl Maintain for PostgresStore {
    async fn maintain(&self) -> Result<(), StoreError> {
        Self::maintain(self).await
    }
}

/// Forgets before every call.
struct Cold<S>(S);

impl<S: Maintain> Cold<S> {
    async fn forget(&self) -> &S {
        for _ in 0..2 {
            match self.0.maintain().await {
                Ok(()) | Err(StoreError::Closed) => {}
                Err(e) => panic!("maintenance failed: {e}"),
            }
        }
        &self.0
    }
}

#[async_trait::async_trait]
impl<S: Maintain> Store for Cold<S> {
    async fn create_tenant(&self, name: &str, documents: Vec<Write>) -> Result<Tenant, StoreError> {
        self.forget().await.create_tenant(name, documents).await
    }
    async fn delete_tenant(&self, tenant: Tenant) -> Result<(), StoreError> {
        self.forget().await.delete_tenant(tenant).await
    }
    async fn tenants(&self) -> Result<Vec<TenantInfo>, StoreError> {
        self.forget().await.tenants().await
    }
    async fn tenant(&self, name: &str) -> Result<Option<TenantInfo>, StoreError> {
        self.forget().await.tenant(name).await
    }
    async fn revision(&self, tenant: Tenant) -> Result<Revision, StoreError> {
        self.forget().await.revision(tenant).await
    }
    async fn get(&self, tenant: Tenant, key: &Key) -> Result<(Option<Entry>, Revision), StoreError> {
        self.forget().await.get(tenant, key).await
    }
    async fn list(&self, tenant: Tenant, options: ListOptions) -> Result<List, StoreError> {
        self.forget().await.list(tenant, options).await
    }
    async fn transact(&self, tenant: Tenant, writes: Vec<Write>) -> Result<Vec<Revision>, StoreError> {
        self.forget().await.transact(tenant, writes).await
    }
    async fn watch(&self, tenant: Tenant, scope: Scope, after: Revision) -> Result<Watch, StoreError> {
        self.forget().await.watch(tenant, scope, after).await
    }
    fn feed(&self) -> Box<dyn Feed> {
        self.0.feed()
    }
    async fn compact(&self, tenant: Tenant, revision: Revision) -> Result<(), StoreError> {
        self.forget().await.compact(tenant, revision).await
    }
    async fn export(&self, tenant: Tenant) -> Result<Export, StoreError> {
        self.forget().await.export(tenant).await
    }
    async fn restore_tenant(
        &self,
        name: &str,
        documents: Vec<Write>,
        above: Revision,
        replace: bool,
    ) -> Result<Tenant, StoreError> {
        self.forget().await.restore_tenant(name, documents, above, replace).await
    }
    async fn reencrypt(&self) -> Result<u64, StoreError> {
        self.forget().await.reencrypt().await
    }
    async fn close(&self) -> Result<(), StoreError> {
        self.0.close().await
    }
    async fn ended(&self) -> Result<(), StoreError> {
        self.0.ended().await
    }
}

type Backend = Arc<dyn Store>;

fn pod(name: &str) -> Key {
    Key::new("pods", "default", name)
}

fn pods() -> Scope {
    Scope::all("pods")
}

/// Writes whatever is there; returns the revision.
async fn put(store: &Backend, tenant: Tenant, key: &Key, value: &str) -> Revision {
    let revisions = store.transact(tenant, vec![Write::put(key.clone(), value.to_owned())]).await.unwrap();
    assert_eq!(revisions.len(), 1);
    revisions[0]
}

async fn delete(store: &Backend, tenant: Tenant, key: &Key) -> Revision {
    store.transact(tenant, vec![Write::delete(key.clone(), Expect::Any)]).await.unwrap()[0]
}

async fn get(store: &Backend, tenant: Tenant, key: &Key) -> Option<Entry> {
    store.get(tenant, key).await.unwrap().0
}

async fn list(store: &Backend, scope: Scope, at: Option<Revision>) -> Vec<(String, String)> {
    let options = ListOptions { at, ..ListOptions::newest(scope) };
    described(&store.list(SYSTEM, options).await.unwrap().entries)
}

/// `namespace/name` and value.
fn described(entries: &[Entry]) -> Vec<(String, String)> {
    entries.iter().map(|e| (format!("{}/{}", e.key.namespace, e.key.name), text(&e.value))).collect()
}

fn text(value: &Bytes) -> String {
    String::from_utf8(value.to_vec()).unwrap()
}

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|e| &*e.key.name).collect()
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

/// Reads exactly so many events.
async fn events(watch: &mut Watch, count: usize) -> Vec<Arc<Event>> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let batch = within(watch.next()).await.unwrap();
        assert!(!batch.is_empty(), "a batch is never empty");
        seen.extend(batch);
    }
    assert_eq!(seen.len(), count, "more events than were expected: {seen:?}");
    seen
}

fn revisions(events: &[Arc<Event>]) -> Vec<Revision> {
    events.iter().map(|e| e.revision).collect()
}

/// Whether nothing is waiting.
async fn is_quiet(watch: &mut Watch) -> bool {
    tokio::select! {
        biased;
        _ = watch.next() => false,
        () = tokio::task::yield_now() => true,
    }
}

async fn end(watch: &mut Watch) -> WatchError {
    loop {
        if let Err(end) = within(watch.next()).await {
            assert_eq!(watch.next().await.unwrap_err(), end, "the end stays the same");
            return end;
        }
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("nothing came within 20 s")
}

#[track_caller]
fn conflict<T: std::fmt::Debug>(result: Result<T, StoreError>) -> (usize, Option<Entry>) {
    match result {
        Err(StoreError::Conflict { index, current }) => (index, current),
        other => panic!("a conflict was expected, not {other:?}"),
    }
}
