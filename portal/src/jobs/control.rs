//! What people do with jobs: cancel one that goes on, resume one that was given up.

use serde_json::json;
use vctl_api::rest::{Job, JobState, Operation, Phase};
use vctl_store::{Expect, StoreError};

use super::enqueue::{Plan, Planned};
use crate::{
    audit::{Subject, entry},
    documents::{EnvironmentDoc, JobDoc, put},
    environments::{CONFLICT_TRIES, Caller, Environments},
    error::Error,
    jobs, releases,
};

impl Environments {
    /// Tells a job to stop; it ends at its next step. What it has done stays, and the environment says so.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] for one that has ended, and for a deletion.
    pub(crate) async fn cancel_job(&self, caller: Caller<'_>, id: &str) -> Result<Job, Error> {
        for _ in 0..CONFLICT_TRIES {
            let stored = self.documents.get::<JobDoc>(id).await?.ok_or_else(|| not_found(id))?;
            if jobs::ended(stored.value.state) {
                return Err(Error::Conflict(format!("job {id} has ended already")));
            }
            if stored.value.operation == Operation::Delete {
                return Err(Error::Conflict(
                    "a deletion cannot be cancelled: part of the environment is gone already".to_owned(),
                ));
            }
            let cancelled = JobDoc { cancel: true, ..stored.value.clone() };
            let name = stored.value.environment.as_str();
            let detail = json!({ "job": id, "operation": stored.value.operation });
            let writes = vec![
                put(&cancelled, Expect::Revision(stored.revision))?,
                entry(self.now(), caller, "job.cancel", Subject::of_project(name, &stored.value.project), detail)?,
            ];
            match self.documents.transact(writes).await {
                Ok(_) => return self.job(id).await,
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Unavailable(format!("job {id} is changing all the time")))
    }

    /// Begins the work of a job anew that has failed or was cancelled: another job does the same from its first step, each of which may
    /// be repeated.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] unless it is the last job of its environment, and has failed or was cancelled;
    /// [`Error::Invalid`] when the environment uses a resource that its project does not allow any more.
    pub(crate) async fn resume_job(&self, caller: Caller<'_>, id: &str) -> Result<Job, Error> {
        let of = self.documents.get::<JobDoc>(id).await?.ok_or_else(|| not_found(id))?.value;
        if !matches!(of.state, JobState::Failed | JobState::Cancelled) {
            return Err(Error::Conflict(format!("job {id} has not failed: there is nothing to resume")));
        }
        let name = of.environment.as_str();
        if matches!(of.operation, Operation::Create | Operation::Update) {
            self.check_used(name).await?;
        }
        self.enqueue(caller, name, |stored, job| {
            let doc = &stored.value;
            if doc.uid != of.environment_uid || doc.job != of.id || job.is_some() {
                return Err(Error::Conflict(format!(
                    "job {id} is not the last one of environment {name:?}: something else was asked for since"
                )));
            }
            let phase = match of.operation {
                Operation::Create => Phase::Creating,
                Operation::Update => Phase::Updating,
                Operation::Delete => Phase::Deleting,
                Operation::Sleep => Phase::Sleeping,
                Operation::Wake => Phase::Waking,
                Operation::RotateCa => {
                    return Err(Error::Conflict(format!("ask for it again: `vctl rotate-ca {name}`")));
                }
            };
            let environment = EnvironmentDoc { phase, message: String::new(), ..doc.clone() };
            let detail = json!({ "resumes": id, "operation": of.operation });
            let mut plan = Plan::new(environment, of.operation, "job.resume", detail);
            plan.charts = of.steps.iter().any(|step| releases::STEPS.contains(&step.name.as_str()));
            Ok(Planned::New(Box::new(plan)))
        })
        .await
    }
}

fn not_found(id: &str) -> Error {
    Error::NotFound { what: "job", name: id.to_owned(), nearest: Vec::new() }
}
