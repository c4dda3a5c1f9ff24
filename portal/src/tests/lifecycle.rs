//! Sleep, waking and expiry through the REST API.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_api::rest::{JobState, Phase};
use vctl_machinery::requests::Requests;

use crate::{
    documents::{EnvironmentDoc, JobDoc},
    due,
    jobs::work::Work,
    ports::{PortError, Readiness, UnreadyPod},
    testing::World,
};

/// Waits until an environment is as wanted.
async fn until(world: &World, what: impl Fn(&Value) -> bool) -> Value {
    let wait = async {
        loop {
            let (_, environment) = world.call("GET", "/api/v1/environments/env", None).await;
            if what(&environment) {
                return environment;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    match tokio::time::timeout(Duration::from_secs(20), wait).await {
        Ok(environment) => environment,
        Err(e) => panic!("not in time ({e}): {}", world.call("GET", "/api/v1/environments/env", None).await.1),
    }
}

async fn ready(world: &World, body: Value) {
    let (status, created) = world.call("POST", "/api/v1/environments", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    let job = world.ended(created["job"].as_str().expect("job")).await;
    assert_eq!(job.state, JobState::Succeeded, "{}", job.error);
}

async fn act(world: &World, what: &str) -> Value {
    let (status, job) = world.call("POST", &format!("/api/v1/environments/env/{what}"), Some(json!({}))).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    serde_json::to_value(world.ended(job["id"].as_str().expect("id")).await).expect("job")
}

async fn actions(world: &World) -> Vec<String> {
    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    let entries = audit["items"].as_array().expect("items");
    entries.iter().map(|e| e["action"].as_str().expect("action").to_owned()).collect()
}

#[tokio::test]
async fn sleep_stops_what_runs_and_wake_starts_it() {
    let world = World::new();
    world.portal.start();
    ready(&world, json!({"name": "env", "template": "team-x"})).await;
    world.planes.state().draining = 3;
    let job = act(&world, "sleep").await;
    assert_eq!((&job["state"], &job["steps"][0]["message"]), (&"succeeded".into(), &"nothing of it runs".into()));
    let environment = until(&world, |e| e["phase"] == "Sleeping").await;
    assert!(environment["lifecycle"]["asleepSince"].is_string(), "{environment}");
    assert!(world.planes.state().asleep.contains("env"));
    let (status, problem) = world.call("POST", "/api/v1/environments/env/sleep", Some(json!({}))).await;
    assert_eq!((status, &problem["type"]), (StatusCode::CONFLICT, &"conflict".into()));

    let job = act(&world, "wake").await;
    assert_eq!(job["state"], "succeeded", "{job}");
    let environment = until(&world, |e| e["phase"] == "Ready").await;
    assert!(environment["lifecycle"]["asleepSince"].is_null() && world.planes.state().asleep.is_empty());
    assert_eq!(
        actions(&world).await[..4],
        ["environment.ready", "environment.wake", "environment.sleeping", "environment.sleep"]
    );
    world.tasks.stop();
}

#[tokio::test]
async fn what_is_late_after_waking_is_told_and_what_cannot_wake_sleeps_on() {
    let world = World::new();
    world.portal.start();
    ready(&world, json!({"name": "env", "template": "blank"})).await;
    act(&world, "sleep").await;
    world.planes.state().failures.insert("wake", vec![PortError::Permanent("the disk is full".to_owned())]);
    let job = act(&world, "wake").await;
    assert_eq!(job["state"], "failed");
    let environment = until(&world, |e| e["phase"] == "Sleeping").await;
    assert_eq!(environment["message"], "it was not woken: the disk is full");

    let pod = UnreadyPod { namespace: "default".into(), name: "web".into(), reason: "Sleeping".into() };
    world.planes.state().readiness = Readiness { workloads: Vec::new(), unready_pods: vec![pod] };
    let job = act(&world, "wake").await;
    assert_eq!(job["state"], "succeeded");
    assert!(job["steps"][2]["message"].as_str().expect("text").contains("pod default/web"), "{job}");
    world.tasks.stop();
}

#[tokio::test]
async fn a_write_wakes_also_what_is_still_going_to_sleep() {
    let world = World::new();
    world.portal.start();
    ready(&world, json!({"name": "env", "template": "blank"})).await;
    world.planes.state().draining = 4;
    let (_, job) = world.call("POST", "/api/v1/environments/env/sleep", Some(json!({}))).await;
    world.planes.state().writes.push("env".to_owned());
    let environment = until(&world, |e| e["phase"] == "Ready").await;
    let sleep = world.ended(job["id"].as_str().expect("id")).await;
    assert!(matches!(sleep.state, JobState::Cancelled | JobState::Succeeded), "{sleep:?}");
    assert!(world.planes.state().asleep.is_empty(), "{environment}");
    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    let wake =
        audit["items"].as_array().expect("items").iter().find(|e| e["action"] == "environment.wake").expect("wake");
    assert_eq!((&wake["actor"], &wake["detail"]["reason"]), (&"write".into(), &"write".into()));
    world.tasks.stop();
}

#[tokio::test]
async fn a_crash_while_it_goes_to_sleep_or_wakes_costs_nothing() {
    for what in ["sleep", "wake"] {
        // sleep: sleep, running_asleep; wake: running_asleep, wake, readiness.
        for crash_at in 1..=if what == "sleep" { 2 } else { 3 } {
            let world = World::on_disk().await;
            world.portal.start();
            ready(&world, json!({"name": "env", "template": "blank"})).await;
            if what == "wake" {
                act(&world, "sleep").await;
            }
            let calls = world.planes.calls.load(std::sync::atomic::Ordering::SeqCst);
            world.planes.hang_from.store(calls + crash_at, std::sync::atomic::Ordering::SeqCst);
            let (_, job) = world.call("POST", &format!("/api/v1/environments/env/{what}"), Some(json!({}))).await;
            let reached = || world.planes.calls.load(std::sync::atomic::Ordering::SeqCst) >= calls + crash_at;
            let wait = async {
                while !reached() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the call that does not return");
            let world = world.after_crash().await;
            world.planes.hang_from.store(0, std::sync::atomic::Ordering::SeqCst);
            world.portal.start();
            let job = world.ended(job["id"].as_str().expect("id")).await;
            assert_eq!((job.state, job.attempt), (JobState::Succeeded, 2), "{what} {crash_at}: {job:?}");
            assert_eq!(world.planes.state().asleep.contains("env"), what == "sleep");
            world.tasks.stop();
        }
    }
}

/// Does what is due now.
async fn tick(world: &World) -> Option<Timestamp> {
    let environments = &world.portal.inner().environments;
    let stored = environments.documents.get::<EnvironmentDoc>("env").await.expect("read").expect("environment");
    due::run(environments, &stored.value).await
}

async fn phase(world: &World) -> Phase {
    world.portal.inner().environments.stored("env").await.expect("environment").value.phase
}

#[tokio::test]
async fn it_sleeps_when_nobody_uses_it() {
    let world = World::at_fixed_time();
    world.template("idle", "sleep: {afterInactivity: 2h}\n");
    let job = world.create("env", "idle").await;
    world.run_job(&job).await;
    assert_eq!(phase(&world).await, Phase::Ready);
    world.clock.advance(3600);
    world.planes.state().last_request = Some(world.clock.now());
    world.clock.advance(3600);
    let next = tick(&world).await.expect("a time");
    assert_eq!((next.to_string().as_str(), phase(&world).await), ("2026-01-02T06:04:05Z", Phase::Ready));
    let (_, environment) = world.call("GET", "/api/v1/environments/env", None).await;
    assert_eq!(environment["lifecycle"]["sleepsAt"], "2026-01-02T06:04:05Z");
    world.clock.advance(3600);
    tick(&world).await;
    assert_eq!(phase(&world).await, Phase::Sleeping);
    assert!(actions(&world).await.contains(&"environment.sleep".to_owned()));
}

#[tokio::test]
async fn it_sleeps_and_wakes_by_its_schedule_also_when_the_server_was_away() {
    let world = World::at_fixed_time();
    world.template("nights", "sleep: {schedule: '0 20 * * *', wakeSchedule: '0 7 * * *'}\n");
    let job = world.create("env", "nights").await;
    world.run_job(&job).await;
    // Half past three to half past eight in the evening.
    world.clock.advance(17 * 3600 + 1800);
    tick(&world).await;
    assert_eq!(phase(&world).await, Phase::Sleeping);
    let environment = world.portal.inner().environments.get("env").await.expect("environment");
    world.run_job(&environment.job.expect("job")).await;
    let environment = world.portal.inner().environments.get("env").await.expect("environment");
    assert_eq!(environment.lifecycle.wakes_at.map(|at| at.to_string()).as_deref(), Some("2026-01-03T07:00:00Z"));
    // The server comes back two days later, at noon: it wakes, once, and stays awake until the evening.
    world.clock.advance(39 * 3600 + 1800);
    tick(&world).await;
    assert_eq!(phase(&world).await, Phase::Waking);
    let environment = world.portal.inner().environments.get("env").await.expect("environment");
    world.run_job(&environment.job.expect("job")).await;
    let environment = world.portal.inner().environments.get("env").await.expect("environment");
    assert_eq!(environment.lifecycle.sleeps_at.map(|at| at.to_string()).as_deref(), Some("2026-01-04T20:00:00Z"));
}

#[tokio::test]
async fn it_warns_can_be_extended_and_is_deleted() {
    let world = World::at_fixed_time();
    world.template("short", "expiry: {after: 10h, warnBefore: 1h, maximum: 20h}\n");
    let refused = json!({"name": "env", "template": "short", "expiresAfter": "21h"});
    let (status, problem) = world.call("POST", "/api/v1/environments", Some(refused)).await;
    assert_eq!((status, &problem["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &"invalid-expiry".into()));
    let hook = |events: &str| json!({"url": "https://example.com/", "events": [events]});
    for (name, events) in [("ends", "environment.*"), ("others", "approval.*")] {
        assert!(world.call("PUT", &format!("/api/v1/webhooks/{name}"), Some(hook(events))).await.0.is_success());
    }
    let job = world.create("env", "short").await;
    world.run_job(&job).await;
    world.clock.advance(9 * 3600);
    tick(&world).await;
    let (_, environment) = world.call("GET", "/api/v1/environments/env", None).await;
    assert_eq!(environment["lifecycle"]["expiryWarnedAt"], "2026-01-02T12:04:05Z");
    assert!(world.planes.state().clusters["env"].iter().any(|o| o.starts_with("Event/environment-expires")));
    assert_eq!(actions(&world).await[0], "environment.expires-soon");

    let extend = |period: &str| json!({ "period": period });
    let path = "/api/v1/environments/env/extend";
    let (status, problem) = world.call("POST", path, Some(extend("21h"))).await;
    assert_eq!((status, &problem["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &"invalid-expiry".into()));
    assert!(problem["detail"].as_str().expect("detail").contains("at most 20h"), "{problem}");
    assert_eq!(world.call("POST", path, Some(extend("soon"))).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let (status, environment) = world.call("POST", path, Some(extend("20h"))).await;
    assert_eq!((status, &environment["lifecycle"]["expiresAt"]), (StatusCode::OK, &"2026-01-03T08:04:05Z".into()));
    assert!(environment["lifecycle"]["expiryWarnedAt"].is_null());

    world.clock.advance(19 * 3600);
    tick(&world).await;
    assert_eq!(phase(&world).await, Phase::Ready, "it warns again first");
    assert_eq!(told(&world, "ends").await, ["environment.expires", "environment.expires"], "once for each warning");
    world.clock.advance(3600);
    tick(&world).await;
    assert_eq!(phase(&world).await, Phase::Deleting);
    tick(&world).await;
    let told_of_end = told(&world, "ends").await;
    assert_eq!(told_of_end, ["environment.expired", "environment.expires", "environment.expires"], "newest first");
    assert!(told(&world, "others").await.is_empty(), "it has not asked for it");
}

/// What a webhook is told of, newest first.
async fn told(world: &World, webhook: &str) -> Vec<String> {
    let (_, webhook) = world.call("GET", &format!("/api/v1/webhooks/{webhook}"), None).await;
    let deliveries = webhook["deliveries"].as_array().expect("deliveries");
    deliveries.iter().map(|d| d["event"].as_str().expect("event").to_owned()).collect()
}

#[tokio::test]
async fn times_are_watched_by_a_task_also_after_a_restart() {
    let world = World::new();
    world.template("brief", "expiry: {after: 1s, warnBefore: 1s}\n");
    world.portal.start();
    ready(&world, json!({"name": "env", "template": "brief"})).await;
    let world = world.after_crash().await;
    world.portal.start();
    until(&world, |e| e["status"] == 404).await;
    assert!(actions(&world).await.contains(&"environment.expires-soon".to_owned()));
    world.tasks.stop();
}

#[tokio::test]
async fn what_may_be_awake_already_is_resumed_within_the_quota() {
    let world = World::new();
    world.portal.start();
    ready(&world, json!({"name": "env", "template": "blank"})).await;
    let quota = Some(json!({"quota": {"awake": 1, "cpu": "1"}}));
    assert_eq!(world.call("PUT", "/api/v1/projects/default", quota).await.0, StatusCode::OK);
    world.planes.state().requested.insert("env".to_owned(), Requests { cpu: 1000, ..Requests::NONE });
    act(&world, "sleep").await;
    // It is not woken, and does not go to sleep again.
    let full = || PortError::Permanent("the disk is full".to_owned());
    world.planes.state().failures.insert("readiness", vec![full()]);
    world.planes.state().failures.insert("sleep", vec![full()]);
    let job = act(&world, "wake").await;
    assert_eq!(job["state"], "failed");
    let environment = until(&world, |e| e["phase"] == "Failed").await;
    assert!(environment["message"].as_str().expect("text").contains("it may be awake"), "{environment}");
    let (_, usage) = world.call("GET", "/api/v1/projects/default/usage", None).await;
    assert_eq!(usage["used"]["awake"], 1, "{usage}");

    let path = format!("/api/v1/jobs/{}/resume", job["id"].as_str().expect("id"));
    let (status, resumed) = world.call("POST", &path, None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{resumed}");
    assert_eq!(world.ended(resumed["id"].as_str().expect("id")).await.state, JobState::Succeeded);
    until(&world, |e| e["phase"] == "Ready").await;
    assert!(world.planes.state().asleep.is_empty());
    world.tasks.stop();
}

#[tokio::test]
async fn what_was_put_to_sleep_again_by_an_end_that_was_not_written_is_woken() {
    let world = World::at_fixed_time();
    let create = world.create("env", "blank").await;
    world.run_job(&create).await;
    for what in ["sleep", "wake"] {
        let (status, job) = world.call("POST", &format!("/api/v1/environments/env/{what}"), Some(json!({}))).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{job}");
        let id = job["id"].as_str().expect("id");
        if what == "wake" {
            // An attempt that came as far as waiting, and ended: of that only the first part was done.
            let inner = world.portal.inner();
            let known = inner.environments.documents.get::<JobDoc>(id).await.expect("read").expect("job");
            let config = inner.config.jobs.clone();
            let work = Work::claim(inner.environments.clone(), config, "gone", known).await.expect("claim");
            let work = work.expect("claimed");
            for step in 0..2 {
                assert!(work.begin(step).await.expect("ours"));
                work.done(step, "").await.expect("ours");
            }
            work.settle().await.expect("written");
            assert!(world.planes.state().asleep.contains("env"));
        }
        let job = world.run_job(id).await;
        assert_eq!(job.state, JobState::Succeeded, "{}", job.error);
    }
    assert_eq!(phase(&world).await, Phase::Ready);
    assert!(world.planes.state().asleep.is_empty(), "what is Ready is awake");
}
