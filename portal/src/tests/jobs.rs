//! The queue: crashes at any moment, retries, order, cancellation, deadlines.

use std::{sync::atomic::Ordering, time::Duration};

use http::StatusCode;
use vctl_api::rest::{JobState, Phase};

use crate::{
    JobHistory,
    ports::{PortError, Readiness, UnreadyPod, Workload},
    testing::{World, workload},
};

/// Waits until a condition holds.
async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), wait).await.is_ok(), "{what}");
}

#[tokio::test]
async fn a_crash_at_any_call_costs_nothing() {
    // create, 6 x apply, readiness; then drain, delete.
    for crash_at in 1..=10 {
        let world = World::on_disk().await;
        world.planes.hang_from.store(crash_at, Ordering::SeqCst);
        world.portal.start();
        let create = world.create("env", "team-x").await;
        let mut delete = None;
        if crash_at > 8 {
            assert_eq!(world.ended(&create).await.state, JobState::Succeeded);
            let (_, job) = world.call("DELETE", "/api/v1/environments/env", None).await;
            delete = Some(job["id"].as_str().expect("id").to_owned());
        }
        until("the call that does not return", async || world.planes.calls.load(Ordering::SeqCst) >= crash_at).await;

        let world = world.after_crash().await;
        world.planes.hang_from.store(0, Ordering::SeqCst);
        world.portal.start();
        let job = world.ended(delete.as_ref().unwrap_or(&create)).await;
        assert_eq!((job.state, job.attempt), (JobState::Succeeded, 2), "crash at {crash_at}: {job:?}");
        let clusters = world.planes.state().clusters.clone();
        if delete.is_some() {
            assert!(clusters.is_empty());
            assert_eq!(world.call("GET", "/api/v1/environments/env", None).await.0, StatusCode::NOT_FOUND);
        } else {
            assert_eq!(clusters["env"].len(), 6, "crash at {crash_at}");
            assert_eq!(world.portal.inner().environments.get("env").await.expect("env").phase, Phase::Ready);
        }
        world.tasks.stop();
    }
}

#[tokio::test]
async fn failures_that_may_pass_are_retried_and_others_are_not() {
    let world = World::new();
    world.portal.start();
    let temporary = || PortError::Temporary("the store is busy".to_owned());
    world.planes.state().failures.insert("create", vec![temporary(), temporary()]);
    let job = world.ended(&world.create("lucky", "blank").await).await;
    assert_eq!((job.state, job.attempt), (JobState::Succeeded, 3));
    assert!(job.log.iter().any(|l| l.message.contains("the store is busy; trying again in")), "{:?}", job.log);

    world.planes.state().failures.insert("create", vec![temporary(); 10]);
    let job = world.ended(&world.create("unlucky", "blank").await).await;
    assert_eq!((job.state, job.attempt), (JobState::Failed, 4));
    assert!(job.error.contains("given up after 4 tries"), "{}", job.error);
    world.planes.state().failures.clear();

    let refused = PortError::Permanent("field spec.x is unknown".to_owned());
    world.planes.state().failures.insert("apply", vec![refused]);
    let job = world.ended(&world.create("wrong", "team-x").await).await;
    assert_eq!((job.state, job.attempt), (JobState::Failed, 1));
    assert_eq!(job.error, "secret redis: field spec.x is unknown");
    let environment = world.portal.inner().environments.get("wrong").await.expect("environment");
    assert_eq!((environment.phase, environment.message), (Phase::Failed, job.error));

    let (_, job) = world.call("DELETE", "/api/v1/environments/wrong?wait", None).await;
    assert_eq!(job["state"], "succeeded", "a failed environment can be deleted: {job}");
    world.tasks.stop();
}

#[tokio::test]
async fn waiting_tells_what_is_not_ready_and_gives_up_with_the_reasons() {
    let world = World::new();
    let quota =
        "pods \"web-x\" is forbidden: exceeded quota: project/web, requested: cpu=1, used: cpu=2, limited: cpu=2";
    let web = Workload { why: quota.to_owned(), ..workload("web", 1, 2) };
    world.planes.state().readiness = Readiness {
        workloads: vec![workload("redis", 1, 1), web],
        unready_pods: vec![UnreadyPod {
            namespace: "default".to_owned(),
            name: "web-1".to_owned(),
            reason: "container web: ImagePullBackOff: image not known".to_owned(),
        }],
    };
    world.portal.start();
    let id = world.create("env", "team-x").await;
    until("the news of the step", async || {
        let environment = world.portal.inner().environments.get("env").await.expect("environment");
        environment.message == format!("wait for workloads: deployment web 1/2 ready ({quota})")
    })
    .await;
    let job = world.ended(&id).await;
    assert_eq!(job.state, JobState::Failed);
    for part in [
        "deployment web 1/2 ready (pods \"web-x\" is forbidden: exceeded quota: project/web",
        "pod default/web-1: container web: ImagePullBackOff",
        "vctl connect env -- kubectl",
    ] {
        assert!(job.error.contains(part), "{}", job.error);
    }
    world.tasks.stop();
}

#[tokio::test]
async fn a_delete_cancels_the_create_and_runs_after_it() {
    let world = World::new();
    world.planes.state().readiness = Readiness { workloads: vec![workload("web", 0, 1)], unready_pods: Vec::new() };
    world.portal.start();
    let create = world.create("env", "team-x").await;
    until("the wait", async || world.planes.calls.load(Ordering::SeqCst) >= 8).await;
    let (status, delete) = world.call("DELETE", "/api/v1/environments/env", None).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let again = world.call("DELETE", "/api/v1/environments/env", None).await.1;
    assert!(again["id"] == delete["id"] || again["status"] == 404, "asking again gives the same job: {again}");
    let create = world.ended(&create).await;
    let delete = world.ended(delete["id"].as_str().expect("id")).await;
    assert_eq!((create.state, delete.state), (JobState::Cancelled, JobState::Succeeded));
    assert!(delete.steps[0].started_at >= create.finished_at, "one after the other");
    assert!(world.planes.state().clusters.is_empty());
    world.tasks.stop();
}

#[tokio::test]
async fn a_runner_that_lost_its_lease_writes_nothing_more() {
    use crate::{
        documents::JobDoc,
        jobs::{failure::Failure, work::Work},
    };
    let world = World::at_fixed_time();
    let id = world.create("env", "blank").await;
    let inner = world.portal.inner();
    let known = inner.environments.documents.get::<JobDoc>(&id).await.expect("read").expect("job");
    let claim = |holder, known| Work::claim(inner.environments.clone(), inner.config.jobs.clone(), holder, known);
    let first = claim("first", known.clone()).await.expect("claim").expect("claimed");
    assert!(claim("second", known).await.expect("claim").is_none(), "only one gets it");
    let now = inner.environments.documents.get::<JobDoc>(&id).await.expect("read").expect("job");
    let second = claim("second", now).await.expect("claim").expect("taken over");
    assert!(matches!(first.say(0, "late news").await, Err(Failure::Lost)));
    assert!(matches!(first.finish(JobState::Succeeded, "").await, Err(Failure::Lost)));
    assert!(second.begin(0).await.expect("begun"));
}

#[tokio::test]
async fn many_environments_at_once() {
    let world = World::new();
    world.portal.start();
    let mut jobs = Vec::new();
    for i in 0..100 {
        jobs.push(world.create(&format!("env-{i}"), "blank").await);
    }
    for job in jobs {
        assert_eq!(world.ended(&job).await.state, JobState::Succeeded);
    }
    assert_eq!(world.planes.state().clusters.len(), 100);
    world.tasks.stop();
}

#[tokio::test]
async fn finished_jobs_are_removed_while_others_run_but_for_those_that_can_be_resumed() {
    let world = World::with_history(JobHistory { count: 5, age: None }).await;
    world.portal.start();
    let refused = PortError::Permanent("field spec.x is unknown".to_owned());
    world.planes.state().failures.insert("apply", vec![refused]);
    let failed = world.create("wrong", "team-x").await;
    assert_eq!(world.ended(&failed).await.state, JobState::Failed);
    let mut jobs = Vec::new();
    for i in 0..20 {
        let job = world.create(&format!("env-{i}"), "blank").await;
        assert_eq!(world.ended(&job).await.state, JobState::Succeeded);
        jobs.push(job);
    }
    let mut left = jobs[15..].to_vec();
    left.push(failed.clone());
    left.sort();
    let ids = |list: &serde_json::Value| {
        let items = list["items"].as_array().expect("items").iter();
        let mut ids: Vec<String> = items.map(|job| job["id"].as_str().expect("id").to_owned()).collect();
        ids.sort();
        ids
    };
    world.until(None, "/api/v1/jobs", |list| ids(list) == left).await;
    // What was resumed is not the last one of its environment any more.
    let (status, resumed) = world.call("POST", &format!("/api/v1/jobs/{failed}/resume"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{resumed}");
    let resumed = resumed["id"].as_str().expect("id").to_owned();
    assert_eq!(world.ended(&resumed).await.state, JobState::Succeeded);
    left = jobs[16..].to_vec();
    left.push(resumed);
    left.sort();
    world.until(None, "/api/v1/jobs", |list| ids(list) == left).await;
    world.tasks.stop();
}
