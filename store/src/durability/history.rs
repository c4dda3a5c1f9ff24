//! Retention, sweeping and forgetting.

use sqlx::{Connection, SqliteConnection};
use vctl_runtime::clock::Clock;

use super::*;
use crate::{Expect, Key, ListOptions, StoreError, Write};

fn pod(name: &str) -> Key {
    Key::new("pods", "default", name)
}

async fn put(store: &SqliteStore, tenant: Tenant, name: &str) -> Revision {
    store.transact(tenant, vec![Write::put(pod(name), "x")]).await.unwrap()[0]
}

async fn rows(directory: &Path, table: &str) -> i64 {
    let path = directory.join("vctl.db").display().to_string();
    let mut connection = SqliteConnection::connect(&path).await.unwrap();
    let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    let count = sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    count
}

#[tokio::test]
async fn history_is_kept_for_its_time_and_then_removed() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::fixed("2026-01-01T00:00:00Z".parse().unwrap());
    let options = StoreOptions { clock: clock.clone(), ..options() };
    let store = SqliteStore::open_with(directory.path(), &Tasks::new(), options).await.unwrap();
    for i in 0..10 {
        put(&store, SYSTEM, &format!("p{}", i % 2)).await;
    }
    store.maintain().await.unwrap();
    clock.advance(200);
    put(&store, SYSTEM, "p0").await;
    store.maintain().await.unwrap();
    clock.advance(99);
    store.maintain().await.unwrap();
    assert!(store.watch(SYSTEM, Scope::all("pods"), 0).await.is_ok(), "younger than five minutes");
    clock.advance(1);
    store.maintain().await.unwrap();
    let error = store.watch(SYSTEM, Scope::all("pods"), 9).await.err();
    assert!(matches!(error, Some(StoreError::Compacted { oldest: 10, .. })), "{error:?}");
    assert!(store.watch(SYSTEM, Scope::all("pods"), 10).await.is_ok());
    clock.advance(300);
    store.maintain().await.unwrap();
    let error = store.watch(SYSTEM, Scope::all("pods"), 10).await.err();
    assert!(matches!(error, Some(StoreError::Compacted { oldest: 11, .. })), "{error:?}");
    eventually("only current rows are left", async || rows(directory.path(), "log").await == 2).await;
}

#[tokio::test]
async fn a_runaway_writer_is_compacted_early() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { history_rows: 10, ..options() };
    let store = SqliteStore::open_with(directory.path(), &Tasks::new(), options).await.unwrap();
    for _ in 0..30 {
        put(&store, SYSTEM, "a").await;
    }
    store.maintain().await.unwrap();
    let list =
        async |at| store.list(SYSTEM, ListOptions { at: Some(at), ..ListOptions::newest(Scope::all("pods")) }).await;
    assert!(matches!(list(19).await, Err(StoreError::Compacted { oldest: 20, .. })));
    assert_eq!(list(20).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn of_leases_only_the_newest_revision_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    let lease = |name: &str| Key::new("leases.coordination.k8s.io", "kube-node-lease", name);
    let renew = |name: &str| store.transact(SYSTEM, vec![Write::put(lease(name), "x")]);
    for _ in 0..10 {
        renew("a").await.unwrap();
    }
    assert_eq!(rows(directory.path(), "log").await, 1);
    // Several revisions of one document in one commit, and a transaction.
    futures::future::try_join_all((0..30).map(|i| renew(if i % 3 == 0 { "b" } else { "a" }))).await.unwrap();
    let both = || vec![Write::put(lease("a"), "y"), Write::put(lease("b"), "y"), Write::put(lease("a"), "z")];
    store.transact(SYSTEM, both()).await.unwrap();
    assert_eq!(rows(directory.path(), "log").await, 2);
    store.close().await.unwrap();

    let store = open(directory.path()).await;
    assert_eq!(store.revision(SYSTEM).await.unwrap(), 43);
    let mut watch = store.watch(SYSTEM, Scope::all("leases.coordination.k8s.io"), 0).await.unwrap();
    let seen = watch.next().await.unwrap();
    assert_eq!(seen.iter().map(|e| e.revision).collect::<Vec<_>>(), [42, 43]);
    assert_eq!(store.get(SYSTEM, &lease("a")).await.unwrap().0.unwrap().value, "z");
}

#[tokio::test]
async fn compaction_and_revisions_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    put(&store, SYSTEM, "a").await;
    put(&store, SYSTEM, "b").await;
    store.transact(SYSTEM, vec![Write::delete(pod("b"), Expect::Any)]).await.unwrap();
    store.compact(SYSTEM, 3).await.unwrap();
    eventually("the deletion is swept", async || rows(directory.path(), "log").await == 1).await;
    store.close().await.unwrap();
    let store = open(directory.path()).await;
    assert_eq!(store.revision(SYSTEM).await.unwrap(), 3);
    assert!(matches!(store.watch(SYSTEM, Scope::all("pods"), 2).await, Err(StoreError::Compacted { .. })));
    assert_eq!(put(&store, SYSTEM, "c").await, 4);
}

#[tokio::test]
async fn a_deleted_tenant_stays_deleted_and_its_rows_go() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    let documents = (0..3000).map(|i| Write::create(pod(&i.to_string()), "x")).collect();
    let first = store.create_tenant("demo", documents).await.unwrap();
    store.delete_tenant(first).await.unwrap();
    // At once: the rows cannot all be gone.
    store.close().await.unwrap();
    let store = open(directory.path()).await;
    assert_eq!(store.tenants().await.unwrap(), []);
    assert!(matches!(store.get(first, &pod("1")).await, Err(StoreError::NoTenant(_))));
    let second = store.create_tenant("demo", Vec::new()).await.unwrap();
    assert!(second > first, "a number is not used again");
    eventually("the rows are removed", async || {
        rows(directory.path(), "log").await == 0
            && rows(directory.path(), "current").await == 0
            && rows(directory.path(), "tenants").await == 2
    })
    .await;
    store.delete_tenant(second).await.unwrap();
    eventually("the tenant is removed", async || rows(directory.path(), "tenants").await == 1).await;
    store.close().await.unwrap();
    let store = open(directory.path()).await;
    assert!(store.create_tenant("demo", Vec::new()).await.unwrap() > second, "not even after all rows are gone");
}

#[tokio::test]
async fn more_documents_than_fit_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { cache_bytes: 10_000, ..options() };
    let store = SqliteStore::open_with(directory.path(), &Tasks::new(), options).await.unwrap();
    let mut tenants = Vec::new();
    for i in 0..200 {
        let documents = vec![Write::create(pod("a"), vec![b'x'; 1000]), Write::create(pod("b"), i.to_string())];
        tenants.push(store.create_tenant(&format!("t{i}"), documents).await.unwrap());
    }
    store.maintain().await.unwrap();
    for _ in 0..2 {
        for (i, tenant) in tenants.iter().enumerate() {
            let (entry, _) = store.get(*tenant, &pod("b")).await.unwrap();
            assert_eq!(entry.unwrap().value, i.to_string());
        }
    }
    // A transaction finds all that it needs, however little memory there is.
    let writes = (0..40).map(|i| Write::create(Key::new(&format!("r{i}"), "", "a"), vec![b'x'; 1000])).collect();
    store.transact(SYSTEM, writes).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn thousands_of_tenants_are_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    let names: Vec<_> = (0..2000).map(|i| format!("t{i}")).collect();
    let creations = names.iter().map(|name| store.create_tenant(name, vec![Write::create(pod("a"), "x")]));
    let mut created = futures::future::try_join_all(creations).await.unwrap();
    store.close().await.unwrap();
    let store = open(directory.path()).await;
    let found = store.tenants().await.unwrap();
    assert!(found.iter().all(|t| t.revision == 1));
    created.sort_unstable();
    assert_eq!(found.iter().map(|t| t.tenant).collect::<Vec<_>>(), created);
}
