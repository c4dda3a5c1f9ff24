//! The audit trail: who has done what, append-only, so that a change of what was written is found.
//!
//! * [`record`]: what an entry says, and what a change was, without secrets.
//! * [`chain`]: the hash chains that entries are in.
//! * [`requests`]: what was recorded of requests inside of environments.
//! * [`trail`]: filters, search, pages, export; removing what is old enough.
//! * [`verify`]: whether anybody has changed it.

pub(crate) mod chain;
pub(crate) mod record;
pub(crate) mod requests;
pub(crate) mod trail;
mod verify;

pub(crate) use record::{Subject, entry, entry_for};
pub(crate) use trail::{Filter, Trail};

tokio::task_local! {
    /// Address that the request came from which this task serves.
    static SOURCE: String;
}

/// Serves a request: entries that are written on the way say where it came from.
pub(crate) async fn from_source<F: Future>(source: String, request: F) -> F::Output {
    SOURCE.scope(source, request).await
}

/// Address that the request came from which this task serves; empty when it serves none.
pub(crate) fn source() -> String {
    SOURCE.try_with(Clone::clone).unwrap_or_default()
}
