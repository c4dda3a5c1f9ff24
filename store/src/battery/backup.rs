use super::*;

fn writes(export: &Export) -> Vec<Write> {
    export.entries.iter().map(|e| Write::create(e.key.clone(), e.value.clone())).collect()
}

async fn filled(store: &Backend) -> Tenant {
    let documents = vec![
        Write::create(Key::new("pods", "b", "1"), "p"),
        Write::create(Key::new("pods", "a", "2"), "p2"),
        Write::create(Key::new("nodes", "", "n"), vec![0_u8, 255, 1]),
        Write::create(pod("gone"), "x"),
    ];
    let tenant = store.create_tenant("demo", documents).await.unwrap();
    delete(store, tenant, &pod("gone")).await;
    put(store, tenant, &Key::new("pods", "b", "1"), "newer").await;
    tenant
}

fn keys(export: &Export) -> Vec<String> {
    export.entries.iter().map(|e| format!("{}/{}/{}", e.key.resource, e.key.namespace, e.key.name)).collect()
}

pub(super) async fn an_export_has_every_document_at_one_revision(store: Backend) {
    let tenant = filled(&store).await;
    let export = store.export(tenant).await.unwrap();
    assert_eq!(export.revision, 6);
    assert_eq!(keys(&export), ["nodes//n", "pods/a/2", "pods/b/1"]);
    assert_eq!(export.entries[0].value, vec![0_u8, 255, 1]);
    assert_eq!(
        (export.entries[2].revision, export.entries[2].created, text(&export.entries[2].value)),
        (6, 1, "newer".into())
    );
    let empty = store.create_tenant("empty", Vec::new()).await.unwrap();
    assert_eq!(store.export(empty).await.unwrap(), Export { revision: 0, entries: Vec::new() });
}

pub(super) async fn an_export_beside_writes_is_of_one_moment(store: Backend) {
    let tenant = store.create_tenant("demo", Vec::new()).await.unwrap();
    // Both documents are written in one transaction, always with the same value.
    let write = async {
        for i in 0..60 {
            let value = i.to_string();
            let both = ["a", "b"].map(|name| Write::put(pod(name), value.clone()));
            store.transact(tenant, both.into()).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let read = async {
        for _ in 0..30 {
            let export = store.export(tenant).await.unwrap();
            if let [a, b] = &export.entries[..] {
                assert_eq!((&a.value, a.revision + 1, b.revision), (&b.value, b.revision, export.revision));
            }
            tokio::task::yield_now().await;
        }
    };
    futures::join!(write, read);
}

pub(super) async fn an_absent_tenant_has_no_export(store: Backend) {
    assert!(matches!(store.export(Tenant(77)).await, Err(StoreError::NoTenant(_))));
    let tenant = filled(&store).await;
    store.delete_tenant(tenant).await.unwrap();
    assert!(matches!(store.export(tenant).await, Err(StoreError::NoTenant(_))));
}

pub(super) async fn a_tenant_is_restored_under_a_new_name(store: Backend) {
    let tenant = filled(&store).await;
    let export = store.export(tenant).await.unwrap();
    let copy = store.restore_tenant("copy", writes(&export), export.revision, false).await.unwrap();
    assert_ne!(copy, tenant);
    let restored = store.export(copy).await.unwrap();
    assert_eq!(keys(&restored), keys(&export));
    assert!(restored.entries.iter().all(|e| e.revision > export.revision), "revisions jump forward");
    assert_eq!(
        restored.entries.iter().map(|e| &e.value).collect::<Vec<_>>(),
        export.entries.iter().map(|e| &e.value).collect::<Vec<_>>()
    );
    assert_eq!(store.export(tenant).await.unwrap(), export, "the other one is untouched");
    assert_eq!(put(&store, copy, &pod("more"), "x").await, restored.revision + 1, "revisions stay dense");
    let watched = store.watch(copy, pods(), export.revision).await;
    assert!(matches!(watched, Err(StoreError::Compacted { .. })), "{watched:?}");
    let empty = store.restore_tenant("empty", Vec::new(), 5, false).await.unwrap();
    assert!(store.revision(empty).await.unwrap() > 5);
}

pub(super) async fn a_restored_tenant_replaces_another(store: Backend) {
    let tenant = filled(&store).await;
    let export = store.export(tenant).await.unwrap();
    let last = put(&store, tenant, &pod("later"), "x").await;
    let restored = store.restore_tenant("demo", writes(&export), export.revision, true).await.unwrap();
    assert_ne!(restored, tenant, "a number of its own");
    assert_eq!(store.tenant("demo").await.unwrap().map(|t| t.tenant), Some(restored));
    assert_eq!(store.tenants().await.unwrap().len(), 1);
    assert!(matches!(store.get(tenant, &pod("later")).await, Err(StoreError::NoTenant(_))));
    let found = store.export(restored).await.unwrap();
    assert_eq!(keys(&found), keys(&export));
    assert!(found.entries.iter().all(|e| e.revision > last), "also above what was written since");
}

pub(super) async fn a_taken_name_is_not_replaced_unasked(store: Backend) {
    let tenant = filled(&store).await;
    let before = store.export(tenant).await.unwrap();
    assert_eq!(conflict(store.restore_tenant("demo", Vec::new(), 0, false).await), (0, None));
    assert_eq!(store.export(tenant).await.unwrap(), before);
}

pub(super) async fn a_failed_restore_changes_nothing(store: Backend) {
    let tenant = filled(&store).await;
    let before = store.export(tenant).await.unwrap();
    let twice = vec![Write::create(pod("a"), "x"), Write::create(pod("a"), "y")];
    for name in ["demo", "other"] {
        assert_eq!(conflict(store.restore_tenant(name, twice.clone(), 0, true).await).0, 1);
    }
    assert_eq!(store.export(tenant).await.unwrap(), before);
    assert_eq!(store.tenants().await.unwrap().len(), 1);
    put(&store, tenant, &pod("goes-on"), "x").await;
    store.create_tenant("other", Vec::new()).await.unwrap();
}

pub(super) async fn who_watched_a_replaced_tenant_lists_again(store: Backend) {
    let tenant = filled(&store).await;
    let mut feed = store.feed();
    let mut watch = store.watch(tenant, pods(), 6).await.unwrap();
    let restored = store.restore_tenant("demo", vec![Write::create(pod("a"), "x")], 6, true).await.unwrap();
    assert_eq!(end(&mut watch).await, WatchError::Closed);
    let told: Vec<_> = [feed.next().await, feed.next().await, feed.next().await]
        .map(|c| c.map(|c| (c.tenant, c.events.len())).unwrap())
        .into();
    assert_eq!(told, [(tenant, 0), (restored, 0), (restored, 1)]);
}

pub(super) async fn one_of_many_concurrent_restores_is_left(store: Backend) {
    let tenant = filled(&store).await;
    let writing = async {
        for i in 0..20 {
            match store.transact(tenant, vec![Write::put(pod("w"), i.to_string())]).await {
                Ok(_) | Err(StoreError::NoTenant(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    let restore = |i: u64| store.restore_tenant("demo", vec![Write::create(pod("which"), i.to_string())], i, true);
    let (restored, ()) = futures::join!(futures::future::join_all((0..8).map(restore)), writing);
    let numbers: Vec<_> = restored.into_iter().map(Result::unwrap).collect();
    let left = store.tenants().await.unwrap();
    assert_eq!(left.len(), 1);
    assert!(numbers.contains(&left[0].tenant));
    assert!(get(&store, left[0].tenant, &pod("which")).await.is_some());
}
