//! What objects were converted to. Bounded; the oldest goes first. Who needs what another one is asking for waits for that answer.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;
use vctl_store::Revision;

use crate::document::meta;

/// Most that the objects of one definition may take, in bytes of JSON.
const MAX_BYTES: usize = 8 << 20;

/// One state of an object, in one version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    uid: String,
    revision: Revision,
    version: String,
}

impl Key {
    pub(super) fn new(object: &Value, revision: Revision, version: &str) -> Self {
        Self { uid: meta(object, "uid").to_owned(), revision, version: version.to_owned() }
    }
}

#[derive(Default)]
struct State {
    known: HashMap<Key, Bytes>,
    order: VecDeque<Key>,
    bytes: usize,
    /// What is being asked for, and who to wait for.
    asked: HashMap<Key, watch::Receiver<()>>,
}

#[derive(Default)]
pub(super) struct Cache(Mutex<State>);

/// Who does what of a request.
pub(super) struct Claim<'c> {
    /// What is known.
    pub(super) found: Vec<(usize, Bytes)>,
    /// What the claimant is to ask for.
    pub(super) mine: Vec<(usize, Key)>,
    /// Held while asking: others wait for it to be dropped.
    pub(super) guard: Guard<'c>,
    /// What others ask for: look again when they are done.
    pub(super) left: Vec<usize>,
    pub(super) others: Vec<watch::Receiver<()>>,
}

pub(super) struct Guard<'c> {
    cache: &'c Cache,
    keys: Vec<Key>,
    _done: watch::Sender<()>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        for key in &self.keys {
            state.asked.remove(key);
        }
    }
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sorts what is wanted into what is known, what nobody asks for yet and what others ask for.
    pub(super) fn claim(&self, wanted: impl Iterator<Item = (usize, Key)>) -> Claim<'_> {
        let (sender, receiver) = watch::channel(());
        let (mut found, mut mine, mut left, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut keys = Vec::new();
        let mut state = self.lock();
        for (i, key) in wanted {
            if let Some(bytes) = state.known.get(&key) {
                found.push((i, bytes.clone()));
            } else if let Some(other) = state.asked.get(&key) {
                // The same state twice in one request: the second one is looked up when the first is known.
                if !other.same_channel(&receiver) {
                    others.push(other.clone());
                }
                left.push(i);
            } else {
                state.asked.insert(key.clone(), receiver.clone());
                keys.push(key.clone());
                mine.push((i, key));
            }
        }
        drop(state);
        Claim { found, mine, guard: Guard { cache: self, keys, _done: sender }, left, others }
    }

    /// Keeps an answer.
    pub(super) fn put(&self, key: Key, converted: &Value) {
        let bytes = Bytes::from(converted.to_string());
        if bytes.len() > MAX_BYTES / 2 {
            return;
        }
        let mut state = self.lock();
        state.bytes += bytes.len();
        if let Some(before) = state.known.insert(key.clone(), bytes) {
            state.bytes -= before.len();
        } else {
            state.order.push_back(key);
        }
        while state.bytes > MAX_BYTES {
            let Some(oldest) = state.order.pop_front() else { break };
            if let Some(gone) = state.known.remove(&oldest) {
                state.bytes -= gone.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(uid: &str) -> Key {
        Key::new(&json!({ "metadata": { "uid": uid } }), 1, "v2")
    }

    #[test]
    fn one_asks_and_the_others_wait() {
        let cache = Cache::default();
        let first = cache.claim([(0, key("a")), (1, key("b"))].into_iter());
        assert_eq!((first.mine.len(), first.left.len()), (2, 0));
        let second = cache.claim([(0, key("b")), (1, key("c"))].into_iter());
        assert_eq!((&second.left[..], &second.mine[..]), (&[0][..], &[(1, key("c"))][..]));
        assert!(second.others[0].has_changed().is_ok());
        cache.put(key("b"), &json!({ "b": 1 }));
        drop(first);
        assert!(second.others[0].has_changed().is_err(), "the first one is done");
        assert_eq!(cache.claim([(7, key("b"))].into_iter()).found, [(7, Bytes::from("{\"b\":1}"))]);
        // What the first one gave up is free again.
        assert_eq!(cache.claim([(0, key("a"))].into_iter()).mine.len(), 1);
    }

    #[test]
    fn the_oldest_goes_when_there_is_too_much() {
        let cache = Cache::default();
        let large = json!("x".repeat(MAX_BYTES / 4));
        for uid in ["a", "b", "c", "d", "e"] {
            cache.put(key(uid), &large);
        }
        let claim = cache.claim(["a", "b", "c", "d", "e"].map(key).into_iter().enumerate());
        assert_eq!(claim.mine.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [0, 1]);
        assert!(cache.lock().bytes <= MAX_BYTES);
    }
}
