//! A day of samples on a clock that is moved.

use http::StatusCode;
use serde_json::{Value, json};
use vctl_api::rest::Phase;
use vctl_store::{Expect, ListOptions, Scope, Tenant};

use super::{DayDoc, MinuteDoc};
use crate::{
    documents::{Document, put},
    ports::Consumption,
    testing::{self, World},
};

async fn world() -> World {
    let world = World::at_fixed_time();
    let mut environment = testing::environment("dev", Phase::Ready);
    environment.created_at = "2026-01-01T00:00:00Z".parse().expect("time");
    let other = testing::environment("other", Phase::Ready);
    let writes = vec![put(&environment, Expect::Any).expect("put"), put(&other, Expect::Any).expect("put")];
    world.portal.inner().environments.documents.transact(writes).await.expect("written");
    world
}

fn used(world: &World, cpu: u64, memory: u64, requests: u64) {
    world.planes.state().consumption =
        vec![Consumption { environment: "dev".to_owned(), cpu_nano_cores: cpu, memory_bytes: memory, requests }];
}

/// Lets minutes go by, with more requests in each.
async fn minutes(world: &World, count: u64, each: u64) {
    for _ in 0..count {
        let before = world.planes.state().consumption.first().map_or(0, |c| c.requests);
        used(world, 250_000_000, 64 << 20, before + each);
        world.clock.advance(60);
        world.portal.inner().usage.tick().await.expect("tick");
    }
}

async fn series(world: &World, query: &str) -> Value {
    let (status, body) = world.call("GET", &format!("/api/v1/environments/dev/usage{query}"), None).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    body
}

async fn documents<T: Document>(world: &World) -> usize {
    let options = ListOptions::newest(Scope::all(T::RESOURCE));
    world.store.list(Tenant::SYSTEM, options).await.expect("list").entries.len()
}

#[tokio::test]
async fn minutes_are_shown_in_steps() {
    let world = world().await;
    minutes(&world, 3, 5).await;
    let body = series(&world, "?since=1h").await;
    let point = |at: &str| json!({"at": at, "cpuNanoCores": 250_000_000, "memoryBytes": 64 << 20, "requests": 5});
    assert_eq!(
        body,
        json!({
            "environment": "dev", "since": "2026-01-02T02:07:00Z", "until": "2026-01-02T03:08:00Z", "stepSeconds": 60,
            "points": [point("2026-01-02T03:04:00Z"), point("2026-01-02T03:05:00Z"), point("2026-01-02T03:06:00Z")],
        })
    );
    used(&world, 0, 0, 15);
    world.clock.advance(60);
    world.portal.inner().usage.tick().await.expect("tick");
    let body = series(&world, "?since=2026-01-02T03:00:00Z&step=5m").await;
    assert_eq!(body["points"][0]["requests"], 5, "{body}");
    assert_eq!(
        body["points"][1],
        json!({
            "at": "2026-01-02T03:05:00Z", "cpuNanoCores": 250_000_000, "memoryBytes": 64 << 20, "requests": 10,
        })
    );
    let (_, now) = world.call("GET", "/api/v1/usage", None).await;
    assert_eq!(now["items"], json!([]), "nothing in the last minute");
    minutes(&world, 1, 1).await;
    let (_, now) = world.call("GET", "/api/v1/usage", None).await;
    assert_eq!(now["items"][0]["environment"], "dev");
    assert_eq!((&now["items"][0]["requests"], &now["items"][0]["at"]), (&json!(1), &json!("2026-01-02T03:08:00Z")));
}

#[tokio::test]
async fn a_day_is_kept_across_restarts_in_few_documents() {
    let mut world = world().await;
    minutes(&world, 45, 2).await;
    world = world.after_crash().await;
    // The server was away for two hours.
    world.clock.advance(2 * 3600);
    used(&world, 0, 0, 0);
    minutes(&world, 50, 3).await;
    let body = series(&world, "").await;
    let requests = |body: &Value| -> u64 {
        body["points"].as_array().expect("points").iter().map(|p| p["requests"].as_u64().expect("number")).sum()
    };
    assert_eq!((body["points"].as_array().map(Vec::len), requests(&body)), (Some(95), 45 * 2 + 50 * 3));
    minutes(&world, 70, 1).await;
    assert!(documents::<MinuteDoc>(&world).await <= 62, "{}", documents::<MinuteDoc>(&world).await);
    assert_eq!(documents::<DayDoc>(&world).await, 1);
    minutes(&world, 24 * 60, 1).await;
    let body = series(&world, "?step=1h").await;
    assert_eq!(requests(&body), 24 * 60 - 1, "the day has no more minutes: {body}");
    // Nobody uses anything any more: in the end nothing is left.
    used(&world, 0, 0, 0);
    for _ in 0..(26 * 6) {
        world.clock.advance(600);
        world.portal.inner().usage.tick().await.expect("tick");
    }
    for _ in 0..70 {
        world.clock.advance(60);
        world.portal.inner().usage.tick().await.expect("tick");
    }
    assert_eq!((documents::<MinuteDoc>(&world).await, documents::<DayDoc>(&world).await), (0, 0));
}

#[tokio::test]
async fn one_of_the_same_name_begins_with_nothing() {
    let world = world().await;
    minutes(&world, 5, 2).await;
    let mut environment = testing::environment("dev", Phase::Ready);
    environment.created_at = world.clock.now();
    let write = put(&environment, Expect::Any).expect("put");
    world.portal.inner().environments.documents.transact(vec![write]).await.expect("written");
    assert_eq!(series(&world, "").await["points"], json!([]));
    // Its requests are counted from nothing.
    used(&world, 0, 0, 0);
    minutes(&world, 1, 1).await;
    assert_eq!(series(&world, "").await["points"][0]["requests"], 1);
}

#[tokio::test]
async fn a_wrong_query_says_what_would_be_right() {
    let world = world().await;
    for (query, part) in [
        ("?since=yesterday", "such as 6h"),
        ("?step=90s", "whole minutes"),
        ("?step=2d", "whole minutes"),
        ("?since=1h&until=2h", "swap them"),
    ] {
        let (status, body) = world.call("GET", &format!("/api/v1/environments/dev/usage{query}"), None).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
        assert!(body["detail"].as_str().is_some_and(|d| d.contains(part)), "{body}");
    }
}

#[tokio::test]
async fn what_cannot_be_written_now_is_kept_later() {
    let world = world().await;
    world.planes.state().failures.insert("consumption", vec![crate::ports::PortError::Temporary("away".to_owned())]);
    used(&world, 0, 0, 7);
    world.clock.advance(60);
    world.portal.inner().usage.tick().await.expect_err("away");
    world.clock.advance(60);
    world.portal.inner().usage.tick().await.expect("tick");
    assert_eq!(series(&world, "").await["points"][0]["requests"], 7, "none of them is lost");
}
