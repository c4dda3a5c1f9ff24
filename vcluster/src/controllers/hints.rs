//! What the feed reader and the workers tell each other, so that rare work is only done where there is some. Entries exist only
//! while something is going on in a tenant, and are rebuilt by a scan.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use vctl_store::Tenant;

use super::horizontal::behavior::History;

/// Labels of an object.
pub(super) type Labels = BTreeMap<String, String>;

/// Label sets that changed in one namespace and have not been looked at.
#[derive(Default)]
pub(super) struct Changed {
    /// Of pods whose endpoints may have changed.
    pub(super) services_of: HashSet<Labels>,
    /// Of objects without a controller.
    pub(super) adopters_of: HashSet<Labels>,
    /// Of pods whose disruption budgets may have changed.
    pub(super) budgets_of: HashSet<Labels>,
}

#[derive(Default)]
struct State {
    changed: HashMap<(Tenant, Arc<str>), Changed>,
    terminating: HashSet<(Tenant, Arc<str>)>,
    quotas: HashSet<(Tenant, Arc<str>)>,
    api_services: HashSet<Tenant>,
    pending_pods: HashSet<Tenant>,
    waiting_claims: HashSet<Tenant>,
    /// What was told last about an object, by its UID.
    told: HashMap<Tenant, HashMap<String, &'static str>>,
    missing_nodes: HashMap<Tenant, BTreeMap<String, Timestamp>>,
    /// By namespace and name.
    autoscalers: HashMap<Tenant, BTreeMap<(String, String), History>>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Hints {
    state: Mutex<State>,
}

impl Hints {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a pod's labels for the services that select it; true when it was not noted yet.
    pub(super) fn services_of(&self, tenant: Tenant, namespace: &Arc<str>, labels: Labels) -> bool {
        self.lock().changed.entry((tenant, namespace.clone())).or_default().services_of.insert(labels)
    }

    /// Notes an orphan's labels for the controllers that may adopt it; true when they were not noted yet.
    pub(super) fn adopters_of(&self, tenant: Tenant, namespace: &Arc<str>, labels: Labels) -> bool {
        self.lock().changed.entry((tenant, namespace.clone())).or_default().adopters_of.insert(labels)
    }

    /// Notes a pod's labels for the disruption budgets that select it; true when they were not noted yet.
    pub(super) fn budgets_of(&self, tenant: Tenant, namespace: &Arc<str>, labels: Labels) -> bool {
        self.lock().changed.entry((tenant, namespace.clone())).or_default().budgets_of.insert(labels)
    }

    /// Takes what was noted of a namespace.
    pub(super) fn take(&self, tenant: Tenant, namespace: &str) -> Changed {
        self.lock().changed.remove(&(tenant, namespace.into())).unwrap_or_default()
    }

    /// Puts back what could not be handled.
    pub(super) fn put_back(&self, tenant: Tenant, namespace: &str, changed: Changed) {
        let mut state = self.lock();
        let entry = state.changed.entry((tenant, namespace.into())).or_default();
        entry.services_of.extend(changed.services_of);
        entry.adopters_of.extend(changed.adopters_of);
        entry.budgets_of.extend(changed.budgets_of);
    }

    /// A namespace is being emptied, or no longer.
    pub(super) fn set_terminating(&self, tenant: Tenant, namespace: &str, terminating: bool) {
        let key = (tenant, Arc::from(namespace));
        let mut state = self.lock();
        if terminating {
            state.terminating.insert(key);
        } else {
            state.terminating.remove(&key);
        }
    }

    pub(super) fn is_terminating(&self, tenant: Tenant, namespace: &Arc<str>) -> bool {
        self.lock().terminating.contains(&(tenant, namespace.clone()))
    }

    /// The tenant has APIServices, or no longer.
    pub(super) fn set_api_services(&self, tenant: Tenant, has: bool) {
        let mut state = self.lock();
        if has {
            state.api_services.insert(tenant);
        } else {
            state.api_services.remove(&tenant);
        }
    }

    pub(super) fn has_api_services(&self, tenant: Tenant) -> bool {
        self.lock().api_services.contains(&tenant)
    }

    /// The namespace has resource quotas, or no longer.
    pub(super) fn set_quotas(&self, tenant: Tenant, namespace: &str, has: bool) {
        let mut state = self.lock();
        if has {
            state.quotas.insert((tenant, namespace.into()));
        } else {
            state.quotas.remove(&(tenant, namespace.into()));
        }
    }

    pub(super) fn has_quotas(&self, tenant: Tenant, namespace: &Arc<str>) -> bool {
        self.lock().quotas.contains(&(tenant, namespace.clone()))
    }

    /// The tenant has pods that fit nowhere, or no longer.
    pub(super) fn set_pending_pods(&self, tenant: Tenant, pending: bool) {
        let mut state = self.lock();
        if pending {
            state.pending_pods.insert(tenant);
        } else {
            state.pending_pods.remove(&tenant);
        }
    }

    pub(super) fn has_pending_pods(&self, tenant: Tenant) -> bool {
        self.lock().pending_pods.contains(&tenant)
    }

    /// The tenant has claims without a volume, or no longer.
    pub(super) fn set_waiting_claims(&self, tenant: Tenant, waiting: bool) {
        let mut state = self.lock();
        if waiting {
            state.waiting_claims.insert(tenant);
        } else {
            state.waiting_claims.remove(&tenant);
        }
    }

    pub(super) fn has_waiting_claims(&self, tenant: Tenant) -> bool {
        self.lock().waiting_claims.contains(&tenant)
    }

    /// Notes what is told about an object; false when that was told last.
    pub(super) fn tell_once(&self, tenant: Tenant, uid: &str, reason: &'static str) -> bool {
        self.lock().told.entry(tenant).or_default().insert(uid.to_owned(), reason) != Some(reason)
    }

    /// Forgets what was told about all objects but these.
    pub(super) fn keep_told(&self, tenant: Tenant, uids: &BTreeSet<String>) {
        let mut state = self.lock();
        let Some(told) = state.told.get_mut(&tenant) else { return };
        told.retain(|uid, _| uids.contains(uid));
        if told.is_empty() {
            state.told.remove(&tenant);
        }
    }

    /// Notes which nodes are missing. Returns those that have been for longer than `quarantine`, and when the next one will have been.
    pub(super) fn missing_since(
        &self,
        tenant: Tenant,
        missing: &BTreeSet<String>,
        now: Timestamp,
        quarantine: SignedDuration,
    ) -> (BTreeSet<String>, Option<Timestamp>) {
        let mut state = self.lock();
        if missing.is_empty() {
            state.missing_nodes.remove(&tenant);
            return (BTreeSet::new(), None);
        }
        let since = state.missing_nodes.entry(tenant).or_default();
        since.retain(|node, _| missing.contains(node));
        for node in missing {
            since.entry(node.clone()).or_insert(now);
        }
        let over = |at: &Timestamp| at.checked_add(quarantine).unwrap_or(*at);
        let gone = since.iter().filter(|(_, at)| over(at) <= now).map(|(node, _)| node.clone()).collect();
        (gone, since.values().map(over).filter(|at| *at > now).min())
    }

    /// Reads and changes what is remembered of an autoscaler.
    pub(super) fn autoscaler<R>(
        &self,
        tenant: Tenant,
        namespace: &str,
        name: &str,
        f: impl FnOnce(&mut History) -> R,
    ) -> R {
        let key = (namespace.to_owned(), name.to_owned());
        f(self.lock().autoscalers.entry(tenant).or_default().entry(key).or_default())
    }

    /// Names of the autoscalers of a namespace that have been at work, with the selectors of their pods.
    pub(super) fn autoscalers(&self, tenant: Tenant, namespace: &str) -> Vec<(String, String)> {
        let state = self.lock();
        let all = state.autoscalers.get(&tenant).into_iter().flatten();
        let here = all.filter(|((of, _), history)| of == namespace && !history.selector.is_empty());
        here.map(|((_, name), history)| (name.clone(), history.selector.clone())).collect()
    }

    /// Forgets an autoscaler that is gone.
    pub(super) fn forget_autoscaler(&self, tenant: Tenant, namespace: &str, name: &str) {
        let mut state = self.lock();
        if let Some(known) = state.autoscalers.get_mut(&tenant) {
            known.remove(&(namespace.to_owned(), name.to_owned()));
            if known.is_empty() {
                state.autoscalers.remove(&tenant);
            }
        }
    }

    /// Whether anything is known of a tenant.
    pub(super) fn is_about(&self, tenant: Tenant) -> bool {
        let state = self.lock();
        let places = [&state.terminating, &state.quotas];
        state.changed.keys().any(|(t, _)| *t == tenant)
            || places.iter().any(|set| set.iter().any(|(t, _)| *t == tenant))
            || [&state.api_services, &state.pending_pods, &state.waiting_claims].iter().any(|set| set.contains(&tenant))
            || state.told.contains_key(&tenant)
            || state.missing_nodes.contains_key(&tenant)
            || state.autoscalers.contains_key(&tenant)
    }

    pub(super) fn forget_tenant(&self, tenant: Tenant) {
        let mut state = self.lock();
        state.autoscalers.remove(&tenant);
        state.missing_nodes.remove(&tenant);
        state.changed.retain(|(t, _), _| *t != tenant);
        state.terminating.retain(|(t, _)| *t != tenant);
        state.api_services.remove(&tenant);
        state.quotas.retain(|(t, _)| *t != tenant);
        state.pending_pods.remove(&tenant);
        state.waiting_claims.remove(&tenant);
        state.told.remove(&tenant);
    }
}
