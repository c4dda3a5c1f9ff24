use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::{
    StoreError, Tenant,
    engine::{cell::Cell, durable::Change},
};

/// Told when the change is durable and visible, or that it will not be.
pub(crate) type Acknowledgement = oneshot::Receiver<Result<(), StoreError>>;

/// A decided change on its way to the database.
pub(crate) struct Job {
    /// The tenant it concerns; none for a bare barrier.
    pub(crate) cell: Option<Arc<Cell>>,
    /// The tenant that it replaces.
    pub(crate) replaced: Option<Arc<Cell>>,
    pub(crate) change: Change,
    pub(crate) done: oneshot::Sender<Result<(), StoreError>>,
}

impl Job {
    pub(crate) fn tenant(&self) -> Option<Tenant> {
        self.cell.as_ref().map(|c| c.tenant)
    }

    /// Whether it fails with what was queued before it for a tenant.
    pub(crate) fn concerns(&self, tenant: Tenant) -> bool {
        [&self.cell, &self.replaced].into_iter().flatten().any(|c| c.tenant == tenant)
    }
}

/// Decided changes, in the order of their revisions. Filled under the lock of the tenant, so that this order is the tenant's.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    /// Nothing is taken any more, and why.
    ended: Option<StoreError>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a change.
    ///
    /// # Errors
    /// Why the queue takes none any more.
    pub(crate) fn push(&self, cell: Option<Arc<Cell>>, change: Change) -> Result<Acknowledgement, StoreError> {
        self.push_replacing(cell, None, change)
    }

    /// [`Queue::push`] of a tenant that replaces another one.
    pub(crate) fn push_replacing(
        &self,
        cell: Option<Arc<Cell>>,
        replaced: Option<Arc<Cell>>,
        change: Change,
    ) -> Result<Acknowledgement, StoreError> {
        let (done, acknowledgement) = oneshot::channel();
        let mut state = self.lock();
        if let Some(reason) = &state.ended {
            return Err(reason.clone());
        }
        state.jobs.push(Job { cell, replaced, change, done });
        drop(state);
        self.arrived.notify_one();
        Ok(acknowledgement)
    }

    /// Why nothing is taken any more.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.lock().ended.clone().map_or(Ok(()), Err)
    }

    /// Waits until there is something, or the store is closed (then false). A queue that has ended because the disk failed is still
    /// waited for, until the store is closed.
    pub(crate) async fn wait(&self) -> bool {
        loop {
            {
                let state = self.lock();
                if !state.jobs.is_empty() {
                    return true;
                }
                if matches!(state.ended, Some(StoreError::Closed)) {
                    return false;
                }
            }
            self.arrived.notified().await;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Takes what is waiting, in order: all of it, up to so many rows but at least one job.
    pub(crate) fn take(&self, max_rows: usize) -> Vec<Job> {
        let jobs = &mut self.lock().jobs;
        let mut rows = 0;
        let fitting = jobs.iter().take_while(|job| {
            rows += job.change.rows();
            rows <= max_rows
        });
        let count = fitting.count().max(1).min(jobs.len());
        if count == jobs.len() { std::mem::take(jobs) } else { jobs.drain(..count).collect() }
    }

    /// Takes what is waiting of one tenant. The caller holds the tenant's lock.
    pub(crate) fn take_of(&self, tenant: Tenant) -> Vec<Job> {
        self.lock().jobs.extract_if(.., |job| job.concerns(tenant)).collect()
    }

    /// Takes nothing from now on; what is waiting stays.
    pub(crate) fn end(&self, reason: StoreError) {
        let mut state = self.lock();
        if !matches!(state.ended, Some(StoreError::Closed)) {
            state.ended = Some(reason);
        }
        drop(state);
        self.arrived.notify_one();
    }
}
