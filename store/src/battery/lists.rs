use super::*;

async fn page(store: &Backend, at: Option<Revision>, after: Option<(&str, &str)>, limit: usize) -> List {
    let after = after.map(|(namespace, name)| pair(namespace, name));
    store.list(SYSTEM, ListOptions { scope: pods(), at, after, limit }).await.unwrap()
}

pub(super) async fn list_of_nothing(store: Backend) {
    let found = store.list(SYSTEM, ListOptions::newest(pods())).await.unwrap();
    assert_eq!((found.revision, found.entries.len(), found.remaining), (0, 0, 0));
    put(&store, SYSTEM, &Key::new("services", "default", "a"), "x").await;
    let found = store.list(SYSTEM, ListOptions::newest(pods())).await.unwrap();
    assert_eq!((found.revision, found.entries.len(), found.remaining), (1, 0, 0));
}

pub(super) async fn list_is_ordered_bytewise(store: Backend) {
    // "-" sorts before letters and "ab" after "a": by namespace first, never by the joined text.
    for (namespace, name) in [("b", "a"), ("a", "z"), ("a-b", "a"), ("a", "a"), ("ab", "a"), ("a", "Z"), ("a", "a.b")] {
        put(&store, SYSTEM, &Key::new("pods", namespace, name), "x").await;
    }
    let found: Vec<_> = list(&store, pods(), None).await.into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, ["a/Z", "a/a", "a/a.b", "a/z", "a-b/a", "ab/a", "b/a"]);
}

pub(super) async fn list_of_a_namespace(store: Backend) {
    for (namespace, name) in [("a", "1"), ("b", "1"), ("b", "2"), ("bb", "1"), ("c", "1")] {
        put(&store, SYSTEM, &Key::new("pods", namespace, name), namespace).await;
    }
    assert_eq!(list(&store, Scope::namespaced("pods", "b"), None).await, [pair("b/1", "b"), pair("b/2", "b")]);
    assert_eq!(list(&store, Scope::namespaced("pods", "b"), Some(2)).await, [pair("b/1", "b")]);
    assert!(list(&store, Scope::namespaced("pods", "d"), None).await.is_empty());
}

pub(super) async fn list_takes_the_resource_whole(store: Backend) {
    for resource in ["pods", "pods.metrics.k8s.io", "pod", "podtemplates"] {
        put(&store, SYSTEM, &Key::new(resource, "default", "a"), resource).await;
    }
    assert_eq!(list(&store, pods(), None).await, [pair("default/a", "pods")]);
}

pub(super) async fn cluster_scoped_documents_have_no_namespace(store: Backend) {
    put(&store, SYSTEM, &Key::new("nodes", "", "b"), "x").await;
    put(&store, SYSTEM, &Key::new("nodes", "", "a"), "x").await;
    for scope in [Scope::all("nodes"), Scope::namespaced("nodes", "")] {
        assert_eq!(list(&store, scope, None).await, [pair("/a", "x"), pair("/b", "x")]);
    }
}

pub(super) async fn paging_says_how_many_remain(store: Backend) {
    for name in ["a", "b", "c", "d", "e"] {
        put(&store, SYSTEM, &pod(name), "x").await;
    }
    let first = page(&store, None, None, 2).await;
    assert_eq!((names(&first.entries), first.remaining), (vec!["a", "b"], 3));
    let second = page(&store, Some(first.revision), Some(("default", "b")), 2).await;
    assert_eq!((names(&second.entries), second.remaining), (vec!["c", "d"], 1));
    let third = page(&store, Some(first.revision), Some(("default", "d")), 2).await;
    assert_eq!((names(&third.entries), third.remaining), (vec!["e"], 0));
    let exact = page(&store, None, None, 5).await;
    assert_eq!((exact.entries.len(), exact.remaining), (5, 0));
    let all = page(&store, None, None, 0).await;
    assert_eq!((all.entries.len(), all.remaining), (5, 0));
}

pub(super) async fn paging_shows_one_revision_while_documents_change(store: Backend) {
    for name in ["a", "b", "c", "d", "e"] {
        put(&store, SYSTEM, &pod(name), "old").await;
    }
    let first = page(&store, None, None, 2).await;
    put(&store, SYSTEM, &pod("c"), "new").await;
    put(&store, SYSTEM, &pod("c"), "newer").await;
    delete(&store, SYSTEM, &pod("d")).await;
    put(&store, SYSTEM, &pod("d"), "again").await;
    delete(&store, SYSTEM, &pod("e")).await;
    put(&store, SYSTEM, &pod("bb"), "added").await;
    let second = page(&store, Some(first.revision), Some(("default", "b")), 2).await;
    assert_eq!(second.revision, first.revision);
    assert_eq!(described(&second.entries), [pair("default/c", "old"), pair("default/d", "old")]);
    assert_eq!(second.entries.iter().map(|e| (e.revision, e.created)).collect::<Vec<_>>(), [(3, 3), (4, 4)]);
    assert_eq!(second.remaining, 1);
    let third = page(&store, Some(first.revision), Some(("default", "d")), 2).await;
    assert_eq!(described(&third.entries), [pair("default/e", "old")]);
    let now = list(&store, pods(), None).await;
    let expected = [("a", "old"), ("b", "old"), ("bb", "added"), ("c", "newer"), ("d", "again")];
    assert_eq!(now, expected.map(|(name, value)| (format!("default/{name}"), value.to_owned())));
}

pub(super) async fn continuation_after_a_document_that_is_gone(store: Backend) {
    for name in ["a", "b", "c"] {
        put(&store, SYSTEM, &pod(name), "x").await;
    }
    delete(&store, SYSTEM, &pod("b")).await;
    let rest = page(&store, None, Some(("default", "b")), 2).await;
    assert_eq!(names(&rest.entries), ["c"]);
    let nothing = page(&store, None, Some(("default", "c")), 2).await;
    assert_eq!((nothing.entries.len(), nothing.remaining), (0, 0));
}

pub(super) async fn continuation_from_before_the_namespace(store: Backend) {
    for (namespace, name) in [("a", "z"), ("b", "1"), ("b", "2"), ("c", "1")] {
        put(&store, SYSTEM, &Key::new("pods", namespace, name), "x").await;
    }
    let scope = Scope::namespaced("pods", "b");
    for (after, expected) in [(pair("a", "a"), vec!["1", "2"]), (pair("b", "1"), vec!["2"]), (pair("c", "0"), vec![])] {
        let options = ListOptions { after: Some(after), ..ListOptions::newest(scope.clone()) };
        let found = store.list(SYSTEM, options).await.unwrap();
        assert_eq!(names(&found.entries), expected);
    }
}

pub(super) async fn list_at_every_revision(store: Backend) {
    let newest = async || store.list(SYSTEM, ListOptions::newest(pods())).await.unwrap().entries;
    let mut states = vec![newest().await];
    for i in 0..24_u32 {
        let key = pod(&format!("p{}", i * 7 % 5));
        if i % 4 == 3 {
            // A change of something else gets a revision too.
            put(&store, SYSTEM, &Key::new("services", "default", "s"), "x").await;
        } else if i % 3 == 0 && get(&store, SYSTEM, &key).await.is_some() {
            delete(&store, SYSTEM, &key).await;
        } else {
            put(&store, SYSTEM, &key, &i.to_string()).await;
        }
        states.push(newest().await);
    }
    for (revision, state) in states.iter().enumerate() {
        let options = ListOptions { at: Some(revision as u64), ..ListOptions::newest(pods()) };
        let found = store.list(SYSTEM, options).await.unwrap();
        assert_eq!((&found.entries, found.revision), (state, revision as u64));
    }
}

pub(super) async fn list_before_the_first_write(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "x").await;
    let found = store.list(SYSTEM, ListOptions { at: Some(0), ..ListOptions::newest(pods()) }).await.unwrap();
    assert_eq!((found.revision, found.entries.len()), (0, 0));
}

pub(super) async fn list_at_a_future_revision(store: Backend) {
    put(&store, SYSTEM, &pod("a"), "x").await;
    match store.list(SYSTEM, ListOptions { at: Some(2), ..ListOptions::newest(pods()) }).await {
        Err(StoreError::Future { requested: 2, newest: 1 }) => {}
        other => panic!("{other:?}"),
    }
}

pub(super) async fn newest_list_sees_every_acknowledged_write(store: Backend) {
    for i in 1..=20_usize {
        let revision = put(&store, SYSTEM, &pod(&i.to_string()), "x").await;
        let found = store.list(SYSTEM, ListOptions::newest(pods())).await.unwrap();
        assert_eq!((found.entries.len(), found.revision), (i, revision));
    }
}
