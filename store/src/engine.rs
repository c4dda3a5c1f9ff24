//! The durable store without a database: decides, caches, delivers. What a database must do for it is in `durable`.
//!
//! * A transaction is decided in memory under the lock of its tenant, against the committed documents and those of queued writes,
//!   and queued under the same lock: the order of the queue is the order of revisions.
//! * One writer takes everything that is queued, makes it durable in one go, and only then makes it visible: to readers, to
//!   watches, to the feeds, and to who asked.
//! * When the database fails, everything queued of the tenants concerned fails with it. Nobody has seen those revisions, so they are
//!   given out again.
//! * Documents are read from the database resource by resource at their first use, and forgotten when unused. While a resource is
//!   not in memory no write of it can be queued; so what is read from the database then is what is committed.

pub(crate) mod cell;
pub(crate) mod delegate;
pub(crate) mod durable;
mod maintenance;
pub(crate) mod options;
mod queue;
mod registry;
mod resource;
mod ring;
mod rows;
mod source;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use tracing::Instrument as _;
use vctl_runtime::{tasks::Tasks, telemetry};

use crate::{
    Entry, Export, Feed, Key, List, ListOptions, Revision, Scope, StoreError, Tenant, TenantInfo, Watch, Write,
    encryption::{self, Cipher, Place, SealedJournal, SealedReader},
    engine::{
        cell::{Cell, Decision, Life},
        durable::{Change, Journal, Kept, KnownTenant, Reader},
        options::StoreOptions,
        queue::{Acknowledgement, Queue},
        registry::{Claim, Registry},
        resource::Resource,
        rows::Row,
        source::Source,
    },
    feed::Feeds,
};

/// What the calls, the writer and the maintenance share.
pub(crate) struct Shared {
    registry: Registry,
    queue: Queue,
    feeds: Feeds,
    reader: Arc<dyn Reader>,
    options: StoreOptions,
    /// Counts uses: who was used last has the highest number.
    ticks: AtomicU64,
    /// The count at the last pass of maintenance.
    last_pass: AtomicU64,
    /// Bytes of loaded documents, about; made exact when it matters.
    cached: AtomicUsize,
    /// Why the database is not ours any more, once it is so.
    lost: OnceLock<StoreError>,
    /// How closing went, once it has.
    closed: tokio::sync::watch::Sender<Option<Result<(), StoreError>>>,
}

impl Shared {
    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }

    /// The database belongs to another server: the store ends, with this as the reason.
    pub(crate) fn lose(&self, reason: StoreError) {
        let _ = self.lost.set(reason);
        self.queue.end(StoreError::Closed);
    }
}

/// A store over a database.
pub(crate) struct Engine {
    shared: Arc<Shared>,
    tasks: Tasks,
    cipher: Option<Arc<Cipher>>,
}

/// A tenant that is restored begins so far above the revisions that were seen of it: who watches must list again.
pub(crate) const REVISION_JUMP: Revision = 1000;

/// Values encrypted anew in one transaction.
const REWRITTEN_TOGETHER: usize = 200;

/// What a database hands over when it has been opened.
pub(crate) struct Opened {
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) journal: Box<dyn Journal>,
    /// All tenants, [`Tenant::SYSTEM`] among them.
    pub(crate) tenants: Vec<KnownTenant>,
    /// The first number of a tenant that was never used.
    pub(crate) next_tenant: u32,
    /// The first number that the database cannot hold.
    pub(crate) tenant_limit: u32,
    /// Ids of the keys that values are sealed with.
    pub(crate) keys: Vec<String>,
}

impl Engine {
    /// [`Engine::start`], with the keys of the options checked and used.
    ///
    /// # Errors
    /// When what is kept is encrypted with other keys.
    pub(crate) async fn open(mut opened: Opened, tasks: &Tasks, options: StoreOptions) -> Result<Self, StoreError> {
        encryption::check(&opened.keys, options.encryption.as_ref())?;
        let Some(keys) = &options.encryption else { return Ok(Self::start(opened, tasks, options)) };
        let cipher = Arc::new(Cipher::new(keys)?);
        opened.reader = Arc::new(SealedReader::new(opened.reader, cipher.clone()));
        opened.journal = Box::new(SealedJournal::new(opened.journal, cipher.clone()));
        let mut ids = std::mem::take(&mut opened.keys);
        let mut engine = Self::start(opened, tasks, options);
        if !ids.iter().any(|id| id == cipher.writing()) {
            // Before anything is sealed with it: a start without it must be refused from now on.
            ids.push(cipher.writing().to_owned());
            Self::wait(engine.shared.queue.push(None, Change::UseKeys { ids })?).await?;
        }
        engine.cipher = Some(cipher);
        Ok(engine)
    }

    /// Starts the writer and the maintenance. They end with [`Engine::close`], or when the tasks are stopped.
    pub(crate) fn start(opened: Opened, tasks: &Tasks, options: StoreOptions) -> Self {
        let cells = opened.tenants.into_iter().map(Cell::known).collect();
        let shared = Arc::new(Shared {
            registry: Registry::new(cells, opened.next_tenant, opened.tenant_limit),
            queue: Queue::default(),
            feeds: Feeds::new(options.feed_capacity),
            reader: opened.reader,
            options,
            ticks: AtomicU64::new(1),
            last_pass: AtomicU64::new(0),
            cached: AtomicUsize::new(0),
            lost: OnceLock::new(),
            closed: tokio::sync::watch::Sender::new(None),
        });
        let tasks = tasks.child();
        tasks.spawn("store-writer", writer::run(shared.clone(), opened.journal));
        tasks.spawn_until_stopped("store-maintenance", maintenance::run(shared.clone()));
        let (stopping, watched) = (tasks.clone(), shared.clone());
        tasks.spawn("store-shutdown", async move {
            stopping.cancelled().await;
            watched.queue.end(StoreError::Closed);
        });
        Self { shared, tasks, cipher: None }
    }

    /// The tenant, if the store is open.
    fn cell(&self, tenant: Tenant) -> Result<Arc<Cell>, StoreError> {
        self.check_open()?;
        self.shared.registry.get(tenant)
    }

    /// Reading goes on after the disk failed; after closing nothing does.
    fn check_open(&self) -> Result<(), StoreError> {
        match self.shared.queue.check() {
            Err(StoreError::Closed) => Err(StoreError::Closed),
            _ => Ok(()),
        }
    }

    /// Reads a resource into memory, unless somebody else has meanwhile.
    async fn load(&self, cell: &Cell, resource: &Arc<str>) -> Result<(), StoreError> {
        let _once = cell.loading.lock().await;
        let known = {
            let mut state = cell.lock();
            if state.resource(resource, self.shared.tick()).is_some() {
                return Ok(());
            }
            state.known
        };
        if !known {
            // Of most of them a tenant has none: those are not asked for.
            let resources = self.shared.reader.resources(cell.tenant).await?;
            let mut state = cell.lock();
            state.know(resources);
            if state.resource(resource, self.shared.tick()).is_some() {
                return Ok(());
            }
        }
        let mut loaded = Resource::load(self.shared.reader.current(cell.tenant, resource).await?);
        loaded.used = self.shared.tick();
        let bytes = loaded.bytes();
        {
            let mut state = cell.lock();
            if state.life == Life::Gone {
                return Err(StoreError::NoTenant(cell.tenant));
            }
            state.resources.insert(resource.clone(), loaded);
        }
        let others = self.shared.cached.fetch_add(bytes, Ordering::Relaxed);
        if others + bytes > self.shared.options.cache_bytes {
            maintenance::trim(&self.shared);
        }
        Ok(())
    }

    async fn wait(acknowledgement: Acknowledgement) -> Result<(), StoreError> {
        acknowledgement.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Waits until what is queued now is durable or has failed.
    async fn settle(&self) -> Result<(), StoreError> {
        Self::wait(self.shared.queue.push(None, Change::Barrier)?).await
    }

    pub(crate) async fn create_tenant(&self, name: &str, documents: Vec<Write>) -> Result<Tenant, StoreError> {
        self.appear(&name.into(), &documents, 0, false).await
    }

    pub(crate) async fn restore_tenant(
        &self,
        name: &str,
        documents: Vec<Write>,
        above: Revision,
        replace: bool,
    ) -> Result<Tenant, StoreError> {
        self.appear(&name.into(), &documents, above.saturating_add(REVISION_JUMP), replace).await
    }

    /// A tenant appears, with revisions after `base`, and after those of the one that it replaces.
    async fn appear(
        &self,
        name: &Arc<str>,
        documents: &[Write],
        base: Revision,
        replace: bool,
    ) -> Result<Tenant, StoreError> {
        loop {
            self.shared.queue.check()?;
            let old = match self.shared.registry.claim(name)? {
                Claim::Reserved(tenant) => {
                    let cell = Arc::new(Cell::new(tenant, name.clone(), base));
                    let queued = self.queue_create(&cell, None, documents, base);
                    if queued.is_err() {
                        self.shared.registry.release(name);
                    }
                    return Self::wait(queued?).await.map(|()| tenant);
                }
                Claim::Taken if !replace => return Err(StoreError::Conflict { index: 0, current: None }),
                Claim::Taken => self.shared.registry.find(name),
                Claim::Wait => None,
            };
            if let Some(old) = old {
                let queued = {
                    let mut state = old.lock();
                    if state.life == Life::Live {
                        let tenant = self.shared.registry.number()?;
                        let base = base.max(state.decided.saturating_add(REVISION_JUMP));
                        let cell = Arc::new(Cell::new(tenant, name.clone(), base));
                        let queued = self.queue_create(&cell, Some(&old), documents, base)?;
                        // Nothing is decided for it any more: it would be lost.
                        state.life = Life::Deleting;
                        Some((tenant, queued))
                    } else {
                        None
                    }
                };
                if let Some((tenant, queued)) = queued {
                    return Self::wait(queued).await.map(|()| tenant);
                }
            }
            self.settle().await?;
        }
    }

    fn queue_create(
        &self,
        cell: &Arc<Cell>,
        replaced: Option<&Arc<Cell>>,
        documents: &[Write],
        base: Revision,
    ) -> Result<Acknowledgement, StoreError> {
        let mut state = cell.lock();
        match state.decide(documents, self.shared.tick(), &self.shared.options.newest_only)? {
            Decision::Write(records) => {
                let replaces = replaced.map(|r| r.tenant);
                let change = Change::Create { tenant: cell.tenant, name: cell.name.clone(), base, replaces, records };
                self.shared.queue.push_replacing(Some(cell.clone()), replaced.cloned(), change)
            }
            Decision::Load(_) | Decision::Wait => {
                Err(StoreError::backend("a new tenant was not empty; this is a bug, please report it"))
            }
        }
    }

    pub(crate) async fn export(&self, tenant: Tenant) -> Result<Export, StoreError> {
        let cell = self.cell(tenant)?;
        let export = self.shared.reader.export(tenant).await;
        // Its rows are removed only after it is gone: otherwise what was read is whole.
        if cell.lock().life == Life::Gone {
            return Err(StoreError::NoTenant(tenant));
        }
        export
    }

    pub(crate) async fn reencrypt(&self) -> Result<u64, StoreError> {
        self.check_open()?;
        let Some(cipher) = &self.cipher else {
            return Err(StoreError::Unusable(
                "there is no key to encrypt with: start the server with --encryption-key-file or --encryption-key-command".to_owned(),
            ));
        };
        let mut after = (Tenant::SYSTEM, 0);
        let mut count = 0;
        loop {
            let kept = self.shared.reader.kept(after, REWRITTEN_TOGETHER).await?;
            let Some(last) = kept.last() else { break };
            after = (last.tenant, last.revision);
            let mut values = Vec::new();
            for Kept { tenant, revision, key, value } in kept {
                if !cipher.is_current(&value) {
                    let place = Place { tenant, key: &key, revision };
                    values.push((tenant, revision, cipher.seal(place, &cipher.open(place, value)?)?));
                }
            }
            if !values.is_empty() {
                count += values.len() as u64;
                Self::wait(self.shared.queue.push(None, Change::Rewrite { values })?).await?;
            }
        }
        let ids = vec![cipher.writing().to_owned()];
        Self::wait(self.shared.queue.push(None, Change::UseKeys { ids })?).await?;
        Self::wait(self.shared.queue.push(None, Change::Tidy)?).await?;
        Ok(count)
    }

    pub(crate) async fn delete_tenant(&self, tenant: Tenant) -> Result<(), StoreError> {
        self.check_open()?;
        if tenant == Tenant::SYSTEM {
            return Err(StoreError::backend(
                "the platform's own tenant cannot be deleted; delete the data directory instead",
            ));
        }
        loop {
            let Ok(cell) = self.shared.registry.get(tenant) else { return Ok(()) };
            let queued = {
                let mut state = cell.lock();
                match state.life {
                    Life::Gone => return Ok(()),
                    Life::Deleting => None,
                    Life::Live => {
                        let queued = self.shared.queue.push(Some(cell.clone()), Change::Delete { tenant })?;
                        state.life = Life::Deleting;
                        Some(queued)
                    }
                }
            };
            match queued {
                Some(acknowledgement) => return Self::wait(acknowledgement).await,
                None => self.settle().await?,
            }
        }
    }

    pub(crate) fn tenants(&self) -> Result<Vec<TenantInfo>, StoreError> {
        self.check_open()?;
        let cells = self.shared.registry.all();
        Ok(cells.iter().filter(|c| c.tenant != Tenant::SYSTEM).map(info).collect())
    }

    pub(crate) fn tenant(&self, name: &str) -> Result<Option<TenantInfo>, StoreError> {
        self.check_open()?;
        Ok(self.shared.registry.find(name).as_ref().map(info))
    }

    pub(crate) fn revision(&self, tenant: Tenant) -> Result<Revision, StoreError> {
        Ok(self.cell(tenant)?.lock().head)
    }

    pub(crate) async fn get(&self, tenant: Tenant, key: &Key) -> Result<(Option<Entry>, Revision), StoreError> {
        loop {
            let cell = self.cell(tenant)?;
            {
                let mut state = cell.lock();
                let head = state.head;
                if let Some(resource) = state.resource(&key.resource, self.shared.tick()) {
                    return Ok((resource.get(key).map(|row| row.entry(key)), head));
                }
            }
            self.load(&cell, &key.resource).await?;
        }
    }

    pub(crate) async fn list(&self, tenant: Tenant, options: ListOptions) -> Result<List, StoreError> {
        let scope = &options.scope;
        let (cell, at, mut rows, undone, head) = loop {
            let cell = self.cell(tenant)?;
            let found = {
                let mut state = cell.lock();
                let head = state.head;
                let at = options.at.unwrap_or(head);
                state.check_readable(at)?;
                // Under the lock only what is needed of it is taken: the page is made when others can write again.
                let undone: Option<Vec<_>> = state
                    .ring
                    .reaches(at)
                    .then(|| state.ring.after(at).filter(|r| scope.contains(&r.event.key)).cloned().collect());
                let rows = state.resource(&scope.resource, self.shared.tick()).map(|resource| resource.rows());
                rows.map(|rows| (at, rows, undone, head))
            };
            match found {
                Some((at, rows, undone, head)) => break (cell, at, rows, undone, head),
                None => self.load(&cell, &scope.resource).await?,
            }
        };
        if let Some(undone) = undone {
            for record in undone.into_iter().rev() {
                let created = record.created;
                let previous = record.event.previous.clone();
                let row = previous.map(|(revision, value)| Row { revision, created, value });
                rows.restore(&record.event.key, row);
            }
            return Ok(rows.page(&options, at));
        }
        if self.shared.options.newest_only.contains(&scope.resource) {
            // Older documents are not kept.
            return Ok(rows.page(&options, at));
        }
        let before = self.shared.reader.before(tenant, scope, at, head).await;
        {
            // Rows are removed only after the floor was raised or the tenant was gone: otherwise what was read is whole.
            let state = cell.lock();
            if state.life == Life::Gone {
                return Err(StoreError::NoTenant(tenant));
            }
            state.check_readable(at)?;
        }
        for (key, entry) in before? {
            let row = entry.map(|e| Row { revision: e.revision, created: e.created, value: e.value });
            rows.restore(&key, row);
        }
        Ok(rows.page(&options, at))
    }

    pub(crate) async fn transact(&self, tenant: Tenant, writes: Vec<Write>) -> Result<Vec<Revision>, StoreError> {
        let (acknowledgement, revisions) = loop {
            let cell = self.cell(tenant)?;
            let decision = {
                let mut state = cell.lock();
                match state.life {
                    Life::Gone => return Err(StoreError::NoTenant(tenant)),
                    Life::Deleting => Decision::Wait,
                    Life::Live if writes.is_empty() => return Ok(Vec::new()),
                    Life::Live => {
                        self.shared.queue.check()?;
                        match state.decide(&writes, self.shared.tick(), &self.shared.options.newest_only)? {
                            Decision::Write(records) => {
                                let revisions: Vec<_> = records.iter().map(|r| r.event.revision).collect();
                                let change = Change::Write { tenant, records };
                                match self.shared.queue.push(Some(cell.clone()), change) {
                                    Ok(acknowledgement) => break (acknowledgement, revisions),
                                    // It ended since the check: nothing will be written any more.
                                    Err(error) => return Err(error),
                                }
                            }
                            other => other,
                        }
                    }
                }
            };
            match decision {
                Decision::Load(resource) => self.load(&cell, &resource).await?,
                _ => self.settle().await?,
            }
        };
        // Only as a part of something: group commits have no trace of their own.
        let span = if telemetry::is_traced() {
            tracing::debug_span!("store commit", writes = writes.len())
        } else {
            tracing::Span::none()
        };
        Self::wait(acknowledgement).instrument(span).await.map(|()| revisions)
    }

    pub(crate) fn watch(&self, tenant: Tenant, scope: Scope, after: Revision) -> Result<Watch, StoreError> {
        let cell = self.cell(tenant)?;
        let mut state = cell.lock();
        if state.life == Life::Gone {
            return Err(StoreError::NoTenant(tenant));
        }
        state.check_readable(after)?;
        let live = state.watchers.subscribe(scope.clone(), self.shared.options.watch_buffer);
        let until = state.head;
        let (replay, position) = if state.ring.reaches(after) {
            let events = state.ring.after(after).map(|r| &r.event);
            (events.filter(|e| scope.contains(&e.key)).cloned().collect(), until)
        } else {
            (Vec::new(), after)
        };
        drop(state);
        let reader = self.shared.reader.clone();
        let newest_only = self.shared.options.newest_only.contains(&scope.resource);
        Ok(Watch::new(Box::new(Source {
            scope,
            newest_only,
            replay,
            position,
            until,
            reading: None,
            live,
            cell,
            reader,
        })))
    }

    pub(crate) fn feed(&self) -> Box<dyn Feed> {
        self.shared.feeds.subscribe()
    }

    pub(crate) async fn compact(&self, tenant: Tenant, revision: Revision) -> Result<(), StoreError> {
        let cell = self.cell(tenant)?;
        let acknowledgement = {
            let mut state = cell.lock();
            if revision > state.head {
                return Err(StoreError::Future { requested: revision, newest: state.head });
            }
            if revision <= state.floor {
                return Ok(());
            }
            maintenance::compact(&self.shared, &cell, &mut state, revision)?
        };
        Self::wait(acknowledgement).await
    }

    /// One pass of what otherwise happens once in a while.
    pub(crate) async fn maintain(&self) -> Result<(), StoreError> {
        self.check_open()?;
        maintenance::pass(&self.shared).await
    }

    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        self.shared.queue.end(StoreError::Closed);
        self.tasks.stop();
        self.ended().await
    }

    /// The shared state, for who finds out that the database is not ours any more.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Waits until the store has ended.
    pub(crate) async fn ended(&self) -> Result<(), StoreError> {
        let mut closed = self.shared.closed.subscribe();
        match closed.wait_for(Option::is_some).await {
            Ok(result) => result.clone().unwrap_or(Ok(())),
            // The writer is gone without having said so: the runtime is ending.
            Err(_) => Err(StoreError::Closed),
        }
    }
}

fn info(cell: &Arc<Cell>) -> TenantInfo {
    TenantInfo { tenant: cell.tenant, name: cell.name.to_string(), revision: cell.lock().head }
}
