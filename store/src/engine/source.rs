use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};

use crate::{
    Event, Revision, Scope, WatchError, WatchSource,
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
    pub(crate) live: Subscription,
    pub(crate) cell: Arc<Cell>,
    pub(crate) reader: Arc<dyn Reader>,
}

impl Source {
    async fn advance(&mut self) -> Result<Vec<Arc<Event>>, WatchError> {
        if !self.replay.is_empty() {
            return Ok(std::mem::take(&mut self.replay));
        }
        while self.position < self.until {
            let read = self.reader.changes(self.cell.tenant, &self.scope, self.position, self.until, REPLAY).await;
            // Rows are removed only after the floor was raised or the watch ended: what was read before that is whole.
            if let Some(end) = self.live.ended() {
                return Err(end);
            }
            if self.cell.lock().floor > self.position {
                self.live.end(WatchError::Compacted);
                return Err(WatchError::Compacted);
            }
            let events = match read {
                Ok(events) if self.newest_only => events.into_iter().map(without_previous).collect(),
                Ok(events) => events,
                Err(error) => {
                    tracing::warn!(tenant = self.cell.tenant.0, %error, "a watch was closed because its history could not be read");
                    self.live.end(WatchError::Closed);
                    return Err(WatchError::Closed);
                }
            };
            self.position = match events.last() {
                Some(last) if events.len() == REPLAY => last.revision,
                _ => self.until,
            };
            if !events.is_empty() {
                return Ok(events);
            }
        }
        self.live.next().await
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

impl WatchSource for Source {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Event>>, WatchError>> {
        self.advance().boxed()
    }
}
