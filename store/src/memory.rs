//! The store in memory: nothing survives the process. It is the executable model of the semantics, written for obviousness, which
//! the property tests hold the durable backends against; therefore it shares no deciding code with them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;

use crate::{
    Committed, Entry, Event, Export, Feed, Key, List, ListOptions, Revision, Scope, Store, StoreError, Tenant,
    TenantInfo, Watch, WatchError, WatchSource, Write,
    engine::REVISION_JUMP,
    fanout::{DEFAULT_WATCH_BUFFER, Subscription, Watchers},
    feed::{DEFAULT_FEED_CAPACITY, Feeds},
};

/// A store whose documents live in memory only. For tests and simulations.
pub struct MemoryStore {
    state: Mutex<State>,
    feeds: Feeds,
    watch_buffer: usize,
    closed: tokio::sync::watch::Sender<bool>,
}

struct State {
    /// None once the store is closed.
    tenants: Option<BTreeMap<Tenant, TenantState>>,
    next: u32,
}

#[derive(Default)]
struct TenantState {
    name: String,
    head: Revision,
    compacted: Revision,
    current: BTreeMap<Key, Document>,
    /// Every change after `compacted`, in order.
    log: Vec<Record>,
    watchers: Watchers,
}

#[derive(Clone)]
struct Document {
    revision: Revision,
    created: Revision,
    value: Bytes,
}

struct Record {
    event: Arc<Event>,
    /// When the document before the change was created; meaningless where there was none.
    created_before: Revision,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::with_buffers(DEFAULT_WATCH_BUFFER, DEFAULT_FEED_CAPACITY)
    }

    /// An empty store that closes a watch after so many unread events, and whose feeds remember so many unread commits (rounded up
    /// to a power of two).
    pub fn with_buffers(watch_buffer: usize, feed_capacity: usize) -> Self {
        let tenants = BTreeMap::from([(Tenant::SYSTEM, TenantState::default())]);
        Self {
            state: Mutex::new(State { tenants: Some(tenants), next: 1 }),
            feeds: Feeds::new(feed_capacity),
            watch_buffer,
            closed: tokio::sync::watch::Sender::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        tenant: Tenant,
        f: impl FnOnce(&mut TenantState) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        f(self.lock().open()?.get_mut(&tenant).ok_or(StoreError::NoTenant(tenant))?)
    }

    /// A tenant appears, with revisions after `base`, and after those of the one that it replaces.
    fn appear(&self, name: &str, documents: &[Write], base: Revision, replace: bool) -> Result<Tenant, StoreError> {
        let mut state = self.lock();
        let number = Tenant(state.next);
        let tenants = state.open()?;
        let taken = tenants.iter().find(|(t, s)| **t != Tenant::SYSTEM && s.name == name);
        let taken = taken.map(|(t, s)| (*t, s.head));
        if taken.is_some() && !replace {
            return Err(StoreError::Conflict { index: 0, current: None });
        }
        let base = taken.map_or(base, |(_, head)| base.max(head + REVISION_JUMP));
        let mut tenant = TenantState { name: name.to_owned(), head: base, compacted: base, ..TenantState::default() };
        let records = tenant.apply(documents)?;
        let events = tenant.commit(records);
        if let Some(mut replaced) = taken.and_then(|(t, _)| tenants.remove(&t)) {
            replaced.watchers.close();
        }
        tenants.insert(number, tenant);
        state.next += 1;
        if let Some((replaced, _)) = taken {
            self.announce(replaced, Vec::new());
        }
        self.announce(number, Vec::new());
        if !events.is_empty() {
            self.announce(number, events);
        }
        Ok(number)
    }

    fn announce(&self, tenant: Tenant, events: Vec<Arc<Event>>) {
        self.feeds.send(Committed { tenant, events: events.into() });
    }
}

impl State {
    fn open(&mut self) -> Result<&mut BTreeMap<Tenant, TenantState>, StoreError> {
        self.tenants.as_mut().ok_or(StoreError::Closed)
    }
}

impl TenantState {
    fn entry(&self, key: &Key) -> Option<Entry> {
        self.current.get(key).map(|d| d.entry(key))
    }

    /// Applies all writes to a copy, in order, and takes the copy if every expectation held.
    fn apply(&mut self, writes: &[Write]) -> Result<Vec<Record>, StoreError> {
        let mut changed: HashMap<&Key, Option<Document>> = HashMap::new();
        let mut records = Vec::with_capacity(writes.len());
        let mut head = self.head;
        for (index, write) in writes.iter().enumerate() {
            let before = changed.get(&write.key).cloned().unwrap_or_else(|| self.current.get(&write.key).cloned());
            if !write.expect.holds(before.as_ref().map(|d| d.revision), write.value.is_none()) {
                return Err(StoreError::Conflict { index, current: self.entry(&write.key) });
            }
            head += 1;
            let created = before.as_ref().map_or(head, |d| d.created);
            let after = write.value.clone().map(|value| Document { revision: head, created, value });
            changed.insert(&write.key, after);
            let event = Arc::new(Event {
                revision: head,
                key: write.key.clone(),
                value: write.value.clone(),
                previous: before.map(|d| (d.revision, d.value)),
            });
            records.push(Record { event, created_before: created });
        }
        for (key, document) in changed {
            match document {
                Some(document) => self.current.insert(key.clone(), document),
                None => self.current.remove(key),
            };
        }
        self.head = head;
        Ok(records)
    }

    /// Commits: into the log and to the watchers.
    fn commit(&mut self, records: Vec<Record>) -> Vec<Arc<Event>> {
        let events: Vec<_> = records.iter().map(|r| r.event.clone()).collect();
        self.log.extend(records);
        self.watchers.publish(&events);
        events
    }

    fn check_readable(&self, revision: Revision) -> Result<(), StoreError> {
        if revision > self.head {
            return Err(StoreError::Future { requested: revision, newest: self.head });
        }
        if revision < self.compacted {
            return Err(StoreError::Compacted { requested: revision, oldest: self.compacted });
        }
        Ok(())
    }

    /// The documents right after a revision: today's, with every later change undone, newest first.
    fn at(&self, revision: Revision) -> BTreeMap<Key, Document> {
        let mut documents = self.current.clone();
        for record in self.log.iter().rev().take_while(|r| r.event.revision > revision) {
            let key = &record.event.key;
            match &record.event.previous {
                None => documents.remove(key),
                Some((revision, value)) => documents.insert(
                    key.clone(),
                    Document { revision: *revision, created: record.created_before, value: value.clone() },
                ),
            };
        }
        documents
    }
}

impl Document {
    fn entry(&self, key: &Key) -> Entry {
        Entry { key: key.clone(), revision: self.revision, created: self.created, value: self.value.clone() }
    }
}

#[async_trait::async_trait]
impl Store for MemoryStore {
    async fn create_tenant(&self, name: &str, documents: Vec<Write>) -> Result<Tenant, StoreError> {
        self.appear(name, &documents, 0, false)
    }

    async fn delete_tenant(&self, tenant: Tenant) -> Result<(), StoreError> {
        let mut state = self.lock();
        let tenants = state.open()?;
        if tenant == Tenant::SYSTEM {
            return Err(StoreError::backend(
                "the platform's own tenant cannot be deleted; delete the data directory instead",
            ));
        }
        if let Some(mut deleted) = tenants.remove(&tenant) {
            deleted.watchers.close();
            self.announce(tenant, Vec::new());
        }
        Ok(())
    }

    async fn tenants(&self) -> Result<Vec<TenantInfo>, StoreError> {
        let mut state = self.lock();
        let others = state.open()?.iter().filter(|(t, _)| **t != Tenant::SYSTEM);
        Ok(others.map(|(t, s)| TenantInfo { tenant: *t, name: s.name.clone(), revision: s.head }).collect())
    }

    async fn tenant(&self, name: &str) -> Result<Option<TenantInfo>, StoreError> {
        Ok(self.tenants().await?.into_iter().find(|t| t.name == name))
    }

    async fn revision(&self, tenant: Tenant) -> Result<Revision, StoreError> {
        self.with(tenant, |t| Ok(t.head))
    }

    async fn get(&self, tenant: Tenant, key: &Key) -> Result<(Option<Entry>, Revision), StoreError> {
        self.with(tenant, |t| Ok((t.entry(key), t.head)))
    }

    async fn list(&self, tenant: Tenant, options: ListOptions) -> Result<List, StoreError> {
        self.with(tenant, |t| {
            let revision = options.at.unwrap_or(t.head);
            t.check_readable(revision)?;
            let after = options.after.as_ref().map(|(namespace, name)| (namespace.as_str(), name.as_str()));
            let mut entries: Vec<Entry> = t
                .at(revision)
                .iter()
                .filter(|(k, _)| options.scope.contains(k) && Some((&*k.namespace, &*k.name)) > after)
                .map(|(k, d)| d.entry(k))
                .collect();
            let keep = if options.limit == 0 { entries.len() } else { options.limit.min(entries.len()) };
            let remaining = entries.len() - keep;
            entries.truncate(keep);
            Ok(List { revision, entries, remaining })
        })
    }

    async fn transact(&self, tenant: Tenant, writes: Vec<Write>) -> Result<Vec<Revision>, StoreError> {
        self.with(tenant, |t| {
            let records = t.apply(&writes)?;
            let revisions = records.iter().map(|r| r.event.revision).collect();
            let events = t.commit(records);
            if !events.is_empty() {
                self.announce(tenant, events);
            }
            Ok(revisions)
        })
    }

    async fn watch(&self, tenant: Tenant, scope: Scope, after: Revision) -> Result<Watch, StoreError> {
        self.with(tenant, |t| {
            t.check_readable(after)?;
            let past = t.log.iter().map(|r| &r.event);
            let replay = past.filter(|e| e.revision > after && scope.contains(&e.key)).cloned().collect();
            let live = t.watchers.subscribe(scope, self.watch_buffer);
            Ok(Watch::new(Box::new(Source { replay, live })))
        })
    }

    fn feed(&self) -> Box<dyn Feed> {
        self.feeds.subscribe()
    }

    async fn compact(&self, tenant: Tenant, revision: Revision) -> Result<(), StoreError> {
        self.with(tenant, |t| {
            if revision > t.head {
                return Err(StoreError::Future { requested: revision, newest: t.head });
            }
            t.compacted = t.compacted.max(revision);
            t.log.retain(|r| r.event.revision > revision);
            Ok(())
        })
    }

    async fn export(&self, tenant: Tenant) -> Result<Export, StoreError> {
        self.with(tenant, |t| {
            Ok(Export { revision: t.head, entries: t.current.iter().map(|(key, d)| d.entry(key)).collect() })
        })
    }

    async fn restore_tenant(
        &self,
        name: &str,
        documents: Vec<Write>,
        above: Revision,
        replace: bool,
    ) -> Result<Tenant, StoreError> {
        self.appear(name, &documents, above + REVISION_JUMP, replace)
    }

    async fn reencrypt(&self) -> Result<u64, StoreError> {
        Err(StoreError::Unusable("a store in memory keeps nothing that could be encrypted".to_owned()))
    }

    async fn close(&self) -> Result<(), StoreError> {
        for (_, mut tenant) in self.lock().tenants.take().into_iter().flatten() {
            tenant.watchers.close();
        }
        self.feeds.close();
        self.closed.send_replace(true);
        Ok(())
    }

    async fn ended(&self) -> Result<(), StoreError> {
        // The sender is ours: it cannot go first.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
        Ok(())
    }
}

/// What had happened before the watch began, then what happens.
struct Source {
    replay: Vec<Arc<Event>>,
    live: Subscription,
}

impl WatchSource for Source {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Arc<Event>>, WatchError>> {
        if !self.replay.is_empty() {
            return Poll::Ready(Ok(std::mem::take(&mut self.replay)));
        }
        self.live.poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_write_is_read_back_with_its_revision() {
        let store = MemoryStore::new();
        let key = Key::new("pods", "default", "a");
        let revisions = store.transact(Tenant::SYSTEM, vec![Write::create(key.clone(), "x")]).await.unwrap();
        assert_eq!(revisions, [1]);
        let (entry, newest) = store.get(Tenant::SYSTEM, &key).await.unwrap();
        assert_eq!(entry.map(|e| (e.revision, e.created)), Some((1, 1)));
        assert_eq!(newest, 1);
    }
}
