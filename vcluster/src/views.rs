//! What several watchers see of one change, made once: frames by what they look like, and objects for selectors.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use serde_json::Value;
use vctl_machinery::status::ApiError;
use vctl_store::{Revision, Tenant};

/// Bytes that are kept of changes that all watchers have probably seen by now, for those that are slower.
const MAX_BYTES: usize = 8 << 20;
/// Changes of which something is kept.
const MAX_CHANGES: usize = 4096;
/// What a parsed object takes in memory for each byte of its document, about.
const PARSED: usize = 6;

/// What the watches of a process have done since it began. Counters only grow.
#[derive(Debug, Default)]
pub struct WatchCounters {
    opened: AtomicU64,
    ended: AtomicU64,
    frames: AtomicU64,
    encodings: AtomicU64,
    parses: AtomicU64,
    lagged: AtomicU64,
}

impl WatchCounters {
    /// Watches that were opened.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Watches that are open now.
    pub fn open(&self) -> u64 {
        self.opened().saturating_sub(self.ended.load(Ordering::Relaxed))
    }

    /// Changes that were sent: one for each watcher that saw it.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Changes that were encoded: one for each form in which anybody saw it, however many did.
    pub fn encodings(&self) -> u64 {
        self.encodings.load(Ordering::Relaxed)
    }

    /// Documents that were parsed because a selector had to look at them.
    pub fn parses(&self) -> u64 {
        self.parses.load(Ordering::Relaxed)
    }

    /// Watches that were ended because their clients read too slowly.
    pub fn lagged(&self) -> u64 {
        self.lagged.load(Ordering::Relaxed)
    }

    pub(crate) fn sent(&self) {
        self.frames.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fell_behind(&self) {
        self.lagged.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a watch as open as long as what is returned lives.
    pub(crate) fn begin(self: &Arc<Self>) -> OpenWatch {
        self.opened.fetch_add(1, Ordering::Relaxed);
        OpenWatch(self.clone())
    }
}

/// A watch that is open.
#[derive(Debug)]
pub(crate) struct OpenWatch(Arc<WatchCounters>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// The views of the newest changes of all clusters.
#[derive(Debug, Default)]
pub(crate) struct Views {
    state: Mutex<State>,
    pub(crate) counters: Arc<WatchCounters>,
}

type Change = (Tenant, Revision);

#[derive(Debug, Default)]
struct State {
    changes: HashMap<Change, Arc<Seen>>,
    /// Oldest first.
    order: VecDeque<Change>,
    bytes: usize,
    /// The names of views in use.
    names: HashSet<Arc<str>>,
}

/// A frame that was made.
#[derive(Debug)]
struct Frame {
    view: Arc<str>,
    kind: &'static str,
    bytes: Bytes,
}

/// A document that was parsed.
#[derive(Debug)]
struct Parsed {
    reading: Arc<str>,
    side: Side,
    object: Arc<Value>,
}

/// The views of one change.
#[derive(Debug, Default)]
struct Seen {
    frames: Mutex<Vec<Frame>>,
    objects: Mutex<Vec<Parsed>>,
    /// Held while a view is made, so that it is made once.
    making: tokio::sync::Mutex<()>,
    /// What it takes in memory, about; changed under the lock of all.
    bytes: AtomicUsize,
}

/// Which document of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn frame(&self, view: &Arc<str>, kind: &str) -> Option<Bytes> {
        lock(&self.frames).iter().find(|f| f.kind == kind && f.view == *view).map(|f| f.bytes.clone())
    }

    fn object(&self, reading: &Arc<str>, side: Side) -> Option<Arc<Value>> {
        lock(&self.objects).iter().find(|p| p.side == side && p.reading == *reading).map(|p| p.object.clone())
    }
}

impl Views {
    /// The one name of a view: watches that share it compare its place, not its text.
    pub(crate) fn named(&self, view: &str) -> Arc<str> {
        let names = &mut lock(&self.state).names;
        if let Some(name) = names.get(view) {
            return name.clone();
        }
        if names.len() == names.capacity() {
            // Before it grows: those that no watch uses go.
            names.retain(|name| Arc::strong_count(name) > 1);
        }
        let name: Arc<str> = view.into();
        names.insert(name.clone());
        name
    }

    /// The frame of an event (`ADDED`, ..) of this change as a view shows it; `encode` makes it when nobody has yet.
    pub(crate) async fn frame<F>(
        &self,
        change: Change,
        view: &Arc<str>,
        kind: &'static str,
        encode: F,
    ) -> Result<Bytes, ApiError>
    where
        F: AsyncFnOnce() -> Result<Vec<u8>, ApiError>,
    {
        let seen = self.seen(change);
        if let Some(frame) = seen.frame(view, kind) {
            return Ok(frame);
        }
        let _once = seen.making.lock().await;
        if let Some(frame) = seen.frame(view, kind) {
            return Ok(frame);
        }
        self.counters.encodings.fetch_add(1, Ordering::Relaxed);
        let frame = Bytes::from(encode().await?);
        lock(&seen.frames).push(Frame { view: view.clone(), kind, bytes: frame.clone() });
        self.grown(change, frame.len());
        Ok(frame)
    }

    /// A document of this change as selectors read it; `reading` tells ways of reading it apart, `len` is the document's length.
    pub(crate) async fn object<F>(
        &self,
        change: Change,
        reading: &Arc<str>,
        side: Side,
        len: usize,
        parse: F,
    ) -> Result<Arc<Value>, ApiError>
    where
        F: AsyncFnOnce() -> Result<Value, ApiError>,
    {
        let seen = self.seen(change);
        if let Some(object) = seen.object(reading, side) {
            return Ok(object);
        }
        let _once = seen.making.lock().await;
        if let Some(object) = seen.object(reading, side) {
            return Ok(object);
        }
        self.counters.parses.fetch_add(1, Ordering::Relaxed);
        let object = Arc::new(parse().await?);
        lock(&seen.objects).push(Parsed { reading: reading.clone(), side, object: object.clone() });
        self.grown(change, len * PARSED);
        Ok(object)
    }

    fn seen(&self, change: Change) -> Arc<Seen> {
        let mut state = lock(&self.state);
        if let Some(seen) = state.changes.get(&change) {
            return seen.clone();
        }
        let seen = Arc::new(Seen::default());
        state.changes.insert(change, seen.clone());
        state.order.push_back(change);
        if state.order.len() > MAX_CHANGES {
            state.drop_oldest();
        }
        seen
    }

    /// Something was added to a change.
    fn grown(&self, change: Change, bytes: usize) {
        let mut state = lock(&self.state);
        // What was dropped meanwhile is not kept, and so not counted.
        if let Some(seen) = state.changes.get(&change) {
            seen.bytes.fetch_add(bytes, Ordering::Relaxed);
            state.bytes += bytes;
            while state.bytes > MAX_BYTES && state.order.len() > 1 {
                state.drop_oldest();
            }
        }
    }

    /// Gives the memory back; watchers that come later make anew what they need.
    pub(crate) fn clear(&self) {
        *lock(&self.state) = State::default();
    }
}

impl State {
    fn drop_oldest(&mut self) {
        let Some(seen) = self.order.pop_front().and_then(|change| self.changes.remove(&change)) else { return };
        self.bytes -= seen.bytes.load(Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn frame(views: &Views, revision: Revision, view: &str, len: usize) -> Bytes {
        views.frame((Tenant(1), revision), &view.into(), "ADDED", async || Ok(vec![b'x'; len])).await.unwrap()
    }

    #[tokio::test]
    async fn a_view_is_made_once() {
        let views = Views::default();
        let all = (0..100).map(|_| frame(&views, 1, "json", 10));
        assert!(futures::future::join_all(all).await.iter().all(|f| f.len() == 10));
        assert_eq!(views.counters.encodings(), 1);
        frame(&views, 1, "table", 10).await;
        frame(&views, 2, "json", 10).await;
        assert_eq!(views.counters.encodings(), 3, "another form, another change");
        let failed = views.frame((Tenant(1), 3), &"json".into(), "ADDED", async || Err(ApiError::internal("no"))).await;
        assert!(failed.is_err());
        assert_eq!(frame(&views, 3, "json", 5).await.len(), 5, "a failure is not kept");
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let views = Views::default();
        let kept = views.named("json");
        for n in 0..1000 {
            views.named(&n.to_string());
        }
        assert!(Arc::ptr_eq(&kept, &views.named("json")), "a name in use is the one of its view");
        assert!(lock(&views.state).names.len() < 16, "the others went");
        for revision in 0..100 {
            frame(&views, revision, "json", 1 << 20).await;
            assert!(lock(&views.state).bytes <= MAX_BYTES);
        }
        assert!(lock(&views.state).changes.len() <= 8);
        for revision in 1000..1000 + 2 * MAX_CHANGES as u64 {
            frame(&views, revision, "json", 1).await;
        }
        assert!(lock(&views.state).changes.len() <= MAX_CHANGES);
        // More than everything at once: it is made and sent all the same.
        assert_eq!(frame(&views, 1, "json", 2 * MAX_BYTES).await.len(), 2 * MAX_BYTES);
        views.clear();
        assert_eq!(lock(&views.state).bytes, 0);
        let value = views.object((Tenant(1), 1), &"v1".into(), Side::After, 9, async || Ok(Value::Null)).await.unwrap();
        assert_eq!((&*value, views.counters.parses()), (&Value::Null, 1));
    }
}
