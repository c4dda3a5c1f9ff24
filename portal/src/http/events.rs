//! Changes as they happen, as `text/event-stream`.

use std::time::Duration;

use axum::{
    Extension,
    extract::{Query, State, rejection::QueryRejection},
    response::sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt, stream};
use http::HeaderMap;
use schemars::JsonSchema;
use serde::Deserialize;
use vctl_api::rest::Change;

use super::guard;
use crate::{
    Portal,
    access::policy::Permit,
    environments::changes::{Position, Since},
    error::Error,
};

/// A comment line is sent so often when nothing happens, so that a dead connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a client waits before it connects again.
const RETRY: Duration = Duration::from_secs(2);

/// Query of the stream.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventsQuery {
    /// The same as `Last-Event-ID`, for clients that cannot send that header.
    last_event_id: Option<String>,
}

/// Streams changes from now on, or from after `Last-Event-ID`. Ends when the server stops, and instead of a change that comes after the caller's
/// credential has ended. The first thing that is sent is the id of where
/// it begins, without an event: a connection that breaks before anything has happened goes on from there.
pub(super) async fn stream(
    State(portal): State<Portal>,
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
    let (position, changes) = portal.inner().environments.changes(since, portal.inner().access.clone(), permit).await?;
    let tasks = portal.inner().tasks.clone();
    let begin = Event::default().id(position.to_string()).retry(RETRY);
    let event = |(position, change): (Position, Change)| {
        Event::default().event("change").id(position.to_string()).json_data(change)
    };
    // Who asks is looked up for every change, as it is for every request.
    let changes = stream::unfold((portal, headers, Box::pin(changes)), |(portal, headers, mut changes)| async move {
        let change = changes.next().await?;
        guard::authenticate(&portal, &headers).await.ok()?;
        Some((change, (portal, headers, changes)))
    });
    let events = stream::once(async { Ok(begin) }).chain(changes.map(event));
    let events = events.take_until(async move { tasks.cancelled().await });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}
