//! What the end of a job means for its environment.

use jiff::Timestamp;
use vctl_api::rest::{JobState, Operation, Phase};
use vctl_store::{Expect, Write};

use crate::{
    audit::{Subject, entry_for},
    documents::{EnvironmentDoc, JobDoc, SecretsDoc, put, remove},
    environments::{Caller, Environments},
    error::Error,
    inventory::InventoryDoc,
    releases::ReleasesDoc,
};

/// Who the audit trail names for what a job does at its end.
const RUNNER: Caller<'static> = Caller { actor: "job-runner", user: "", request_id: "" };

/// What is to be written together with the job's end; nothing when a later job, or another environment, has the say now.
///
/// # Errors
/// When the store fails.
pub(super) async fn consequences(
    environments: &Environments,
    job: &JobDoc,
    now: Timestamp,
) -> Result<Vec<Write>, Error> {
    let name = job.environment.as_str();
    let Some(stored) = environments.documents.get::<EnvironmentDoc>(name).await? else {
        return Ok(Vec::new());
    };
    // A later job, or another environment of the same name, has the say now.
    if stored.value.uid != job.environment_uid || stored.value.job != job.id {
        return Ok(Vec::new());
    }
    let expect = Expect::Revision(stored.revision);
    let mut environment = stored.value;
    let project = environment.project.clone();
    let entry = |action: &str| {
        let detail = serde_json::json!({"job": job.id, "attempt": job.attempt, "error": job.error});
        entry_for(
            &job.requested_by,
            now,
            Caller { request_id: &job.request_id, ..RUNNER },
            action,
            Subject::of_project(name, &project),
            detail,
        )
    };
    let action = match (job.operation, job.state) {
        (Operation::Delete, JobState::Succeeded) => {
            let mut writes = vec![remove::<EnvironmentDoc>(name, expect), entry("environment.deleted")?];
            if let Some(secrets) = environments.documents.get::<SecretsDoc>(name).await? {
                writes.push(remove::<SecretsDoc>(name, Expect::Revision(secrets.revision)));
            }
            if let Some(inventory) = environments.documents.get::<InventoryDoc>(name).await? {
                writes.push(remove::<InventoryDoc>(name, Expect::Revision(inventory.revision)));
            }
            if let Some(releases) = environments.documents.get::<ReleasesDoc>(name).await? {
                writes.push(remove::<ReleasesDoc>(name, Expect::Revision(releases.revision)));
            }
            return Ok(writes);
        }
        // It is ready all the time.
        (Operation::RotateCa, JobState::Succeeded) => {
            environment.message.clear();
            "environment.ca-rotated"
        }
        (Operation::RotateCa, JobState::Failed) => {
            environment.message = format!("its certificate authority was not changed: {}", job.error);
            "environment.ca-rotation-failed"
        }
        (Operation::Sleep, JobState::Succeeded) => {
            environment.message.clear();
            "environment.sleeping"
        }
        // Its controllers are quiet; something still runs, perhaps on a worker that does not answer.
        (Operation::Sleep, JobState::Failed) => {
            put_to_sleep(environments, &mut environment, now, job.error.clone()).await;
            "environment.sleep-failed"
        }
        // It sleeps on; the next write or command tries again.
        (Operation::Wake, JobState::Failed) => {
            put_to_sleep(environments, &mut environment, now, format!("it was not woken: {}", job.error)).await;
            "environment.wake-failed"
        }
        // Somebody has cancelled it: a job that another one supersedes is not the environment's last.
        (Operation::RotateCa, JobState::Cancelled) => {
            "the change of its certificate authority was cancelled".clone_into(&mut environment.message);
            "environment.ca-rotation-cancelled"
        }
        (Operation::Sleep | Operation::Wake, JobState::Cancelled) => {
            let message = format!("a job was cancelled: `vctl wake {name}` starts it");
            put_to_sleep(environments, &mut environment, now, message).await;
            "environment.cancelled"
        }
        (_, JobState::Cancelled) => {
            environment.phase = Phase::Failed;
            environment.message = format!("cancelled; `vctl jobs resume {}` goes on", job.id);
            "environment.cancelled"
        }
        (_, JobState::Succeeded) => {
            environment.phase = Phase::Ready;
            environment.ready_at.get_or_insert(now);
            environment.message.clear();
            "environment.ready"
        }
        (_, JobState::Failed) => {
            environment.phase = Phase::Failed;
            environment.message.clone_from(&job.error);
            "environment.failed"
        }
        _ => return Ok(Vec::new()),
    };
    Ok(vec![put(&environment, expect)?, entry(action)?])
}

/// An environment that is to sleep although a job of it ended early. Whoever counts what is awake believes its phase, so it must sleep
/// indeed, however far the job was; when that cannot be had, the phase does not say so.
async fn put_to_sleep(environments: &Environments, environment: &mut EnvironmentDoc, now: Timestamp, message: String) {
    match environments.planes.sleep(&environment.name).await {
        Ok(()) => {
            environment.phase = Phase::Sleeping;
            environment.message = message;
            environment.times.asleep_since.get_or_insert(now);
        }
        Err(error) => {
            environment.phase = Phase::Failed;
            environment.message =
                format!("{message}; it may be awake: {error}. `vctl jobs resume {}` goes on", environment.job);
            environment.times.asleep_since = None;
        }
    }
}
