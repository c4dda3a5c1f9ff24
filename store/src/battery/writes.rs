use super::*;

pub(super) async fn create(store: Backend) {
    let revisions = store.transact(SYSTEM, vec![Write::create(pod("a"), "1")]).await.unwrap();
    assert_eq!(revisions, [1]);
    let (entry, newest) = store.get(SYSTEM, &pod("a")).await.unwrap();
    assert_eq!(entry, Some(Entry { key: pod("a"), revision: 1, created: 1, value: "1".into() }));
    assert_eq!((newest, store.revision(SYSTEM).await.unwrap()), (1, 1));
}

pub(super) async fn create_of_an_existing_document_shows_it(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "1").await;
    let (index, current) = conflict(store.transact(SYSTEM, vec![Write::create(pod("a"), "2")]).await);
    assert_eq!(index, 0);
    assert_eq!(current, get(&store, SYSTEM, &pod("a")).await);
    assert_eq!(current.map(|e| text(&e.value)).as_deref(), Some("1"));
    assert_eq!(store.revision(SYSTEM).await.unwrap(), 1);
}

pub(super) async fn create_after_delete_is_a_new_document(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "1").await;
    delete(&store, SYSTEM, &pod("a")).await;
    assert_eq!(store.transact(SYSTEM, vec![Write::create(pod("a"), "2")]).await.unwrap(), [3]);
    let entry = get(&store, SYSTEM, &pod("a")).await.unwrap();
    assert_eq!((entry.revision, entry.created), (3, 3));
}

pub(super) async fn get_of_an_absent_document(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "1").await;
    let (entry, newest) = store.get(SYSTEM, &pod("b")).await.unwrap();
    assert_eq!((entry, newest), (None, 1));
}

pub(super) async fn put_creates_and_replaces(store: Backend) {
    assert_eq!(put(&store, SYSTEM, &pod("a"), "1").await, 1);
    assert_eq!(put(&store, SYSTEM, &pod("a"), "2").await, 2);
    let entry = get(&store, SYSTEM, &pod("a")).await.unwrap();
    assert_eq!((entry.revision, entry.created, text(&entry.value)), (2, 1, "2".to_owned()));
}

pub(super) async fn replace_of_a_stale_revision_shows_the_current_document(store: Backend) {
    let first = put(&store, SYSTEM, &pod("a"), "1").await;
    let second = store.transact(SYSTEM, vec![Write::replace(pod("a"), first, "2")]).await.unwrap()[0];
    let (_, current) = conflict(store.transact(SYSTEM, vec![Write::replace(pod("a"), first, "3")]).await);
    assert_eq!(current.map(|e| (e.revision, text(&e.value))), Some((second, "2".to_owned())));
}

pub(super) async fn replace_of_an_absent_document(store: Backend) {
    let revision = put(&store, SYSTEM, &pod("a"), "1").await;
    delete(&store, SYSTEM, &pod("a")).await;
    let (_, current) = conflict(store.transact(SYSTEM, vec![Write::replace(pod("a"), revision, "2")]).await);
    assert_eq!(current, None);
}

pub(super) async fn conditional_delete(store: Backend) {
    let first = put(&store, SYSTEM, &pod("a"), "1").await;
    let second = put(&store, SYSTEM, &pod("a"), "2").await;
    let stale = Write::delete(pod("a"), Expect::Revision(first));
    let (_, current) = conflict(store.transact(SYSTEM, vec![stale]).await);
    assert_eq!(current.map(|e| e.revision), Some(second));
    let right = Write::delete(pod("a"), Expect::Revision(second));
    assert_eq!(store.transact(SYSTEM, vec![right]).await.unwrap(), [3]);
    assert_eq!(store.get(SYSTEM, &pod("a")).await.unwrap(), (None, 3));
}

pub(super) async fn unconditional_delete(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "1").await;
    put(&store, SYSTEM, &pod("b"), "1").await;
    assert_eq!(delete(&store, SYSTEM, &pod("a")).await, 3);
    assert_eq!(list(&store, pods(), None).await, [pair("default/b", "1")]);
}

pub(super) async fn delete_of_an_absent_document(store: Backend) {
    for expect in [Expect::Any, Expect::Revision(1)] {
        let (index, current) = conflict(store.transact(SYSTEM, vec![Write::delete(pod("a"), expect)]).await);
        assert_eq!((index, current), (0, None));
    }
    assert_eq!(store.revision(SYSTEM).await.unwrap(), 0);
}

pub(super) async fn delete_of_a_document_expected_absent(store: Backend) {
    conflict(store.transact(SYSTEM, vec![Write::delete(pod("a"), Expect::Absent)]).await);
    put(&store, SYSTEM, &pod("a"), "1").await;
    conflict(store.transact(SYSTEM, vec![Write::delete(pod("a"), Expect::Absent)]).await);
}

pub(super) async fn revisions_are_dense(store: Backend) {
    for i in 1..=10_u64 {
        assert_eq!(put(&store, SYSTEM, &pod(&format!("p{}", i % 3)), "x").await, i);
        conflict(store.transact(SYSTEM, vec![Write::replace(pod("absent"), 1, "x")]).await);
    }
}

pub(super) async fn any_bytes_are_kept(store: Backend) {
    let values = [Bytes::new(), Bytes::from_static(b"\0"), (0..=255_u8).collect()];
    for value in values {
        store.transact(SYSTEM, vec![Write::put(pod("a"), value.clone())]).await.unwrap();
        assert_eq!(get(&store, SYSTEM, &pod("a")).await.unwrap().value, value);
    }
    // An empty document is a document: its successor has a previous one.
    store.transact(SYSTEM, vec![Write::put(pod("a"), Bytes::new())]).await.unwrap();
    store.transact(SYSTEM, vec![Write::put(pod("a"), "x")]).await.unwrap();
    let mut watch = store.watch(SYSTEM, pods(), 4).await.unwrap();
    assert_eq!(events(&mut watch, 1).await[0].previous, Some((4, Bytes::new())));
}

pub(super) async fn a_document_of_two_mebibytes(store: Backend) {
    let value: Bytes = (0..2 << 20).map(|i| (i % 251) as u8).collect();
    store.transact(SYSTEM, vec![Write::put(pod("a"), value.clone())]).await.unwrap();
    assert_eq!(get(&store, SYSTEM, &pod("a")).await.unwrap().value, value);
}

pub(super) async fn one_of_many_concurrent_creates_wins(store: Backend) {
    let tries = (0..16).map(|i| store.transact(SYSTEM, vec![Write::create(pod("a"), i.to_string())]));
    let results = futures::future::join_all(tries).await;
    let won: Vec<_> = results.iter().filter_map(|r| r.as_ref().ok()).collect();
    assert_eq!(won, [&vec![1]]);
    for result in results.into_iter().filter(Result::is_err) {
        let (_, current) = conflict(result);
        assert_eq!(current.map(|e| e.revision), Some(1), "a conflict shows what is committed");
    }
}

pub(super) async fn concurrent_counters_lose_no_increment(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "0").await;
    let count = async |store: Backend| {
        for _ in 0..5 {
            loop {
                let entry = get(&store, SYSTEM, &pod("a")).await.unwrap();
                let next = text(&entry.value).parse::<u32>().unwrap() + 1;
                let write = Write::replace(pod("a"), entry.revision, next.to_string());
                match store.transact(SYSTEM, vec![write]).await {
                    Ok(_) => break,
                    Err(StoreError::Conflict { .. }) => tokio::task::yield_now().await,
                    Err(e) => panic!("{e}"),
                }
            }
        }
    };
    within(futures::future::join_all((0..8).map(|_| count(store.clone())))).await;
    let entry = get(&store, SYSTEM, &pod("a")).await.unwrap();
    assert_eq!((text(&entry.value), entry.revision), ("40".to_owned(), 41));
}

pub(super) async fn a_dropped_write_leaves_no_gap(store: Backend) {
    for i in 0..10 {
        let mut write = store.transact(SYSTEM, vec![Write::put(pod(&i.to_string()), "x")]);
        // Begun, and maybe finished; then nobody waits for it.
        let _ = futures::poll!(&mut write);
        drop(write);
    }
    let last = put(&store, SYSTEM, &pod("last"), "x").await;
    let mut watch = store.watch(SYSTEM, pods(), 0).await.unwrap();
    let seen = events(&mut watch, last as usize).await;
    assert_eq!(revisions(&seen), (1..=last).collect::<Vec<_>>());
}
