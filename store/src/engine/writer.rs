//! The one task that makes things durable: group commit.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::{
    Committed, Event, StoreError, Tenant,
    engine::{
        Shared,
        cell::{Cell, Life},
        durable::{Change, CommitError, Failure, Journal},
        queue::Job,
    },
};

/// So many rows go into one transaction of the database: a bound for the time until the first of them is acknowledged.
const GROUP_ROWS: usize = 2048;

/// When there is always something to write, so many groups go before a piece of sweeping.
const COMMITS_PER_SWEEP: u32 = 64;

/// Says at the latest when it is dropped that the writer has ended: also after a panic nobody waits for ever.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.queue.end(StoreError::Closed);
        self.0.closed.send_if_modified(|closed| {
            let unsaid = closed.is_none();
            if unsaid {
                *closed = Some(Err(StoreError::backend("the writer ended unexpectedly; restart the server")));
            }
            unsaid
        });
    }
}

/// Runs until the queue has ended and is empty; then closes the journal and ends all watches and feeds.
pub(crate) async fn run(shared: Arc<Shared>, mut journal: Box<dyn Journal>) {
    let ending = Ending(shared.clone());
    let mut sweeping = true;
    let mut commits = 0_u32;
    loop {
        // Rows nobody can see are removed between commits, a few at a time; under constant load too, but seldom.
        if sweeping && (shared.queue.len() == 0 || commits >= COMMITS_PER_SWEEP) {
            commits = 0;
            sweeping = match journal.sweep().await {
                Ok(more) => more,
                Err(error) => {
                    tracing::warn!(%error, "old rows could not be removed; trying again after the next compaction");
                    false
                }
            };
            if sweeping && shared.queue.check().is_ok() && shared.queue.len() == 0 {
                continue;
            }
        }
        if !shared.queue.wait().await {
            break;
        }
        commits += 1;
        gather(&shared).await;
        let jobs = shared.queue.take(GROUP_ROWS);
        sweeping |= jobs.iter().any(|j| {
            matches!(
                j.change,
                Change::Delete { .. } | Change::Compact { .. } | Change::Create { replaces: Some(_), .. }
            )
        });
        commit(&shared, journal.as_mut(), jobs).await;
    }
    for cell in shared.registry.all() {
        cell.lock().watchers.close();
    }
    shared.feeds.close();
    shared.reader.close().await;
    let closed = journal.close().await;
    let closed = shared.lost.get().map_or(closed, |reason| Err(reason.clone()));
    shared.closed.send_replace(Some(closed));
    drop(ending);
}

/// Lets those whose previous write was just acknowledged queue their next one, so that they share the sync: without this, one of
/// them goes alone and the others wait for two.
async fn gather(shared: &Shared) {
    let mut waiting = 0;
    for _ in 0..64 {
        let now = shared.queue.len();
        if now == waiting {
            break;
        }
        waiting = now;
        tokio::task::yield_now().await;
    }
}

/// Writes the jobs together; when that fails, one by one, so that only those fail that cannot be written, and those that were decided
/// on top of them.
async fn commit(shared: &Shared, journal: &mut dyn Journal, jobs: Vec<Job>) {
    let (alone, Err(failed)) = (jobs.len() == 1, group(shared, journal, jobs).await) else { return };
    if alone || failed.cause.failure != Failure::Rejected {
        return fail(shared, failed.jobs, &failed.cause);
    }
    let mut left: VecDeque<Job> = failed.jobs.into();
    while let Some(job) = left.pop_front() {
        if let Err(failed) = group(shared, journal, vec![job]).await {
            let mut jobs = failed.jobs;
            if failed.cause.failure != Failure::Rejected {
                jobs.extend(left.drain(..));
            } else if let Some(tenant) = jobs.first().and_then(Job::tenant) {
                let (same, others) = left.into_iter().partition(|j| j.concerns(tenant));
                left = others;
                jobs.extend::<VecDeque<_>>(same);
            }
            fail(shared, jobs, &failed.cause);
        }
    }
}

struct Failed {
    jobs: Vec<Job>,
    cause: CommitError,
}

/// Writes the jobs in one transaction of the database, and publishes and acknowledges them, or hands them back.
async fn group(shared: &Shared, journal: &mut dyn Journal, jobs: Vec<Job>) -> Result<(), Failed> {
    let mut changes = Vec::with_capacity(jobs.len());
    let mut waiting = Vec::with_capacity(jobs.len());
    for job in jobs {
        changes.push(job.change);
        waiting.push((job.cell, job.replaced, job.done));
    }
    let nothing = changes.iter().all(|c| matches!(c, Change::Barrier | Change::Tidy));
    let result = if nothing { Ok(()) } else { journal.commit(&changes).await };
    let done = changes.into_iter().zip(waiting);
    if let Err(cause) = result {
        let jobs = done.map(|(change, (cell, replaced, done))| Job { cell, replaced, change, done }).collect();
        return Err(Failed { jobs, cause });
    }
    for (change, (cell, replaced, done)) in done {
        let tidies = matches!(change, Change::Tidy);
        if let Some(cell) = cell {
            publish(shared, &cell, replaced.as_ref(), change);
        }
        let result = if tidies { journal.tidy().await } else { Ok(()) };
        // Who does not wait any more does not need to know.
        let _ = done.send(result);
    }
    Ok(())
}

fn publish(shared: &Shared, cell: &Arc<Cell>, replaced: Option<&Arc<Cell>>, change: Change) {
    let tenant = cell.tenant;
    let tick = shared.tick();
    match change {
        Change::Write { records, .. } => {
            let mut state = cell.lock();
            let events = state.publish(&records, tick);
            // Under the lock of the tenant, so that who has seen the revision finds it in the feed.
            tell(shared, tenant, events);
        }
        Change::Create { records, .. } => {
            // Its documents first, and under the lock until the feed is told: who finds the tenant finds it whole.
            let mut state = cell.lock();
            let events = state.publish(&records, tick);
            shared.registry.insert(cell.clone());
            if let Some(replaced) = replaced {
                gone(shared, replaced);
            }
            shared.feeds.send(Committed { tenant, events: Arc::default() });
            tell(shared, tenant, events);
        }
        Change::Delete { .. } => gone(shared, cell),
        Change::Compact { .. } | Change::Rewrite { .. } | Change::UseKeys { .. } | Change::Tidy | Change::Barrier => {}
    }
}

/// A tenant does not exist any more.
fn gone(shared: &Shared, cell: &Arc<Cell>) {
    let mut state = cell.lock();
    state.life = Life::Gone;
    state.watchers.close();
    state.evict(u64::MAX);
    drop(state);
    shared.registry.remove(cell);
    shared.feeds.send(Committed { tenant: cell.tenant, events: Arc::default() });
}

fn tell(shared: &Shared, tenant: Tenant, events: Vec<Arc<Event>>) {
    if !events.is_empty() {
        shared.feeds.send(Committed { tenant, events: events.into() });
    }
}

/// Fails the jobs, and with them everything that was decided on top of them.
fn fail(shared: &Shared, mut jobs: Vec<Job>, cause: &CommitError) {
    tracing::error!(error = %cause.error, failure = ?cause.failure, writes = jobs.len(), "writes failed");
    match cause.failure {
        Failure::Rejected | Failure::Unreachable => {}
        Failure::Unknown => shared.queue.end(cause.error.clone()),
        Failure::Lost => shared.lose(cause.error.clone()),
    }
    if matches!(cause.failure, Failure::Unknown | Failure::Lost) {
        jobs.extend(shared.queue.take(usize::MAX));
    }
    // Each tenant once: what is decided after that is right again.
    let concerned = jobs.iter().flat_map(|j| [&j.cell, &j.replaced]).flatten();
    let cells: HashMap<_, _> = concerned.map(|c| (c.tenant, c.clone())).collect();
    for (tenant, cell) in cells {
        let mut state = cell.lock();
        state.abandon();
        jobs.extend(shared.queue.take_of(tenant));
    }
    for job in jobs {
        fail_one(shared, job, &cause.error);
    }
}

fn fail_one(shared: &Shared, job: Job, error: &StoreError) {
    // One that was to replace another one leaves the name to it.
    if let Change::Create { name, replaces: None, .. } = &job.change {
        shared.registry.release(name);
    }
    // Who waited at a barrier looks again, and finds that the queued writes are gone.
    let result = if matches!(job.change, Change::Barrier) { Ok(()) } else { Err(error.clone()) };
    let _ = job.done.send(result);
}
