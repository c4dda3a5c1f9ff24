//! Who uses a cluster: when somebody last sent a request to it, and writes to one that sleeps. What the cluster's own pods,
//! controllers and nodes do is no use of it, nor are health checks and discovery.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use tokio::sync::Notify;
use vctl_store::Tenant;

use crate::{
    plane::Plane,
    request::{Query, RequestInfo},
};

/// Of all clusters of the process.
#[derive(Default)]
pub(crate) struct Activity {
    /// Seconds since 1970 of the last request; 0 for none.
    seen: Mutex<HashMap<Tenant, Arc<AtomicI64>>>,
    /// Names of clusters that are to wake. A set, so that many writes ask once.
    waking: Mutex<BTreeSet<String>>,
    asked: Notify,
}

impl Activity {
    /// Where the last request to a cluster is noted.
    pub(crate) fn of(&self, tenant: Tenant) -> Arc<AtomicI64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).entry(tenant).or_default().clone()
    }

    /// Seconds since 1970 of the last request; none since the process was started.
    pub(crate) fn last(&self, tenant: Tenant) -> Option<i64> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&tenant).map(|s| s.load(Ordering::Relaxed)).filter(|s| *s > 0)
    }

    pub(crate) fn forget(&self, tenant: Tenant) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&tenant);
    }

    fn wake(&self, name: &str) {
        let fresh = self.waking.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        if fresh {
            self.asked.notify_one();
        }
    }

    /// The next cluster that a write asks to wake.
    pub(crate) async fn next_wake(&self) -> String {
        loop {
            let next = self.waking.lock().unwrap_or_else(PoisonError::into_inner).pop_first();
            if let Some(name) = next {
                // Others may be there for the next call.
                self.asked.notify_one();
                return name;
            }
            self.asked.notified().await;
        }
    }
}

/// Notes an authorized request of somebody outside of the cluster.
pub(crate) fn note(plane: &Plane, info: &RequestInfo, query: &Query) {
    if !info.is_resource {
        return;
    }
    plane.requested.store(plane.now().as_second(), Ordering::Relaxed);
    if plane.asleep && is_write(info, query) {
        plane.shared.activity.wake(&plane.name);
    }
}

/// Whether a request is to change something, or to reach into a pod: what a sleeping cluster wakes for.
fn is_write(info: &RequestInfo, query: &Query) -> bool {
    is_session(info) || (changes(info) && !query.has("dryRun"))
}

fn is_session(info: &RequestInfo) -> bool {
    info.resource == "pods" && matches!(&*info.subresource, "exec" | "attach" | "portforward" | "proxy")
}

/// Whether a request is to change something, if only for a try, or to reach into a pod.
pub(crate) fn changes(info: &RequestInfo) -> bool {
    let changes = matches!(&*info.verb, "create" | "update" | "patch" | "delete" | "deletecollection");
    // These are questions, although they are sent as objects to create.
    let question = matches!(&*info.group, "authorization.k8s.io" | "authentication.k8s.io");
    is_session(info) || (info.is_resource && changes && !question)
}
