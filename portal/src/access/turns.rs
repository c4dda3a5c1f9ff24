//! Who adds to what a quota limits waits for its turn.
//!
//! Environments are written in one part of the store and their pods in others, so that no transaction has both. One process owns the store
//! (docs/decisions/0004): in it, whoever counts for a quota is alone until what it adds can be counted.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{Mutex as Gate, OwnedMutexGuard};

/// The gates of quotas, by [`super::quota`]'s key of whose they are.
#[derive(Default)]
pub(super) struct Turns {
    gates: Mutex<HashMap<String, Arc<Gate<()>>>>,
}

/// Nobody else adds to some quotas until this is dropped.
#[derive(Debug)]
pub struct Turn {
    _gates: Vec<OwnedMutexGuard<()>>,
}

/// Gates that are kept although nobody is at them.
const KEPT: usize = 1024;

impl Turns {
    /// Waits until nobody is at any of these quotas. They are waited for in order, so that two who want the same ones never wait for each
    /// other.
    pub(super) async fn of(&self, keys: BTreeSet<String>) -> Turn {
        let mut held = Vec::with_capacity(keys.len());
        for key in keys {
            let gate = self.gate(key);
            held.push(gate.lock_owned().await);
        }
        Turn { _gates: held }
    }

    fn gate(&self, key: String) -> Arc<Gate<()>> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if gates.len() >= KEPT {
            gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        }
        gates.entry(key).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_shares_a_quota_waits() {
        let turns = Turns::default();
        let keys = |keys: &[&str]| keys.iter().map(|&k| k.to_owned()).collect::<BTreeSet<_>>();
        let first = turns.of(keys(&["a", "b"])).await;
        drop(turns.of(keys(&["c"])).await);
        let second = turns.of(keys(&["b", "c"]));
        tokio::pin!(second);
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        drop(second.await);
        drop(turns.of(keys(&["a", "b", "c"])).await);
    }
}
