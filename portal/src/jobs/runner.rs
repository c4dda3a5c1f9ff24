//! Finds jobs whose turn it is and works on them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use vctl_api::rest::{JobState, Operation};
use vctl_runtime::{clock::Clock, tasks::Tasks, telemetry};
use vctl_store::{Expect, Revision, Watch};

use super::{create, delete, ended, metrics::JobMetrics, rotate, sleep, update, wake, work::Failure, work::Work};
use crate::{
    JobsConfig,
    documents::{JobDoc, Stored, decode, remove},
    environments::Environments,
    error::Error,
};

/// Finished jobs that are kept for people to look at.
const KEEP: usize = 1000;
/// A job that brings the process down must not do so for ever.
const STARTS_LIMIT: u32 = 50;
/// Longest wait between two retries.
const BACK_OFF_LIMIT: Duration = Duration::from_mins(1);
/// How long the runner waits at most when nothing happens.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);
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

/// What the loop knows.
#[derive(Default)]
struct Board {
    /// Jobs that have not ended.
    open: BTreeMap<String, Stored<JobDoc>>,
    /// Jobs that this runner works on, with the way to stop them.
    running: HashMap<String, CancellationToken>,
    /// Revisions at which a start was tried: it is tried once.
    tried: HashMap<String, Revision>,
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
            let mut board = Board::default();
            loop {
                if let Err(e) = self.run(&inner, &mut board, &freed, &mut free).await {
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
        freed: &mpsc::UnboundedSender<String>,
        free: &mut mpsc::UnboundedReceiver<String>,
    ) -> Result<(), Error> {
        let documents = &self.shared.environments.documents;
        let (jobs, revision) = documents.list::<JobDoc>().await?;
        self.forget_old(&jobs).await?;
        let mut watch: Watch = documents.watch::<JobDoc>(revision).await?;
        board.open.clear();
        board.tried.clear();
        for job in jobs {
            board.note(&job.value.id.clone(), job.revision, Some(job.value));
        }
        loop {
            self.start_what_can_start(board, tasks, freed);
            let pause = self.until_next(board);
            tokio::select! {
                events = watch.next() => {
                    // Too slow, or history is gone: what runs goes on, and the list tells the rest.
                    let Ok(events) = events else { return Ok(()) };
                    for event in events {
                        let job = event.value.as_ref().map(decode::<JobDoc>).transpose()?;
                        board.note(&event.key.name, event.revision, job);
                    }
                }
                Some(id) = free.recv() => {
                    board.running.remove(&id);
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn start_what_can_start(&self, board: &mut Board, tasks: &Tasks, freed: &mpsc::UnboundedSender<String>) {
        let now = self.shared.clock.now();
        let mut free = self.shared.config.parallel.saturating_sub(board.running.len());
        for (id, job) in &board.open {
            if free == 0 {
                return;
            }
            let waits = job.value.after.as_ref().is_some_and(|before| board.open.contains_key(before));
            let tried = board.tried.get(id) == Some(&job.revision);
            if waits || tried || board.running.contains_key(id) || self.due(&job.value) > now {
                continue;
            }
            free -= 1;
            let stop = CancellationToken::new();
            board.running.insert(id.clone(), stop.clone());
            board.tried.insert(id.clone(), job.revision);
            let (this, job, done) = (self.clone(), job.clone(), Done { id: id.clone(), freed: freed.clone() });
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

    /// When a job may be started.
    fn due(&self, job: &JobDoc) -> Timestamp {
        match (&job.lease, job.state) {
            (Some(lease), JobState::Running) => {
                let void = self.shared.config.sole_runner && lease.holder != self.shared.holder;
                if void { Timestamp::MIN } else { lease.until }
            }
            _ => job.not_before.unwrap_or(Timestamp::MIN),
        }
    }

    fn until_next(&self, board: &Board) -> Duration {
        if board.running.len() >= self.shared.config.parallel {
            // Nothing can be started until one of them ends, which is told: of many that wait, none is looked at.
            return LONGEST_PAUSE;
        }
        let now = self.shared.clock.now();
        let waiting = board
            .open
            .iter()
            .filter(|(id, job)| !board.running.contains_key(*id) && board.tried.get(*id) != Some(&job.revision));
        waiting
            .map(|(_, job)| self.due(&job.value))
            .filter(|due| *due > now)
            .min()
            .and_then(|due| Duration::try_from(due.duration_since(now)).ok())
            .unwrap_or(LONGEST_PAUSE)
            .max(Duration::from_millis(1))
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
            lost = self.keep_lease(&work) => Err(lost),
        };
        if let Err(e) = self.conclude(&work, outcome).await {
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

    async fn keep_lease(&self, work: &Work) -> Failure {
        loop {
            tokio::time::sleep(self.shared.config.lease / 3).await;
            match work.renew().await {
                Ok(()) => {}
                // The lease still runs; the next renewal may succeed.
                Err(Failure::Temporary(e)) => tracing::warn!(error = e, "the lease of a job was not renewed"),
                Err(other) => return other,
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
                work.retry(at.map_err(|e| Failure::Permanent(e.to_string()))?, &why).await
            }
        }
    }

    async fn finish(&self, work: &Work, state: JobState, error: &str) -> Result<(), Failure> {
        work.finish(state, error).await?;
        self.shared.metrics.ended(state);
        Ok(())
    }

    /// Removes the oldest finished jobs beyond those that are kept.
    async fn forget_old(&self, jobs: &[Stored<JobDoc>]) -> Result<(), Error> {
        let finished: Vec<_> = jobs.iter().filter(|job| ended(job.value.state)).collect();
        let surplus = finished.len().saturating_sub(KEEP);
        let writes: Vec<_> = finished
            .iter()
            .take(surplus)
            .map(|job| remove::<JobDoc>(&job.value.id, Expect::Revision(job.revision)))
            .collect();
        if !writes.is_empty() {
            self.shared.environments.documents.transact(writes).await?;
        }
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

impl Board {
    /// Takes in how a job stands; none when it is gone.
    fn note(&mut self, id: &str, revision: Revision, job: Option<JobDoc>) {
        match job.filter(|job| !ended(job.state)) {
            Some(job) => {
                if job.cancel
                    && let Some(stop) = self.running.get(id)
                {
                    stop.cancel();
                }
                self.open.insert(id.to_owned(), Stored { value: job, revision, created: revision });
            }
            None => {
                self.open.remove(id);
                self.tried.remove(id);
            }
        }
    }
}
