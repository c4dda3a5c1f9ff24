use super::*;

pub(super) async fn the_feed_tells_commits_of_all_tenants_in_order(store: Backend) {
    let a = store.create_tenant("a", Vec::new()).await.unwrap();
    let b = store.create_tenant("b", Vec::new()).await.unwrap();
    let mut feed = store.feed();
    for i in 0..5 {
        put(&store, a, &pod("x"), &i.to_string()).await;
        put(&store, b, &pod("x"), &i.to_string()).await;
    }
    for revision in 1..=5 {
        for tenant in [a, b] {
            let committed = within(feed.next()).await.unwrap();
            assert_eq!((committed.tenant, revisions(&committed.events)), (tenant, vec![revision]));
        }
    }
}

pub(super) async fn the_feed_tells_of_tenants(store: Backend) {
    let mut feed = store.feed();
    let tenant = store.create_tenant("demo", vec![Write::create(pod("a"), "x")]).await.unwrap();
    store.delete_tenant(tenant).await.unwrap();
    let mut told = Vec::new();
    for _ in 0..3 {
        let committed = within(feed.next()).await.unwrap();
        told.push((committed.tenant, revisions(&committed.events)));
    }
    assert_eq!(told, [(tenant, vec![]), (tenant, vec![1]), (tenant, vec![])]);
}

pub(super) async fn a_slow_feed_is_told_once_and_goes_on(store: Backend) {
    let mut feed = store.feed();
    let count = FEED_CAPACITY as u64 * 2;
    for _ in 0..count {
        put(&store, SYSTEM, &pod("a"), "x").await;
    }
    assert_eq!(within(feed.next()).await.err(), Some(WatchError::Lagged));
    let mut last = 0;
    while last < count {
        let committed = within(feed.next()).await.unwrap();
        let revision = committed.events[0].revision;
        assert!(last == 0 || revision == last + 1, "after the gap there is no other: {last} then {revision}");
        last = revision;
    }
}

pub(super) async fn the_feed_shows_what_can_be_read(store: Backend) {
    let mut feed = store.feed();
    let writer = async {
        for i in 0..30 {
            put(&store, SYSTEM, &pod("a"), &i.to_string()).await;
        }
    };
    let reader = async {
        for _ in 0..30 {
            let committed = within(feed.next()).await.unwrap();
            let revision = store.revision(SYSTEM).await.unwrap();
            assert!(revision >= committed.events[0].revision);
        }
    };
    futures::future::join(writer, reader).await;
}

pub(super) async fn a_closed_store_refuses_everything(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "x").await;
    let mut feed = store.feed();
    store.close().await.unwrap();
    assert_eq!(within(feed.next()).await.err(), Some(WatchError::Closed));
    assert_eq!(within(store.feed().next()).await.err(), Some(WatchError::Closed));
    let refused = |error: Option<StoreError>| assert!(matches!(error, Some(StoreError::Closed)), "{error:?}");
    refused(store.get(SYSTEM, &pod("a")).await.err());
    refused(store.list(SYSTEM, ListOptions::newest(pods())).await.err());
    refused(store.transact(SYSTEM, vec![Write::put(pod("a"), "x")]).await.err());
    refused(store.watch(SYSTEM, pods(), 0).await.err());
    refused(store.create_tenant("demo", Vec::new()).await.err());
    refused(store.delete_tenant(Tenant(1)).await.err());
    refused(store.tenants().await.err());
    refused(store.compact(SYSTEM, 1).await.err());
    store.close().await.unwrap();
}

pub(super) async fn the_end_of_a_store_is_told(store: Backend) {
    {
        let ended = store.ended();
        let mut ended = std::pin::pin!(ended);
        put(&store, SYSTEM, &pod("a"), "x").await;
        assert!(futures::poll!(&mut ended).is_pending());
    }
    let (ended, closed) = futures::join!(within(store.ended()), store.close());
    ended.unwrap();
    closed.unwrap();
    within(store.ended()).await.unwrap();
}
