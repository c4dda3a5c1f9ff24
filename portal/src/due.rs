//! What happens to environments by themselves at some time: they sleep, wake, warn of their end, are deleted. The times come of the
//! environments' own documents, so that they are as durable as these; in memory there is one ordered set for all of them, and one task.
//! An environment whose document says nothing of the kind is not in it.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use vctl_runtime::tasks::Tasks;

use crate::{
    documents::{EnvironmentDoc, decode},
    environments::{Caller, Environments},
    error::Error,
    expiry, sleep,
    sleep::Why,
    timetable::{self, Timetable},
};

/// Who the audit trail names.
const ACTOR: &str = "schedule";
/// The same of a wake that a write has asked for.
const WRITE: &str = "write";
/// What could not be done now is tried again after that.
const AGAIN: Duration = Duration::from_mins(1);
/// Pause after the store has failed.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// When something is due for which environment.
#[derive(Default)]
struct Board {
    documents: HashMap<String, EnvironmentDoc>,
    times: Timetable,
}

impl Board {
    fn note(&mut self, name: &str, doc: Option<EnvironmentDoc>, now: Timestamp) {
        // Requests since may have put it off: that is seen when its time comes.
        let at = doc.as_ref().and_then(|doc| first(doc, None, now));
        self.times.set(name, at);
        match doc.filter(|_| at.is_some()) {
            Some(doc) => drop(self.documents.insert(name.to_owned(), doc)),
            None => drop(self.documents.remove(name)),
        }
    }
}

/// When something is due first.
fn first(doc: &EnvironmentDoc, last_request: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let sleep = sleep::next(doc, last_request, now).map(|(at, _)| at);
    sleep.into_iter().chain(expiry::next(doc).map(|(at, _)| at)).min()
}

/// Watches the times of all environments.
pub(crate) fn start(environments: Environments, tasks: &Tasks) {
    let this = environments.clone();
    tasks.spawn_until_stopped("environments' times", async move {
        let mut board = Board::default();
        loop {
            if let Err(error) = follow(&this, &mut board).await {
                if this.documents.is_closed().await {
                    return;
                }
                tracing::error!(%error, "the times of environments cannot be read; trying again");
                tokio::time::sleep(STORE_PAUSE).await;
            }
        }
    });
    tasks.spawn_until_stopped("environments that wake", async move {
        loop {
            let name = environments.planes.wake_requested().await;
            let caller = Caller { actor: WRITE, user: WRITE, request_id: "" };
            let why = Why { reason: "write", at: environments.now() };
            match environments.wake(caller, name.as_str(), why).await {
                Ok(_) => tracing::info!(environment = name.as_str(), "a write wakes it"),
                // It is awake, or being deleted: the write came in between.
                Err(Error::Conflict(why)) => tracing::debug!(environment = name.as_str(), why, "not woken"),
                Err(error) => {
                    tracing::warn!(environment = name.as_str(), %error, "not woken; the next write asks again")
                }
            }
        }
    });
}

/// Lists, then follows; returns when it has to list again.
async fn follow(environments: &Environments, board: &mut Board) -> Result<(), Error> {
    let (all, revision) = environments.documents.list::<EnvironmentDoc>().await?;
    let mut watch = environments.documents.watch::<EnvironmentDoc>(revision).await?;
    *board = Board::default();
    for stored in all {
        board.note(&stored.value.name.to_string(), Some(stored.value), environments.now());
    }
    loop {
        let now = environments.now();
        while let Some(name) = board.times.due(now) {
            let doc = board.documents.get(&name).cloned();
            let again = match &doc {
                Some(doc) => run(environments, doc).await,
                None => None,
            };
            board.times.set(&name, again);
        }
        tokio::select! {
            events = watch.next() => {
                // Too slow, or history is gone: the list tells the rest.
                let Ok(events) = events else { return Ok(()) };
                for event in events {
                    let doc = event.value.as_ref().map(decode::<EnvironmentDoc>).transpose()?;
                    board.note(&event.key.name, doc, environments.now());
                }
            }
            () = timetable::wait(board.times.pause(now)) => {}
        }
    }
}

/// Does what is due for an environment; when to look again unless its document changes.
pub(crate) async fn run(environments: &Environments, doc: &EnvironmentDoc) -> Option<Timestamp> {
    let now = environments.now();
    let name = doc.name.as_str();
    let later = now.checked_add(AGAIN).ok();
    let last_request = match environments.planes.last_request(&doc.name).await {
        Ok(last) => last,
        Err(error) => {
            tracing::warn!(environment = name, %error, "its last request cannot be had");
            return later;
        }
    };
    let caller = Caller { actor: ACTOR, user: ACTOR, request_id: "" };
    let done = match (expiry::next(doc), sleep::next(doc, last_request, now)) {
        (Some((at, what)), _) if at <= now => match what {
            expiry::Next::Warn => environments.warn(caller, doc).await,
            expiry::Next::Delete => environments.expire(caller, doc).await,
        },
        (_, Some((at, reason))) if at <= now => {
            let why = Why { reason, at: if reason == "schedule" { at } else { now } };
            match doc.phase {
                vctl_api::rest::Phase::Sleeping => environments.wake(caller, name, why).await.map(drop),
                _ => environments.sleep(caller, name, why).await.map(drop),
            }
        }
        _ => return first(doc, last_request, now),
    };
    match done {
        // Its document has changed: that sets the next time.
        Ok(()) => later,
        Err(error) => {
            tracing::info!(environment = name, %error, "what was due could not be done; trying again");
            later
        }
    }
}
