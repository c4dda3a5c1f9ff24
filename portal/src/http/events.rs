//! Changes as they happen, as `text/event-stream`.

use std::time::Duration;

use axum::{
    Extension,
    extract::State,
    response::sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt};
use http::HeaderMap;

use crate::{Portal, access::policy::Permit, error::Error};

/// A comment line is sent so often when nothing happens, so that a dead connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Streams changes from now on, or from after `Last-Event-ID`. Ends when the server stops.
pub(super) async fn stream(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, axum::Error>>>, Error> {
    let after = headers.get("last-event-id").and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    let changes = portal.inner().environments.changes(after, portal.inner().access.clone(), permit).await?;
    let tasks = portal.inner().tasks.clone();
    let events = changes
        .map(|(position, change)| Event::default().event("change").id(position.to_string()).json_data(change))
        .take_until(async move { tasks.cancelled().await });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}
