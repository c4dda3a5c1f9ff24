//! What is written of a job while it is worked on, and what a crash costs.

use std::{sync::atomic::Ordering, time::Duration};

use http::StatusCode;
use serde_json::json;
use vctl_api::rest::{JobState, Phase};

use crate::{
    documents::{JobDoc, Stored},
    jobs::{failure::Failure, runner::Runner, sleep, wake, work::Work},
    ports::PortError,
    testing::World,
};

async fn stored(world: &World, id: &str) -> Stored<JobDoc> {
    world.portal.inner().environments.documents.get(id).await.expect("read").expect("job")
}

async fn claim(world: &World, holder: &str, id: &str) -> Work {
    let inner = world.portal.inner();
    let known = stored(world, id).await;
    let work = Work::claim(inner.environments.clone(), inner.config.jobs.clone(), holder, known).await;
    work.expect("claim").expect("claimed")
}

/// Asks for a job of `env`; its id.
async fn ask(world: &World, what: &str) -> String {
    let (status, job) = world.call("POST", &format!("/api/v1/environments/env/{what}"), Some(json!({}))).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    job["id"].as_str().expect("id").to_owned()
}

/// With an environment `env` that is ready.
async fn ready() -> World {
    let world = World::at_fixed_time();
    let job = world.create("env", "blank").await;
    assert_eq!(world.run_job(&job).await.state, JobState::Succeeded);
    world
}

fn states(job: &JobDoc) -> Vec<JobState> {
    job.steps.iter().map(|s| s.state).collect()
}

#[tokio::test]
async fn progress_is_written_when_a_step_takes_long_and_not_made_again() {
    let world = ready().await;
    let slept = ask(&world, "sleep").await;
    world.run_job(&slept).await;
    // Of a wake the third call does not return: running_asleep, wake, readiness.
    let calls = world.planes.calls.load(Ordering::SeqCst);
    world.planes.hang_from.store(calls + 3, Ordering::SeqCst);
    let woken = ask(&world, "wake").await;
    let wanted = [JobState::Succeeded, JobState::Succeeded, JobState::Running];
    let written = tokio::time::timeout(Duration::from_secs(20), async {
        while states(&stored(&world, &woken).await.value) != wanted {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    // What works on it is gone with this, as with a crash.
    tokio::select! {
        job = world.run_job(&woken) => panic!("it has ended: {job:?}"),
        written = written => assert!(written.is_ok(), "{:?}", stored(&world, &woken).await),
    }
    world.planes.hang_from.store(0, Ordering::SeqCst);
    let calls = world.planes.calls.load(Ordering::SeqCst);
    let job = world.run_job(&woken).await;
    assert_eq!((job.state, job.attempt), (JobState::Succeeded, 2));
    assert_eq!(
        world.planes.calls.load(Ordering::SeqCst),
        calls + 2,
        "only the last step was made again, and before it what makes sure that it is awake"
    );
}

#[tokio::test]
async fn a_job_that_does_not_take_long_is_written_when_it_is_claimed_and_when_it_ends() {
    let world = ready().await;
    let id = ask(&world, "sleep").await;
    let inner = world.portal.inner();
    let after = inner.environments.documents.revision().await.expect("revision");
    let mut watch = inner.environments.documents.watch::<JobDoc>(after).await.expect("watch");
    let work = claim(&world, "first", &id).await;
    sleep::run(&inner.environments, &work).await.expect("run");
    work.finish(JobState::Succeeded, "").await.expect("ended");
    let mut written = Vec::new();
    while written.last() != Some(&JobState::Succeeded) {
        for event in watch.next().await.expect("events") {
            let job: JobDoc = serde_json::from_slice(event.value.as_ref().expect("value")).expect("job");
            written.push(job.state);
        }
    }
    assert_eq!(written, [JobState::Running, JobState::Succeeded]);
    let job = stored(&world, &id).await.value;
    assert_eq!(states(&job), [JobState::Succeeded]);
    assert_eq!((job.log.len(), job.steps[0].message.as_str()), (1, "nothing of it runs"));
}

#[tokio::test]
async fn what_is_written_already_is_not_written_again_by_the_news_of_it() {
    let world = ready().await;
    let id = ask(&world, "sleep").await;
    let inner = world.portal.inner();
    let (config, clock) = (inner.config.jobs.clone(), inner.clock.clone());
    let runner = Runner::new(config, clock, inner.environments.clone(), inner.jobs.clone());
    let work = claim(&world, "first", &id).await;
    work.say(0, "1 left: pod default/web").await.expect("said");
    work.settle().await.expect("written");
    let written = stored(&world, &id).await.revision;
    // The lease is much longer. That nothing is written is seen, at the latest, by what is written next.
    let kept = tokio::time::timeout(Duration::from_millis(200), runner.keep(&work)).await;
    assert!(kept.is_err(), "{kept:?}");
    assert_eq!(stored(&world, &id).await.revision, written);
    work.say(0, "nothing left").await.expect("said");
    let news = async {
        while stored(&world, &id).await.value.log.len() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        lost = runner.keep(&work) => panic!("{lost}"),
        written = tokio::time::timeout(Duration::from_secs(20), news) => assert!(written.is_ok(), "news is written"),
    }
}

#[tokio::test]
async fn a_kill_between_what_was_done_and_its_write_repeats_the_steps() {
    let world = ready().await;
    let slept = ask(&world, "sleep").await;
    world.run_job(&slept).await;
    let id = ask(&world, "wake").await;
    let inner = world.portal.inner();
    let work = claim(&world, "first", &id).await;
    wake::run(&inner.environments, &work).await.expect("run");
    assert!(!world.planes.state().asleep.contains("env"));
    // The process is gone: nothing of that was written, and nothing counts as done.
    drop(work);
    let job = stored(&world, &id).await.value;
    assert_eq!(states(&job), [JobState::Running, JobState::Pending, JobState::Pending]);
    let calls = world.planes.calls.load(Ordering::SeqCst);
    let job = world.run_job(&id).await;
    assert_eq!((job.state, job.attempt), (JobState::Succeeded, 2));
    assert_eq!(world.planes.calls.load(Ordering::SeqCst), calls + 3, "each step once more");
    assert!(!world.planes.state().asleep.contains("env"));
    assert_eq!(inner.environments.get("env").await.expect("env").phase, Phase::Ready);
}

#[tokio::test]
async fn a_runner_that_lost_its_lease_writes_nothing_of_what_it_has_not_written() {
    let world = ready().await;
    let id = ask(&world, "sleep").await;
    let first = claim(&world, "first", &id).await;
    assert!(first.begin(0).await.expect("begun"));
    first.say(0, "1 left: pod default/web").await.expect("said");
    let second = claim(&world, "second", &id).await;
    let of_second = stored(&world, &id).await;
    assert!(matches!(first.settle().await, Err(Failure::Lost)));
    assert!(matches!(first.renew().await, Err(Failure::Lost)));
    assert!(matches!(first.begin(0).await, Err(Failure::Lost)));
    assert!(matches!(first.done(0, "").await, Err(Failure::Lost)));
    assert!(matches!(first.finish(JobState::Succeeded, "").await, Err(Failure::Lost)));
    assert_eq!(stored(&world, &id).await, of_second);
    second.done(0, "nothing of it runs").await.expect("done");
    second.settle().await.expect("written");
    assert_eq!(stored(&world, &id).await.value.log.len(), 1);
}

#[tokio::test]
async fn a_cancelled_job_begins_no_further_step_and_keeps_what_it_told() {
    let world = ready().await;
    let slept = ask(&world, "sleep").await;
    world.run_job(&slept).await;
    let id = ask(&world, "wake").await;
    let work = claim(&world, "first", &id).await;
    work.done(0, "it is asleep").await.expect("done");
    let (status, answer) = world.call("POST", &format!("/api/v1/jobs/{id}/cancel"), None).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert!(matches!(work.begin(1).await, Err(Failure::Cancelled)));
    assert!(work.is_cancelled().await);
    work.finish(JobState::Cancelled, "cancelled").await.expect("ended");
    let job = stored(&world, &id).await.value;
    assert_eq!(states(&job), [JobState::Succeeded, JobState::Cancelled, JobState::Cancelled]);
    assert_eq!(job.log[0].message, "it is asleep");
}

#[tokio::test]
async fn what_is_said_to_sleep_after_a_job_ended_early_sleeps() {
    let world = ready().await;
    let environments = &world.portal.inner().environments;
    let phase = async || environments.stored("env").await.expect("environment").value.phase;

    // Before the cluster was put to sleep.
    let id = ask(&world, "sleep").await;
    world.call("POST", &format!("/api/v1/jobs/{id}/cancel"), None).await;
    assert_eq!(world.run_job(&id).await.state, JobState::Cancelled);
    assert_eq!(phase().await, Phase::Sleeping);
    assert!(world.planes.state().asleep.contains("env"), "quotas count it as asleep");

    // After it was woken.
    world.planes.state().failures.insert("readiness", vec![PortError::Permanent("the store is gone".to_owned())]);
    let id = ask(&world, "wake").await;
    assert_eq!(world.run_job(&id).await.state, JobState::Failed);
    let environment = environments.stored("env").await.expect("environment").value;
    assert_eq!((environment.phase, &*environment.message), (Phase::Sleeping, "it was not woken: the store is gone"));
    assert!(environment.times.asleep_since.is_some());
    assert!(world.planes.state().asleep.contains("env"), "quotas count it as asleep");

    // It cannot be put to sleep again: then it is not said.
    let gone = || PortError::Permanent("the store is gone".to_owned());
    world.planes.state().failures.insert("readiness", vec![gone()]);
    world.planes.state().failures.insert("sleep", vec![gone()]);
    let id = ask(&world, "wake").await;
    assert_eq!(world.run_job(&id).await.state, JobState::Failed);
    let environment = environments.stored("env").await.expect("environment").value;
    assert_eq!(environment.phase, Phase::Failed);
    assert!(environment.message.contains(&format!("it may be awake: the store is gone. `vctl jobs resume {id}`")));
    let (status, resumed) = world.call("POST", &format!("/api/v1/jobs/{id}/resume"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{resumed}");
    assert_eq!(world.run_job(resumed["id"].as_str().expect("id")).await.state, JobState::Succeeded);
    assert_eq!(phase().await, Phase::Ready);
}
