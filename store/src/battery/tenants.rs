use super::*;

pub(super) async fn a_tenant_with_its_first_documents(store: Backend) {
    let documents = vec![Write::create(Key::new("namespaces", "", "default"), "x"), Write::put(pod("a"), "y")];
    let tenant = store.create_tenant("demo", documents).await.unwrap();
    assert_ne!(tenant, SYSTEM);
    assert_eq!(store.revision(tenant).await.unwrap(), 2);
    assert_eq!(get(&store, tenant, &pod("a")).await.map(|e| (e.revision, e.created)), Some((2, 2)));
    let mut watch = store.watch(tenant, Scope::all("namespaces"), 0).await.unwrap();
    assert_eq!(revisions(&events(&mut watch, 1).await), [1]);
    let empty = store.create_tenant("empty", Vec::new()).await.unwrap();
    assert_eq!(store.revision(empty).await.unwrap(), 0);
}

pub(super) async fn a_taken_name(store: Backend) {
    store.create_tenant("demo", Vec::new()).await.unwrap();
    let (index, current) = conflict(store.create_tenant("demo", Vec::new()).await);
    assert_eq!((index, current), (0, None));
    assert_eq!(store.tenants().await.unwrap().len(), 1);
}

pub(super) async fn one_of_many_concurrent_tenants_wins(store: Backend) {
    let tries = (0..8).map(|_| store.create_tenant("demo", vec![Write::create(pod("a"), "x")]));
    let results = futures::future::join_all(tries).await;
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
    for result in results.into_iter().filter(Result::is_err) {
        conflict(result);
    }
    assert_eq!(store.tenants().await.unwrap().len(), 1);
}

pub(super) async fn tenants_do_not_see_each_other(store: Backend) {
    let a = store.create_tenant("a", Vec::new()).await.unwrap();
    let b = store.create_tenant("b", Vec::new()).await.unwrap();
    let mut watch = store.watch(b, pods(), 0).await.unwrap();
    for i in 1..=5 {
        assert_eq!(put(&store, a, &pod("x"), "a").await, i);
    }
    assert_eq!(store.get(b, &pod("x")).await.unwrap(), (None, 0));
    assert!(store.list(b, ListOptions::newest(pods())).await.unwrap().entries.is_empty());
    assert_eq!(put(&store, b, &pod("x"), "b").await, 1);
    let seen = events(&mut watch, 1).await;
    assert_eq!(seen[0].value.as_ref().map(text).as_deref(), Some("b"));
    assert_eq!(get(&store, a, &pod("x")).await.map(|e| text(&e.value)).as_deref(), Some("a"));
    store.compact(a, 5).await.unwrap();
    assert!(store.watch(b, pods(), 0).await.is_ok());
}

pub(super) async fn tenants_are_listed_with_their_revisions(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "x").await;
    let a = store.create_tenant("a", Vec::new()).await.unwrap();
    let b = store.create_tenant("b", vec![Write::create(pod("a"), "x")]).await.unwrap();
    put(&store, b, &pod("b"), "x").await;
    let a = TenantInfo { tenant: a, name: "a".to_owned(), revision: 0 };
    let b = TenantInfo { tenant: b, name: "b".to_owned(), revision: 2 };
    assert_eq!(store.tenants().await.unwrap(), [a, b.clone()]);
    assert_eq!(store.tenant("b").await.unwrap(), Some(b));
    assert_eq!(store.tenant("c").await.unwrap(), None);
    assert_eq!(store.tenant("").await.unwrap(), None, "the platform's own tenant has no name");
}

pub(super) async fn deletion_ends_watches_and_reads(store: Backend) {
    let tenant = store.create_tenant("demo", Vec::new()).await.unwrap();
    put(&store, tenant, &pod("a"), "x").await;
    let mut watch = store.watch(tenant, pods(), 1).await.unwrap();
    let mut replaying = store.watch(tenant, pods(), 0).await.unwrap();
    store.delete_tenant(tenant).await.unwrap();
    assert_eq!(end(&mut watch).await, WatchError::Closed);
    assert_eq!(end(&mut replaying).await, WatchError::Closed);
    assert!(store.tenants().await.unwrap().is_empty());
    assert_eq!(store.tenant("demo").await.unwrap(), None);
    an_absent_tenant_is_refused(&store, tenant).await;
}

async fn an_absent_tenant_is_refused(store: &Backend, tenant: Tenant) {
    let refused = |error: Option<StoreError>| match error {
        Some(StoreError::NoTenant(t)) => assert_eq!(t, tenant),
        other => panic!("{other:?}"),
    };
    refused(store.get(tenant, &pod("a")).await.err());
    refused(store.list(tenant, ListOptions::newest(pods())).await.err());
    refused(store.transact(tenant, vec![Write::put(pod("a"), "x")]).await.err());
    refused(store.transact(tenant, Vec::new()).await.err());
    refused(store.watch(tenant, pods(), 0).await.err());
    refused(store.revision(tenant).await.err());
    refused(store.compact(tenant, 0).await.err());
}

pub(super) async fn deletion_of_an_absent_tenant(store: Backend) {
    let tenant = store.create_tenant("demo", Vec::new()).await.unwrap();
    store.delete_tenant(tenant).await.unwrap();
    store.delete_tenant(tenant).await.unwrap();
    store.delete_tenant(Tenant(4711)).await.unwrap();
}

pub(super) async fn a_name_can_be_used_again_a_number_cannot(store: Backend) {
    let first = store.create_tenant("demo", vec![Write::create(pod("a"), "x")]).await.unwrap();
    store.delete_tenant(first).await.unwrap();
    let second = store.create_tenant("demo", Vec::new()).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(store.get(second, &pod("a")).await.unwrap(), (None, 0));
    assert_eq!(store.tenant("demo").await.unwrap().map(|t| t.tenant), Some(second));
    an_absent_tenant_is_refused(&store, first).await;
}

pub(super) async fn the_system_tenant_stays(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "x").await;
    assert!(store.delete_tenant(SYSTEM).await.is_err());
    assert!(get(&store, SYSTEM, &pod("a")).await.is_some());
}

pub(super) async fn a_tenant_whose_documents_conflict_is_not_created(store: Backend) {
    let twice = vec![Write::create(pod("a"), "x"), Write::create(pod("a"), "y")];
    assert_eq!(conflict(store.create_tenant("demo", twice).await).0, 1);
    assert!(store.tenants().await.unwrap().is_empty());
    store.create_tenant("demo", Vec::new()).await.unwrap();
}

pub(super) async fn an_unknown_tenant(store: Backend) {
    an_absent_tenant_is_refused(&store, Tenant(4711)).await;
}

pub(super) async fn a_tenant_is_found_only_with_its_first_documents(store: Backend) {
    const DOCUMENTS: u64 = 64;
    let names: Arc<Vec<String>> = Arc::new((0..40).map(|i| format!("t{i}")).collect());
    let runtime = tokio::runtime::Handle::current();
    // Threads of their own, so that they look while the tenant appears.
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (store, names, runtime) = (store.clone(), names.clone(), runtime.clone());
            std::thread::spawn(move || {
                runtime.block_on(async {
                    for name in names.iter() {
                        let found = loop {
                            match store.tenant(name).await.unwrap() {
                                Some(found) => break found,
                                None => std::thread::yield_now(),
                            }
                        };
                        let (entry, revision) = store.get(found.tenant, &pod("0")).await.unwrap();
                        assert!(entry.is_some(), "{name} was found without its documents");
                        assert_eq!((found.revision, revision), (DOCUMENTS, DOCUMENTS), "{name}");
                    }
                });
            })
        })
        .collect();
    for name in names.iter() {
        let documents = (0..DOCUMENTS).map(|i| Write::create(pod(&i.to_string()), "x")).collect();
        store.create_tenant(name, documents).await.unwrap();
    }
    for reader in readers {
        tokio::task::spawn_blocking(move || reader.join()).await.unwrap().expect("a reader failed");
    }
}
