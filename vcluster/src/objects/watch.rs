//! Watches: changes of what a selection sees, from a revision on.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, Stream, stream};
use serde_json::{Value, json};
use tokio::time::Instant;
use vctl_machinery::{catalog::Descriptor, status::ApiError};
use vctl_store::{Event, Key, Revision, Scope, StoreError, Watch, WatchError};

use super::{
    Call, Target,
    list::{At, ListQuery, Selection},
};
use crate::{document::set_meta, storage};

/// How often a quiet watch says how far it has come, when asked to.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// A bookmark is also sent this long before a watch ends.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// What a watch request asks for.
#[derive(Debug, Clone)]
pub(crate) struct WatchQuery {
    pub selection: Selection,
    /// Where to start: none shows the state first.
    pub from: Option<Revision>,
    /// State first, then a bookmark that says so (`sendInitialEvents`), not older than `from`.
    pub initial: bool,
    pub bookmarks: bool,
    pub timeout: Duration,
}

/// An object before and after a change.
type Pair = (Option<Value>, Option<Value>);

/// One event of a watch.
#[derive(Debug)]
pub(crate) enum WatchItem {
    /// `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK` with its object.
    Event(&'static str, Value),
    /// The watch is over.
    Error(ApiError),
}

struct State {
    call: Arc<Call>,
    target: Target,
    query: WatchQuery,
    watch: Watch,
    /// Newest revision that the client knows of by this watch.
    seen: Revision,
    queue: std::collections::VecDeque<WatchItem>,
    bookmark_at: Instant,
    end: Instant,
    last_bookmark: bool,
    /// The cluster's revision when the watch was opened, until the watch is known to be past it: before that, silence may mean that
    /// history is still being read.
    replay_until: Option<Revision>,
    over: bool,
}

/// Opens a watch. The stream ends by itself at its timeout, when the cluster is deleted or the process stops.
pub(crate) async fn open(
    call: Arc<Call>,
    target: Target,
    query: WatchQuery,
) -> Result<impl Stream<Item = WatchItem> + Send, ApiError> {
    let mut queue = std::collections::VecDeque::new();
    let resource: Arc<str> = target.resource().into();
    let scope = Scope { resource, namespace: (!target.namespace.is_empty()).then(|| target.namespace.as_str().into()) };
    let start = match query.from {
        Some(revision) if !query.initial => {
            call.reach(revision).await?;
            revision
        }
        from => {
            let at = from.map_or(At::Newest, At::NotOlderThan);
            let page = call
                .list(&target, &ListQuery { selection: query.selection.clone(), at, ..ListQuery::default() })
                .await?;
            queue.extend(page.items.into_iter().map(|o| WatchItem::Event("ADDED", o)));
            if query.initial && query.bookmarks {
                let mut bookmark = bookmark(&target, page.revision);
                bookmark["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
                queue.push_back(WatchItem::Event("BOOKMARK", bookmark));
            }
            page.revision
        }
    };
    let watch = match call.plane.store().watch(call.plane.tenant, scope, start).await {
        Ok(watch) => watch,
        Err(StoreError::Compacted { requested, oldest }) => {
            return Ok(stream::iter([WatchItem::Error(too_old(requested, oldest))]).left());
        }
        Err(e) => return Err(storage::error(e)),
    };
    let registered = call.plane.store().revision(call.plane.tenant).await.map_err(storage::error)?;
    let now = Instant::now();
    let end = now + query.timeout;
    let replay_until = (start < registered).then_some(registered);
    let state = State {
        replay_until,
        call,
        target,
        query,
        watch,
        seen: start,
        queue,
        bookmark_at: now + BOOKMARK_EVERY,
        end,
        last_bookmark: false,
        over: false,
    };
    Ok(stream::unfold(state, |mut state| async move { state.next().await.map(|item| (item, state)) }).right())
}

/// The objects of events that a webhook converts, all at once; none where there is no webhook.
async fn converted(call: &Call, descriptor: &Descriptor, events: &[Arc<Event>]) -> Result<Option<Vec<Pair>>, ApiError> {
    if !descriptor.custom {
        return Ok(None);
    }
    let mut entries: Vec<(&Key, &[u8], Revision)> = Vec::with_capacity(events.len() * 2);
    for event in events {
        entries.extend(event.previous.as_ref().map(|(revision, v)| (&event.key, &**v, *revision)));
        entries.extend(event.value.as_ref().map(|v| (&event.key, &**v, event.revision)));
    }
    let Some(objects) = call.converted(descriptor, entries.into_iter()).await? else { return Ok(None) };
    let mut objects = objects.into_iter();
    let pair = |e: &Arc<Event>| {
        (e.previous.as_ref().and_then(|_| objects.next()), e.value.as_ref().and_then(|_| objects.next()))
    };
    Ok(Some(events.iter().map(pair).collect()))
}

/// `futures::future::Either` as a stream, by name.
trait Sides: Stream + Sized {
    fn left<R: Stream<Item = Self::Item>>(self) -> futures::future::Either<Self, R> {
        futures::future::Either::Left(self)
    }
    fn right<L: Stream<Item = Self::Item>>(self) -> futures::future::Either<L, Self> {
        futures::future::Either::Right(self)
    }
}
impl<S: Stream> Sides for S {}

fn too_old(requested: Revision, oldest: Revision) -> ApiError {
    ApiError::expired(format!("too old resource version: {requested} ({oldest})"))
}

fn bookmark(target: &Target, revision: Revision) -> Value {
    json!({
        "apiVersion": target.descriptor.api_version(), "kind": target.descriptor.kind,
        "metadata": { "resourceVersion": revision.to_string(), "creationTimestamp": null },
    })
}

impl State {
    async fn next(&mut self) -> Option<WatchItem> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Some(item);
            }
            if self.over {
                return None;
            }
            let now = Instant::now();
            let mut wake = self.end;
            if self.query.bookmarks {
                if now >= self.bookmark_at {
                    self.bookmark_at = now + BOOKMARK_EVERY;
                    // No history takes this long to read.
                    self.replay_until = None;
                    self.progress().await;
                    continue;
                }
                let last = self.end.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(now);
                if now >= last && !self.last_bookmark {
                    self.last_bookmark = true;
                    self.progress().await;
                    continue;
                }
                wake = self.bookmark_at.min(if self.last_bookmark { self.end } else { last });
            }
            if now >= self.end {
                return None;
            }
            let tasks = self.call.plane.shared.tasks.clone();
            tokio::select! {
                () = tasks.cancelled() => return None,
                () = tokio::time::sleep_until(wake) => {}
                batch = self.watch.next() => self.take(batch).await,
            }
        }
    }

    /// Queues what the store delivers.
    async fn take(&mut self, batch: Result<Vec<Arc<Event>>, WatchError>) {
        match batch {
            Ok(events) => {
                let mut converted = match converted(&self.call, &self.target.descriptor, &events).await {
                    Ok(converted) => converted,
                    Err(e) => {
                        self.over = true;
                        self.queue.push_back(WatchItem::Error(e));
                        return;
                    }
                };
                for (i, event) in events.into_iter().enumerate() {
                    self.seen = self.seen.max(event.revision);
                    let read = converted.as_mut().and_then(|c| c.get_mut(i)).map(std::mem::take);
                    match self.item(&event, read) {
                        Ok(Some(item)) => self.queue.push_back(item),
                        Ok(None) => {}
                        Err(e) => {
                            self.over = true;
                            self.queue.push_back(WatchItem::Error(e));
                            return;
                        }
                    }
                }
            }
            Err(WatchError::Closed) => self.over = true,
            Err(WatchError::Lagged | WatchError::Compacted) => {
                self.over = true;
                self.queue.push_back(WatchItem::Error(too_old(self.seen, self.seen + 1)));
            }
        }
    }

    /// Queues a bookmark that says how far this watch has come: as far as the cluster, when nothing before that is left to be
    /// delivered. A client whose kind is quiet can so go on from a recent revision later.
    async fn progress(&mut self) {
        // Read before looking for events: what is committed is published, so an event up to here would be ready.
        let newest = self.call.plane.store().revision(self.call.plane.tenant).await;
        if let Some(batch) = self.watch.next().now_or_never() {
            self.take(batch).await;
        } else if let Ok(newest) = newest
            && self.replay_until.is_none_or(|until| self.seen >= until)
        {
            self.seen = self.seen.max(newest);
        }
        if !self.over {
            self.queue.push_back(WatchItem::Event("BOOKMARK", bookmark(&self.target, self.seen)));
        }
    }

    /// What the selection sees of a change.
    fn item(&self, event: &Event, read: Option<Pair>) -> Result<Option<WatchItem>, ApiError> {
        let descriptor = &self.target.descriptor;
        let (old, new) = match read {
            Some(pair) => pair,
            None => {
                let read = |bytes: &[u8], revision| self.call.object(descriptor, &event.key, bytes, revision);
                let old = event.previous.as_ref().map(|(_, v)| read(v, event.revision)).transpose()?;
                (old, event.value.as_ref().map(|v| read(v, event.revision)).transpose()?)
            }
        };
        let seen = |o: &Option<Value>| o.as_ref().is_some_and(|o| self.query.selection.matches(descriptor, o));
        Ok(match (seen(&old), seen(&new)) {
            (false, true) => new.map(|o| WatchItem::Event("ADDED", o)),
            (true, true) => new.map(|o| WatchItem::Event("MODIFIED", o)),
            (true, false) => old.map(|mut o| {
                set_meta(&mut o, "resourceVersion", Some(event.revision.to_string().into()));
                WatchItem::Event("DELETED", o)
            }),
            (false, false) => None,
        })
    }
}
