use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::{FutureExt, future::BoxFuture};

use crate::{
    Event, Revision, Scope, StoreError, WatchError, WatchSource,
    engine::{cell::Cell, durable::Reader},
    fanout::Subscription,
};

/// Rows read from the database at a time.
const REPLAY: usize = 500;

/// A watch: first what happened between its start and its registration, then what is delivered live.
pub(crate) struct Source {
    pub(crate) scope: Scope,
    /// Of its resource only the newest revision of a document is kept.
    pub(crate) newest_only: bool,
    /// From memory, when the ring reached back far enough.
    pub(crate) replay: Vec<Arc<Event>>,
    /// Else from the database: up to here it has been read..
    pub(crate) position: Revision,
    /// ..and up to here it must be: the newest revision when the watch was registered.
    pub(crate) until: Revision,
    /// What is being read of it.
    pub(crate) reading: Option<BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>>>,
    pub(crate) live: Subscription,
    pub(crate) cell: Arc<Cell>,
    pub(crate) reader: Arc<dyn Reader>,
}

impl WatchSource for Source {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Arc<Event>>, WatchError>> {
        if !self.replay.is_empty() {
            return Poll::Ready(Ok(std::mem::take(&mut self.replay)));
        }
        while self.position < self.until {
            let reading = self.reading.take().unwrap_or_else(|| self.read());
            let read = ready!(self.reading.insert(reading).poll_unpin(cx));
            self.reading = None;
            // Rows are removed only after the floor was raised or the watch ended: what was read before that is whole.
            if let Some(end) = self.live.ended() {
                return Poll::Ready(Err(end));
            }
            if self.cell.lock().floor > self.position {
                self.live.end(WatchError::Compacted);
                return Poll::Ready(Err(WatchError::Compacted));
            }
            let events = match read {
                Ok(events) if self.newest_only => events.into_iter().map(without_previous).collect(),
                Ok(events) => events,
                Err(error) => {
                    tracing::warn!(tenant = self.cell.tenant.0, %error, "a watch was closed because its history could not be read");
                    self.live.end(WatchError::Closed);
                    return Poll::Ready(Err(WatchError::Closed));
                }
            };
            self.position = match events.last() {
                Some(last) if events.len() == REPLAY => last.revision,
                _ => self.until,
            };
            if !events.is_empty() {
                return Poll::Ready(Ok(events));
            }
        }
        self.live.poll_next(cx)
    }
}

impl Source {
    /// Reads what comes next of the history.
    fn read(&self) -> BoxFuture<'static, Result<Vec<Arc<Event>>, StoreError>> {
        let (reader, tenant, scope) = (self.reader.clone(), self.cell.tenant, self.scope.clone());
        let (position, until) = (self.position, self.until);
        async move { reader.changes(tenant, &scope, position, until, REPLAY).await }.boxed()
    }
}

/// A change whose document before is not kept: as if nothing but the revision had changed.
fn without_previous(event: Arc<Event>) -> Arc<Event> {
    match (&event.value, &event.previous) {
        (Some(value), Some((revision, before))) if before.is_empty() => {
            let previous = Some((*revision, value.clone()));
            Arc::new(Event { previous, ..Event::clone(&event) })
        }
        _ => event,
    }
}
