use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use crate::Event;

/// Why a watch ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The watcher was too slow; list again.
    #[error("the watch fell behind and was closed")]
    Lagged,
    /// The start is older than the history that is kept; list again.
    #[error("the requested history has been compacted")]
    Compacted,
    /// The tenant was deleted, or the store closes.
    #[error("the watch was closed")]
    Closed,
}

/// A stream of committed changes, in order. `next` is cancel-safe. Dropping it ends the watch.
pub struct Watch {
    receiver: Box<dyn WatchSource>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// Where a [`Watch`] gets its events from; implemented by backends.
pub trait WatchSource: Send {
    /// The next batch: never empty. There are many watches, and each change wakes most of them: what waits is kept here from one
    /// batch to the next, not made anew for each.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Arc<Event>>, WatchError>>;
}

impl Watch {
    /// Wraps a backend's source.
    pub fn new(receiver: Box<dyn WatchSource>) -> Self {
        Self { receiver }
    }

    /// Waits for the next changes; at least one, and whatever else is ready.
    ///
    /// # Errors
    /// [`WatchError`] when the watch is over; calling again returns the same.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, WatchError> {
        poll_fn(|cx| self.receiver.poll_next(cx)).await
    }
}
