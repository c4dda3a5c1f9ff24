use std::sync::{Mutex, PoisonError};

use tokio::sync::broadcast::{self, error::RecvError};

use crate::{Committed, WatchError};

/// A stream of everything that is committed, of all tenants. It never blocks a writer: a reader that falls too far behind gets
/// [`WatchError::Lagged`] once and must look at everything anew; then it continues.
#[async_trait::async_trait]
pub trait Feed: Send {
    /// Waits for the next commit.
    ///
    /// # Errors
    /// [`WatchError::Lagged`] once after commits were missed, [`WatchError::Closed`] when the store closes.
    async fn next(&mut self) -> Result<Committed, WatchError>;
}

/// So many commits are kept for a slow reader of a feed.
pub(crate) const DEFAULT_FEED_CAPACITY: usize = 8192;

/// The sending side of all feeds of a store.
pub(crate) struct Feeds(Mutex<Option<broadcast::Sender<Committed>>>);

impl Feeds {
    /// Feeds that remember so many commits for a slow reader.
    pub(crate) fn new(capacity: usize) -> Self {
        Self(Mutex::new(Some(broadcast::Sender::new(capacity.max(1)))))
    }

    pub(crate) fn subscribe(&self) -> Box<dyn Feed> {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // After the end: a receiver whose sender is gone, which says Closed.
        Box::new(Receiver(sender.as_ref().map_or_else(|| broadcast::channel(1).1, broadcast::Sender::subscribe)))
    }

    pub(crate) fn send(&self, committed: Committed) {
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // The only error is that nobody listens.
            let _ = sender.send(committed);
        }
    }

    pub(crate) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

struct Receiver(broadcast::Receiver<Committed>);

#[async_trait::async_trait]
impl Feed for Receiver {
    async fn next(&mut self) -> Result<Committed, WatchError> {
        self.0.recv().await.map_err(|e| match e {
            RecvError::Lagged(_) => WatchError::Lagged,
            RecvError::Closed => WatchError::Closed,
        })
    }
}
