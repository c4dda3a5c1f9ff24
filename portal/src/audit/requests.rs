//! Requests inside of environments, on their way into the trail.
//!
//! They come one by one, and are written many at a time: whoever asked waits for a place in memory only, of which there is so much
//! ([`ROOM`]). When it is used up (the database is slower than what is asked, or away), what changes something waits, so that no change is
//! without its entry; what only reads is dropped and counted. A stop of the server writes what is left first. What a `kill -9` can take away is
//! the last [`GATHER`], and what the database had not taken by then; with [`AuditMode::Blocking`], nothing, for a change is answered when its entry
//! is written.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    documents::{AuditDoc, Documents, EnvironmentDoc},
    error::Error,
};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use vctl_runtime::{
    metrics::{Counter, Exposition, Kind},
    tasks::Tasks,
};

/// Bytes of events that wait, in KiB.
const ROOM: u32 = 16 << 10;
/// Events that are written in one transaction.
const BATCH: usize = 256;
/// How long the first of some events waits for others.
const GATHER: Duration = Duration::from_millis(50);
/// Pause after a transaction has failed.
const PAUSE: Duration = Duration::from_millis(500);

/// When a change inside of an environment is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuditMode {
    /// When it is made; its entry is written a moment later.
    #[default]
    Batch,
    /// When its entry is written.
    Blocking,
}

/// What was recorded of a request inside of an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestEvent {
    /// Name of the environment.
    pub environment: String,
    /// When.
    pub at: Timestamp,
    /// Who asked.
    pub user: String,
    /// As whom, when they impersonated somebody; else empty.
    pub impersonated: String,
    /// What was done, as the trail's actions say it after `kubernetes.`.
    pub verb: String,
    /// Address that the request came from.
    pub source: String,
    /// Id of the request.
    pub id: String,
    /// Never to be dropped.
    pub changes: bool,
    /// About how many bytes it takes.
    pub size: usize,
    /// The Event of `audit.k8s.io/v1`.
    pub event: Value,
}

struct Waiting {
    event: RequestEvent,
    /// Told when it is written.
    written: Option<oneshot::Sender<()>>,
    _room: OwnedSemaphorePermit,
}

struct Shared {
    documents: Documents,
    mode: AuditMode,
    room: Arc<Semaphore>,
    queue: Mutex<VecDeque<Waiting>>,
    came: Notify,
    /// One writes at a time, so that entries are in the order of the requests.
    writing: tokio::sync::Mutex<()>,
    ending: AtomicBool,
    written: Counter,
    dropped: Counter,
    failed: Counter,
}

/// Takes what is recorded of requests. Cheap to clone; clones share everything.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<Shared>);

impl Recorder {
    pub(crate) fn new(documents: Documents, mode: AuditMode) -> Self {
        Self(Arc::new(Shared {
            documents,
            mode,
            room: Arc::new(Semaphore::new(ROOM as usize)),
            queue: Mutex::default(),
            came: Notify::new(),
            writing: tokio::sync::Mutex::default(),
            ending: AtomicBool::new(false),
            written: Counter::default(),
            dropped: Counter::default(),
            failed: Counter::default(),
        }))
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event. When there is no room: waits if it changes something, else it is dropped.
    pub(crate) async fn record(&self, event: RequestEvent) {
        if !event.changes {
            return self.offer(event);
        }
        let Ok(room) = self.0.room.clone().acquire_many_owned(room_of(&event)).await else { return };
        let (told, tell) = match self.0.mode {
            AuditMode::Blocking => {
                let (written, told) = oneshot::channel();
                (Some(told), Some(written))
            }
            AuditMode::Batch => (None, None),
        };
        self.queue().push_back(Waiting { event, written: tell, _room: room });
        if self.0.ending.load(Ordering::SeqCst) {
            self.flush().await;
        }
        self.0.came.notify_one();
        if let Some(told) = told {
            // Dropped when the store has ended: then the change has failed, or its answer does not matter any more.
            let _ = told.await;
        }
    }

    /// Takes an event of something that cannot wait.
    pub(crate) fn offer(&self, event: RequestEvent) {
        match self.0.room.clone().try_acquire_many_owned(room_of(&event)) {
            Ok(room) => {
                self.queue().push_back(Waiting { event, written: None, _room: room });
                self.0.came.notify_one();
            }
            Err(_) => self.0.dropped.add_one(),
        }
    }

    /// Writes what comes, until the group of tasks is stopped.
    pub(crate) fn start(&self, tasks: &Tasks) {
        let this = self.clone();
        tasks.spawn_until_stopped("audit of requests", async move {
            loop {
                this.0.came.notified().await;
                if this.0.mode == AuditMode::Batch {
                    tokio::time::sleep(GATHER).await;
                }
                this.flush().await;
            }
        });
    }

    /// Writes everything that waits; from now on each event is written as it comes. For the end of the server.
    pub(crate) async fn finish(&self) {
        self.0.ending.store(true, Ordering::SeqCst);
        self.flush().await;
    }

    /// Writes everything that waits. A transaction that fails is tried again until it succeeds or the store has ended.
    async fn flush(&self) {
        let _one = self.0.writing.lock().await;
        loop {
            let batch: Vec<Waiting> = {
                let mut queue = self.queue();
                let count = queue.len().min(BATCH);
                queue.drain(..count).collect()
            };
            if batch.is_empty() {
                return;
            }
            loop {
                match self.write(&batch).await {
                    Ok(()) => break,
                    Err(error) if self.0.documents.is_closed().await => {
                        tracing::error!(entries = batch.len(), %error, "entries of the audit trail are lost: the store has ended");
                        self.0.failed.add(batch.len() as u64);
                        return;
                    }
                    Err(error) => {
                        self.0.failed.add_one();
                        tracing::warn!(entries = batch.len(), %error, "the audit trail cannot be written; trying again");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
            self.0.written.add(batch.len() as u64);
            for waiting in batch {
                if let Some(written) = waiting.written {
                    // Whoever asked has gone: it is written all the same.
                    let _ = written.send(());
                }
            }
        }
    }

    async fn write(&self, batch: &[Waiting]) -> Result<(), Error> {
        let mut projects: HashMap<&str, String> = HashMap::new();
        let mut entries: Vec<AuditDoc> = Vec::with_capacity(batch.len());
        for Waiting { event, .. } in batch {
            let name = event.environment.as_str();
            if !projects.contains_key(name) {
                // One that is gone, or cannot be read: for auditors and administrators of the platform.
                let environment = self.0.documents.get::<EnvironmentDoc>(name).await.unwrap_or_default();
                projects.insert(name, environment.map(|e| e.value.project).unwrap_or_default());
            }
            entries.push(AuditDoc {
                key: String::new(),
                at: event.at,
                actor: event.user.clone(),
                action: format!("kubernetes.{}", event.verb),
                subject: event.environment.clone(),
                project: projects.get(name).cloned().unwrap_or_default(),
                request_id: event.id.clone(),
                detail: event.event.clone(),
                on_behalf_of: event.impersonated.clone(),
                source: event.source.clone(),
                link: None,
            });
        }
        Ok(self.0.documents.append_entries(&entries).await?)
    }

    /// Writes the measurements.
    pub(crate) fn measurements(&self, text: &mut Exposition) {
        let shared = &self.0;
        let waiting = ROOM as usize - shared.room.available_permits();
        for (name, kind, help, value) in [
            (
                "apiserver_audit_event_total",
                Kind::Counter,
                "[ALPHA] Counter of audit events generated and sent to the audit backend.",
                shared.written.get() + shared.dropped.get() + self.queue().len() as u64,
            ),
            (
                "vctl_audit_events_written_total",
                Kind::Counter,
                "Number of requests inside of environments whose entry is in the audit trail.",
                shared.written.get(),
            ),
            (
                "vctl_audit_events_dropped_total",
                Kind::Counter,
                "Number of requests that only read and were not recorded, because the database was too slow.",
                shared.dropped.get(),
            ),
            (
                "vctl_audit_write_failures_total",
                Kind::Counter,
                "Number of failed attempts to write entries of requests, which are repeated.",
                shared.failed.get(),
            ),
            (
                "vctl_audit_waiting_bytes",
                Kind::Gauge,
                "Bytes of requests that wait to be written; when there is no room for more, changes wait.",
                waiting as u64 * 1024,
            ),
        ] {
            text.family(name, kind, help);
            text.sample(name, &[], value);
        }
    }
}

/// What an event takes of the room, in KiB.
fn room_of(event: &RequestEvent) -> u32 {
    u32::try_from(event.size / 1024 + 1).unwrap_or(ROOM).min(ROOM)
}
