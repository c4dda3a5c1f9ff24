use std::process::Command;

use super::{
    child::{Orders, parse},
    *,
};
use crate::{Key, StoreError, Write, sqlite::DataFile};

fn pod(name: &str) -> Key {
    Key::new("pods", "default", name)
}

#[tokio::test]
async fn a_full_disk_fails_the_writers_and_publishes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = DataFile::open(directory.path()).await.unwrap();
    // 200 KiB and a little.
    sqlx::raw_sql("PRAGMA max_page_count = 64").execute(&mut file.connection).await.unwrap();
    let store = SqliteStore::start(file, &Tasks::new(), options()).await.unwrap();
    let other = store.create_tenant("other", Vec::new()).await.unwrap();
    let mut feed = store.feed();
    assert_eq!(store.transact(SYSTEM, vec![Write::create(pod("a"), "x")]).await.unwrap(), [1]);
    let mut watch = store.watch(SYSTEM, Scope::all("pods"), 0).await.unwrap();

    let large = store.transact(SYSTEM, vec![Write::create(pod("large"), vec![b'x'; 1 << 20])]);
    // Queued behind it, in the same group or the next.
    let after = store.transact(SYSTEM, vec![Write::put(pod("large"), "small")]);
    let tenant = store.create_tenant("large", vec![Write::create(pod("large"), vec![b'x'; 1 << 20])]);
    let others = store.transact(other, vec![Write::create(pod("a"), "x")]);
    let (large, after, tenant, others) = futures::join!(large, after, tenant, others);
    assert_eq!(others.unwrap(), [1], "a write of another tenant has nothing to do with it");
    for error in [large.err(), tenant.err()] {
        let Some(StoreError::Backend(text)) = error else { panic!("{error:?}") };
        assert!(text.contains("full"), "{text}");
    }
    let mut expected = vec![1];
    if after.is_ok() {
        expected.push(2);
    }

    // There is room for small ones: it goes on, and no revision is missing.
    let next = store.transact(SYSTEM, vec![Write::create(pod("b"), "x")]).await.unwrap()[0];
    expected.push(next);
    assert_eq!(next, expected.len() as u64);
    assert_eq!(store.tenant("large").await.unwrap(), None);
    store.create_tenant("large", Vec::new()).await.unwrap();
    let mut seen = Vec::new();
    let mut fed = Vec::new();
    while seen.len() < expected.len() {
        seen.extend(watch.next().await.unwrap().iter().map(|e| e.revision));
    }
    while fed.len() < expected.len() {
        let committed = feed.next().await.unwrap();
        if committed.tenant == SYSTEM {
            fed.extend(committed.events.iter().map(|e| e.revision));
        }
    }
    assert_eq!((&seen, &fed), (&expected, &expected));
    store.close().await.unwrap();
    let store = open(directory.path()).await;
    assert_eq!(log(&store, "pods", next).await.len(), expected.len());
}

#[tokio::test]
async fn a_failing_write_of_the_file_loses_nothing_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    // Files may not grow beyond 256 KiB, and the signal that says so is ignored: writing fails with EFBIG.
    let mut limited = Command::new("bash");
    limited.args(["-c", r#"trap "" XFSZ; ulimit -f 256; exec "$@""#, "limited"]);
    let orders = Orders { directory: &data, round: 0, writers: 8, writes: 100_000 };
    let output = orders.command(limited).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(output.contains("\nfailed "), "{output}");
    let acknowledged: Vec<_> = output.split_inclusive('\n').filter_map(parse).collect();
    assert!(acknowledged.len() > 50);
    let store = open(&data).await;
    let head = store.revision(SYSTEM).await.unwrap();
    let events = log(&store, "pods", head).await;
    for write in acknowledged {
        let event = &events[write.revision as usize - 1];
        assert_eq!((&*event.key.name, event.value.is_none()), (&*write.name, write.deleted));
    }
}
