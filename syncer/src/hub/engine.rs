//! The shell: changes of the store become work, and a few workers do it.

use std::{
    collections::{HashSet, hash_map::Entry::Vacant},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tracing::Instrument as _;
use vctl_api::sleep;
use vctl_machinery::status::ApiError;
use vctl_store::{Committed, Entry, Key, ListOptions, Scope, StoreError, Tenant, WatchError};

use super::{
    Inner,
    state::{PodKey, Referent},
    volumes::may_be_deleting,
};
use crate::{json::Json, ports::VirtualApi};

/// One thing to bring up to date.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Work {
    /// A pod.
    Pod(PodKey),
    /// All pods of an environment that has gone to sleep or is awake.
    Pods(Tenant),
    /// A PersistentVolume that is being deleted.
    Volume(Tenant, Arc<str>),
    /// The Node of a worker in an environment.
    Node(Tenant, Arc<str>),
    /// Services and names of an environment.
    Network(Tenant),
    /// Whether a worker has been away for too long.
    Away(Arc<str>),
    /// Events to be written.
    Events,
    /// Which environments there are.
    Environments,
    /// Everything: at start, and when the feed was lost.
    Scan,
}

/// Why a piece of work has to be done again.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Other(String),
}

impl WorkError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(e) if e.code == 409)
    }
}

impl Inner {
    pub(super) fn run(self: Arc<Self>) {
        // The feed starts before the scan, so that nothing falls between them.
        let mut feed = self.store.feed();
        self.look_again();
        let inner = self.clone();
        self.tasks.spawn_until_stopped("syncer feed", async move {
            loop {
                match feed.next().await {
                    Ok(committed) => inner.committed(&committed),
                    Err(WatchError::Lagged) => inner.queue.add(Work::Scan),
                    Err(_) => return,
                }
            }
        });
        for _ in 0..self.config.parallel.max(1) {
            let inner = self.clone();
            self.tasks.spawn_until_stopped("syncer work", async move {
                loop {
                    let work = inner.queue.next().await;
                    // Its own trace, where traces are sent: what has led to it may be many changes.
                    let span = tracing::debug_span!(parent: None, "syncer pass", work = ?work);
                    inner.step(&work).instrument(span).await;
                    inner.queue.done(&work);
                }
            });
        }
    }

    /// Looks at everything; until that is done no agent that connects is told anything.
    pub(super) fn look_again(&self) {
        let mut state = self.lock();
        state.first.get_or_insert_default().insert(Work::Scan);
        self.synced.send_replace(false);
        drop(state);
        self.queue.add(Work::Scan);
    }

    async fn step(&self, work: &Work) {
        let began = std::time::Instant::now();
        let result = match work {
            Work::Pod(key) => self.reconcile_pod(key).await,
            Work::Pods(tenant) => self.reconcile_pods(*tenant).await,
            Work::Volume(tenant, name) => self.reconcile_volume(*tenant, name).await,
            Work::Node(tenant, worker) => self.reconcile_node(*tenant, worker).await,
            Work::Network(tenant) => self.reconcile_network(*tenant).await,
            Work::Away(worker) => {
                self.check_away(worker);
                Ok(())
            }
            Work::Events => {
                self.write_events().await;
                Ok(())
            }
            Work::Environments => self.scan(false).await,
            Work::Scan => self.scan(true).await,
        };
        self.passes.over(result.is_ok(), began.elapsed());
        match result {
            Ok(()) => {
                self.queue.succeeded(work);
                self.looked_at(work);
            }
            Err(error) => {
                if error.is_conflict() {
                    tracing::debug!(?work, %error, "again");
                } else {
                    tracing::warn!(?work, %error, "could not be brought up to date; trying again");
                }
                // What the API refuses does not keep the worker from its other pods.
                if !matches!(error, WorkError::Store(_)) {
                    self.looked_at(work);
                }
                self.queue.retry(work.clone());
            }
        }
    }

    fn looked_at(&self, work: &Work) {
        let mut state = self.lock();
        let Some(first) = &mut state.first else { return };
        first.remove(work);
        if first.is_empty() {
            state.first = None;
            self.synced.send_replace(true);
        }
    }

    /// Work that must have been done once before agents are told anything.
    pub(super) fn add_first(&self, work: Work) {
        if let Some(first) = &mut self.lock().first {
            first.insert(work.clone());
        }
        self.queue.add(work);
    }

    fn committed(&self, committed: &Committed) {
        let tenant = committed.tenant;
        if tenant == Tenant::SYSTEM {
            return;
        }
        if committed.events.is_empty() || !self.lock().tenants.contains_key(&tenant) {
            self.queue.add(Work::Environments);
            return;
        }
        for event in committed.events.iter() {
            let key = &event.key;
            match &*key.resource {
                "pods" => self.queue.add(Work::Pod(PodKey {
                    tenant,
                    namespace: key.namespace.clone(),
                    name: key.name.clone(),
                })),
                "services" | "endpointslices.discovery.k8s.io" => {
                    let needed = self.lock().networks.keys().any(|(t, _)| *t == tenant);
                    if needed {
                        self.queue.add(Work::Network(tenant));
                    }
                }
                "configmaps" => self.referent_changed(tenant, "configmaps", key),
                "secrets" => self.referent_changed(tenant, "secrets", key),
                "persistentvolumeclaims" => self.referent_changed(tenant, "persistentvolumeclaims", key),
                "persistentvolumes" if event.value.as_deref().is_some_and(may_be_deleting) => {
                    self.queue.add(Work::Volume(tenant, key.name.clone()));
                }
                sleep::RESOURCE => self.set_asleep(tenant, event.value.is_some()),
                "nodes" if event.value.is_none() && self.lock().workers.contains_key(&*key.name) => {
                    self.queue.add(Work::Node(tenant, key.name.clone()));
                }
                _ => {}
            }
        }
    }

    fn referent_changed(&self, tenant: Tenant, resource: &'static str, key: &Key) {
        let referent = Referent { tenant, resource, namespace: key.namespace.clone(), name: key.name.clone() };
        let pods: Vec<PodKey> = match self.lock().referents.get(&referent) {
            Some(pods) => pods.iter().cloned().collect(),
            None => return,
        };
        for pod in pods {
            self.queue.add(Work::Pod(pod));
        }
    }

    /// Looks at the environments: those that are new, or all of them.
    async fn scan(&self, all: bool) -> Result<(), WorkError> {
        let infos = self.store.tenants().await?;
        let (mut fresh, mut old, mut unneeded) = (HashSet::new(), Vec::new(), Vec::new());
        {
            let mut state = self.lock();
            let state = &mut *state;
            let present: HashSet<Tenant> = infos.iter().map(|i| i.tenant).collect();
            let ended: Vec<Tenant> = state.tenants.keys().filter(|t| !present.contains(t)).copied().collect();
            for tenant in ended {
                let name = state.tenants.remove(&tenant).unwrap_or_default();
                if state.by_name.get(&name) == Some(&tenant) {
                    state.by_name.remove(&name);
                }
                state.draining.remove(&tenant);
                state.asleep.remove(&tenant);
                let keys: Vec<PodKey> = state.pods.keys().filter(|k| k.tenant == tenant).cloned().collect();
                for key in keys {
                    state.drop_pod(&key);
                }
                unneeded.push(name);
            }
            for info in &infos {
                if let Vacant(vacant) = state.tenants.entry(info.tenant) {
                    let name: Arc<str> = info.name.as_str().into();
                    vacant.insert(name.clone());
                    state.by_name.insert(name, info.tenant);
                    fresh.insert(info.tenant);
                }
            }
            if all {
                old.extend(state.pods.keys().cloned());
            }
            for remote in state.workers.values().filter_map(|w| w.remote.as_ref()) {
                for name in &unneeded {
                    remote.set_network(name, None);
                    remote.volumes_removed(name);
                }
            }
        }
        for key in old {
            self.queue.add(Work::Pod(key));
        }
        for tenant in infos.iter().map(|i| i.tenant).filter(|t| all || fresh.contains(t)) {
            // Before its pods: none of one that sleeps is started.
            let asleep = self.read(tenant, sleep::RESOURCE, "", sleep::NAME).await?.is_some();
            self.set_asleep(tenant, asleep);
            for entry in self.list(tenant, "pods", None).await? {
                // Most idle environments have no pod: only those that are bound are looked at.
                if document(&entry)?.some_text("/spec/nodeName").is_some() {
                    self.add_first(Work::Pod(PodKey {
                        tenant,
                        namespace: entry.key.namespace.clone(),
                        name: entry.key.name.clone(),
                    }));
                }
            }
            for entry in self.list(tenant, "persistentvolumes", None).await? {
                if may_be_deleting(&entry.value) {
                    self.queue.add(Work::Volume(tenant, entry.key.name.clone()));
                }
            }
            let needed = self.lock().networks.keys().any(|(t, _)| *t == tenant);
            if needed {
                self.add_first(Work::Network(tenant));
            }
        }
        let workers: Vec<Arc<str>> = self.lock().workers.keys().cloned().collect();
        for tenant in fresh {
            for worker in &workers {
                self.queue.add(Work::Node(tenant, worker.clone()));
            }
        }
        Ok(())
    }

    pub(super) fn api(&self) -> Result<Arc<dyn VirtualApi>, WorkError> {
        self.api.get().cloned().ok_or_else(|| WorkError::Other("the syncer has not been started".to_owned()))
    }

    /// A document as it stands; none also when the environment is gone.
    pub(super) async fn read(
        &self,
        tenant: Tenant,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, WorkError> {
        match self.store.get(tenant, &Key::new(resource, namespace, name)).await {
            Ok((entry, _)) => entry.as_ref().map(document).transpose(),
            Err(StoreError::NoTenant(_)) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Documents as they stand; none also when the environment is gone.
    pub(super) async fn list(
        &self,
        tenant: Tenant,
        resource: &str,
        namespace: Option<&str>,
    ) -> Result<Vec<Entry>, WorkError> {
        let scope = Scope { resource: resource.into(), namespace: namespace.map(Into::into) };
        match self.store.list(tenant, ListOptions { scope, at: None, after: None, limit: 0 }).await {
            Ok(list) => Ok(list.entries),
            Err(StoreError::NoTenant(_)) => Ok(Vec::new()),
            Err(e) => Err(e.into()),
        }
    }

    pub(super) async fn documents(
        &self,
        tenant: Tenant,
        resource: &str,
        namespace: Option<&str>,
    ) -> Result<Vec<Value>, WorkError> {
        self.list(tenant, resource, namespace).await?.iter().map(document).collect()
    }

    /// A worker has stopped or started: its nodes are looked at.
    pub(super) fn check_away(&self, worker: &Arc<str>) {
        let now = self.clock.now();
        let mut state = self.lock();
        let Some(entry) = state.workers.get_mut(worker) else { return };
        let connected = entry.is_connected();
        let silent = entry.last_seen.map_or(i64::MAX, |seen| now.as_millisecond() - seen.as_millisecond());
        let limit = self.config.away_after.as_millis() as i64;
        let away = !connected && silent >= limit;
        if !connected && !away {
            let rest = Duration::from_millis((limit - silent).max(1).unsigned_abs());
            self.queue.add_after(Work::Away(worker.clone()), rest);
        }
        if entry.away == away {
            return;
        }
        entry.away = away;
        let tenants: Vec<Tenant> = state.tenants.keys().copied().collect();
        drop(state);
        for tenant in tenants {
            self.queue.add(Work::Node(tenant, worker.clone()));
        }
    }
}

/// A stored document with its resourceVersion.
pub(super) fn document(entry: &Entry) -> Result<Value, WorkError> {
    let mut document: Value = serde_json::from_slice(&entry.value).map_err(|e| {
        let key = &entry.key;
        WorkError::Other(format!("{} {}/{} in the store does not parse: {e}", key.resource, key.namespace, key.name))
    })?;
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), entry.revision.to_string().into());
    }
    Ok(document)
}
