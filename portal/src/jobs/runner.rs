//! Finds jobs whose turn it is and works on them.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use vctl_api::rest::{JobState, Operation};
use vctl_runtime::{clock::Clock, tasks::Tasks, telemetry};
use vctl_store::Watch;

use super::{
    board::Board, create, delete, failure::Failure, history::Keeper, metrics::JobMetrics, rotate, sleep, update, wake,
    work::Work,
};
use crate::{
    JobsConfig,
    documents::{JobDoc, Stored, decode},
    environments::Environments,
    error::Error,
    timetable,
};

/// A job that brings the process down must not do so for ever.
const STARTS_LIMIT: u32 = 50;
/// Longest wait between two retries.
const BACK_OFF_LIMIT: Duration = Duration::from_mins(1);
/// Pause after the store has failed.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Works on jobs until its tasks are stopped. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Runner {
    shared: Arc<Shared>,
}

struct Shared {
    config: JobsConfig,
    clock: Clock,
    environments: Environments,
    /// Names this runner in leases; another one after each start.
    holder: String,
    metrics: Arc<JobMetrics>,
}

impl Runner {
    pub(crate) fn new(config: JobsConfig, clock: Clock, environments: Environments, metrics: Arc<JobMetrics>) -> Self {
        let holder = uuid::Uuid::new_v4().to_string();
        Self { shared: Arc::new(Shared { config, clock, environments, holder, metrics }) }
    }

    /// Runs in the background.
    pub(crate) fn start(self, tasks: &Tasks) {
        let inner = tasks.clone();
        tasks.spawn_until_stopped("job-runner", async move {
            let (freed, mut free) = mpsc::unbounded_channel();
            let mut board = Board::new(self.shared.config.sole_runner.then(|| self.shared.holder.clone()));
            let documents = self.shared.environments.documents.clone();
            let mut keeper = Keeper::new(self.shared.config.history, documents);
            loop {
                if let Err(e) = self.run(&inner, &mut board, &mut keeper, &freed, &mut free).await {
                    if self.shared.environments.documents.is_closed().await {
                        return;
                    }
                    tracing::error!(error = %e, "the job runner cannot read its jobs; trying again");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        });
    }

    /// Lists, then follows the jobs; returns when it has to list again.
    async fn run(
        &self,
        tasks: &Tasks,
        board: &mut Board,
        keeper: &mut Keeper,
        freed: &mpsc::UnboundedSender<String>,
        free: &mut mpsc::UnboundedReceiver<String>,
    ) -> Result<(), Error> {
        let documents = &self.shared.environments.documents;
        let (jobs, revision) = documents.list::<JobDoc>().await?;
        keeper.list(&jobs);
        let mut watch: Watch = documents.watch::<JobDoc>(revision).await?;
        board.list(jobs, self.shared.clock.now());
        loop {
            self.start_what_can_start(board, tasks, freed);
            keeper.trim(self.shared.clock.now(), tasks);
            // When as many are worked on as can be, the end of one is told: of those that wait, none is looked at. New jobs are told too: where
            // nothing waits for a time, there is no timer.
            let full = board.running() >= self.shared.config.parallel;
            let now = self.shared.clock.now();
            let start = if full { None } else { board.pause(now) };
            let pause = start.into_iter().chain(keeper.pause(now)).min();
            tokio::select! {
                events = watch.next() => {
                    // Too slow, or history is gone: what runs goes on, and the list tells the rest.
                    let Ok(events) = events else { return Ok(()) };
                    let now = self.shared.clock.now();
                    for event in events {
                        let job = event.value.as_ref().map(decode::<JobDoc>).transpose()?;
                        keeper.note(&event.key.name, event.revision, job.as_ref());
                        board.note(&event.key.name, event.revision, job, now);
                    }
                }
                Some(id) = free.recv() => board.freed(&id, self.shared.clock.now()),
                () = keeper.trimmed() => {}
                () = timetable::wait(pause) => {}
            }
        }
    }

    fn start_what_can_start(&self, board: &mut Board, tasks: &Tasks, freed: &mpsc::UnboundedSender<String>) {
        while board.running() < self.shared.config.parallel {
            let Some((job, stop)) = board.start(self.shared.clock.now()) else { return };
            let (this, done) = (self.clone(), Done { id: job.value.id.clone(), freed: freed.clone() });
            let doc = &job.value;
            let span = tracing::info_span!(
                parent: None,
                "job",
                job = doc.id,
                environment = doc.environment.as_str(),
                operation = ?doc.operation,
                attempt = doc.attempt + 1,
                request_id = doc.request_id
            );
            if let Some(traceparent) = &doc.traceparent {
                telemetry::continue_from(&span, traceparent);
            }
            let work = async move {
                let _done = done;
                this.work(job, stop).await;
            };
            tasks.spawn_until_stopped("job", work.instrument(span));
        }
    }

    /// Claims a job, does it, and writes how it went.
    pub(crate) async fn work(&self, job: Stored<JobDoc>, stop: CancellationToken) {
        let shared = &self.shared;
        let id = job.value.id.clone();
        let work = loop {
            let known = job.clone();
            match Work::claim(shared.environments.clone(), shared.config.clone(), &shared.holder, known).await {
                Ok(Some(work)) => break work,
                // Somebody else has written it: the watch tells.
                Ok(None) => return,
                Err(_) if shared.environments.documents.is_closed().await => return,
                Err(e) => {
                    tracing::error!(job = id, error = %e, "a job cannot be claimed; trying again");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        };
        let _working = shared.metrics.begin();
        let outcome = tokio::select! {
            done = self.steps(&work) => done,
            () = stop.cancelled() => Err(Failure::Cancelled),
            lost = self.keep(&work) => Err(lost),
        };
        if let Err(e) = self.conclude(&work, outcome).await
            && !shared.environments.documents.is_closed().await
        {
            tracing::error!(job = id, error = %e, "how a job ended cannot be written; it will be taken up again");
        }
    }

    async fn steps(&self, work: &Work) -> Result<(), Failure> {
        let doc = work.doc().await;
        if doc.cancel {
            return Err(Failure::Cancelled);
        }
        if doc.attempt > STARTS_LIMIT {
            return Err(Failure::Permanent(format!(
                "the job was started {STARTS_LIMIT} times without coming to an end; the server's log says why. Delete the environment \
                 and create it again"
            )));
        }
        match doc.operation {
            Operation::Create => create::run(&self.shared.environments, work).await,
            Operation::Delete => delete::run(&self.shared.environments, work).await,
            Operation::Sleep => sleep::run(&self.shared.environments, work).await,
            Operation::Wake => wake::run(&self.shared.environments, work).await,
            Operation::Update => update::run(&self.shared.environments, work).await,
            Operation::RotateCa => {
                let overlap = Duration::from_secs(doc.overlap_seconds.unwrap_or_default());
                rotate::run(&self.shared.environments, work, overlap).await
            }
        }
    }

    /// Writes progress as it comes, and owns the job for longer; returns why it is not ours to go on with.
    pub(crate) async fn keep(&self, work: &Work) -> Failure {
        loop {
            // What there was of news may have been written since: that has renewed the lease too.
            let news = tokio::select! {
                () = work.news() => true,
                () = tokio::time::sleep(self.shared.config.lease / 3) => false,
            };
            while let Err(failure) = if news { work.settle().await } else { work.renew().await } {
                let Failure::Temporary(error) = failure else { return failure };
                // The lease still runs.
                tracing::warn!(error, "how far a job is cannot be written; trying again");
                tokio::time::sleep(STORE_PAUSE).await;
            }
        }
    }

    async fn conclude(&self, work: &Work, outcome: Result<(), Failure>) -> Result<(), Failure> {
        match outcome {
            Ok(()) => self.finish(work, JobState::Succeeded, "").await,
            Err(Failure::Lost) => Ok(()),
            Err(Failure::Cancelled) if !work.is_cancelled().await => Ok(()),
            Err(Failure::Cancelled) => self.finish(work, JobState::Cancelled, "cancelled").await,
            Err(Failure::Permanent(why)) => self.finish(work, JobState::Failed, &why).await,
            Err(Failure::Temporary(why)) => {
                let failures = work.doc().await.failures;
                if failures >= self.shared.config.retries {
                    let why = format!(
                        "{why}; given up after {} tries. When the cause is mended, delete the environment and create it again",
                        failures + 1
                    );
                    return self.finish(work, JobState::Failed, &why).await;
                }
                self.shared.metrics.retried();
                let wait = self.shared.config.back_off.saturating_mul(1 << failures.min(16)).min(BACK_OFF_LIMIT);
                let at = self.shared.clock.now().checked_add(wait);
                match work.retry(at.map_err(|e| Failure::Permanent(e.to_string()))?, &why).await {
                    Err(Failure::Cancelled) => self.finish(work, JobState::Cancelled, "cancelled").await,
                    done => done,
                }
            }
        }
    }

    async fn finish(&self, work: &Work, state: JobState, error: &str) -> Result<(), Failure> {
        work.finish(state, error).await?;
        self.shared.metrics.ended(state);
        Ok(())
    }
}

/// Tells the loop that a job is not worked on any more, also when its task panics.
struct Done {
    id: String,
    freed: mpsc::UnboundedSender<String>,
}

impl Drop for Done {
    fn drop(&mut self) {
        // The loop has gone when nobody listens.
        let _ = self.freed.send(std::mem::take(&mut self.id));
    }
}
