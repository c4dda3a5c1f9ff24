//! Tenants that sleep: nothing is done for them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use vctl_store::Tenant;

use super::queue::Key;

/// What was still to come of a tenant that fell asleep when there was nothing to do for it. It has been looked at, so that when it wakes
/// and nothing has happened meanwhile, it is as it was left.
pub(super) type Left = Vec<(Timestamp, Key)>;

/// See the module.
#[derive(Default)]
pub(super) struct Asleep {
    /// None: it is looked at as a whole when it wakes.
    tenants: Mutex<HashMap<Tenant, Option<Left>>>,
}

impl Asleep {
    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, Option<Left>>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tenant sleeps from now on. `left` takes what was to be done for it: nothing comes in between.
    pub(super) fn add(&self, tenant: Tenant, left: impl FnOnce() -> Option<Left>) {
        let mut tenants = self.lock();
        let left = left().filter(|_| !tenants.contains_key(&tenant));
        tenants.insert(tenant, left);
    }

    /// Whether a tenant sleeps, when there is something to be done for it: it is looked at as a whole when it wakes.
    pub(super) fn disturb(&self, tenant: Tenant) -> bool {
        self.lock().get_mut(&tenant).map(|left| *left = None).is_some()
    }

    /// A tenant is awake, or gone. What was left of it; none when something has happened since, or it did not sleep.
    pub(super) fn remove(&self, tenant: Tenant) -> Option<Left> {
        self.lock().remove(&tenant).flatten()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}
