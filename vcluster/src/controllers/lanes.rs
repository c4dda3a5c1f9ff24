//! Reconciles that wait for a tenant's own servers (its webhooks) do not hold up those of other tenants: one that takes long gives its
//! slot back and goes on beside, and a tenant has only so many of those.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use vctl_store::Tenant;

/// Reconciles that run at once, over all tenants, not counting slow ones.
const SLOTS: usize = 4;
/// Slow ones of a tenant at a time.
const SLOW_PER_TENANT: usize = 8;
/// What takes longer is slow.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);

/// See the module.
pub(super) struct Lanes {
    slots: Arc<Semaphore>,
    slow: Arc<Mutex<HashMap<Tenant, usize>>>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(SLOTS)), slow: Arc::default() }
    }
}

/// A slow reconcile; it is over when this is dropped.
pub(super) struct Slow {
    tenant: Tenant,
    slow: Arc<Mutex<HashMap<Tenant, usize>>>,
}

fn lock(slow: &Mutex<HashMap<Tenant, usize>>) -> MutexGuard<'_, HashMap<Tenant, usize>> {
    slow.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lanes {
    /// Waits for a slot; none when the process stops.
    pub(super) async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        self.slots.clone().acquire_owned().await.ok()
    }

    /// Whether the tenant has as many slow reconciles as it may.
    pub(super) fn is_crowded(&self, tenant: Tenant) -> bool {
        lock(&self.slow).get(&tenant).is_some_and(|count| *count >= SLOW_PER_TENANT)
    }

    /// Counts a slow one.
    pub(super) fn slow(&self, tenant: Tenant) -> Slow {
        *lock(&self.slow).entry(tenant).or_default() += 1;
        Slow { tenant, slow: self.slow.clone() }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let mut slow = lock(&self.slow);
        if let Some(count) = slow.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                slow.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tenant_has_only_so_many_slow_ones() {
        let lanes = Lanes::default();
        let held: Vec<Slow> = (0..SLOW_PER_TENANT).map(|_| lanes.slow(Tenant(1))).collect();
        assert!(lanes.is_crowded(Tenant(1)) && !lanes.is_crowded(Tenant(2)));
        assert!(lanes.slot().await.is_some(), "slow ones hold no slot");
        drop(held);
        assert!(!lanes.is_crowded(Tenant(1)));
        assert!(lock(&lanes.slow).is_empty());
    }
}
