use std::time::Duration;

use bytes::Bytes;

use super::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Events of an open watch.
struct Events {
    body: Body,
    buffer: Vec<u8>,
}

impl Events {
    async fn open(f: &Fixture, uri: &str) -> Self {
        let response = f.raw(&f.admin, &[], "GET", uri, Value::Null).await;
        assert_eq!(response.status(), StatusCode::OK);
        Self { body: response.into_body(), buffer: Vec::new() }
    }

    /// The next event, or none when the watch has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                return Some((event["type"].as_str().unwrap().to_owned(), event["object"].clone()));
            }
            let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame()).await.expect("an event")?;
            self.buffer.extend_from_slice(&frame.unwrap().into_data().unwrap_or_else(|_| Bytes::new()));
        }
    }
}

#[tokio::test]
async fn a_watch_continues_where_a_list_ends() {
    let f = Fixture::new().await;
    let version = f.ok("GET", MAPS, Value::Null).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    f.config_map("before", "1").await;
    let mut events = Events::open(&f, &format!("{MAPS}?watch=true&resourceVersion={version}")).await;
    f.config_map("after", "1").await;
    f.ok("DELETE", &format!("{MAPS}/before"), Value::Null).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (kind, object) = events.next().await.unwrap();
        seen.push((kind, object["metadata"]["name"].as_str().unwrap().to_owned()));
    }
    let expected =
        [("ADDED", "before"), ("ADDED", "after"), ("DELETED", "before")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let f = Fixture::new().await;
    f.config_map("a", "1").await;
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=";
    let mut events = Events::open(&f, &format!("{MAPS}?{query}")).await;
    assert_eq!(events.next().await.unwrap().0, "ADDED");
    assert_eq!(events.next().await.unwrap().0, "ADDED");
    let (kind, bookmark) = events.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"]),
        ("BOOKMARK", &json!("true"))
    );
    assert_eq!(
        f.send("GET", &format!("{MAPS}?watch=true&sendInitialEvents=true"), Value::Null).await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout_with_a_bookmark() {
    let f = Fixture::new().await;
    let version = f.ok("GET", MAPS, Value::Null).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut events = Events::open(
        &f,
        &format!("{MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=1&allowWatchBookmarks=true"),
    )
    .await;
    assert_eq!(events.next().await.unwrap().0, "BOOKMARK");
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_bookmark_is_as_far_as_the_cluster() {
    let f = Fixture::new().await;
    let version = f.ok("GET", MAPS, Value::Null).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut events = Events::open(
        &f,
        &format!("{MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=3&allowWatchBookmarks=true"),
    )
    .await;
    let other = f.ok("POST", "/api/v1/namespaces", json!({ "metadata": { "name": "elsewhere" } })).await;
    let (kind, bookmark) = events.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &bookmark["metadata"]["resourceVersion"]),
        ("BOOKMARK", &other["metadata"]["resourceVersion"])
    );
}

#[tokio::test]
async fn compacted_history_ends_a_watch_with_410() {
    use vctl_store::Store;
    let f = Fixture::new().await;
    let version = f.config_map("a", "1").await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    f.config_map("b", "1").await;
    f.config_map("c", "1").await;
    let tenant = f.store.tenant(NAME).await.unwrap().unwrap();
    f.store.compact(tenant.tenant, tenant.revision).await.unwrap();
    let mut events = Events::open(&f, &format!("{MAPS}?watch=true&resourceVersion={version}")).await;
    let (kind, status) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &status["code"], &status["reason"]), ("ERROR", &json!(410), &json!("Expired")));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn only_the_first_table_of_a_watch_has_columns() {
    let f = Fixture::new().await;
    f.config_map("a", "1").await;
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let response = f.raw(&f.admin, &accept, "GET", &format!("{MAPS}?watch=true"), Value::Null).await;
    let mut events = Events { body: response.into_body(), buffer: Vec::new() };
    let (_, first) = events.next().await.unwrap();
    let (_, second) = events.next().await.unwrap();
    assert!(first["columnDefinitions"].is_array() && second["columnDefinitions"].is_null());
}

/// `count` events of a watch: their types and names.
async fn read(events: &mut Events, count: usize) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    for _ in 0..count {
        let (kind, object) = events.next().await.unwrap();
        let object = if object["kind"] == "Table" { object["rows"][0]["object"].clone() } else { object };
        seen.push((kind, object["metadata"]["name"].as_str().unwrap().to_owned()));
    }
    seen
}

#[tokio::test]
async fn a_change_is_encoded_once_for_all_who_see_it_alike() {
    const WATCHERS: usize = 200;
    const WRITES: u64 = 10;
    let f = Fixture::new().await;
    let version = f.ok("GET", MAPS, Value::Null).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watches = Vec::new();
    for i in 0..WATCHERS {
        // Some by label; all are shown the same.
        let selector = if i % 4 == 0 { "&labelSelector=!absent" } else { "" };
        watches.push(Events::open(&f, &format!("{MAPS}?watch=true&resourceVersion={version}{selector}")).await);
    }
    let counters = f.planes.watch_counters();
    assert_eq!((counters.open(), counters.encodings()), (WATCHERS as u64, 0));
    let expected: Vec<_> = (0..WRITES).map(|i| ("ADDED".to_owned(), format!("m{i}"))).collect();
    for i in 0..WRITES {
        f.config_map(&format!("m{i}"), "1").await;
    }
    for watch in &mut watches {
        assert_eq!(read(watch, WRITES as usize).await, expected);
    }
    assert_eq!(counters.encodings(), WRITES, "one for each write");
    assert_eq!(counters.parses(), WRITES, "and so the selectors");
    assert_eq!(counters.frames(), WRITES * WATCHERS as u64);

    // Each other form is one more.
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let mut tables = Vec::new();
    for _ in 0..5 {
        let uri = format!("{MAPS}?watch=true&resourceVersion={version}");
        let body = f.raw(&f.admin, &table, "GET", &uri, Value::Null).await.into_body();
        tables.push(Events { body, buffer: Vec::new() });
    }
    for watch in &mut tables {
        assert_eq!(read(watch, WRITES as usize).await, expected);
    }
    assert_eq!(counters.encodings(), 2 * WRITES);
    drop(watches);
    drop(tables);
    assert_eq!(counters.open(), 0);
}

#[tokio::test]
async fn a_watch_that_falls_behind_ends_and_can_be_resumed() {
    let f = Fixture::new().await;
    let mut version = f.ok("GET", MAPS, Value::Null).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let large = "x".repeat(1 << 20);
    let mut slow = Events::open(&f, &format!("{MAPS}?watch=true&resourceVersion={version}")).await;
    // More than a watch may leave unread.
    for i in 0..20 {
        f.config_map(&format!("m{i}"), &large).await;
    }
    let mut seen = Vec::new();
    while let Some((kind, object)) = slow.next().await {
        assert_eq!(kind, "ADDED", "nothing but the end tells it");
        seen.push(object["metadata"]["name"].as_str().unwrap().to_owned());
        version = object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    }
    assert!(seen.len() < 20 && f.planes.watch_counters().lagged() == 1, "{seen:?}");
    while seen.len() < 20 {
        let mut again = Events::open(&f, &format!("{MAPS}?watch=true&resourceVersion={version}")).await;
        let (_, object) = again.next().await.unwrap();
        seen.push(object["metadata"]["name"].as_str().unwrap().to_owned());
        version = object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    }
    assert_eq!(seen, (0..20).map(|i| format!("m{i}")).collect::<Vec<_>>(), "nothing is missed or doubled");
}

#[tokio::test]
async fn deletions_are_shown_as_they_were_with_the_version_of_the_change() {
    let f = Fixture::new().await;
    let made = f.config_map("a", "1").await;
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let mut all = Events::open(&f, &format!("{MAPS}?watch=true&resourceVersion={version}")).await;
    let mut unlabelled =
        Events::open(&f, &format!("{MAPS}?watch=true&resourceVersion={version}&labelSelector=!l")).await;
    let patch = json!({ "metadata": { "labels": { "l": "v" } } });
    let merge = [("content-type", "application/merge-patch+json")];
    let (status, changed) = f.send_as(&f.admin, &merge, "PATCH", &format!("{MAPS}/a"), patch).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(all.next().await.unwrap(), ("MODIFIED".to_owned(), changed.clone()));
    let (kind, gone) = unlabelled.next().await.unwrap();
    let mut before = made.clone();
    before["metadata"]["resourceVersion"] = changed["metadata"]["resourceVersion"].clone();
    assert_eq!((kind.as_str(), &gone), ("DELETED", &before));
    f.ok("DELETE", &format!("{MAPS}/a"), Value::Null).await;
    let (kind, gone) = all.next().await.unwrap();
    let newest = f.store_revision().await.to_string();
    assert_eq!((kind.as_str(), &gone["metadata"]["resourceVersion"]), ("DELETED", &json!(newest)));
    assert_eq!(gone["metadata"]["labels"], json!({ "l": "v" }));
}
