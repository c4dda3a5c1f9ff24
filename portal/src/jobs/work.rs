//! A job that this process works on.
//!
//! A transaction is the sync of a disk, so a job has as few as can be: one that claims it, one that ends it, and one in between for as
//! much progress as there was in [`NEWS`]. A crash costs the progress that was not written: those steps are made again, which each of them
//! allows ([`Work::settle`] is for those that do not once a later one was made).

use std::{sync::PoisonError, time::Duration};

use jiff::Timestamp;
use tokio::sync::{Mutex, MutexGuard, Notify};
use vctl_api::{names::EnvironmentName, rest::JobState};
use vctl_store::{Expect, StoreError};

use super::{
    consequences::consequences,
    failure::Failure,
    progress::{close, done, give_back, log, start},
};
use crate::{
    JobsConfig,
    documents::{JobDoc, Lease, Stored, put},
    environments::Environments,
    error::Error,
};

/// Progress is written so long after it was told first: a job that has ended by then has one write less, and who looks at one that takes
/// longer does not see the difference.
const NEWS: Duration = Duration::from_millis(25);

type StepSpan = std::sync::Mutex<Option<tracing::Span>>;

/// A claimed job.
pub(crate) struct Work {
    environments: Environments,
    config: JobsConfig,
    environment: EnvironmentName,
    holder: String,
    held: Mutex<Held>,
    /// There is progress that is not written.
    news: Notify,
    /// Of the step that is worked on.
    span: StepSpan,
}

/// The job as this process knows it.
struct Held {
    /// With progress that may not be written yet; the revision is that of the last write.
    job: Stored<JobDoc>,
    unwritten: bool,
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
                let job = Stored { value: doc, revision, created: known.created };
                Ok(Some(Self {
                    environments,
                    config,
                    environment,
                    holder: holder.to_owned(),
                    held: Mutex::new(Held { job, unwritten: false }),
                    news: Notify::new(),
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
        self.held.lock().await.job.value.clone()
    }

    /// Whether somebody has asked for the job to stop: only then may it end as cancelled.
    pub(crate) async fn is_cancelled(&self) -> bool {
        let mut held = self.held.lock().await;
        self.reload(&mut held).await.is_ok() && held.job.value.cancel
    }

    /// Whether a step was done, by this attempt or an earlier one.
    pub(crate) async fn is_done(&self, step: usize) -> bool {
        state(&*self.held.lock().await, step) == Some(JobState::Succeeded)
    }

    /// Marks a step as begun, if it is not yet; false when an earlier attempt has done it. The job is ours at this moment, and nobody has
    /// told it to stop.
    ///
    /// # Errors
    /// [`Failure::Lost`], [`Failure::Cancelled`].
    pub(crate) async fn begin(&self, step: usize) -> Result<bool, Failure> {
        let mut held = self.held.lock().await;
        if state(&held, step) == Some(JobState::Succeeded) {
            return Ok(false);
        }
        self.check(&mut held).await?;
        self.enter(&held, step);
        if state(&held, step) != Some(JobState::Running) {
            self.tell(held, |doc, now| start(doc, now, step));
        }
        Ok(true)
    }

    /// A span for a step, which ends with the next one's, or with the job.
    fn enter(&self, held: &Held, step: usize) {
        let name = held.job.value.steps.get(step).map(|s| s.name.as_str()).unwrap_or_default();
        *self.span.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(tracing::info_span!("job step", otel.name = name, step = name));
    }

    /// Tells the news of a step; the same news twice is told once.
    ///
    /// # Errors
    /// As [`Work::begin`].
    pub(crate) async fn say(&self, step: usize, message: &str) -> Result<(), Failure> {
        let mut held = self.held.lock().await;
        if held.job.value.steps.get(step).is_some_and(|s| s.message == message) {
            return Ok(());
        }
        self.check(&mut held).await?;
        self.tell(held, |doc, now| log(doc, now, step, message));
        Ok(())
    }

    /// Marks a step as done, and the next one as begun.
    ///
    /// # Errors
    /// As [`Work::begin`].
    pub(crate) async fn done(&self, step: usize, message: &str) -> Result<(), Failure> {
        let mut held = self.held.lock().await;
        self.check(&mut held).await?;
        self.tell(held, |doc, now| done(doc, now, step, message));
        Ok(())
    }

    /// Notes progress, to be written soon.
    fn tell(&self, mut held: MutexGuard<'_, Held>, change: impl FnOnce(&mut JobDoc, Timestamp)) {
        change(&mut held.job.value, self.environments.now());
        if !std::mem::replace(&mut held.unwritten, true) {
            self.news.notify_one();
        }
    }

    /// Returns when there is progress that has not been written for a while.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
        tokio::time::sleep(NEWS).await;
    }

    /// Writes what progress there is: steps that are done now are not made again, whatever happens.
    ///
    /// # Errors
    /// As [`Work::begin`]; [`Failure::Temporary`] when the store fails.
    pub(crate) async fn settle(&self) -> Result<(), Failure> {
        if self.held.lock().await.unwritten { self.renew().await } else { Ok(()) }
    }

    /// Owns the job for longer, and writes what progress there is.
    ///
    /// # Errors
    /// As [`Work::settle`].
    pub(crate) async fn renew(&self) -> Result<(), Failure> {
        let lease = lease(&self.environments, &self.config, &self.holder)?;
        self.update(|doc, _| doc.lease = Some(lease.clone())).await
    }

    /// The job must still be ours, and nobody must have told it to stop. Looks in memory only.
    async fn check(&self, held: &mut Held) -> Result<(), Failure> {
        let current = self.environments.documents.revision_of::<JobDoc>(&held.job.value.id).await?;
        if current == Some(held.job.revision) {
            return Ok(());
        }
        self.reload(held).await?;
        if held.job.value.cancel { Err(Failure::Cancelled) } else { Ok(()) }
    }

    async fn update(&self, change: impl Fn(&mut JobDoc, Timestamp) + Send) -> Result<(), Failure> {
        let mut held = self.held.lock().await;
        loop {
            let mut doc = held.job.value.clone();
            change(&mut doc, self.environments.now());
            let write = put(&doc, Expect::Revision(held.job.revision))?;
            match self.environments.documents.transact(vec![write]).await {
                Ok(revisions) => {
                    held.job.revision = revisions.first().copied().unwrap_or_default();
                    held.job.value = doc;
                    held.unwritten = false;
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => {
                    self.reload(&mut held).await?;
                    if held.job.value.cancel {
                        return Err(Failure::Cancelled);
                    }
                }
                Err(e) => return Err(Error::from(e).into()),
            }
        }
    }

    /// Reads the job after somebody else has written it, or a write of ours was left in the middle: it must still be ours.
    async fn reload(&self, held: &mut Held) -> Result<(), Failure> {
        let known = &held.job.value;
        let current = self.environments.documents.get::<JobDoc>(&known.id).await?.ok_or(Failure::Lost)?;
        let ours = current.value.attempt == known.attempt
            && current.value.lease.as_ref().is_some_and(|lease| lease.holder == self.holder);
        if !ours {
            return Err(Failure::Lost);
        }
        // Nobody else tells of progress: what is not written yet still holds.
        let (steps, log) = (std::mem::take(&mut held.job.value.steps), std::mem::take(&mut held.job.value.log));
        held.job = Stored { value: JobDoc { steps, log, ..current.value }, ..current };
        Ok(())
    }

    /// Gives the job back, to be tried again at `at`.
    ///
    /// # Errors
    /// As [`Work::settle`].
    pub(crate) async fn retry(&self, at: Timestamp, why: &str) -> Result<(), Failure> {
        self.update(|doc, now| give_back(doc, now, at, why)).await
    }

    /// Ends the job, with what that means for its environment, in one transaction.
    ///
    /// # Errors
    /// [`Failure::Lost`]; [`Failure::Temporary`] when the store fails.
    pub(crate) async fn finish(&self, state: JobState, error: &str) -> Result<(), Failure> {
        let mut held = self.held.lock().await;
        loop {
            let now = self.environments.now();
            let mut doc = held.job.value.clone();
            close(&mut doc, now, state, error);
            let mut writes = vec![put(&doc, Expect::Revision(held.job.revision))?];
            writes.extend(consequences(&self.environments, &doc, now).await?);
            match self.environments.documents.transact(writes).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { .. }) => self.reload(&mut held).await?,
                Err(e) => return Err(Error::from(e).into()),
            }
        }
    }
}

fn state(held: &Held, step: usize) -> Option<JobState> {
    held.job.value.steps.get(step).map(|s| s.state)
}

fn lease(environments: &Environments, config: &JobsConfig, holder: &str) -> Result<Lease, Error> {
    let until = environments
        .now()
        .checked_add(config.lease)
        .map_err(|e| Error::Internal(format!("the lease of a job ends beyond time: {e}")))?;
    Ok(Lease { holder: holder.to_owned(), until })
}
