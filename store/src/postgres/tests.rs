//! What Postgres promises beyond the battery: one owner, and that connections and servers may fail.

use std::time::Duration;

use sqlx::Row;

use super::{
    testing::{Server, beside},
    *,
};
use crate::{Event, Expect, Key, ListOptions, Revision, Scope, Store, Tenant, WatchError, Write};

const SYSTEM: Tenant = Tenant::SYSTEM;

fn options() -> StoreOptions {
    StoreOptions { maintenance: Duration::from_hours(1), ..StoreOptions::default() }
}

async fn open(address: &PostgresAddress) -> PostgresStore {
    PostgresStore::open_with(address, &Tasks::new(), options()).await.unwrap()
}

fn pod(name: &str) -> Key {
    Key::new("pods", "default", name)
}

async fn create(store: &PostgresStore, name: &str) -> Result<Revision, StoreError> {
    store.transact(SYSTEM, vec![Write::create(pod(name), "x")]).await.map(|r| r[0])
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("nothing came within 60 s")
}

/// All events of a resource of [`SYSTEM`], dense from the first.
async fn log(store: &PostgresStore) -> Vec<Arc<Event>> {
    let head = store.revision(SYSTEM).await.unwrap();
    let mut watch = store.watch(SYSTEM, Scope::all("pods"), 0).await.unwrap();
    let mut events = Vec::new();
    while (events.len() as u64) < head {
        events.extend(within(watch.next()).await.unwrap());
    }
    assert_eq!(events.iter().map(|e| e.revision).collect::<Vec<_>>(), (1..=head).collect::<Vec<_>>());
    events
}

#[tokio::test]
async fn one_server_owns_the_database() {
    let server = Server::start();
    let address = server.database().await;
    let first = open(&address).await;
    create(&first, "a").await.unwrap();
    let error = PostgresStore::open(&address, &Tasks::new()).await.err();
    let Some(StoreError::Locked(text)) = error else { panic!("{error:?}") };
    assert!(text.contains(&format!("vctl {}", std::process::id())), "{text}");
    create(&first, "b").await.expect("the attempt did not disturb it");
    first.close().await.unwrap();
    let second = open(&address).await;
    assert_eq!(second.revision(SYSTEM).await.unwrap(), 2);
    assert_eq!(create(&second, "c").await.unwrap(), 3);
}

#[tokio::test]
async fn a_replaced_server_cannot_write_and_ends() {
    let server = Server::start();
    let address = server.database().await;
    let first = open(&address).await;
    create(&first, "a").await.unwrap();
    // The second waits for the lock, and gets it because the backend of the first dies. The first does not know.
    let opening = open(&address);
    let ending = async {
        let mut beside = beside(&address).await;
        let ended = "SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted
                     AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        sqlx::query(ended).fetch_all(&mut beside).await.unwrap();
    };
    let (second, ()) = futures::join!(opening, ending);
    assert_eq!(create(&second, "b").await.unwrap(), 2);
    let refused = within(create(&first, "stale")).await;
    assert!(matches!(refused, Err(StoreError::Locked(_) | StoreError::Closed)), "{refused:?}");
    let ended = within(first.ended()).await;
    let Err(StoreError::Locked(text)) = ended else { panic!("{ended:?}") };
    assert!(text.contains("taken"), "{text}");
    assert_eq!(create(&second, "c").await.unwrap(), 3, "nothing of the first is in between");
}

#[tokio::test]
async fn a_stale_epoch_writes_nothing_even_with_a_living_connection() {
    let server = Server::start();
    let address = server.database().await;
    let store = open(&address).await;
    create(&store, "a").await.unwrap();
    let mut watch = store.watch(SYSTEM, Scope::all("pods"), 1).await.unwrap();
    let mut beside = beside(&address).await;
    sqlx::query("UPDATE owner SET epoch = epoch + 1").execute(&mut beside).await.unwrap();
    let refused = within(create(&store, "stale")).await;
    assert!(matches!(refused, Err(StoreError::Locked(_) | StoreError::Closed)), "{refused:?}");
    assert_eq!(within(watch.next()).await, Err(WatchError::Closed));
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM log").fetch_one(&mut beside).await.unwrap();
    assert_eq!(rows, 1);
}

#[tokio::test]
async fn commits_and_reads_find_rows_by_their_keys() {
    let server = Server::start();
    let address = server.database().await;
    let mut beside = beside(&address).await;
    // Nothing may be planned anew because of what is in the tables meanwhile.
    open(&address).await.close().await.unwrap();
    for table in ["log", "current", "tenants"] {
        let off = format!("ALTER TABLE {table} SET (autovacuum_enabled = off)");
        sqlx::raw_sql(sqlx::AssertSqlSafe(off)).execute(&mut beside).await.unwrap();
    }
    let whole = "SELECT coalesce(sum(seq_scan), 0)::bigint, coalesce(sum(idx_scan), 0)::bigint FROM pg_stat_user_tables
                 WHERE schemaname = 'vctl' AND relname IN ('log', 'current', 'tenants')";
    let store = open(&address).await;
    for n in 0..30 {
        let tenant = store.create_tenant(&format!("t{n}"), vec![Write::create(pod("first"), "x")]).await.unwrap();
        let revision = create(&store, &n.to_string()).await.unwrap();
        store.transact(SYSTEM, vec![Write::replace(pod(&n.to_string()), revision, "y")]).await.unwrap();
        store.transact(SYSTEM, vec![Write::delete(pod(&n.to_string()), Expect::Any)]).await.unwrap();
        store.delete_tenant(tenant).await.unwrap();
    }
    // A backend tells what it did at its end at the latest.
    store.close().await.unwrap();
    let before: i64 = within(async {
        loop {
            let row = sqlx::query(whole).fetch_one(&mut beside).await.unwrap();
            if row.get::<i64, _>(1) > 30 * 5 {
                return row.get(0);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(before < 30, "tables were read whole {before} times in 150 commits");
}

#[tokio::test]
async fn an_idle_server_that_is_replaced_is_told() {
    let server = Server::start();
    let address = server.database().await;
    let store = open(&address).await;
    create(&store, "a").await.unwrap();
    let mut watch = store.watch(SYSTEM, Scope::all("pods"), 1).await.unwrap();
    let mut beside = beside(&address).await;
    sqlx::raw_sql("UPDATE owner SET epoch = epoch + 1; SELECT pg_notify('vctl_owner', '')")
        .execute(&mut beside)
        .await
        .unwrap();
    assert!(matches!(within(store.ended()).await, Err(StoreError::Locked(_))));
    assert_eq!(within(watch.next()).await, Err(WatchError::Closed));
    assert!(matches!(store.get(SYSTEM, &pod("a")).await, Err(StoreError::Closed)));
}

#[tokio::test]
async fn a_commit_in_doubt_is_neither_lost_nor_repeated() {
    let server = Server::start();
    let address = server.database().await;
    let store = open(&address).await;
    create(&store, "a").await.unwrap();
    let mut beside = beside(&address).await;
    // The commit happens, but its backend dies before it can say so: at the very end of the transaction, a trigger of ours in
    // another session's hands ends it. Simulated from both sides: here it has been committed..
    for (name, there) in [("there", true), ("not", false)] {
        let before: i64 = sqlx::query_scalar("SELECT committed FROM owner").fetch_one(&mut beside).await.unwrap();
        if !there {
            // ..and here the statement hangs on the row of the owner until the backend is ended.
            let mut transaction = sqlx::Connection::begin(&mut beside).await.unwrap();
            sqlx::query("SELECT 1 FROM owner FOR UPDATE").fetch_one(&mut *transaction).await.unwrap();
            let (created, ()) = futures::join!(create(&store, name), async {
                let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
                while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut *transaction).await.unwrap() == 0 {}
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                           AND datname = current_database()";
                sqlx::query(end).fetch_all(&mut *transaction).await.unwrap();
                transaction.rollback().await.unwrap();
            });
            created.unwrap();
        } else {
            create(&store, name).await.unwrap();
        }
        let after: i64 = sqlx::query_scalar("SELECT committed FROM owner").fetch_one(&mut beside).await.unwrap();
        assert_eq!(after, before + 1, "{name}: one commit");
    }
    let names: Vec<_> = log(&store).await.iter().map(|e| e.key.name.to_string()).collect();
    assert_eq!(names, ["a", "there", "not"]);
}

/// Writes from several tasks while `disturb` runs; then everything acknowledged is there once, before and after opening again.
async fn survives(server: &mut Server, disturb: impl AsyncFn(&mut Server, &PostgresAddress)) {
    let address = server.database().await;
    let store = Arc::new(open(&address).await);
    let writing = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let tasks = Tasks::new();
    let (send, mut acknowledged) = tokio::sync::mpsc::unbounded_channel();
    for writer in 0..8 {
        let (store, writing, send) = (store.clone(), writing.clone(), send.clone());
        tasks.spawn("writer", async move {
            let mut n = 0;
            while writing.load(std::sync::atomic::Ordering::Relaxed) {
                let name = format!("w{writer}-{n}");
                n += 1;
                match create(&store, &name).await {
                    Ok(revision) => drop(send.send((revision, name))),
                    // Not written, and said so.
                    Err(StoreError::Backend(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    drop(send);
    let mut issued = std::collections::HashMap::new();
    let mut receive = async |count: usize| {
        while issued.len() < count {
            let Some((revision, name)) = within(acknowledged.recv()).await else { break };
            assert_eq!(issued.insert(revision, name), None, "revision {revision} was issued twice");
        }
        issued.len()
    };
    let done = receive(100).await;
    disturb(server, &address).await;
    // It goes on by itself.
    receive(done + 100).await;
    writing.store(false, std::sync::atomic::Ordering::Relaxed);
    receive(usize::MAX).await;
    let check = async |store: &PostgresStore| {
        let events = log(store).await;
        for (revision, name) in &issued {
            assert_eq!(*events[*revision as usize - 1].key.name, **name);
        }
        let found = store.list(SYSTEM, ListOptions::newest(Scope::all("pods"))).await.unwrap();
        assert_eq!(found.entries.len(), events.len());
    };
    check(&store).await;
    store.close().await.unwrap();
    check(&open(&address).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_may_be_cut_and_the_server_restarted() {
    let mut server = Server::start();
    survives(&mut server, async |_, address| {
        let mut beside = beside(address).await;
        for _ in 0..5 {
            let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                       WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
            sqlx::query(cut).fetch_all(&mut beside).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    survives(&mut server, async |server, _| server.restart()).await;
    survives(&mut server, async |server, _| server.crash()).await;
}

#[tokio::test]
async fn without_the_server_writes_fail_and_later_go_on() {
    let mut server = Server::start();
    let address = server.database().await;
    let store = open(&address).await;
    create(&store, "a").await.unwrap();
    server.end("INT");
    // Long enough that the connection is tried before it is used: else the write would be in doubt, and wait for the server.
    tokio::time::sleep(Duration::from_millis(600)).await;
    let refused = within(create(&store, "b")).await;
    let Err(StoreError::Backend(text)) = refused else { panic!("{refused:?}") };
    assert!(text.contains("check that the server runs"), "{text}");
    // What is in memory can still be read.
    assert!(store.get(SYSTEM, &pod("a")).await.unwrap().0.is_some());
    server.begin();
    assert_eq!(create(&store, "b").await.unwrap(), 2);
}

#[tokio::test]
async fn tables_of_a_newer_version_are_left_alone() {
    let server = Server::start();
    let address = server.database().await;
    open(&address).await.close().await.unwrap();
    let mut beside = beside(&address).await;
    sqlx::raw_sql(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (999, 'later', true, '', 0)",
    )
    .execute(&mut beside)
    .await
    .unwrap();
    let error = PostgresStore::open(&address, &Tasks::new()).await.err();
    let Some(StoreError::Unusable(text)) = error else { panic!("{error:?}") };
    assert!(text.contains("999") && text.contains("newer vctl"), "{text}");
}

#[tokio::test]
async fn groups_larger_than_a_statement_are_one_transaction() {
    let server = Server::start();
    let address = server.database().await;
    let store = open(&address).await;
    let writes: Vec<_> = (0..40).map(|i| Write::create(pod(&i.to_string()), vec![b'x'; 1 << 20])).collect();
    let mut feed = store.feed();
    assert_eq!(store.transact(SYSTEM, writes).await.unwrap().len(), 40);
    assert_eq!(feed.next().await.unwrap().events.len(), 40);
    let mut beside = beside(&address).await;
    let row = sqlx::query("SELECT count(*), count(DISTINCT xmin::text) FROM log").fetch_one(&mut beside).await.unwrap();
    assert_eq!((row.get::<i64, _>(0), row.get::<i64, _>(1)), (40, 1));
}

#[tokio::test]
async fn what_nobody_can_see_is_removed() {
    let server = Server::start();
    let address = server.database().await;
    let store = open(&address).await;
    let documents = || (0..300).map(|i| Write::put(pod(&i.to_string()), "x")).collect::<Vec<_>>();
    let tenant = store.create_tenant("demo", documents()).await.unwrap();
    store.transact(SYSTEM, documents()).await.unwrap();
    store.transact(SYSTEM, documents()).await.unwrap();
    store.compact(SYSTEM, 600).await.unwrap();
    store.delete_tenant(tenant).await.unwrap();
    let mut beside = beside(&address).await;
    let count = "SELECT (SELECT count(*) FROM log), (SELECT count(*) FROM current), (SELECT count(*) FROM tenants)";
    within(async {
        loop {
            let row = sqlx::query(count).fetch_one(&mut beside).await.unwrap();
            if (row.get::<i64, _>(0), row.get::<i64, _>(1), row.get::<i64, _>(2)) == (300, 300, 1) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    store.close().await.unwrap();
    let store = open(&address).await;
    assert!(store.create_tenant("demo", Vec::new()).await.unwrap() > tenant, "a number is not used again");
    // A connection that is being made holds up the end of the server, for as long as it may take to sign in.
    store.close().await.unwrap();
}

#[test]
fn an_address_prints_without_its_password() {
    let address: PostgresAddress = "postgres://me:se%63ret@db.example:6543/vctl?sslmode=require".parse().unwrap();
    for text in [address.to_string(), format!("{address:?}")] {
        assert!(text.contains("postgres://me@db.example:6543/vctl") && !text.contains("se"), "{text}");
    }
    for (wrong, says) in [
        ("mysql://me:secret@db/vctl", "postgres://"),
        ("postgres://me:secret@db:port/vctl", "port"),
        ("postgres://me@db/vctl?password=secret", "PGPASSWORD"),
        ("postgres://me:secret@db/vctl?sslmode=maybe", "ssl_mode"),
    ] {
        let error = wrong.parse::<PostgresAddress>().unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("secret"), "{error}");
    }
}
