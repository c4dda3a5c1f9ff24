//! What happens once in a while: compaction by age, and giving back the memory of the idle. One task for all tenants.

use std::sync::{Arc, atomic::Ordering};

use jiff::Timestamp;

use crate::{
    Revision, StoreError,
    engine::{
        Shared,
        cell::{Cell, State},
        durable::Change,
        options::StoreOptions,
    },
};

/// Runs until it is dropped.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(shared.options.maintenance);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = pass(&shared).await {
            tracing::warn!(%error, "history could not be compacted; trying again later");
        }
    }
}

/// One pass over all tenants.
pub(crate) async fn pass(shared: &Shared) -> Result<(), StoreError> {
    let now = shared.options.clock.now();
    // Whatever was last used before the previous pass has been idle long enough.
    let idle_since = shared.last_pass.swap(shared.tick(), Ordering::Relaxed);
    let mut written = Vec::new();
    let mut cached = 0;
    for cell in shared.registry.all() {
        let mut state = cell.lock();
        state.evict(idle_since);
        cached += state.resources.values().map(|r| r.bytes()).sum::<usize>();
        state.watchers.prune();
        if let Some(revision) = due(&mut state, now, &shared.options) {
            written.push(compact(shared, &cell, &mut state, revision)?);
        }
    }
    shared.cached.store(cached, Ordering::Relaxed);
    trim(shared);
    for acknowledgement in written {
        acknowledgement.await.map_err(|_| StoreError::Closed)??;
    }
    Ok(())
}

/// Queues a compaction. From now on nobody reads what is older, even while its rows are still there.
pub(crate) fn compact(
    shared: &Shared,
    cell: &Arc<Cell>,
    state: &mut State,
    revision: Revision,
) -> Result<crate::engine::queue::Acknowledgement, StoreError> {
    state.floor = state.floor.max(revision);
    shared.queue.push(Some(cell.clone()), Change::Compact { tenant: cell.tenant, revision })
}

/// The revision that history is to be compacted to, if any.
fn due(state: &mut State, now: Timestamp, options: &StoreOptions) -> Option<Revision> {
    if state.head > state.marks.back().map_or(state.floor, |m| m.1) {
        state.marks.push_back((now, state.head));
    }
    let mut target = state.head.saturating_sub(options.history_rows);
    while let Some((at, revision)) = state.marks.front().copied() {
        if now.duration_since(at)
            < jiff::SignedDuration::try_from(options.history_age).unwrap_or(jiff::SignedDuration::MAX)
        {
            break;
        }
        target = target.max(revision);
        state.marks.pop_front();
    }
    if state.marks.is_empty() {
        state.marks.shrink_to_fit();
    }
    (target > state.floor).then_some(target)
}

/// The most recently used resources always stay, so that a transaction over several finds them all in memory.
const ALWAYS_KEPT: usize = 64;

/// Forgets the least recently used resources until the rest fits the budget well.
pub(crate) fn trim(shared: &Shared) {
    let budget = shared.options.cache_bytes;
    if shared.cached.load(Ordering::Relaxed) <= budget {
        return;
    }
    let cells = shared.registry.all();
    let mut used = Vec::new();
    for cell in &cells {
        used.extend(cell.lock().resources.values().map(|r| (r.used, r.bytes())));
    }
    let mut total: usize = used.iter().map(|(_, bytes)| bytes).sum();
    if total > budget {
        used.sort_unstable();
        used.truncate(used.len().saturating_sub(ALWAYS_KEPT));
        // A tenth below, so that not every load trims.
        let (mut left, mut until) = (total, 0);
        for (tick, bytes) in used {
            if left <= budget - budget / 10 {
                break;
            }
            left -= bytes;
            until = tick;
        }
        total -= cells.iter().map(|c| c.lock().evict(until)).sum::<usize>();
    }
    shared.cached.store(total, Ordering::Relaxed);
}
