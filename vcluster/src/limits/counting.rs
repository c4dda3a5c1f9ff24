//! What the pods, claims and volumes of clusters request: counted from what is stored. What has not changed since is not read again.

pub(crate) mod volumes;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use serde_json::Value;
use vctl_machinery::{amounts::Quantity, requests::Requests, status::ApiError};
use vctl_runtime::heavy;
use vctl_store::{Entry, Key, ListOptions, Revision, Scope, Store, StoreError, Tenant};

use crate::{quota, storage};
use volumes::{Volumes, slot};

/// Resources whose objects request something.
const COUNTED: [&str; 3] = ["pods", "persistentvolumeclaims", "persistentvolumes"];

/// Of all clusters of the process.
#[derive(Default)]
pub(crate) struct Counting {
    counted: Mutex<HashMap<Tenant, Arc<Counted>>>,
    /// What may be written but is not yet, or not yet known to be, by the number of its hold.
    pending: Arc<Mutex<HashMap<u64, Pending>>>,
    holds: AtomicU64,
}

/// What a cluster requested at a revision.
struct Counted {
    revision: Revision,
    /// Of the pods.
    pods: Requests,
    volumes: Volumes,
    objects: HashMap<Key, Object>,
    /// Some of it ends by the clock: pods that are being deleted.
    timed: bool,
    /// When it was counted, in seconds since 1970.
    at: i64,
    /// When somebody last asked.
    asked: AtomicI64,
}

#[derive(Clone)]
struct Object {
    revision: Revision,
    requests: Requests,
    timed: bool,
    /// Of a claim and of a volume: see [`slot`].
    slot: Option<Arc<str>>,
}

struct Pending {
    tenant: Tenant,
    requested: Requested,
}

/// What an object requests after a write.
#[derive(Debug, Clone)]
pub(crate) struct Requested {
    pub(crate) key: Key,
    pub(crate) requests: Requests,
    /// Of a claim and of a volume: see [`slot`].
    pub(crate) slot: Option<Arc<str>>,
}

/// What is held for writes of a cluster that are not known to have been made.
#[derive(Default)]
struct Held {
    pods: HashMap<Key, Requests>,
    volumes: Volumes,
}

/// What an object will request counts, as long as this is kept.
pub(crate) struct Hold {
    number: u64,
    pending: Arc<Mutex<HashMap<u64, Pending>>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// What one object requests. A pod that has ended requests nothing; a volume is what it has on the disk of a worker.
pub(crate) fn of(resource: &str, object: &Value, now: Timestamp) -> Requests {
    if resource == "persistentvolumes" {
        return Requests { storage: volumes::capacity(object), ..Requests::NONE };
    }
    let used = quota::usage(resource, object, now);
    let amount = |name: &str| used.get(name).copied().unwrap_or(Quantity::ZERO);
    Requests {
        cpu: amount("requests.cpu").millis_up(),
        memory: amount("requests.memory").units_up(),
        storage: amount("requests.storage").units_up(),
    }
}

impl Counted {
    fn sum(&self) -> Requests {
        Requests { storage: self.volumes.sum(), ..self.pods }
    }

    /// Counts what is stored; of what was counted before, what has changed since.
    fn of(revision: Revision, stored: Vec<(&str, Vec<Entry>)>, before: Option<&Self>, now: Timestamp) -> Self {
        let at = now.as_second();
        let mut counted = Self {
            revision,
            pods: Requests::NONE,
            volumes: Volumes::default(),
            objects: HashMap::new(),
            timed: false,
            at,
            asked: at.into(),
        };
        for (resource, entries) in stored {
            for entry in entries {
                let known = before.and_then(|b| b.objects.get(&entry.key));
                let object = match known.filter(|o| o.revision == entry.revision && !o.timed) {
                    Some(known) => known.clone(),
                    None => {
                        let object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
                        let timed = resource == "pods" && object["metadata"].get("deletionTimestamp").is_some();
                        let (requests, slot) = (of(resource, &object, now), slot(resource, &object));
                        Object { revision: entry.revision, requests, timed, slot }
                    }
                };
                match &object.slot {
                    Some(slot) => counted.volumes.add(slot, object.requests.storage),
                    None => counted.pods = counted.pods.plus(object.requests),
                }
                counted.timed |= object.timed;
                counted.objects.insert(entry.key, object);
            }
        }
        counted
    }

    /// How much more is requested of volumes once a claim or volume requests this, and what it requests now no more.
    fn grows(&self, held: &Held, write: &Requested, slot: &Arc<str>) -> u64 {
        let bytes = write.requests.storage;
        let stored = self.objects.get(&write.key);
        let is = |(object, of): (&Object, &Arc<str>)| object.slot.as_ref() == Some(of);
        let others = |of: &Arc<str>| {
            let those = self.objects.iter().filter(|(key, object)| **key != write.key && is((object, of)));
            those.map(|(_, object)| object.requests.storage).fold(held.volumes.of(of), u64::max)
        };
        let now = others(slot);
        let (was, had) =
            stored.and_then(|o| o.slot.as_ref().map(|slot| (slot, o.requests.storage))).unwrap_or((slot, 0));
        if was == slot {
            return now.max(bytes).saturating_sub(now.max(had));
        }
        let left = others(was);
        left.saturating_add(now.max(bytes)).saturating_sub(left.max(had).saturating_add(now))
    }
}

/// What is requested by everything in an export.
pub(crate) async fn exported(entries: &[Entry], now: Timestamp) -> Requests {
    let of = |resource: &str| entries.iter().filter(|e| &*e.key.resource == resource).cloned().collect::<Vec<_>>();
    let stored: Vec<_> = COUNTED.into_iter().map(|resource| (resource, of(resource))).collect();
    let size = stored.iter().flat_map(|(_, entries)| entries).map(|e| e.value.len()).sum();
    heavy::sized(size, || Counted::of(0, stored, None, now).sum()).await
}

impl Counting {
    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, Arc<Counted>>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an object as if it requested this already, until the hold is dropped: after its write is known to have been made or not.
    pub(crate) fn hold(&self, tenant: Tenant, requested: Requested) -> Hold {
        let number = self.holds.fetch_add(1, Ordering::Relaxed);
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Pending { tenant, requested });
        Hold { number, pending: self.pending.clone() }
    }

    fn held(&self, tenant: Tenant) -> Held {
        let mut held = Held::default();
        for pending in self.pending.lock().unwrap_or_else(PoisonError::into_inner).values() {
            if pending.tenant == tenant {
                let Requested { key, requests, slot } = &pending.requested;
                if let Some(slot) = slot {
                    held.volumes.add(slot, requests.storage);
                } else {
                    let of = held.pods.entry(key.clone()).or_default();
                    *of = of.max(*requests);
                }
            }
        }
        held
    }

    /// What a cluster requests: what is stored, and what is held. Each pod and each volume counts once, by the larger of the two.
    pub(crate) async fn requested(
        &self,
        store: &dyn Store,
        tenant: Tenant,
        now: Timestamp,
    ) -> Result<Requests, ApiError> {
        // Before what is stored: a hold that ends in between is stored by then, or will never be.
        let held = self.held(tenant);
        let counted = match self.counted(store, tenant, now).await {
            Ok(counted) => counted,
            Err(StoreError::NoTenant(_)) => return Ok(Requests::NONE),
            Err(e) => return Err(storage::error(e)),
        };
        let stored = |key: &Key| counted.objects.get(key).map_or(Requests::NONE, |o| o.requests);
        let sum = held.pods.iter().fold(counted.sum(), |sum, (key, requests)| sum.plus(requests.minus(stored(key))));
        Ok(sum.plus(Requests { storage: counted.volumes.more_with(&held.volumes), ..Requests::NONE }))
    }

    /// How much more a cluster requests once a claim or volume requests this, and no more what it requests now. The sum of both is right
    /// as long as the turn lasts in which it is asked ([`super::PlatformLimits::take`]): what is written without one makes it less only.
    pub(crate) async fn grows(
        &self,
        store: &dyn Store,
        tenant: Tenant,
        now: Timestamp,
        write: &Requested,
    ) -> Result<Requests, ApiError> {
        let Some(slot) = &write.slot else { return Ok(write.requests) };
        let held = self.held(tenant);
        let counted = self.counted(store, tenant, now).await.map_err(storage::error)?;
        Ok(Requests { storage: counted.grows(&held, write, slot), ..Requests::NONE })
    }

    async fn counted(&self, store: &dyn Store, tenant: Tenant, now: Timestamp) -> Result<Arc<Counted>, StoreError> {
        let revision = store.revision(tenant).await?;
        let before = self.lock().get(&tenant).cloned();
        let at = now.as_second();
        if let Some(before) = before.as_ref().filter(|b| b.revision == revision && (!b.timed || b.at == at)) {
            before.asked.store(at, Ordering::Relaxed);
            return Ok(before.clone());
        }
        // What is listed below is of this revision or a later one, which is counted again.
        let mut stored = Vec::new();
        for resource in COUNTED {
            stored.push((resource, store.list(tenant, ListOptions::newest(Scope::all(resource))).await?.entries));
        }
        let known =
            |e: &Entry| before.as_ref().and_then(|b| b.objects.get(&e.key)).is_some_and(|o| o.revision == e.revision);
        let fresh = stored.iter().flat_map(|(_, entries)| entries).filter(|e| !known(e)).map(|e| e.value.len()).sum();
        let counted = heavy::sized(fresh, || Counted::of(revision, stored, before.as_deref(), now)).await;
        let counted = Arc::new(counted);
        self.lock().insert(tenant, counted.clone());
        Ok(counted)
    }

    /// Forgets what nobody has asked for since a time, in seconds since 1970.
    pub(crate) fn forget_before(&self, at: i64) {
        let mut counted = self.lock();
        counted.retain(|_, c| c.asked.load(Ordering::Relaxed) > at);
        counted.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vctl_store::{Expect, MemoryStore, Write};

    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    fn pod(cpu: &str) -> Value {
        json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu, "memory": "1Gi" } } }] } })
    }

    fn key(name: &str) -> Key {
        Key::new("pods", "ns", name)
    }

    async fn put(store: &MemoryStore, tenant: Tenant, key: Key, object: Option<&Value>) {
        let value = object.map(|o| o.to_string().into());
        store.transact(tenant, vec![Write { key, expect: Expect::Any, value }]).await.unwrap();
    }

    #[test]
    fn objects_request_what_a_resource_quota_would_charge() {
        let mut ended = pod("1");
        ended["status"]["phase"] = "Succeeded".into();
        let claim = json!({ "spec": { "resources": { "requests": { "storage": "1500M" } } } });
        let mut gone = pod("1");
        gone["metadata"] = json!({ "deletionTimestamp": "2026-01-02T03:00:00Z", "deletionGracePeriodSeconds": 30 });
        assert_eq!(of("pods", &pod("250m"), now()), Requests { cpu: 250, memory: 1 << 30, storage: 0 });
        assert_eq!(of("pods", &pod("100u"), now()).cpu, 1, "what is less than a thousandth is one");
        assert_eq!(of("pods", &ended, now()), Requests::NONE);
        assert_eq!(of("pods", &gone, now()), Requests::NONE, "it should be gone for long");
        assert_eq!(of("persistentvolumeclaims", &claim, now()).storage, 1_500_000_000);
    }

    #[tokio::test]
    async fn what_is_stored_and_what_is_held_count_once() {
        let (store, counting) = (MemoryStore::new(), Counting::default());
        let tenant = store.create_tenant("a", Vec::new()).await.unwrap();
        let cpu = async || counting.requested(&store, tenant, now()).await.unwrap().cpu;
        assert_eq!(cpu().await, 0);
        put(&store, tenant, key("a"), Some(&pod("1"))).await;
        assert_eq!(cpu().await, 1000);
        let hold = |name: &str, cpu| {
            let requests = Requests { cpu, memory: 0, storage: 0 };
            counting.hold(tenant, Requested { key: key(name), requests, slot: None })
        };
        let (new, grows, again) = (hold("b", 500), hold("a", 1500), hold("a", 1200));
        assert_eq!(cpu().await, 2000);
        put(&store, tenant, key("b"), Some(&pod("500m"))).await;
        assert_eq!(cpu().await, 2000, "it is stored, and held still");
        drop(new);
        assert_eq!(cpu().await, 2000);
        drop(grows);
        assert_eq!(cpu().await, 1700, "what failed counts no more");
        drop(again);
        put(&store, tenant, key("a"), None).await;
        assert_eq!(cpu().await, 500);
        counting.forget_before(i64::MAX);
        assert_eq!(cpu().await, 500, "it is counted anew");
        store.delete_tenant(tenant).await.unwrap();
        assert_eq!(cpu().await, 0);
    }
}
