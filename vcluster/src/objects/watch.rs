//! Watches: changes of what a selection sees, from a revision on.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration, vec};

use futures::FutureExt;
use serde_json::Value;
use tokio::time::{Instant, Sleep};
use vctl_machinery::status::ApiError;
use vctl_runtime::tasks::Stopping;
use vctl_store::{Event, Key, Revision, Scope, StoreError, Watch, WatchError};

use super::{
    Call, Target,
    list::{At, Found, ListQuery, Selection},
};
use crate::{
    document::{self, Layout},
    storage,
    views::{OpenWatch, Side},
};

/// How often a quiet watch says how far it has come, when asked to.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// A bookmark is also sent this long before a watch ends.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// So much is handed on together.
const BATCH: usize = 128;
/// A busy watch waits this long after its last batch, so that what is written meanwhile goes in one piece.
const BATCH_EVERY: Duration = Duration::from_millis(5);

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Strictly after this revision.
    After(Revision),
    /// After the newest revision; nothing of the state is shown.
    Now,
    /// With the state, not older than this revision.
    State(Revision),
}

/// What a watch request asks for.
#[derive(Debug, Clone)]
pub(crate) struct WatchQuery {
    pub selection: Selection,
    pub start: Start,
    pub bookmarks: bool,
    pub timeout: Duration,
}

/// One event of a watch.
#[derive(Debug)]
pub(crate) enum WatchItem {
    /// `ADDED`: part of the state that the watch begins with.
    Initial(Found),
    /// `ADDED`, `MODIFIED` or `DELETED`, by a change. A deleted object is shown as it was before, with the revision of the change.
    Change(&'static str, Arc<Event>),
    /// Everything up to the revision has been sent.
    Bookmark {
        revision: Revision,
        /// The state has been sent, and this is the first of it (`k8s.io/initial-events-end`).
        ends_state: bool,
    },
    /// The watch is over.
    Error(ApiError),
}

/// How a watch looks at documents.
pub(crate) struct Lens {
    /// On whose behalf.
    pub call: Arc<Call>,
    /// What is watched.
    pub target: Target,
    /// How documents are shown as they are stored, if they are.
    pub layout: Option<Layout>,
    /// Tells this way of reading documents from others: version, and schema of a custom resource.
    pub reading: Arc<str>,
    selection: Selection,
}

/// An open watch. It ends by itself at its timeout, when the cluster is deleted or the process stops.
pub(crate) struct OpenedWatch {
    lens: Arc<Lens>,
    bookmarks: bool,
    watch: Option<Watch>,
    state: vec::IntoIter<Found>,
    /// Newest revision that the client knows of by this watch.
    seen: Revision,
    queue: VecDeque<WatchItem>,
    /// Delivered by the store, and not looked at yet.
    events: VecDeque<Arc<Event>>,
    last_batch: Instant,
    bookmark_at: Instant,
    end: Instant,
    last_bookmark: bool,
    /// Of the earliest of these times. It and the signal to stop are kept while the watch lives: to make them anew for each event would
    /// cost as much as the event.
    timer: Pin<Box<Sleep>>,
    stopping: Stopping,
    /// The cluster's revision when the watch was opened, until the watch is known to be past it: before that, silence may mean that
    /// history is still being read.
    replay_until: Option<Revision>,
    over: bool,
    _open: OpenWatch,
}

/// Opens a watch.
pub(crate) async fn open(call: Arc<Call>, target: Target, query: WatchQuery) -> Result<OpenedWatch, ApiError> {
    let store = call.plane.store();
    let tenant = call.plane.tenant;
    let resource: Arc<str> = target.resource().into();
    let scope = Scope { resource, namespace: (!target.namespace.is_empty()).then(|| target.namespace.as_str().into()) };
    let mut queue = VecDeque::new();
    let mut state = Vec::new();
    let start = match query.start {
        Start::After(revision) => {
            call.reach(revision).await?;
            revision
        }
        Start::Now => store.revision(tenant).await.map_err(storage::error)?,
        Start::State(revision) => {
            let at = if revision == 0 { At::Newest } else { At::NotOlderThan(revision) };
            let list = ListQuery { selection: query.selection.clone(), at, ..ListQuery::default() };
            let page = call.page(&target, &list).await?;
            state = page.items;
            if query.bookmarks {
                queue.push_back(WatchItem::Bookmark { revision: page.revision, ends_state: true });
            }
            page.revision
        }
    };
    let (watch, over) = match store.watch(tenant, scope, start).await {
        Ok(watch) => (Some(watch), false),
        Err(StoreError::Compacted { requested, oldest }) => {
            queue.push_back(WatchItem::Error(too_old(requested, oldest)));
            (None, true)
        }
        Err(e) => return Err(storage::error(e)),
    };
    let registered = store.revision(tenant).await.map_err(storage::error)?;
    let now = Instant::now();
    let descriptor = &target.descriptor;
    let schema = descriptor.definition.as_ref().map_or("", |d| d.id());
    let layout = Layout::of(descriptor);
    let stopping = call.plane.shared.tasks.stopping();
    let reading = format!("{}/{} {schema}", descriptor.group, descriptor.version).into();
    Ok(OpenedWatch {
        replay_until: (start < registered).then_some(registered),
        bookmark_at: now + BOOKMARK_EVERY,
        end: now + query.timeout,
        last_batch: now.checked_sub(BATCH_EVERY).unwrap_or(now),
        _open: call.plane.shared.views.counters.begin(),
        bookmarks: query.bookmarks,
        lens: Arc::new(Lens { call, target, layout, reading, selection: query.selection }),
        watch,
        state: state.into_iter(),
        seen: start,
        queue,
        events: VecDeque::new(),
        last_bookmark: false,
        timer: Box::pin(tokio::time::sleep_until(now)),
        stopping,
        over,
    })
}

fn too_old(requested: Revision, oldest: Revision) -> ApiError {
    ApiError::expired(format!("too old resource version: {requested} ({oldest})"))
}

impl OpenedWatch {
    /// How it looks at documents.
    pub(crate) fn lens(&self) -> &Arc<Lens> {
        &self.lens
    }

    /// Waits for the next events; at least one, and what else is ready. None when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Vec<WatchItem>> {
        let mut batch: Vec<WatchItem> = self.state.by_ref().take(BATCH).map(WatchItem::Initial).collect();
        while batch.len() < BATCH {
            if let Some(item) = self.queue.pop_front() {
                batch.push(item);
            } else if let Some(event) = self.events.pop_front() {
                self.seen = self.seen.max(event.revision);
                match self.lens.item(event).await {
                    Ok(item) => batch.extend(item),
                    Err(e) => {
                        self.over = true;
                        self.events.clear();
                        batch.push(WatchItem::Error(e));
                    }
                }
            } else if self.over || !batch.is_empty() {
                break;
            } else {
                self.wait().await;
            }
        }
        self.last_batch = Instant::now();
        (!batch.is_empty()).then_some(batch)
    }

    /// Waits until the store delivers something, a bookmark is due, or the end.
    async fn wait(&mut self) {
        let now = Instant::now();
        let mut wake = self.end;
        if self.bookmarks {
            if now >= self.bookmark_at {
                self.bookmark_at = now + BOOKMARK_EVERY;
                // No history takes this long to read.
                self.replay_until = None;
                return self.progress().await;
            }
            let last = self.end.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(now);
            if now >= last && !self.last_bookmark {
                self.last_bookmark = true;
                return self.progress().await;
            }
            wake = self.bookmark_at.min(if self.last_bookmark { self.end } else { last });
        }
        let Some(watch) = self.watch.as_mut().filter(|_| now < self.end) else {
            self.over = true;
            return;
        };
        if self.timer.deadline() != wake {
            self.timer.as_mut().reset(wake);
        }
        let batch = tokio::select! {
            biased;
            () = &mut self.stopping => {
                self.over = true;
                return;
            }
            batch = watch.next() => batch,
            () = &mut self.timer => return,
        };
        // Only a watch that has something to send waits: a timer for each that has just sent would wake all of them for nothing.
        let busy = self.last_batch + BATCH_EVERY;
        let mut more = None;
        if batch.is_ok() && Instant::now() < busy {
            tokio::time::sleep_until(busy).await;
            // An end of the watch is told again by the next look.
            more = watch.next().now_or_never().filter(Result::is_ok);
        }
        self.take(batch).await;
        if let Some(more) = more {
            self.take(more).await;
        }
    }

    /// Takes what the store delivers.
    async fn take(&mut self, batch: Result<Vec<Arc<Event>>, WatchError>) {
        match batch {
            Ok(events) => match self.lens.convert(&events).await {
                Ok(()) => self.events.extend(events),
                Err(e) => {
                    self.over = true;
                    self.queue.push_back(WatchItem::Error(e));
                }
            },
            Err(WatchError::Closed) => self.over = true,
            Err(WatchError::Lagged) => {
                // As upstream: the connection ends, and the client goes on from what it has seen, or lists when that is too old.
                self.lens.call.plane.shared.views.counters.fell_behind();
                self.over = true;
            }
            Err(WatchError::Compacted) => {
                self.over = true;
                self.queue.push_back(WatchItem::Error(too_old(self.seen, self.seen + 1)));
            }
        }
    }

    /// Queues a bookmark that says how far this watch has come: as far as the cluster, when nothing before that is left to be
    /// delivered. A client whose kind is quiet can so go on from a recent revision later.
    async fn progress(&mut self) {
        let Some(watch) = self.watch.as_mut() else { return };
        // Read before looking for events: what is committed is published, so an event up to here would be ready.
        let newest = self.lens.call.plane.store().revision(self.lens.call.plane.tenant).await;
        if let Some(batch) = watch.next().now_or_never() {
            self.take(batch).await;
            // They come first; the bookmark is as far as they are.
            if let Some(last) = self.events.back() {
                let revision = last.revision;
                for event in std::mem::take(&mut self.events) {
                    match self.lens.item(event).await {
                        Ok(item) => self.queue.extend(item),
                        Err(e) => {
                            self.over = true;
                            return self.queue.push_back(WatchItem::Error(e));
                        }
                    }
                }
                self.seen = self.seen.max(revision);
            }
        } else if let Ok(newest) = newest
            && self.replay_until.is_none_or(|until| self.seen >= until)
        {
            self.seen = self.seen.max(newest);
        }
        if !self.over {
            self.queue.push_back(WatchItem::Bookmark { revision: self.seen, ends_state: false });
        }
    }
}

impl Lens {
    /// What the selection sees of a change.
    async fn item(&self, event: Arc<Event>) -> Result<Option<WatchItem>, ApiError> {
        let (before, after) = (event.previous.is_some(), event.value.is_some());
        let (before, after) = match self.selection.matches_name(&event.key.namespace, &event.key.name) {
            Some(selected) => (selected && before, selected && after),
            None => (self.selects(&event, Side::Before).await?, self.selects(&event, Side::After).await?),
        };
        Ok(match (before, after) {
            (false, true) => Some(WatchItem::Change("ADDED", event)),
            (true, true) => Some(WatchItem::Change("MODIFIED", event)),
            (true, false) => Some(WatchItem::Change("DELETED", event)),
            (false, false) => None,
        })
    }

    /// Has a webhook convert, where there is one, all documents of events at once: what it answers is kept, so that it is there when each
    /// of them is read.
    async fn convert(&self, events: &[Arc<Event>]) -> Result<(), ApiError> {
        if !self.target.descriptor.custom {
            return Ok(());
        }
        let mut documents: Vec<(&Key, &[u8], Revision)> = Vec::with_capacity(events.len() * 2);
        for event in events {
            documents.extend(event.previous.as_ref().map(|(revision, v)| (&event.key, &**v, *revision)));
            documents.extend(event.value.as_ref().map(|v| (&event.key, &**v, event.revision)));
        }
        self.call.converted(&self.target.descriptor, documents.into_iter()).await.map(drop)
    }

    /// Whether there is a document on a side of the change, and it is selected.
    async fn selects(&self, event: &Event, side: Side) -> Result<bool, ApiError> {
        let document = match side {
            Side::Before => event.previous.as_ref().map(|(revision, value)| (*revision, value)),
            Side::After => event.value.as_ref().map(|value| (event.revision, value)),
        };
        let Some((revision, value)) = document else { return Ok(false) };
        let descriptor = &self.target.descriptor;
        let read = async || -> Result<Value, ApiError> {
            if self.layout.as_ref().is_some_and(|l| l.read(value).is_some()) {
                return document::parse_light(value);
            }
            self.call.read_document(descriptor, &event.key, value, revision).await
        };
        let change = (self.call.plane.tenant, event.revision);
        let views = &self.call.plane.shared.views;
        let object = views.object(change, &self.reading, side, value.len(), read).await?;
        Ok(self.selection.matches(descriptor, &object))
    }
}
