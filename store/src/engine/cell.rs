use std::{
    collections::{HashMap, HashSet, VecDeque, hash_map},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;

use crate::{
    Event, Key, Revision, StoreError, Tenant, Write,
    engine::{
        durable::{KnownTenant, Record},
        resource::Resource,
        ring::Ring,
        rows::Row,
    },
    fanout::Watchers,
};

/// A tenant in memory: small while idle, with its documents while used.
pub(crate) struct Cell {
    pub(crate) tenant: Tenant,
    pub(crate) name: Arc<str>,
    state: Mutex<State>,
    /// Held while a resource is read from the database, so that it is read once.
    pub(crate) loading: tokio::sync::Mutex<()>,
}

/// Whether a tenant can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It can.
    Live,
    /// Its deletion is being written.
    Deleting,
    /// It is deleted.
    Gone,
}

/// Everything here is committed, but what is called decided or pending.
pub(crate) struct State {
    pub(crate) life: Life,
    /// Newest revision.
    pub(crate) head: Revision,
    /// Newest revision that has been given to a queued write.
    pub(crate) decided: Revision,
    /// Oldest revision that can be read.
    pub(crate) floor: Revision,
    pub(crate) resources: HashMap<Arc<str>, Resource>,
    /// Names of the resources that were written, and with `known` of all that have documents: the others are empty.
    written: HashSet<Arc<str>>,
    pub(crate) known: bool,
    /// Documents as queued writes will leave them.
    pending: HashMap<Key, Pending>,
    pub(crate) ring: Ring,
    pub(crate) watchers: Watchers,
    /// When a revision was the newest, oldest first: the age of history.
    pub(crate) marks: VecDeque<(Timestamp, Revision)>,
}

struct Pending {
    /// The revision that leaves it so.
    revision: Revision,
    row: Option<Row>,
}

/// What came of trying to decide a transaction.
pub(crate) enum Decision {
    /// It holds; the records are pending now.
    Write(Vec<Record>),
    /// This resource must be in memory first.
    Load(Arc<str>),
    /// It depends on a write that is not durable yet and may still fail: try again afterwards. To answer now could show a revision
    /// that is never committed.
    Wait,
}

impl Cell {
    /// A new tenant: it is known to be empty. Its revisions begin after `base`.
    pub(crate) fn new(tenant: Tenant, name: Arc<str>, base: Revision) -> Self {
        Self::with(tenant, name, base, base, true)
    }

    /// A tenant of the database, nothing of it loaded.
    pub(crate) fn known(known: KnownTenant) -> Self {
        Self::with(known.tenant, known.name.into(), known.head, known.compacted, false)
    }

    fn with(tenant: Tenant, name: Arc<str>, head: Revision, floor: Revision, known: bool) -> Self {
        let state = State {
            life: Life::Live,
            head,
            decided: head,
            floor,
            resources: HashMap::new(),
            written: HashSet::new(),
            known,
            pending: HashMap::new(),
            ring: Ring::new(head),
            watchers: Watchers::default(),
            marks: VecDeque::new(),
        };
        Self { tenant, name, state: Mutex::new(state), loading: tokio::sync::Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A resource, when it is in memory; marks it as used.
    pub(crate) fn resource(&mut self, name: &Arc<str>, tick: u64) -> Option<&mut Resource> {
        let resource = match self.resources.entry(name.clone()) {
            hash_map::Entry::Occupied(found) => found.into_mut(),
            hash_map::Entry::Vacant(absent) if self.known && !self.written.contains(name) => {
                absent.insert(Resource::default())
            }
            hash_map::Entry::Vacant(_) => return None,
        };
        resource.used = tick;
        Some(resource)
    }

    /// Takes in which resources have documents in the database. Those that were written since it was asked are known already.
    pub(crate) fn know(&mut self, resources: Vec<String>) {
        self.written.extend(resources.into_iter().map(Arc::from));
        self.known = true;
    }

    /// Whether nothing is queued.
    pub(crate) fn is_settled(&self) -> bool {
        self.decided == self.head && self.life != Life::Deleting
    }

    /// Whether a revision can be read or watched from.
    pub(crate) fn check_readable(&self, revision: Revision) -> Result<(), StoreError> {
        if revision > self.head {
            return Err(StoreError::Future { requested: revision, newest: self.head });
        }
        if revision < self.floor {
            return Err(StoreError::Compacted { requested: revision, oldest: self.floor });
        }
        Ok(())
    }

    /// Decides a transaction against the documents as the queued writes will leave them, and makes it one of these. `newest_only` are the
    /// resources of [`crate::StoreOptions::newest_only`].
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when an expectation fails, whatever becomes of the queued writes.
    pub(crate) fn decide(
        &mut self,
        writes: &[Write],
        tick: u64,
        newest_only: &[Arc<str>],
    ) -> Result<Decision, StoreError> {
        for write in writes {
            if self.resource(&write.key.resource, tick).is_none() {
                return Ok(Decision::Load(write.key.resource.clone()));
            }
        }
        let mut own: HashMap<&Key, Option<Row>> = HashMap::new();
        let mut records = Vec::with_capacity(writes.len());
        let mut revision = self.decided;
        for (index, write) in writes.iter().enumerate() {
            let key = &write.key;
            let committed = self.resources.get(&key.resource).and_then(|r| r.get(key));
            let pending = self.pending.get(key);
            let before = match (own.get(key), pending) {
                (Some(row), _) => row.as_ref(),
                (None, Some(pending)) => pending.row.as_ref(),
                (None, None) => committed,
            };
            let deletes = write.value.is_none();
            if !write.expect.holds(before.map(|r| r.revision), deletes) {
                let uncertain = pending.is_some()
                    && !own.contains_key(key)
                    && write.expect.holds(committed.map(|r| r.revision), deletes);
                if uncertain {
                    return Ok(Decision::Wait);
                }
                return Err(StoreError::Conflict { index, current: committed.map(|r| r.entry(key)) });
            }
            revision += 1;
            let created = before.map_or(revision, |r| r.created);
            let previous = before.map(|r| (r.revision, r.value.clone()));
            let value = write.value.clone();
            if writes.len() > 1 {
                own.insert(key, value.clone().map(|value| Row { revision, created, value }));
            }
            // A deletion is told with the last document: that one stays until the history goes.
            let replaces = value.is_some() && previous.is_some() && newest_only.contains(&key.resource);
            let event = Arc::new(Event { revision, key: key.clone(), value, previous });
            records.push(Record { event, created, replaces });
        }
        for Record { event, created, .. } in &records {
            let row = event.value.clone().map(|value| Row { revision: event.revision, created: *created, value });
            self.pending.insert(event.key.clone(), Pending { revision: event.revision, row });
        }
        self.decided = revision;
        Ok(Decision::Write(records))
    }

    /// The records are durable: now they are seen. Returns the events.
    pub(crate) fn publish(&mut self, records: &[Record], tick: u64) -> Vec<Arc<Event>> {
        for record in records {
            let event = &record.event;
            // Only the newest queued write of a document is remembered.
            if self.pending.get(&event.key).is_some_and(|p| p.revision == event.revision) {
                self.pending.remove(&event.key);
            }
            let row = event.value.clone().map(|value| Row { revision: event.revision, created: record.created, value });
            if let Some(resource) = self.resource(&event.key.resource, tick) {
                resource.set(event.key.clone(), row);
            }
            if !self.written.contains(&event.key.resource) {
                self.written.insert(event.key.resource.clone());
            }
            self.head = event.revision;
            self.ring.push(record.clone());
        }
        let events: Vec<_> = records.iter().map(|r| r.event.clone()).collect();
        self.watchers.publish(&events);
        if self.pending.is_empty() && self.pending.capacity() > 64 {
            self.pending.shrink_to(16);
        }
        events
    }

    /// What was queued will not be: the revisions are free again, nobody has seen them.
    pub(crate) fn abandon(&mut self) {
        self.pending = HashMap::new();
        self.decided = self.head;
        if self.life == Life::Deleting {
            self.life = Life::Live;
        }
    }

    /// Gives back the memory of resources not used after a tick. Returns the bytes.
    pub(crate) fn evict(&mut self, unused_since: u64) -> usize {
        if !self.is_settled() {
            return 0;
        }
        let mut freed = 0;
        self.resources.retain(|_, resource| {
            let keep = resource.used > unused_since;
            if !keep {
                freed += resource.bytes();
            }
            keep
        });
        if self.resources.is_empty() {
            self.resources = HashMap::new();
            self.pending = HashMap::new();
            self.ring.clear(self.head);
        }
        freed
    }
}
