//! What the hub knows. Everything in it can be found out anew from the store and the agents.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use vctl_api::agent::{self, NodeReport};
use vctl_store::Tenant;

use super::engine::Work;
use crate::{
    remote::Remote,
    target::Target,
    translate::{References, TokenSpec},
};

/// A pod, wherever it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PodKey {
    pub(super) tenant: Tenant,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

/// Something that pods refer to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Referent {
    pub(super) tenant: Tenant,
    pub(super) resource: &'static str,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) tenants: HashMap<Tenant, Arc<str>>,
    pub(super) by_name: HashMap<Arc<str>, Tenant>,
    pub(super) draining: HashSet<Tenant>,
    /// Those that sleep: their pods stay as objects, and run nowhere.
    pub(super) asleep: HashSet<Tenant>,
    pub(super) workers: BTreeMap<Arc<str>, Worker>,
    /// Pods that are bound to one of the workers.
    pub(super) pods: HashMap<PodKey, Pod>,
    pub(super) referents: HashMap<Referent, HashSet<PodKey>>,
    /// Volumes whose directories workers were asked to remove, by the id they were told.
    pub(super) reclaimed: HashMap<String, (Tenant, Arc<str>)>,
    /// How many pods an environment has on a worker that needs its network.
    pub(super) networks: HashMap<(Tenant, Arc<str>), usize>,
    /// What is still to be looked at for the first time; none afterwards.
    pub(super) first: Option<HashSet<Work>>,
}

pub(super) struct Worker {
    pub(super) target: Arc<dyn Target>,
    /// The same, when there is an agent.
    pub(super) remote: Option<Arc<Remote>>,
    pub(super) report: Option<NodeReport>,
    pub(super) last_seen: Option<Timestamp>,
    /// Away for so long that its nodes say so.
    pub(super) away: bool,
}

impl Worker {
    pub(super) fn is_connected(&self) -> bool {
        self.remote.as_ref().is_none_or(|r| r.is_connected())
    }
}

#[derive(Debug)]
pub(super) struct Pod {
    pub(super) uid: String,
    /// What workers call it: [`super::names::on_worker`].
    pub(super) on_worker: String,
    pub(super) node: Arc<str>,
    pub(super) observed: Option<Arc<agent::PodStatus>>,
    /// Nothing of it is left on the worker.
    pub(super) gone: bool,
    /// It has ended for good: nothing of it runs.
    pub(super) finished: bool,
    pub(super) references: References,
    pub(super) tokens: HashMap<TokenSpec, Token>,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) token: String,
    /// When to get the next one, and when it ends.
    pub(super) renew_ms: i64,
    pub(super) ends_ms: i64,
}

impl State {
    pub(super) fn remote(&self, worker: &str) -> Option<Arc<Remote>> {
        self.workers.get(worker)?.remote.clone()
    }

    /// Forgets a pod. True when the network of its environment is no longer needed where it was.
    pub(super) fn drop_pod(&mut self, key: &PodKey) -> Option<(Pod, bool)> {
        let pod = self.pods.remove(key)?;
        self.set_references(key, &pod.references, &References::default());
        let mut unneeded = false;
        let at = (key.tenant, pod.node.clone());
        if let Some(count) = self.networks.get_mut(&at) {
            *count -= 1;
            unneeded = *count == 0;
        }
        if unneeded {
            self.networks.remove(&at);
        }
        if let Some(worker) = self.workers.get(&pod.node) {
            worker.target.forget(&pod.on_worker);
        }
        Some((pod, unneeded))
    }

    pub(super) fn set_references(&mut self, key: &PodKey, old: &References, new: &References) {
        let lists = [
            ("configmaps", &old.config_maps, &new.config_maps),
            ("secrets", &old.secrets, &new.secrets),
            ("persistentvolumeclaims", &old.claims, &new.claims),
        ];
        for (resource, old, new) in lists {
            let referent = |name: &String| Referent {
                tenant: key.tenant,
                resource,
                namespace: key.namespace.clone(),
                name: name.as_str().into(),
            };
            for name in old.difference(new) {
                let referent = referent(name);
                if let Some(pods) = self.referents.get_mut(&referent) {
                    pods.remove(key);
                    if pods.is_empty() {
                        self.referents.remove(&referent);
                    }
                }
            }
            for name in new.difference(old) {
                self.referents.entry(referent(name)).or_default().insert(key.clone());
            }
        }
    }
}
