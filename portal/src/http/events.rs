//! Changes as they happen, as `text/event-stream`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Extension,
    extract::{Query, State, rejection::QueryRejection},
    response::sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt, stream};
use http::HeaderMap;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::MissedTickBehavior;
use vctl_api::rest::Change;

use super::{
    guard::{self, Seen},
    requester::Requester,
};
use crate::{
    Portal,
    access::policy::Permit,
    environments::changes::{Position, Since},
    error::Error,
};

/// A comment line is sent so often when nothing happens, so that a dead connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Most streams of one user at a time, by whatever credentials: more is a client that forgets to close them.
pub(crate) const STREAMS_LIMIT: usize = 100;
/// How long a client waits before it connects again.
const RETRY: Duration = Duration::from_secs(2);

/// How many streams everybody has open, by user.
#[derive(Clone, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<String, usize>>>);

impl Streams {
    /// One more, for as long as what is given lives.
    ///
    /// # Errors
    /// [`Error::TooManyRequests`].
    fn open(&self, user: &str) -> Result<Open, Error> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = all.entry(user.to_owned()).or_default();
        if *open >= STREAMS_LIMIT {
            return Err(Error::TooManyRequests(format!(
                "you have {STREAMS_LIMIT} streams of changes open, which is as many as there may be: close some (pages of the console, \
                 `vctl dash`, programs), and ask again"
            )));
        }
        *open += 1;
        Ok(Open { all: self.clone(), user: user.to_owned() })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// A stream that counts.
struct Open {
    all: Streams,
    user: String,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = all.get_mut(&self.user) {
            *open -= 1;
            if *open == 0 {
                all.remove(&self.user);
            }
        }
    }
}

/// Query of the stream.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventsQuery {
    /// The same as `Last-Event-ID`, for clients that cannot send that header.
    last_event_id: Option<String>,
}

/// Streams changes from now on, or from after `Last-Event-ID`. Ends when the server stops, and when the caller's credential has ended: before any
/// change of after that, and within [`crate::PortalConfig::stream_check`] when there is none. The first thing that is sent is the id of where
/// it begins, without an event: a connection that breaks before anything has happened goes on from there.
pub(super) async fn stream(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    query: Result<Query<EventsQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, axum::Error>>>, Error> {
    let Query(query) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    // One that is no text is none of ours either.
    let header = headers.get("last-event-id").map(|v| v.to_str().unwrap_or("?").to_owned());
    let since = match header.or(query.last_event_id).filter(|id| !id.is_empty()) {
        None => Since::Now,
        // An id that is none of ours: what was missed is not known.
        Some(id) => id.parse().map_or(Since::Unknown, Since::After),
    };
    let open = portal.inner().streams.open(&requester.identity.user)?;
    let (position, changes) = portal.inner().environments.changes(since, portal.inner().access.clone(), permit).await?;
    let tasks = portal.inner().tasks.clone();
    let begin = Event::default().id(position.to_string()).retry(RETRY);
    let event = |(position, change): (Position, Change)| {
        Event::default().event("change").id(position.to_string()).json_data(change)
    };
    let period = portal.inner().config.stream_check;
    let mut again = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Who asks is looked up for every change, as it is for every request. A page that is left open is no use of its session.
    let state = (portal, headers, Box::pin(changes), again, open);
    let changes = stream::unfold(state, |(portal, headers, mut changes, mut again, open)| async move {
        loop {
            let change = tokio::select! {
                change = changes.next() => Some(change?),
                _ = again.tick() => None,
            };
            guard::authenticate(&portal, &headers, Seen::No).await.ok()?;
            if let Some(change) = change {
                return Some((change, (portal, headers, changes, again, open)));
            }
        }
    });
    let events = stream::once(async { Ok(begin) }).chain(changes.map(event));
    let events = events.take_until(async move { tasks.cancelled().await });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}
