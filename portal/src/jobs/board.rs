//! What the runner knows of the jobs that have not ended. News of one job costs the logarithm of how many there are.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use vctl_api::rest::JobState;
use vctl_store::Revision;

use super::ended;
use crate::{
    documents::{JobDoc, Stored},
    timetable::Timetable,
};

/// See the module.
#[derive(Default)]
pub(super) struct Board {
    /// Leases of other holders are void.
    void: Option<String>,
    /// Jobs that have not ended.
    open: HashMap<String, Stored<JobDoc>>,
    /// Jobs that wait for the end of another one, by that one.
    waiting: HashMap<String, BTreeSet<String>>,
    /// When those may be started that are neither waiting, nor running, nor tried.
    times: Timetable,
    /// Jobs that this runner works on, with the way to stop them.
    running: HashMap<String, CancellationToken>,
    /// Revisions at which a start was tried: it is tried once.
    tried: HashMap<String, Revision>,
}

impl Board {
    /// With `void`, this holder is alone: the leases of others count no more.
    pub(super) fn new(void: Option<String>) -> Self {
        Self { void, ..Self::default() }
    }

    /// Begins anew with what a list shows; what runs goes on.
    pub(super) fn list(&mut self, jobs: Vec<Stored<JobDoc>>, now: Timestamp) {
        let (void, running) = (self.void.take(), std::mem::take(&mut self.running));
        *self = Self { void, running, ..Self::default() };
        for job in jobs {
            self.note(&job.value.id.clone(), job.revision, Some(job.value), now);
        }
    }

    /// Takes in how a job stands; none when it is gone.
    pub(super) fn note(&mut self, id: &str, revision: Revision, job: Option<JobDoc>, now: Timestamp) {
        let before = self.open.remove(id);
        if let Some(after) = before.as_ref().and_then(|job| job.value.after.as_ref())
            && let Some(waiting) = self.waiting.get_mut(after)
        {
            waiting.remove(id);
            if waiting.is_empty() {
                self.waiting.remove(after);
            }
        }
        if let Some(job) = job.filter(|job| !ended(job.state)) {
            if job.cancel
                && let Some(stop) = self.running.get(id)
            {
                stop.cancel();
            }
            if let Some(after) = &job.after {
                self.waiting.entry(after.clone()).or_default().insert(id.to_owned());
            }
            self.open.insert(id.to_owned(), Stored { value: job, revision, created: revision });
            self.place(id, now);
            if before.is_some() {
                return;
            }
        } else {
            self.tried.remove(id);
            self.times.set(id, None);
        }
        // It has ended, or is known from now on: that counts for those that wait for it.
        for waiting in self.waiting.get(id).cloned().unwrap_or_default() {
            self.place(&waiting, now);
        }
    }

    /// A job is not worked on any more.
    pub(super) fn freed(&mut self, id: &str, now: Timestamp) {
        self.running.remove(id);
        self.place(id, now);
    }

    /// How many jobs are worked on.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// The job whose turn it is, which is worked on from now on, with what tells it to stop.
    pub(super) fn start(&mut self, now: Timestamp) -> Option<(Stored<JobDoc>, CancellationToken)> {
        let id = self.times.due(now)?;
        self.times.set(&id, None);
        let job = self.open.get(&id)?.clone();
        let stop = CancellationToken::new();
        self.tried.insert(id.clone(), job.revision);
        self.running.insert(id, stop.clone());
        Some((job, stop))
    }

    /// How long nothing more can be started, and the clock need not be looked at; none while there is nothing that waits for a time.
    pub(super) fn pause(&self, now: Timestamp) -> Option<Duration> {
        self.times.pause(now)
    }

    /// Sets the time of a job's start, if it can be started at all.
    fn place(&mut self, id: &str, now: Timestamp) {
        let at = self.open.get(id).and_then(|job| {
            let waits = job.value.after.as_ref().is_some_and(|before| self.open.contains_key(before));
            let tried = self.tried.get(id) == Some(&job.revision);
            (!waits && !tried && !self.running.contains_key(id)).then(|| self.due(&job.value, now))
        });
        self.times.set(id, at);
    }

    /// When a job may be started. Who has waited longest comes first.
    fn due(&self, job: &JobDoc, now: Timestamp) -> Timestamp {
        let lease = job.lease.as_ref().filter(|lease| {
            job.state == JobState::Running && self.void.as_ref().is_none_or(|holder| lease.holder == *holder)
        });
        match lease {
            Some(lease) => lease.until,
            None => job.not_before.unwrap_or_else(|| job.created_at.min(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use vctl_api::{names::EnvironmentName, rest::Operation};

    use super::*;
    use crate::{documents::Lease, jobs};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn job(id: &str, created: i64) -> JobDoc {
        let name = EnvironmentName::new("env").unwrap();
        JobDoc { id: id.to_owned(), ..jobs::new(at(created), &name, "u", Operation::Sleep, None) }
    }

    fn started(board: &mut Board, now: i64) -> Vec<String> {
        std::iter::from_fn(|| board.start(at(now)).map(|(job, _)| job.value.id)).collect()
    }

    #[test]
    fn who_has_waited_longest_comes_first_and_each_is_tried_once() {
        let mut board = Board::default();
        let retried = JobDoc { not_before: Some(at(30)), ..job("a", 1) };
        for (revision, job) in [(1, retried), (2, job("b", 20)), (3, job("c", 10))] {
            board.note(&job.id.clone(), revision, Some(job), at(20));
        }
        assert_eq!(started(&mut board, 20), ["c", "b"]);
        assert_eq!(board.pause(at(20)), Some(Duration::from_secs(10)));
        assert_eq!(started(&mut board, 30), ["a"]);
        assert_eq!(board.pause(at(30)), None, "nothing is waited for");
        board.freed("b", at(30));
        assert!(started(&mut board, 40).is_empty(), "it could not be claimed as it was known");
        board.note("b", 4, Some(job("b", 20)), at(40));
        assert_eq!(started(&mut board, 40), ["b"]);
        board.note("b", 5, None, at(40));
        board.freed("b", at(40));
        assert!(started(&mut board, 50).is_empty());
        assert_eq!(board.running(), 2);
    }

    #[test]
    fn jobs_of_an_environment_follow_one_another() {
        let mut board = Board::default();
        let second = JobDoc { after: Some("a".to_owned()), ..job("b", 2) };
        // Also when it is heard of first.
        board.note("b", 2, Some(second), at(5));
        board.note("a", 1, Some(job("a", 1)), at(5));
        assert_eq!(started(&mut board, 5), ["a"]);
        board.note("a", 3, Some(JobDoc { state: JobState::Running, ..job("a", 1) }), at(5));
        assert!(started(&mut board, 5).is_empty());
        board.note("a", 4, Some(JobDoc { state: JobState::Cancelled, ..job("a", 1) }), at(5));
        assert_eq!(started(&mut board, 5), ["b"]);
    }

    #[test]
    fn a_lease_is_waited_for_unless_its_holder_cannot_be_alive() {
        let lease = |holder: &str| Some(Lease { holder: holder.to_owned(), until: at(90) });
        let running = |holder: &str| JobDoc { state: JobState::Running, lease: lease(holder), ..job("a", 1) };
        let mut shared = Board::new(None);
        shared.note("a", 1, Some(running("other")), at(5));
        assert!(started(&mut shared, 89).is_empty());
        assert_eq!(started(&mut shared, 90), ["a"]);
        let mut sole = Board::new(Some("me".to_owned()));
        sole.note("a", 1, Some(running("me")), at(5));
        assert!(started(&mut sole, 89).is_empty());
        sole.note("a", 2, Some(running("other")), at(5));
        assert_eq!(started(&mut sole, 5), ["a"]);
    }

    #[test]
    fn what_runs_is_told_to_stop_also_after_another_list() {
        let mut board = Board::default();
        board.note("a", 1, Some(job("a", 1)), at(5));
        let (running, stop) = board.start(at(5)).unwrap();
        board.list(vec![Stored { value: JobDoc { cancel: true, ..running.value }, revision: 2, created: 1 }], at(5));
        assert!(stop.is_cancelled() && started(&mut board, 9).is_empty(), "it is worked on");
    }
}
