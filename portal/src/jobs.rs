//! Durable jobs.
//!
//! A job is a document. A runner claims it by compare-and-swap (lease and attempt), writes its progress into it with the revision it
//! knows (so a runner that has lost the job cannot write), and ends it together with what that means for the environment in one
//! transaction. Jobs of one environment run one after the other (`after`). Every step may be repeated, so a crash at any moment
//! costs nothing but the repetition of the steps of the last moment.

mod board;
mod consequences;
pub(crate) mod control;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod enqueue;
pub(crate) mod failure;
pub mod history;
pub(crate) mod metrics;
mod progress;
pub(crate) mod rotate;
pub(crate) mod runner;
pub(crate) mod sleep;
pub(crate) mod update;
pub(crate) mod wake;
pub(crate) mod work;

use jiff::Timestamp;
use vctl_api::{
    names::EnvironmentName,
    rest::{DEFAULT_PROJECT, Job, JobState, Operation, Step},
};
use vctl_runtime::telemetry;

use crate::{
    documents::{JobDoc, Stored},
    releases,
};

/// An id that nothing else has; they sort by time.
pub(crate) fn new_id(now: Timestamp) -> String {
    format!("{:012x}-{:08x}", now.as_millisecond(), rand::random::<u32>())
}

/// A job that waits for its turn.
pub(crate) fn new(
    now: Timestamp,
    environment: &EnvironmentName,
    uid: &str,
    operation: Operation,
    after: Option<String>,
) -> JobDoc {
    let steps = match operation {
        Operation::Create => create::STEPS.as_slice(),
        Operation::Delete => delete::STEPS.as_slice(),
        Operation::RotateCa => rotate::STEPS.as_slice(),
        Operation::Sleep => sleep::STEPS.as_slice(),
        Operation::Wake => wake::STEPS.as_slice(),
        Operation::Update => update::STEPS.as_slice(),
    };
    JobDoc {
        id: new_id(now),
        environment: environment.clone(),
        environment_uid: uid.to_owned(),
        operation,
        state: JobState::Pending,
        attempt: 0,
        failures: 0,
        not_before: None,
        after,
        lease: None,
        steps: steps.iter().map(step).collect(),
        log: Vec::new(),
        created_at: now,
        finished_at: None,
        error: String::new(),
        cancel: false,
        requested_by: String::new(),
        request_id: String::new(),
        traceparent: telemetry::traceparent(),
        project: DEFAULT_PROJECT.to_owned(),
        overlap_seconds: None,
    }
}

/// Adds the steps of Helm charts.
pub(crate) fn with_charts(job: &mut JobDoc) {
    job.steps.extend(releases::STEPS.iter().map(step));
}

fn step(name: &&str) -> Step {
    Step {
        name: (*name).to_owned(),
        state: JobState::Pending,
        started_at: None,
        finished_at: None,
        message: String::new(),
    }
}

/// Whether nothing more will happen to it.
pub(crate) fn ended(state: JobState) -> bool {
    matches!(state, JobState::Succeeded | JobState::Failed | JobState::Cancelled)
}

/// What people see of a job.
pub(crate) fn view(stored: Stored<JobDoc>) -> Job {
    let doc = stored.value;
    Job {
        id: doc.id,
        environment: doc.environment,
        operation: doc.operation,
        state: doc.state,
        attempt: doc.attempt,
        steps: doc.steps,
        created_at: doc.created_at,
        finished_at: doc.finished_at,
        error: doc.error,
        log: doc.log,
        revision: stored.revision,
    }
}
