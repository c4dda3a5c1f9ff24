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
