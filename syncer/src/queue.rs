//! One work queue with due times: a key is worked on by one worker at a time, and additions while it waits are one.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// The queue. All memory is in proportion to the keys that wait.
pub(crate) struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    ready: VecDeque<K>,
    waiting: HashSet<K>,
    busy: HashSet<K>,
    /// Added again while busy.
    again: HashSet<K>,
    due: BTreeSet<(Instant, K)>,
    due_at: HashMap<K, Instant>,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    pub(crate) fn new() -> Self {
        let state = State {
            ready: VecDeque::new(),
            waiting: HashSet::new(),
            busy: HashSet::new(),
            again: HashSet::new(),
            due: BTreeSet::new(),
            due_at: HashMap::new(),
            failures: HashMap::new(),
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be worked on as soon as possible.
    pub(crate) fn add(&self, key: K) {
        self.lock().push(key);
        self.changed.notify_one();
    }

    /// To be worked on after a time, or earlier when it is added before.
    pub(crate) fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            self.add(key);
            return;
        }
        let at = Instant::now() + delay;
        {
            let mut state = self.lock();
            if let Some(present) = state.due_at.get(&key).copied() {
                if present <= at {
                    return;
                }
                state.due.remove(&(present, key.clone()));
            }
            state.due_at.insert(key.clone(), at);
            state.due.insert((at, key));
        }
        self.changed.notify_one();
    }

    /// To be worked on again after a failure: 50 ms, doubling up to 30 s.
    pub(crate) fn retry(&self, key: K) {
        let failures = {
            let mut state = self.lock();
            let failures = state.failures.entry(key.clone()).or_default();
            *failures = failures.saturating_add(1);
            *failures
        };
        let delay = Duration::from_millis(50 << failures.min(10)).min(Duration::from_secs(30));
        self.add_after(key, delay);
    }

    /// Forgets earlier failures.
    pub(crate) fn succeeded(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// Waits for a key. [`Queue::done`] must follow.
    pub(crate) async fn next(&self) -> K {
        loop {
            let changed = self.changed.notified();
            let due = {
                let mut state = self.lock();
                state.promote(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.waiting.remove(&key);
                    state.busy.insert(key.clone());
                    if !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.due.first().map(|(at, _)| *at)
            };
            match due {
                None => changed.await,
                Some(at) => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
            }
        }
    }

    /// The work on a key has ended.
    pub(crate) fn done(&self, key: &K) {
        let again = {
            let mut state = self.lock();
            state.busy.remove(key);
            let again = state.again.remove(key);
            if again {
                state.push(key.clone());
            }
            again
        };
        if again {
            self.changed.notify_one();
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    fn push(&mut self, key: K) {
        if let Some(at) = self.due_at.remove(&key) {
            self.due.remove(&(at, key.clone()));
        }
        if self.busy.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn promote(&mut self, now: Instant) {
        while let Some((at, key)) = self.due.first().cloned() {
            if at > now {
                break;
            }
            self.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_is_worked_on_once_at_a_time() {
        let queue = Queue::new();
        queue.add(1);
        queue.add(1);
        assert_eq!(queue.next().await, 1);
        queue.add(1);
        queue.add(2);
        assert_eq!(queue.next().await, 2);
        queue.done(&1);
        assert_eq!(queue.next().await, 1);
        queue.done(&1);
        queue.done(&2);
        assert!(queue.lock().ready.is_empty());
    }

    #[tokio::test]
    async fn due_times_come_in_order_and_the_earlier_one_counts() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_after("late", Duration::from_mins(2));
        queue.add_after("soon", Duration::from_millis(20));
        queue.add_after("late", Duration::from_millis(60));
        assert_eq!(queue.next().await, "soon");
        assert!(start.elapsed().as_millis() >= 20);
        assert_eq!(queue.next().await, "late");
        assert!(start.elapsed() >= Duration::from_millis(60) && start.elapsed() < Duration::from_mins(1));
        assert!(queue.lock().due.is_empty() && queue.lock().due_at.is_empty());
    }
}
