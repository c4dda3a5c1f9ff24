//! Requests, grants and roles that come to their end, and what was approved and is to be carried out. The times come of the requests' own
//! documents; in memory there is one ordered set for all of them. That a role has ended counts without this: who asks is told by the clock.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::sync::Semaphore;
use vctl_api::rest::{ApprovalKind, ApprovalState};
use vctl_runtime::tasks::Tasks;
use vctl_store::Expect;

use super::{
    Approvals,
    deciding::{close, ended},
    documents::ApprovalDoc,
    is_open,
};
use crate::{
    documents::{Stored, decode, remove},
    error::Error,
    timetable::{self, Timetable},
};

/// Pause after the store has failed, and before something is tried again that failed by it.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// Carried out at a time: one that waits for a resource that does not answer holds up no other.
const PARALLEL: usize = 4;
/// Requests that have come to their end and are kept. The audit trail keeps what became of the others.
const KEEP: usize = 2000;

/// When something is due.
fn due(doc: &ApprovalDoc) -> Option<Timestamp> {
    match doc.state {
        ApprovalState::Pending => doc.expires_at,
        ApprovalState::Approved => {
            let next = doc.next_try.unwrap_or(Timestamp::MIN);
            Some(doc.granted_until.map_or(next, |until| next.min(until)))
        }
        ApprovalState::Active => doc.granted_until,
        _ => None,
    }
}

impl Approvals {
    /// Watches the times of all requests.
    pub(crate) fn start(&self, tasks: &Tasks) {
        let (this, inner) = (self.clone(), tasks.clone());
        tasks.spawn_until_stopped("approvals", async move {
            loop {
                if let Err(error) = this.follow(&inner).await {
                    if this.environments.documents.is_closed().await {
                        return;
                    }
                    tracing::error!(%error, "requests for approval cannot be read; trying again");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        });
    }

    /// Lists, then follows; returns when it has to list again.
    async fn follow(&self, tasks: &Tasks) -> Result<(), Error> {
        let documents = &self.environments.documents;
        let (all, revision) = documents.list::<ApprovalDoc>().await?;
        self.forget_old(&all).await?;
        let mut watch = documents.watch::<ApprovalDoc>(revision).await?;
        let free = Arc::new(Semaphore::new(PARALLEL));
        let mut times = Timetable::default();
        let mut closed = 0;
        for stored in all {
            times.set(&stored.value.id, due(&stored.value));
        }
        loop {
            let now = self.now();
            while let Some(id) = times.due(now) {
                // Its document changes by what is done now: that sets the next time. If it does not, this does.
                times.set(&id, now.checked_add(jiff::SignedDuration::from_mins(1)).ok());
                let (this, free) = (self.clone(), free.clone());
                tasks.spawn_until_stopped("approval", async move {
                    // It is never closed.
                    let _turn = free.acquire_owned().await;
                    if let Err(error) = this.run(&id).await {
                        tracing::warn!(request = id, %error, "what is due of a request could not be done; trying again");
                    }
                });
            }
            tokio::select! {
                events = watch.next() => {
                    // Too slow, or history is gone: the list tells the rest.
                    let Ok(events) = events else { return Ok(()) };
                    for event in events {
                        let doc = event.value.as_ref().map(decode::<ApprovalDoc>).transpose()?;
                        closed += usize::from(doc.as_ref().is_some_and(|doc| !is_open(doc.state)));
                        times.set(&event.key.name, doc.as_ref().and_then(due));
                    }
                }
                () = timetable::wait(times.pause(now)) => {}
            }
            if closed > KEEP / 4 {
                // The list forgets what is old.
                return Ok(());
            }
        }
    }

    /// Does what is due of a request.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn run(&self, id: &str) -> Result<(), Error> {
        let stored = self.stored(id).await?;
        let over = |at: Option<Timestamp>| at.is_some_and(|at| at <= self.now());
        match stored.value.state {
            ApprovalState::Pending if over(stored.value.expires_at) => self.expire(stored).await,
            ApprovalState::Approved => self.carry_out(id).await,
            ApprovalState::Active if over(stored.value.granted_until) => {
                let Stored { value: mut doc, revision, .. } = stored;
                let grant = self.forget_grant(id).await?;
                close(&mut doc, ApprovalState::Ended, self.now());
                let event = ended(doc.kind);
                self.happened(revision, &doc, "approval.end", event, grant).await
            }
            _ => Ok(()),
        }
    }

    /// Nobody has answered in time, or it could not be carried out in time.
    pub(super) async fn expire(&self, stored: Stored<ApprovalDoc>) -> Result<(), Error> {
        let Stored { value: mut doc, revision, .. } = stored;
        let secrets = self.forget_secrets(&doc.id).await?;
        if doc.state == ApprovalState::Pending {
            "nobody has answered in time".clone_into(&mut doc.message);
        }
        close(&mut doc, ApprovalState::Expired, self.now());
        self.happened(revision, &doc, "approval.expire", "approval.expired", secrets).await
    }

    /// Removes the oldest requests that have come to their end beyond those that are kept; what is to be reviewed stays.
    async fn forget_old(&self, all: &[Stored<ApprovalDoc>]) -> Result<(), Error> {
        let unreviewed = |doc: &ApprovalDoc| doc.kind == ApprovalKind::BreakGlass && doc.review.is_none();
        let over: Vec<_> = all.iter().filter(|s| !is_open(s.value.state) && !unreviewed(&s.value)).collect();
        let surplus = over.len().saturating_sub(KEEP);
        let old = over.iter().take(surplus);
        let writes: Vec<_> = old.map(|s| remove::<ApprovalDoc>(&s.value.id, Expect::Revision(s.revision))).collect();
        if !writes.is_empty() {
            self.environments.documents.transact(writes).await?;
        }
        Ok(())
    }
}
