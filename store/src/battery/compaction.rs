use super::*;

async fn history(store: &Backend) {
    for (name, value) in [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("a", "5")] {
        put(store, SYSTEM, &pod(name), value).await;
    }
    assert_eq!(delete(store, SYSTEM, &pod("b")).await, 6);
}

pub(super) async fn compacted_lists_are_refused(store: Backend) {
    history(&store).await;
    store.compact(SYSTEM, 4).await.unwrap();
    for at in 0..4 {
        match store.list(SYSTEM, ListOptions { at: Some(at), ..ListOptions::newest(pods()) }).await {
            Err(StoreError::Compacted { requested, oldest: 4 }) => assert_eq!(requested, at),
            other => panic!("{other:?}"),
        }
    }
}

pub(super) async fn compacted_watches_are_refused(store: Backend) {
    history(&store).await;
    store.compact(SYSTEM, 4).await.unwrap();
    for after in 0..4 {
        match store.watch(SYSTEM, pods(), after).await {
            Err(StoreError::Compacted { requested, oldest: 4 }) => assert_eq!(requested, after),
            other => panic!("{other:?}"),
        }
    }
    let mut watch = store.watch(SYSTEM, pods(), 4).await.unwrap();
    assert_eq!(revisions(&events(&mut watch, 2).await), [5, 6]);
}

pub(super) async fn the_compacted_revision_is_still_readable(store: Backend) {
    history(&store).await;
    let before = list(&store, pods(), Some(4)).await;
    store.compact(SYSTEM, 4).await.unwrap();
    assert_eq!(list(&store, pods(), Some(4)).await, before);
    assert_eq!(before, [pair("default/a", "3"), pair("default/b", "2"), pair("default/c", "4")]);
}

pub(super) async fn current_documents_stay(store: Backend) {
    history(&store).await;
    store.compact(SYSTEM, 6).await.unwrap();
    assert_eq!(list(&store, pods(), None).await, [pair("default/a", "5"), pair("default/c", "4")]);
    let entry = get(&store, SYSTEM, &pod("a")).await.unwrap();
    assert_eq!((entry.revision, entry.created), (5, 1));
    store.transact(SYSTEM, vec![Write::replace(pod("a"), 5, "7")]).await.unwrap();
}

pub(super) async fn compaction_can_be_repeated(store: Backend) {
    history(&store).await;
    for revision in [3, 3, 1, 5, 0] {
        store.compact(SYSTEM, revision).await.unwrap();
    }
    assert!(matches!(store.watch(SYSTEM, pods(), 4).await, Err(StoreError::Compacted { oldest: 5, .. })));
    assert!(store.watch(SYSTEM, pods(), 5).await.is_ok());
}

pub(super) async fn compaction_of_the_future(store: Backend) {
    history(&store).await;
    assert!(matches!(store.compact(SYSTEM, 7).await, Err(StoreError::Future { requested: 7, newest: 6 })));
    assert!(store.watch(SYSTEM, pods(), 0).await.is_ok());
}

pub(super) async fn a_running_watch_survives_compaction(store: Backend) {
    let mut watch = store.watch(SYSTEM, pods(), 0).await.unwrap();
    history(&store).await;
    store.compact(SYSTEM, 6).await.unwrap();
    put(&store, SYSTEM, &pod("a"), "7").await;
    assert_eq!(revisions(&events(&mut watch, 7).await), (1..=7).collect::<Vec<_>>());
}

pub(super) async fn previous_documents_survive_compaction(store: Backend) {
    history(&store).await;
    store.compact(SYSTEM, 6).await.unwrap();
    put(&store, SYSTEM, &pod("c"), "7").await;
    delete(&store, SYSTEM, &pod("a")).await;
    let mut watch = store.watch(SYSTEM, pods(), 6).await.unwrap();
    let seen = events(&mut watch, 2).await;
    assert_eq!(seen[0].previous, Some((4, "4".into())));
    assert_eq!(seen[1].previous, Some((5, "5".into())));
}

pub(super) async fn compacted_revisions_are_not_issued_again(store: Backend) {
    history(&store).await;
    // The newest revision is a deletion: nothing of it is left.
    store.compact(SYSTEM, 6).await.unwrap();
    assert_eq!(store.revision(SYSTEM).await.unwrap(), 6);
    assert_eq!(put(&store, SYSTEM, &pod("b"), "7").await, 7);
}

pub(super) async fn history_after_compaction_is_whole(store: Backend) {
    for round in 0..6_u64 {
        for i in 0..10_u64 {
            put(&store, SYSTEM, &pod(&format!("p{}", i % 4)), &format!("{round}.{i}")).await;
        }
        let newest = store.revision(SYSTEM).await.unwrap();
        let kept = newest - 5;
        let at = async |at| list(&store, pods(), Some(at)).await;
        let mut before = Vec::new();
        for revision in kept..=newest {
            before.push(at(revision).await);
        }
        store.compact(SYSTEM, kept).await.unwrap();
        let mut after = Vec::new();
        for revision in kept..=newest {
            after.push(at(revision).await);
        }
        assert_eq!(before, after);
        let mut watch = store.watch(SYSTEM, pods(), kept).await.unwrap();
        assert_eq!(revisions(&events(&mut watch, 5).await), (kept + 1..=newest).collect::<Vec<_>>());
    }
}
