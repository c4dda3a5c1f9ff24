//! Live delivery: what is committed is put into the bounded buffer of every watch whose scope it is in. Backend-neutral.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;

use crate::{Event, Scope, WatchError};

/// So many events wait for a watcher before it is closed as lagging.
pub(crate) const DEFAULT_WATCH_BUFFER: usize = 8192;
/// Or so many bytes of documents; one event always fits.
pub(crate) const WATCH_BUFFER_BYTES: usize = 16 << 20;

/// The watches of one tenant, by resource, so that a commit touches only those it concerns.
#[derive(Default)]
pub(crate) struct Watchers {
    by_resource: HashMap<Arc<str>, Vec<(Scope, Arc<Buffer>)>>,
}

impl Watchers {
    /// Adds a watch; it gets whatever is published from now on.
    pub(crate) fn subscribe(&mut self, scope: Scope, capacity: usize) -> Subscription {
        let buffer = Arc::new(Buffer { state: Mutex::default(), capacity });
        let list = self.by_resource.entry(scope.resource.clone()).or_default();
        if list.len() == list.capacity() {
            // Before it grows: those whose watch was dropped go. Amortised, so that quiet resources do not pile them up.
            list.retain(|(_, buffer)| buffer.is_watched());
        }
        list.push((scope, buffer.clone()));
        Subscription(buffer)
    }

    /// Hands committed events to the watches that they concern.
    pub(crate) fn publish(&mut self, events: &[Arc<Event>]) {
        for event in events {
            let Some(list) = self.by_resource.get_mut(&event.key.resource) else { continue };
            let mut ended = false;
            for (scope, buffer) in list.iter() {
                if scope.contains(&event.key) {
                    ended |= !buffer.push(event);
                }
            }
            if ended {
                list.retain(|(_, buffer)| buffer.is_watched());
            }
        }
    }

    /// Ends all watches; what they have not read yet they still get.
    pub(crate) fn close(&mut self) {
        for (_, buffer) in self.by_resource.drain().flat_map(|(_, list)| list) {
            buffer.end(WatchError::Closed);
        }
    }

    /// Whether there is no watch any more; forgets dropped ones.
    pub(crate) fn prune(&mut self) -> bool {
        self.by_resource.retain(|_, list| {
            list.retain(|(_, buffer)| buffer.is_watched());
            !list.is_empty()
        });
        self.by_resource.is_empty()
    }
}

struct Buffer {
    state: Mutex<State>,
    capacity: usize,
}

#[derive(Default)]
struct State {
    events: Vec<Arc<Event>>,
    /// Of their documents.
    bytes: usize,
    end: Option<WatchError>,
    /// The reader, when it waits.
    reader: Option<Waker>,
}

impl Buffer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False when the watch is over.
    fn push(self: &Arc<Self>, event: &Arc<Event>) -> bool {
        if !self.is_watched() {
            return false;
        }
        let mut state = self.lock();
        if state.end.is_some() {
            return false;
        }
        let bytes = event.value.as_ref().map_or(0, Bytes::len) + event.previous.as_ref().map_or(0, |(_, v)| v.len());
        let fits = state.events.len() < self.capacity
            && (state.events.is_empty() || state.bytes + bytes <= WATCH_BUFFER_BYTES);
        if fits {
            state.bytes += bytes;
            state.events.push(event.clone());
        } else {
            // It has to list again anyway: what it has not read is not worth the memory.
            state.events = Vec::new();
            state.end = Some(WatchError::Lagged);
        }
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        fits
    }

    fn end(&self, reason: WatchError) {
        let mut state = self.lock();
        state.end.get_or_insert(reason);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn is_watched(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }
}

/// The reading side of one watch.
pub(crate) struct Subscription(Arc<Buffer>);

impl Subscription {
    /// The events that have come; never an empty batch.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Arc<Event>>, WatchError>> {
        let mut state = self.0.lock();
        if !state.events.is_empty() {
            state.bytes = 0;
            return Poll::Ready(Ok(std::mem::take(&mut state.events)));
        }
        if let Some(end) = &state.end {
            return Poll::Ready(Err(end.clone()));
        }
        match &mut state.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// The watch is over for a reason of the reader's.
    pub(crate) fn end(&mut self, reason: WatchError) {
        let mut state = self.0.lock();
        state.events = Vec::new();
        state.end.get_or_insert(reason);
    }

    /// Whether it has been ended already.
    pub(crate) fn ended(&self) -> Option<WatchError> {
        self.0.lock().end.clone()
    }
}
