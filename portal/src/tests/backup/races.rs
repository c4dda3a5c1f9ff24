//! Restorations that meet something else at the same moment, and a crash in between.

use std::{future::Future, pin::Pin, sync::atomic::Ordering};

use bytes::Bytes;
use futures::poll;
use http::StatusCode;
use serde_json::{Value, json};
use vctl_api::rest::{Phase, UpdateEnvironment};
use vctl_machinery::requests::Requests;

use super::snapshot;
use crate::{
    Taken,
    access::turns::Turn,
    environments::{Besides, Caller},
    error::Error,
    ports::PortError,
    testing::World,
};

const CALLER: Caller<'static> = Caller { actor: "admin", user: "admin", request_id: "test" };

/// With an environment of a project that has a quota, and nobody who works on jobs; and a backup of it, of which nothing is there any more.
async fn world() -> (World, Bytes) {
    let world = World::new();
    let job = world.create("dev", "blank").await;
    world.run_job(&job).await;
    world.planes.state().clusters.insert("dev".to_owned(), ["ConfigMap/a".to_owned()].into());
    let file = snapshot(&world).await.into();
    world.planes.state().clusters.insert("dev".to_owned(), [].into());
    let quota = Some(json!({"quota": {"cpu": "2", "awake": 1}}));
    assert_eq!(world.call("PUT", "/api/v1/projects/default", quota).await.0, StatusCode::OK);
    (world, file)
}

/// A turn at the quota.
async fn turn(world: &World) -> Turn {
    match world.portal.take("dev", Requests { cpu: 1, ..Requests::NONE }).await.expect("an answer") {
        Taken::Yes(turn) => turn,
        Taken::Exceeded(why) => panic!("{why}"),
    }
}

async fn waits<F: Future>(mut future: Pin<&mut F>) {
    for _ in 0..100 {
        assert!(poll!(&mut future).is_pending(), "it waits");
        tokio::task::yield_now().await;
    }
}

async fn post(world: &World, what: &str) -> (StatusCode, Value) {
    world.call("POST", &format!("/api/v1/environments/dev/{what}"), Some(json!({}))).await
}

async fn dev(world: &World) -> Value {
    world.call("GET", "/api/v1/environments/dev", None).await.1
}

fn is_replaced(world: &World) -> bool {
    !world.planes.state().clusters["dev"].is_empty()
}

/// Goes to sleep, to the end.
async fn sleeps(world: &World) {
    let (status, job) = post(world, "sleep").await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    world.run_job(job["id"].as_str().expect("id")).await;
}

#[tokio::test]
async fn two_at_once_come_one_after_the_other() {
    let (world, file) = world().await;
    let environments = &world.portal.inner().environments;
    let turn = turn(&world).await;
    let (first, second) =
        (environments.restore(CALLER, "dev", &file, true), environments.restore(CALLER, "dev", &file, true));
    tokio::pin!(first, second);
    waits(first.as_mut()).await;
    waits(second.as_mut()).await;
    drop(turn);
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.expect("first").phase, second.expect("second").phase), (Phase::Ready, Phase::Ready));
    let (_, trail) = world.call("GET", "/api/v1/audit?action=environment.restore", None).await;
    assert_eq!(trail["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn what_is_asked_for_while_it_waits_for_its_turn_comes_first() {
    for (what, says) in [("sleep", "is being worked on"), ("delete", "is being deleted")] {
        let (world, file) = world().await;
        let environments = &world.portal.inner().environments;
        let turn = turn(&world).await;
        let restored = environments.restore(CALLER, "dev", &file, true);
        tokio::pin!(restored);
        waits(restored.as_mut()).await;
        let (status, job) = match what {
            "sleep" => post(&world, "sleep").await,
            _ => world.call("DELETE", "/api/v1/environments/dev", None).await,
        };
        assert_eq!(status, StatusCode::ACCEPTED, "{job}");
        drop(turn);
        let refused = restored.await.expect_err("refused");
        assert!(matches!(&refused, Error::Conflict(why) if why.contains(says)), "{what}: {refused}");
        assert!(!is_replaced(&world), "nothing has changed");
        assert_eq!(dev(&world).await["job"], job["id"]);
    }
}

#[tokio::test]
async fn of_an_update_and_a_restoration_at_once_one_is_refused() {
    let (world, file) = world().await;
    let environments = &world.portal.inner().environments;
    let request: UpdateEnvironment = serde_json::from_value(json!({})).expect("a request");
    let prepared = environments.prepare_update("dev", &request, None).await.expect("prepared");
    let besides = Besides::default();
    let turn = turn(&world).await;
    let updated = environments.commit_update(CALLER, &prepared, &request, "a-job", &besides);
    let restored = environments.restore(CALLER, "dev", &file, true);
    tokio::pin!(updated, restored);
    waits(updated.as_mut()).await;
    waits(restored.as_mut()).await;
    drop(turn);
    // Whoever is second finds what the other one has written.
    match tokio::join!(updated, restored) {
        (Ok(_), Err(Error::Conflict(why))) => {
            assert!(why.contains("is being worked on") && !is_replaced(&world), "{why}")
        }
        (Err(_), Ok(restored)) => assert!(is_replaced(&world) && restored.phase == Phase::Ready),
        both => panic!("{both:?}"),
    }
}

#[tokio::test]
async fn one_that_went_to_sleep_meanwhile_counts_as_asleep_and_wakes() {
    let (world, file) = world().await;
    let environments = &world.portal.inner().environments;
    let turn = turn(&world).await;
    let restored = environments.restore(CALLER, "dev", &file, true);
    tokio::pin!(restored);
    waits(restored.as_mut()).await;
    sleeps(&world).await;
    drop(turn);
    assert_eq!(restored.await.expect("restored").phase, Phase::Ready);
    let dev = dev(&world).await;
    assert!(dev["phase"] == "Ready" && dev["lifecycle"]["asleepSince"].is_null(), "{dev}");
    assert!(is_replaced(&world) && world.planes.state().asleep.is_empty());
}

#[tokio::test]
async fn nothing_else_is_done_with_it_and_a_crash_leaves_it_whole_and_awake() {
    let (world, file) = world().await;
    sleeps(&world).await;
    let calls = world.planes.calls.load(Ordering::SeqCst);
    world.planes.hang_from.store(calls + 1, Ordering::SeqCst);
    {
        let environments = &world.portal.inner().environments;
        let restored = environments.restore(CALLER, "dev", &file, true);
        tokio::pin!(restored);
        waits(restored.as_mut()).await;
        let now = dev(&world).await;
        assert_eq!((&now["phase"], &now["message"]), (&"Updating".into(), &"restoring from a backup".into()), "{now}");
        for what in ["wake", "sleep", "update", "rotate-ca"] {
            let (status, problem) = post(&world, what).await;
            assert_eq!(status, StatusCode::CONFLICT, "{what}: {problem}");
        }
        let (status, problem) = world.call("DELETE", "/api/v1/environments/dev", None).await;
        assert_eq!(status, StatusCode::CONFLICT);
        assert!(problem["detail"].as_str().expect("detail").contains("is being restored"), "{problem}");
    }
    let world = world.after_crash().await;
    world.planes.hang_from.store(0, Ordering::SeqCst);
    world.portal.start();
    let ready = world.until(None, "/api/v1/environments/dev", |e| e["phase"] != "Updating").await;
    assert_eq!(ready["phase"], "Ready");
    assert!(ready["message"].as_str().expect("message").contains("--as dev --replace"), "{ready}");
    assert!(world.planes.state().asleep.is_empty(), "whichever it is");
    let (_, trail) = world.call("GET", "/api/v1/audit?action=environment.restore-failed", None).await;
    assert_eq!(trail["items"][0]["onBehalfOf"], "admin", "{trail}");
    let restored = world.portal.inner().environments.restore(CALLER, "dev", &file, true).await.expect("restored");
    assert_eq!((restored.phase, restored.message.as_str()), (Phase::Ready, ""));
    world.tasks.stop();
}

#[tokio::test]
async fn one_of_which_nothing_came_is_what_it_was() {
    let (world, file) = world().await;
    sleeps(&world).await;
    let before = dev(&world).await;
    let failure = PortError::Temporary("the disk is full".to_owned());
    world.planes.state().failures.insert("restore", vec![failure]);
    let environments = &world.portal.inner().environments;
    let failed = environments.restore(CALLER, "dev", &file, true).await.expect_err("failed");
    assert!(failed.to_string().contains("the disk is full"), "{failed}");
    let after = dev(&world).await;
    for field in ["phase", "message", "job", "lifecycle"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(after["phase"], "Sleeping");
    assert!(!is_replaced(&world) && world.planes.state().asleep.contains("dev"));
}
