//! Changes of an environment that a job carries out: its document, the job and an audit entry in one transaction.

use serde_json::Value;
use vctl_api::rest::{Job, Operation};
use vctl_store::{Expect, StoreError, Write};

use crate::{
    access::quota::{self, Adds, Demand},
    audit::{Subject, entry},
    documents::{EnvironmentDoc, JobDoc, Stored, put},
    environments::{CONFLICT_TRIES, Caller, Environments, restore::check_not_restoring},
    error::Error,
    jobs,
};

/// What is to be written.
pub(crate) struct Plan {
    environment: EnvironmentDoc,
    operation: Operation,
    action: &'static str,
    detail: Value,
    /// Further writes of the same transaction.
    pub(crate) more: Vec<Write>,
    /// Helm has something to do.
    pub(crate) charts: bool,
    /// Id of its job, when that has to be known before.
    pub(crate) job_id: Option<String>,
}

impl Plan {
    /// The environment as it is to be from now on, and what the audit trail says; the job's id is added to both.
    pub(crate) fn new(environment: EnvironmentDoc, operation: Operation, action: &'static str, detail: Value) -> Self {
        Self { environment, operation, action, detail, more: Vec::new(), charts: false, job_id: None }
    }
}

/// What a request comes to.
pub(crate) enum Planned {
    /// This job is at it.
    Already(Box<Stored<JobDoc>>),
    /// This is new; an unfinished job of the environment is cancelled and ends first.
    New(Box<Plan>),
}

impl Environments {
    /// Writes what `plan` makes of the environment and its unfinished job, if it has one; tried anew when it met another change.
    ///
    /// # Errors
    /// What `plan` says; [`Error::NotFound`]; [`Error::Conflict`] while it is restored.
    pub(crate) async fn enqueue(
        &self,
        caller: Caller<'_>,
        name: &str,
        plan: impl Fn(&Stored<EnvironmentDoc>, Option<&Stored<JobDoc>>) -> Result<Planned, Error> + Send + Sync,
    ) -> Result<Job, Error> {
        for _ in 0..CONFLICT_TRIES {
            let stored = self.stored(name).await?;
            check_not_restoring(&stored.value)?;
            let unfinished = self.documents.get::<JobDoc>(&stored.value.job).await?;
            let unfinished = unfinished.filter(|job| !jobs::ended(job.value.state));
            let plan = match plan(&stored, unfinished.as_ref())? {
                Planned::Already(job) => return Ok(jobs::view(*job)),
                Planned::New(plan) => *plan,
            };
            let now = self.now();
            let Plan { mut environment, operation, action, mut detail, more, charts, job_id } = plan;
            let after = unfinished.as_ref().map(|job| job.value.id.clone());
            let mut job = jobs::new(now, &environment.name, &environment.uid, operation, after);
            if charts {
                jobs::with_charts(&mut job);
            }
            job.id = job_id.unwrap_or(job.id);
            job.project.clone_from(&environment.project);
            caller.actor.clone_into(&mut job.requested_by);
            caller.request_id.clone_into(&mut job.request_id);
            environment.job.clone_from(&job.id);
            if let Some(detail) = detail.as_object_mut() {
                detail.insert("job".to_owned(), job.id.clone().into());
            }
            let mut writes = vec![
                put(&job, Expect::Absent)?,
                put(&environment, Expect::Revision(stored.revision))?,
                entry(now, caller, action, Subject::environment(&environment), detail)?,
            ];
            if let Some(unfinished) = unfinished {
                let cancelled = JobDoc { cancel: true, ..unfinished.value };
                writes.push(put(&cancelled, Expect::Revision(unfinished.revision))?);
            }
            writes.extend(more);
            let adds = match operation {
                // One that may be awake already, because it could not be put to sleep, counts as awake.
                Operation::Wake if !quota::is_awake(&stored.value) => Some(Adds::Wakes),
                Operation::Update => Some(Adds::Grows(stored.value.size.unwrap_or_default())),
                _ => None,
            };
            let done = match adds {
                Some(adds) => self.transact_charged(Demand { environment: &environment, adds }, writes).await?,
                None => self.documents.transact(writes).await,
            };
            match done {
                Ok(revisions) => {
                    let revision = revisions.first().copied().unwrap_or_default();
                    return Ok(jobs::view(Stored { value: job, revision, created: revision }));
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Unavailable(format!("environment {name:?} is changing all the time")))
    }
}
