use super::*;

pub(super) async fn watch_from_zero(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "1").await;
    put(&store, SYSTEM, &pod("a"), "2").await;
    let mut watch = store.watch(SYSTEM, pods(), 0).await.unwrap();
    put(&store, SYSTEM, &pod("b"), "3").await;
    let seen = events(&mut watch, 3).await;
    assert_eq!(revisions(&seen), [1, 2, 3]);
    let values: Vec<_> = seen.iter().map(|e| e.value.as_ref().map(text)).collect();
    assert_eq!(values, [Some("1".to_owned()), Some("2".to_owned()), Some("3".to_owned())]);
    assert_eq!(seen[0].previous, None);
}

pub(super) async fn watch_from_a_revision(store: Backend) {
    for i in 0..5 {
        put(&store, SYSTEM, &pod("a"), &i.to_string()).await;
    }
    let mut watch = store.watch(SYSTEM, pods(), 3).await.unwrap();
    assert_eq!(revisions(&events(&mut watch, 2).await), [4, 5]);
}

pub(super) async fn watch_from_now(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "1").await;
    let found = store.list(SYSTEM, ListOptions::newest(pods())).await.unwrap();
    let mut watch = store.watch(SYSTEM, pods(), found.revision).await.unwrap();
    assert!(is_quiet(&mut watch).await);
    put(&store, SYSTEM, &pod("a"), "2").await;
    assert_eq!(revisions(&events(&mut watch, 1).await), [2]);
}

pub(super) async fn watch_from_the_future(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "1").await;
    match store.watch(SYSTEM, pods(), 2).await {
        Err(StoreError::Future { requested: 2, newest: 1 }) => {}
        other => panic!("{other:?}"),
    }
}

pub(super) async fn deletions_carry_the_last_document(store: Backend) {
    let mut live = store.watch(SYSTEM, pods(), 0).await.unwrap();
    put(&store, SYSTEM, &pod("a"), "1").await;
    put(&store, SYSTEM, &pod("a"), "2").await;
    delete(&store, SYSTEM, &pod("a")).await;
    let mut replayed = store.watch(SYSTEM, pods(), 2).await.unwrap();
    for deletion in [&events(&mut live, 3).await[2], &events(&mut replayed, 1).await[0]] {
        assert_eq!((deletion.revision, deletion.value.as_ref()), (3, None));
        assert_eq!(deletion.previous, Some((2, "2".into())));
    }
}

pub(super) async fn updates_carry_the_previous_document(store: Backend) {
    let mut live = store.watch(SYSTEM, pods(), 0).await.unwrap();
    put(&store, SYSTEM, &pod("a"), "1").await;
    put(&store, SYSTEM, &pod("b"), "x").await;
    put(&store, SYSTEM, &pod("a"), "2").await;
    let mut replayed = store.watch(SYSTEM, pods(), 0).await.unwrap();
    let live = events(&mut live, 3).await;
    assert_eq!(live[2].previous, Some((1, "1".into())));
    assert_eq!(live, events(&mut replayed, 3).await);
}

pub(super) async fn watch_of_a_namespace(store: Backend) {
    let mut live = store.watch(SYSTEM, Scope::namespaced("pods", "b"), 0).await.unwrap();
    for namespace in ["a", "b", "bb", "b"] {
        put(&store, SYSTEM, &Key::new("pods", namespace, "x"), "x").await;
    }
    let mut replayed = store.watch(SYSTEM, Scope::namespaced("pods", "b"), 0).await.unwrap();
    assert_eq!(revisions(&events(&mut live, 2).await), [2, 4]);
    assert_eq!(revisions(&events(&mut replayed, 2).await), [2, 4]);
}

pub(super) async fn watch_sees_no_other_resource(store: Backend) {
    let mut watch = store.watch(SYSTEM, pods(), 0).await.unwrap();
    put(&store, SYSTEM, &Key::new("services", "default", "a"), "x").await;
    assert!(is_quiet(&mut watch).await);
    put(&store, SYSTEM, &pod("a"), "x").await;
    assert_eq!(revisions(&events(&mut watch, 1).await), [2]);
}

pub(super) async fn all_watchers_see_one_order(store: Backend) {
    let mut watches = Vec::new();
    for _ in 0..4 {
        watches.push(store.watch(SYSTEM, pods(), 0).await.unwrap());
    }
    let names: Vec<_> = (0..20).map(|i| pod(&format!("p{}", i % 3))).collect();
    futures::future::join_all(names.iter().map(|key| put(&store, SYSTEM, key, "x"))).await;
    for watch in &mut watches {
        let seen = events(watch, 20).await;
        assert_eq!(revisions(&seen), (1..=20).collect::<Vec<_>>());
        // Each names the revision before it of the same document.
        for (i, event) in seen.iter().enumerate() {
            let before = seen[..i].iter().rev().find(|e| e.key == event.key).map(|e| e.revision);
            assert_eq!(event.previous.as_ref().map(|p| p.0), before);
        }
    }
}

pub(super) async fn a_dropped_watch_disturbs_nobody(store: Backend) {
    let mut kept = store.watch(SYSTEM, pods(), 0).await.unwrap();
    for _ in 0..20 {
        drop(store.watch(SYSTEM, pods(), 0).await.unwrap());
    }
    put(&store, SYSTEM, &pod("a"), "x").await;
    assert_eq!(revisions(&events(&mut kept, 1).await), [1]);
}

pub(super) async fn next_can_be_cancelled(store: Backend) {
    for i in 0..5 {
        put(&store, SYSTEM, &pod("a"), &i.to_string()).await;
    }
    let mut watch = store.watch(SYSTEM, pods(), 0).await.unwrap();
    let mut seen = Vec::new();
    for i in 5..40 {
        if i < 20 {
            put(&store, SYSTEM, &pod("a"), &i.to_string()).await;
        }
        let next = tokio::select! {
            biased;
            batch = watch.next() => Some(batch.unwrap()),
            () = tokio::task::yield_now() => None,
        };
        seen.extend(next.into_iter().flatten());
    }
    if seen.len() < 20 {
        let missing = 20 - seen.len();
        seen.extend(events(&mut watch, missing).await);
    }
    assert_eq!(revisions(&seen), (1..=20).collect::<Vec<_>>());
}

pub(super) async fn a_long_history_is_replayed_whole(store: Backend) {
    for i in 0..13_u32 {
        let writes = (0..100_u32).map(|j| Write::put(pod(&format!("p{}", (i + j) % 7)), j.to_string()));
        store.transact(SYSTEM, writes.collect()).await.unwrap();
    }
    let mut watch = store.watch(SYSTEM, pods(), 0).await.unwrap();
    put(&store, SYSTEM, &pod("last"), "x").await;
    assert_eq!(revisions(&events(&mut watch, 1301).await), (1..=1301).collect::<Vec<_>>());
}

pub(super) async fn a_watch_begun_among_writes_misses_nothing(store: Backend) {
    let writer = async {
        for i in 0..60 {
            put(&store, SYSTEM, &pod("a"), &i.to_string()).await;
            tokio::task::yield_now().await;
        }
    };
    let watcher = async {
        for _ in 0..10 {
            let from = store.revision(SYSTEM).await.unwrap();
            let mut watch = store.watch(SYSTEM, pods(), from / 2).await.unwrap();
            let count = (60 - from / 2).min(20);
            let mut seen = Vec::new();
            while (seen.len() as u64) < count {
                seen.extend(within(watch.next()).await.unwrap());
            }
            let first = from / 2 + 1;
            assert_eq!(revisions(&seen), (first..first + seen.len() as u64).collect::<Vec<_>>());
        }
    };
    within(futures::future::join(writer, watcher)).await;
}

pub(super) async fn a_slow_watch_ends_as_lagged(store: Backend) {
    let mut watch = store.watch(SYSTEM, pods(), 0).await.unwrap();
    for _ in 0..=WATCH_BUFFER {
        put(&store, SYSTEM, &pod("a"), "x").await;
    }
    assert_eq!(end(&mut watch).await, WatchError::Lagged);
    // It lists and watches again.
    let from = store.revision(SYSTEM).await.unwrap();
    let mut again = store.watch(SYSTEM, pods(), from).await.unwrap();
    put(&store, SYSTEM, &pod("a"), "y").await;
    assert_eq!(revisions(&events(&mut again, 1).await), [from + 1]);
}

pub(super) async fn a_lagging_watch_disturbs_nobody(store: Backend) {
    let mut slow = store.watch(SYSTEM, pods(), 0).await.unwrap();
    let mut fast = store.watch(SYSTEM, pods(), 0).await.unwrap();
    for i in 1..=WATCH_BUFFER as u64 + 10 {
        put(&store, SYSTEM, &pod("a"), "x").await;
        assert_eq!(revisions(&events(&mut fast, 1).await), [i]);
    }
    assert_eq!(end(&mut slow).await, WatchError::Lagged);
}

pub(super) async fn events_of_others_do_not_count_as_lag(store: Backend) {
    let mut watch = store.watch(SYSTEM, Scope::namespaced("pods", "quiet"), 0).await.unwrap();
    for _ in 0..WATCH_BUFFER * 2 {
        put(&store, SYSTEM, &pod("a"), "x").await;
    }
    let last = put(&store, SYSTEM, &Key::new("pods", "quiet", "a"), "x").await;
    assert_eq!(revisions(&events(&mut watch, 1).await), [last]);
}

pub(super) async fn watch_ends_with_the_store(store: Backend) {
    let mut watch = store.watch(SYSTEM, pods(), 0).await.unwrap();
    put(&store, SYSTEM, &pod("a"), "x").await;
    store.close().await.unwrap();
    assert_eq!(revisions(&within(watch.next()).await.unwrap()), [1], "what was committed is still delivered");
    assert_eq!(end(&mut watch).await, WatchError::Closed);
}

pub(super) async fn large_documents_fill_a_watch_sooner(store: Backend) {
    let mut slow = store.watch(SYSTEM, pods(), 0).await.unwrap();
    let large = "x".repeat(3 << 20);
    // Each change carries the document before as well.
    for _ in 0..4 {
        put(&store, SYSTEM, &pod("a"), &large).await;
    }
    assert_eq!(end(&mut slow).await, WatchError::Lagged);
}

pub(super) async fn watchers_of_leases_see_the_newest(store: Backend) {
    const LEASES: &str = "leases.coordination.k8s.io";
    let lease = |name| Key::new(LEASES, "kube-node-lease", name);
    for i in 0..3 {
        put(&store, SYSTEM, &lease("a"), &i.to_string()).await;
        put(&store, SYSTEM, &pod("a"), "x").await;
    }
    put(&store, SYSTEM, &lease("b"), "1").await;
    put(&store, SYSTEM, &lease("b"), "2").await;
    let deleted = delete(&store, SYSTEM, &lease("b")).await;
    let mut watch = store.watch(SYSTEM, Scope::all(LEASES), 0).await.unwrap();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|e: &Arc<Event>| e.revision < deleted) {
        seen.extend(within(watch.next()).await.unwrap());
    }
    let last = seen.iter().rfind(|e| *e.key.name == *"a").unwrap();
    assert_eq!((last.revision, last.value.as_ref().map(text)), (5, Some("2".to_owned())));
    assert!(last.previous.is_some(), "a change, not a creation");
    assert_eq!(seen.last().unwrap().previous, Some((8, "2".into())), "a deletion carries the last document");
    // What a list at an older revision shows of them may be newer; it is there.
    assert_eq!(list(&store, Scope::all(LEASES), Some(4)).await.len(), 1);
    assert_eq!(list(&store, pods(), Some(4)).await, [pair("default/a", "x")]);
}
