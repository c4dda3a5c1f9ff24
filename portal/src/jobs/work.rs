//! A job that this process works on: its progress, written as it happens.

use std::sync::PoisonError;

use jiff::Timestamp;
use tokio::sync::Mutex;
use vctl_api::{
    names::EnvironmentName,
    rest::{JobState, LogLine, Operation, Phase},
};
use vctl_store::{Expect, StoreError, Write};

use crate::{
    JobsConfig,
    audit::{Subject, entry_for},
    documents::{EnvironmentDoc, JobDoc, Lease, SecretsDoc, Stored, put, remove},
    environments::{Caller, Environments},
    error::Error,
    inventory::InventoryDoc,
    ports::PortError,
    releases::ReleasesDoc,
};

/// Who the audit trail names for what a job does at its end.
const RUNNER: Caller<'static> = Caller { actor: "job-runner", user: "", request_id: "" };
/// Lines of log that are kept.
const LOG_LINES: usize = 200;

/// Why a job did not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// May pass by itself.
    #[error("{0}")]
    Temporary(String),
    /// Will not; the text says what to do.
    #[error("{0}")]
    Permanent(String),
    /// Somebody asked for it to stop.
    #[error("cancelled")]
    Cancelled,
    /// Another runner has it now: nothing may be written any more.
    #[error("another runner has taken the job over")]
    Lost,
}

impl Failure {
    /// A failure with the object it is about.
    pub(crate) fn about(e: PortError, kind: &str, name: &str) -> Self {
        match e {
            PortError::Temporary(text) => Self::Temporary(format!("{kind} {name}: {text}")),
            PortError::Permanent(text) => Self::Permanent(format!("{kind} {name}: {text}")),
        }
    }
}

impl From<PortError> for Failure {
    fn from(e: PortError) -> Self {
        match e {
            PortError::Temporary(text) => Self::Temporary(text),
            PortError::Permanent(text) => Self::Permanent(text),
        }
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        match e {
            Error::Unavailable(_) | Error::Internal(_) | Error::Conflict(_) => Self::Temporary(e.to_string()),
            other => Self::Permanent(other.to_string()),
        }
    }
}

type StepSpan = std::sync::Mutex<Option<tracing::Span>>;

/// A claimed job.
pub(crate) struct Work {
    environments: Environments,
    config: JobsConfig,
    environment: EnvironmentName,
    holder: String,
    job: Mutex<Stored<JobDoc>>,
    /// Of the step that is worked on.
    span: StepSpan,
}

impl Work {
    /// Takes the job if it still is as known; none when somebody else was faster.
    pub(crate) async fn claim(
        environments: Environments,
        config: JobsConfig,
        holder: &str,
        known: Stored<JobDoc>,
    ) -> Result<Option<Self>, Error> {
        let mut doc = known.value;
        doc.state = JobState::Running;
        doc.attempt += 1;
        doc.not_before = None;
        doc.lease = Some(lease(&environments, &config, holder)?);
        let now = environments.now();
        if let Some(next) = doc.steps.iter().position(|s| s.state != JobState::Succeeded) {
            start(&mut doc, now, next);
        }
        match environments.documents.transact(vec![put(&doc, Expect::Revision(known.revision))?]).await {
            Ok(revisions) => {
                let revision = revisions.first().copied().unwrap_or_default();
                let environment = doc.environment.clone();
                let job = Mutex::new(Stored { value: doc, revision, created: known.created });
                Ok(Some(Self {
                    environments,
                    config,
                    environment,
                    holder: holder.to_owned(),
                    job,
                    span: StepSpan::default(),
                }))
            }
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// The environment it is about.
    pub(crate) fn environment(&self) -> &EnvironmentName {
        &self.environment
    }

    pub(crate) fn config(&self) -> &JobsConfig {
        &self.config
    }

    pub(crate) async fn doc(&self) -> JobDoc {
        self.job.lock().await.value.clone()
    }

    /// Whether somebody has asked for the job to stop: only then may it end as cancelled.
    pub(crate) async fn is_cancelled(&self) -> bool {
        let mut job = self.job.lock().await;
        self.reload(&mut job).await.is_ok() && job.value.cancel
    }

    /// Whether a step was done, by this attempt or an earlier one.
    pub(crate) async fn is_done(&self, step: usize) -> bool {
        self.job.lock().await.value.steps.get(step).is_some_and(|s| s.state == JobState::Succeeded)
    }

    /// Marks a step as begun, if it is not yet; false when an earlier attempt has done it.
    pub(crate) async fn begin(&self, step: usize) -> Result<bool, Failure> {
        let state = self.job.lock().await.value.steps.get(step).map(|s| s.state);
        if state == Some(JobState::Succeeded) {
            return Ok(false);
        }
        self.enter(step).await;
        if state != Some(JobState::Running) {
            self.update(|doc, now| start(doc, now, step)).await?;
        }
        Ok(true)
    }

    /// A span for a step, which ends with the next one's, or with the job.
    async fn enter(&self, step: usize) {
        let job = self.job.lock().await;
        let name = job.value.steps.get(step).map(|s| s.name.as_str()).unwrap_or_default();
        *self.span.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(tracing::info_span!("job step", otel.name = name, step = name));
    }

    /// Tells the news of a step; the same news twice is written once.
    pub(crate) async fn say(&self, step: usize, message: &str) -> Result<(), Failure> {
        if self.job.lock().await.value.steps.get(step).is_some_and(|s| s.message == message) {
            return Ok(());
        }
        self.update(|doc, now| log(doc, now, step, message)).await
    }

    /// Marks a step as done, and in the same write the next one as begun: each write is a sync of the disk.
    pub(crate) async fn done(&self, step: usize, message: &str) -> Result<(), Failure> {
        self.update(|doc, now| {
            log(doc, now, step, message);
            if let Some(step) = doc.steps.get_mut(step) {
                step.state = JobState::Succeeded;
                step.finished_at = Some(now);
            }
            if doc.steps.get(step + 1).is_some_and(|next| next.state != JobState::Succeeded) {
                start(doc, now, step + 1);
            }
        })
        .await
    }

    /// Owns the job for longer.
    pub(crate) async fn renew(&self) -> Result<(), Failure> {
        let lease = lease(&self.environments, &self.config, &self.holder)?;
        self.update(|doc, _| doc.lease = Some(lease.clone())).await
    }

    async fn update(&self, change: impl Fn(&mut JobDoc, Timestamp) + Send) -> Result<(), Failure> {
        let mut job = self.job.lock().await;
        loop {
            let mut doc = job.value.clone();
            change(&mut doc, self.environments.now());
            let write = put(&doc, Expect::Revision(job.revision))?;
            match self.environments.documents.transact(vec![write]).await {
                Ok(revisions) => {
                    job.revision = revisions.first().copied().unwrap_or_default();
                    job.value = doc;
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => {
                    self.reload(&mut job).await?;
                    if job.value.cancel {
                        return Err(Failure::Cancelled);
                    }
                }
                Err(e) => return Err(Error::from(e).into()),
            }
        }
    }

    /// Reads the job after somebody else has written it: it must still be ours.
    async fn reload(&self, job: &mut Stored<JobDoc>) -> Result<(), Failure> {
        let current = self.environments.documents.get::<JobDoc>(&job.value.id).await?.ok_or(Failure::Lost)?;
        let ours = current.value.attempt == job.value.attempt
            && current.value.lease.as_ref().is_some_and(|lease| lease.holder == self.holder);
        if !ours {
            return Err(Failure::Lost);
        }
        *job = current;
        Ok(())
    }

    /// Gives the job back, to be tried again at `at`.
    pub(crate) async fn retry(&self, at: Timestamp, why: &str) -> Result<(), Failure> {
        let note = |doc: &mut JobDoc, now: Timestamp| {
            let running = doc.steps.iter().position(|s| s.state == JobState::Running).unwrap_or(0);
            let seconds = at.duration_since(now).as_secs().max(1);
            log(doc, now, running, &format!("{why}; trying again in {seconds} s"));
            if let Some(step) = doc.steps.get_mut(running) {
                step.state = JobState::Pending;
            }
            doc.state = JobState::Pending;
            doc.failures += 1;
            doc.not_before = Some(at);
            doc.lease = None;
        };
        self.update(note).await
    }

    /// Ends the job, with what that means for its environment, in one transaction.
    pub(crate) async fn finish(&self, state: JobState, error: &str) -> Result<(), Failure> {
        let mut job = self.job.lock().await;
        loop {
            let now = self.environments.now();
            let mut doc = job.value.clone();
            close(&mut doc, now, state, error);
            let mut writes = vec![put(&doc, Expect::Revision(job.revision))?];
            writes.extend(self.consequences(&doc, now).await?);
            match self.environments.documents.transact(writes).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { .. }) => self.reload(&mut job).await?,
                Err(e) => return Err(Error::from(e).into()),
            }
        }
    }

    async fn consequences(&self, job: &JobDoc, now: Timestamp) -> Result<Vec<Write>, Error> {
        let name = job.environment.as_str();
        let Some(stored) = self.environments.documents.get::<EnvironmentDoc>(name).await? else {
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
                if let Some(secrets) = self.environments.documents.get::<SecretsDoc>(name).await? {
                    writes.push(remove::<SecretsDoc>(name, Expect::Revision(secrets.revision)));
                }
                if let Some(inventory) = self.environments.documents.get::<InventoryDoc>(name).await? {
                    writes.push(remove::<InventoryDoc>(name, Expect::Revision(inventory.revision)));
                }
                if let Some(releases) = self.environments.documents.get::<ReleasesDoc>(name).await? {
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
                environment.message.clone_from(&job.error);
                "environment.sleep-failed"
            }
            // It sleeps on; the next write or command tries again.
            (Operation::Wake, JobState::Failed) => {
                environment.phase = Phase::Sleeping;
                environment.message = format!("it was not woken: {}", job.error);
                "environment.wake-failed"
            }
            // Somebody has cancelled it: a job that another one supersedes is not the environment's last.
            (Operation::RotateCa, JobState::Cancelled) => {
                "the change of its certificate authority was cancelled".clone_into(&mut environment.message);
                "environment.ca-rotation-cancelled"
            }
            (Operation::Sleep | Operation::Wake, JobState::Cancelled) => {
                environment.phase = Phase::Sleeping;
                environment.message = format!("a job was cancelled: `vctl wake {name}` starts it");
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
}

fn lease(environments: &Environments, config: &JobsConfig, holder: &str) -> Result<Lease, Error> {
    let until = environments
        .now()
        .checked_add(config.lease)
        .map_err(|e| Error::Internal(format!("the lease of a job ends beyond time: {e}")))?;
    Ok(Lease { holder: holder.to_owned(), until })
}

fn start(doc: &mut JobDoc, now: Timestamp, step: usize) {
    if let Some(step) = doc.steps.get_mut(step) {
        step.state = JobState::Running;
        step.started_at.get_or_insert(now);
        step.message.clear();
    }
}

fn log(doc: &mut JobDoc, at: Timestamp, step: usize, message: &str) {
    let Some(step) = doc.steps.get_mut(step) else { return };
    message.clone_into(&mut step.message);
    doc.log.push(LogLine { at, step: step.name.clone(), message: message.to_owned() });
    let surplus = doc.log.len().saturating_sub(LOG_LINES);
    doc.log.drain(..surplus);
}

fn close(doc: &mut JobDoc, now: Timestamp, state: JobState, error: &str) {
    for step in &mut doc.steps {
        if step.state == JobState::Running {
            step.state = state;
            step.finished_at = Some(now);
            if state == JobState::Failed {
                error.clone_into(&mut step.message);
            }
        } else if step.state == JobState::Pending && state != JobState::Succeeded {
            step.state = JobState::Cancelled;
        }
    }
    doc.state = state;
    doc.finished_at = Some(now);
    doc.lease = None;
    error.clone_into(&mut doc.error);
}
