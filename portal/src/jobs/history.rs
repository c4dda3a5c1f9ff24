//! Which finished jobs are kept for people to look at. The runner hears of every job by its watch, so it knows how many there are and
//! which is the oldest without reading them: a job that ends costs the logarithm of how many are kept, and they are removed many at a time.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::mpsc;
use vctl_api::rest::JobState;
use vctl_runtime::tasks::Tasks;
use vctl_store::{Expect, Revision, StoreError};

use super::ended;
use crate::{
    documents::{Documents, EnvironmentDoc, JobDoc, Stored, remove},
    error::Error,
};

/// Most jobs that are removed in one transaction.
const BATCH: usize = 500;
/// At most so many more than are to be kept are waited for before the surplus is removed.
const SLACK: usize = 100;

/// Between two looks at whether the oldest one is too old: the clock may have been set.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);
/// Most are removed at a time, not each when its time has come.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// How long finished jobs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobHistory {
    /// The newest of them; a tenth more, and at most a hundred, are there for a time.
    pub count: usize,
    /// Those that have ended within this time; none: whenever they have ended.
    pub age: Option<Duration>,
}

impl Default for JobHistory {
    /// A thousand, of the last 90 days.
    fn default() -> Self {
        Self { count: 1000, age: Some(Duration::from_hours(24 * 90)) }
    }
}

/// A finished job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finished {
    id: String,
    revision: Revision,
    environment: Arc<str>,
    /// It can be resumed while it is its environment's last one.
    failed: bool,
}

/// The finished jobs that there are. See the module.
pub(super) struct History {
    keep: JobHistory,
    /// By when they have ended.
    order: BTreeSet<(Timestamp, String)>,
    jobs: HashMap<String, (Timestamp, Finished)>,
    /// Those that would go and can still be resumed, by their environment; they are looked at again when it has another job.
    held: HashMap<Arc<str>, Vec<(Timestamp, Finished)>>,
}

impl History {
    pub(super) fn new(keep: JobHistory) -> Self {
        Self { keep, order: BTreeSet::new(), jobs: HashMap::new(), held: HashMap::new() }
    }

    /// Begins anew: what a list shows follows by [`History::note`].
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.keep);
    }

    /// Takes in how a job stands; none when it is gone.
    pub(super) fn note(&mut self, id: &str, revision: Revision, job: Option<&JobDoc>) {
        if let Some((at, _)) = self.jobs.remove(id) {
            self.order.remove(&(at, id.to_owned()));
        }
        let Some(job) = job else { return };
        for (at, finished) in self.held.remove(job.environment.as_str()).unwrap_or_default() {
            if finished.id != id {
                self.add(at, finished);
            }
        }
        if ended(job.state) {
            let at = job.finished_at.unwrap_or(job.created_at);
            let failed = job.state != JobState::Succeeded;
            let environment = Arc::from(job.environment.as_str());
            self.add(at, Finished { id: id.to_owned(), revision, environment, failed });
        }
    }

    fn add(&mut self, at: Timestamp, finished: Finished) {
        self.order.insert((at, finished.id.clone()));
        self.jobs.insert(finished.id.clone(), (at, finished));
    }

    /// The oldest ones that need not be kept, which are forgotten here: none, most of the time, and no more than one transaction takes.
    pub(super) fn surplus(&mut self, now: Timestamp) -> Vec<(Timestamp, Finished)> {
        let JobHistory { count, age } = self.keep;
        let too_many = self.order.len() > count + (count / 10).clamp(1, SLACK) - 1;
        let before = age.and_then(|age| now.checked_sub(age).ok());
        let mut surplus = Vec::new();
        while surplus.len() < BATCH
            && let Some((at, _)) = self.order.first()
            && ((too_many && self.order.len() > count) || before.is_some_and(|before| *at < before))
            && let Some((_, id)) = self.order.pop_first()
        {
            surplus.extend(self.jobs.remove(&id));
        }
        surplus
    }

    /// How long no other one is too old; none while there is none that will be.
    pub(super) fn pause(&self, now: Timestamp) -> Option<Duration> {
        let (age, (at, _)) = (self.keep.age?, self.order.first()?);
        let end = at.checked_add(age).ok()?;
        // What is overdue has a negative one.
        Some(Duration::try_from(end.duration_since(now)).unwrap_or_default().clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
    }

    /// Those that are kept nevertheless.
    pub(super) fn hold(&mut self, kept: Vec<(Timestamp, Finished)>) {
        for (at, finished) in kept {
            self.held.entry(finished.environment.clone()).or_default().push((at, finished));
        }
    }
}

/// Keeps the history: what the runner's loop has of it. Removing is a task of its own, so that no job waits for it.
pub(super) struct Keeper {
    history: History,
    documents: Documents,
    /// Some are being removed.
    busy: bool,
    told: mpsc::UnboundedSender<Vec<(Timestamp, Finished)>>,
    done: mpsc::UnboundedReceiver<Vec<(Timestamp, Finished)>>,
}

impl Keeper {
    pub(super) fn new(keep: JobHistory, documents: Documents) -> Self {
        let (told, done) = mpsc::unbounded_channel();
        Self { history: History::new(keep), documents, busy: false, told, done }
    }

    /// Begins anew with what a list shows.
    pub(super) fn list(&mut self, jobs: &[Stored<JobDoc>]) {
        self.history.clear();
        for job in jobs {
            self.history.note(&job.value.id, job.revision, Some(&job.value));
        }
    }

    /// Takes in how a job stands; none when it is gone.
    pub(super) fn note(&mut self, id: &str, revision: Revision, job: Option<&JobDoc>) {
        self.history.note(id, revision, job);
    }

    /// Begins to remove what need not be kept, when there is enough of it.
    pub(super) fn trim(&mut self, now: Timestamp, tasks: &Tasks) {
        if self.busy {
            return;
        }
        let surplus = self.history.surplus(now);
        if surplus.is_empty() {
            return;
        }
        self.busy = true;
        let (documents, told) = (self.documents.clone(), self.told.clone());
        tasks.spawn_until_stopped("old jobs", async move {
            let kept = match forget(&documents, surplus).await {
                Ok(kept) => kept,
                Err(error) => {
                    tracing::warn!(%error, "old jobs could not be removed; they go when the server has started the next time");
                    Vec::new()
                }
            };
            // The loop has gone when nobody listens.
            let _ = told.send(kept);
        });
    }

    /// As [`History::pause`].
    pub(super) fn pause(&self, now: Timestamp) -> Option<Duration> {
        self.history.pause(now)
    }

    /// Returns when what was being removed is gone. May be dropped at any time.
    pub(super) async fn trimmed(&mut self) {
        // The sender is here too: it never ends.
        if let Some(kept) = self.done.recv().await {
            self.history.hold(kept);
            self.busy = false;
        }
    }
}

/// Removes finished jobs; gives back those that are kept nevertheless, because somebody can still resume them.
async fn forget(
    documents: &Documents,
    surplus: Vec<(Timestamp, Finished)>,
) -> Result<Vec<(Timestamp, Finished)>, Error> {
    let (mut kept, mut gone) = (Vec::new(), Vec::with_capacity(surplus.len()));
    for (at, job) in surplus {
        let last = job.failed
            && documents.get::<EnvironmentDoc>(&job.environment).await?.is_some_and(|e| e.value.job == job.id);
        if last {
            kept.push((at, job));
        } else {
            gone.push(job);
        }
    }
    if gone.is_empty() {
        return Ok(kept);
    }
    let write = |job: &Finished| remove::<JobDoc>(&job.id, Expect::Revision(job.revision));
    match documents.transact(gone.iter().map(write).collect()).await {
        Ok(_) => Ok(kept),
        // Somebody else has removed one of them at the same moment.
        Err(StoreError::Conflict { .. }) => {
            for job in &gone {
                match documents.transact(vec![write(job)]).await {
                    Ok(_) | Err(StoreError::Conflict { .. }) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            Ok(kept)
        }
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use vctl_api::{names::EnvironmentName, rest::Operation};

    use super::*;
    use crate::jobs;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn finished(id: &str, second: i64, state: JobState) -> JobDoc {
        let name = EnvironmentName::new("env").unwrap();
        let job = jobs::new(at(1), &name, "u", Operation::Sleep, None);
        JobDoc { id: id.to_owned(), state, finished_at: Some(at(second)), ..job }
    }

    fn history(count: usize, age: Option<u64>) -> History {
        History::new(JobHistory { count, age: age.map(Duration::from_secs) })
    }

    fn ids(surplus: Vec<(Timestamp, Finished)>) -> Vec<String> {
        surplus.into_iter().map(|(_, job)| job.id).collect()
    }

    #[test]
    fn the_newest_are_kept_and_removed_many_at_a_time() {
        let mut history = history(30, None);
        for n in 0..32_u64 {
            let second = 100 - i64::try_from(n).unwrap();
            history.note(&format!("{n:02}"), n, Some(&finished("", second, JobState::Succeeded)));
            assert!(history.surplus(at(200)).is_empty(), "not for every job: {n}");
        }
        history.note("32", 32, Some(&finished("", 1, JobState::Failed)));
        assert_eq!(ids(history.surplus(at(200))), ["32", "31", "30"], "by when they have ended");
        assert!(history.surplus(at(200)).is_empty());
        history.note("40", 40, Some(&finished("", 1, JobState::Running)));
        history.note("00", 41, Some(&finished("", 1, JobState::Running)));
        assert_eq!(history.order.len(), 29, "one was resumed, and what is not finished does not count");
        history.note("01", 42, None);
        assert_eq!((history.order.len(), history.jobs.len()), (28, 28));
    }

    #[test]
    fn the_old_ones_go_however_few_there_are() {
        let mut history = history(30, Some(60));
        for (n, second) in [(1, 10), (2, 20), (3, 30)] {
            history.note(&n.to_string(), n, Some(&finished("", second, JobState::Succeeded)));
        }
        assert!(history.surplus(at(70)).is_empty());
        assert_eq!(history.pause(at(1)), Some(Duration::from_secs(69)));
        assert_eq!(ids(history.surplus(at(85))), ["1", "2"]);
    }

    #[test]
    fn no_more_go_at_once_than_a_transaction_takes() {
        let mut history = history(1, None);
        for n in 0..1200_u64 {
            history.note(&format!("{n:04}"), n, Some(&finished("", 1, JobState::Succeeded)));
        }
        assert_eq!([500, 500, 199, 0], [0; 4].map(|_: i32| history.surplus(at(2)).len()));
    }

    #[test]
    fn what_is_held_is_looked_at_again_when_its_environment_has_another_job() {
        let mut history = history(1, Some(10));
        history.note("a", 1, Some(&finished("a", 1, JobState::Failed)));
        let kept = history.surplus(at(50));
        history.hold(kept);
        assert!(history.surplus(at(60)).is_empty());
        history.note("b", 2, Some(&finished("b", 60, JobState::Running)));
        assert_eq!(ids(history.surplus(at(60))), ["a"]);
        history.note("c", 3, Some(&finished("c", 1, JobState::Cancelled)));
        let kept = history.surplus(at(60));
        history.hold(kept);
        history.note("c", 4, Some(&finished("c", 1, JobState::Pending)));
        assert!(history.surplus(at(60)).is_empty() && history.jobs.is_empty());
    }
}
