use super::*;

pub(super) async fn all_or_nothing(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "1").await;
    let mut watch = store.watch(SYSTEM, pods(), 1).await.unwrap();
    let writes = vec![
        Write::create(pod("b"), "x"),
        Write::put(pod("a"), "2"),
        Write::create(pod("a"), "3"),
        Write::create(pod("c"), "x"),
    ];
    let (index, _) = conflict(store.transact(SYSTEM, writes).await);
    assert_eq!(index, 2);
    assert_eq!(list(&store, pods(), None).await, [pair("default/a", "1")]);
    assert_eq!(store.revision(SYSTEM).await.unwrap(), 1);
    assert!(is_quiet(&mut watch).await);
}

pub(super) async fn revisions_follow_the_writes(store: Backend) {
    let writes = ["c", "a", "b"].map(|name| Write::create(pod(name), "x"));
    assert_eq!(store.transact(SYSTEM, writes.to_vec()).await.unwrap(), [1, 2, 3]);
    for (name, revision) in [("c", 1), ("a", 2), ("b", 3)] {
        let entry = get(&store, SYSTEM, &pod(name)).await.unwrap();
        assert_eq!((entry.revision, entry.created), (revision, revision));
    }
}

pub(super) async fn later_writes_see_earlier_ones(store: Backend) {
    let newest = put(&store, SYSTEM, &pod("a"), "1").await;
    let writes = vec![
        Write::replace(pod("a"), newest, "2"),
        Write::replace(pod("a"), newest + 1, "3"),
        Write::put(pod("b"), "x"),
        Write::delete(pod("b"), Expect::Revision(newest + 3)),
    ];
    assert_eq!(store.transact(SYSTEM, writes).await.unwrap(), [2, 3, 4, 5]);
    assert_eq!(list(&store, pods(), None).await, [pair("default/a", "3")]);
    assert_eq!(list(&store, pods(), Some(4)).await, [pair("default/a", "3"), pair("default/b", "x")]);
    let mut watch = store.watch(SYSTEM, pods(), 1).await.unwrap();
    let seen = events(&mut watch, 4).await;
    let previous: Vec<_> = seen.iter().map(|e| e.previous.as_ref().map(|p| p.0)).collect();
    assert_eq!(previous, [Some(1), Some(2), None, Some(4)]);
}

pub(super) async fn the_same_document_created_twice(store: Backend) {
    let writes = vec![Write::create(pod("a"), "1"), Write::create(pod("a"), "2")];
    let (index, current) = conflict(store.transact(SYSTEM, writes).await);
    // Nothing of the transaction was written, so nothing is there.
    assert_eq!((index, current), (1, None));
}

pub(super) async fn delete_and_create_again(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "1").await;
    let writes = vec![Write::delete(pod("a"), Expect::Revision(1)), Write::create(pod("a"), "2")];
    assert_eq!(store.transact(SYSTEM, writes).await.unwrap(), [2, 3]);
    let entry = get(&store, SYSTEM, &pod("a")).await.unwrap();
    assert_eq!((entry.revision, entry.created), (3, 3));
    assert!(list(&store, pods(), Some(2)).await.is_empty());
}

pub(super) async fn an_empty_transaction(store: Backend) {
    assert!(store.transact(SYSTEM, Vec::new()).await.unwrap().is_empty());
    assert_eq!(store.revision(SYSTEM).await.unwrap(), 0);
}

pub(super) async fn a_transaction_over_several_resources(store: Backend) {
    let keys = ["environments", "jobs", "audit"].map(|resource| Key::new(resource, "", "x"));
    let writes = keys.iter().map(|key| Write::create(key.clone(), "x")).collect();
    assert_eq!(store.transact(SYSTEM, writes).await.unwrap(), [1, 2, 3]);
    for (key, revision) in keys.iter().zip(1..) {
        assert_eq!(get(&store, SYSTEM, key).await.map(|e| e.revision), Some(revision));
        let mut watch = store.watch(SYSTEM, Scope::all(&key.resource), 0).await.unwrap();
        assert_eq!(revisions(&events(&mut watch, 1).await), [revision]);
    }
}

pub(super) async fn the_first_failure_is_reported(store: Backend) {
    put(&store, SYSTEM, &pod("b"), "1").await;
    let writes = vec![Write::put(pod("a"), "x"), Write::replace(pod("b"), 9, "x"), Write::replace(pod("c"), 9, "x")];
    let (index, current) = conflict(store.transact(SYSTEM, writes).await);
    assert_eq!((index, current.map(|e| e.revision)), (1, Some(1)));
}

pub(super) async fn a_transaction_is_one_commit_of_the_feed(store: Backend) {
    let mut feed = store.feed();
    let writes = ["a", "b"].map(|name| Write::create(pod(name), "x"));
    store.transact(SYSTEM, writes.to_vec()).await.unwrap();
    let committed = within(feed.next()).await.unwrap();
    assert_eq!((committed.tenant, revisions(&committed.events)), (SYSTEM, vec![1, 2]));
}
