//! Expected state of one resource class on one worker, with generations.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// How many removals are remembered, so that an agent that was away can continue without a full state.
const REMEMBERED: usize = 4096;

/// A set of things by id in which every change has a generation. Answers "what has changed since generation g?".
#[derive(Debug)]
pub(crate) struct Expected<T> {
    generation: u64,
    /// Changes up to and including this one can no longer be told apart.
    floor: u64,
    items: HashMap<String, (u64, Arc<T>)>,
    /// Last change of each id, present or removed.
    changes: BTreeMap<u64, String>,
    removed: HashMap<String, u64>,
}

/// What an agent has to do to come from one generation to another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Delta<T> {
    pub(crate) generation: u64,
    pub(crate) full: bool,
    pub(crate) upsert: Vec<Arc<T>>,
    pub(crate) removed: Vec<String>,
}

impl<T: PartialEq> Expected<T> {
    /// Empty. `start` must be above every generation that an earlier process gave out; the time of day in microseconds is.
    pub(crate) fn new(start: u64) -> Self {
        Self {
            generation: start,
            floor: start,
            items: HashMap::new(),
            changes: BTreeMap::new(),
            removed: HashMap::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Arc<T>> {
        self.items.get(id).map(|(_, item)| item)
    }

    /// Adds or replaces; false when it is there already, unchanged.
    pub(crate) fn set(&mut self, id: &str, item: Arc<T>) -> bool {
        if self.items.get(id).is_some_and(|(_, present)| *present == item) {
            return false;
        }
        let before = self.items.get(id).map(|(at, _)| *at).or_else(|| self.removed.remove(id));
        let generation = self.step(id, before);
        self.items.insert(id.to_owned(), (generation, item));
        true
    }

    /// Removes; false when it is not there.
    pub(crate) fn remove(&mut self, id: &str) -> bool {
        let Some((before, _)) = self.items.remove(id) else { return false };
        let generation = self.step(id, Some(before));
        self.removed.insert(id.to_owned(), generation);
        if self.removed.len() > REMEMBERED {
            self.forget();
        }
        true
    }

    fn step(&mut self, id: &str, before: Option<u64>) -> u64 {
        if let Some(before) = before {
            self.changes.remove(&before);
        }
        self.generation += 1;
        self.changes.insert(self.generation, id.to_owned());
        self.generation
    }

    /// Forgets the older half of the removals.
    fn forget(&mut self) {
        let mut generations: Vec<u64> = self.removed.values().copied().collect();
        generations.sort_unstable();
        let Some(limit) = generations.get(generations.len() / 2).copied() else { return };
        let changes = &mut self.changes;
        self.removed.retain(|_, at| {
            if *at <= limit {
                changes.remove(at);
            }
            *at > limit
        });
        self.floor = self.floor.max(limit);
    }

    /// What has changed since `from`; everything when that cannot be told. None when nothing has.
    pub(crate) fn since(&self, from: u64) -> Option<Delta<T>> {
        if from == self.generation {
            return None;
        }
        if from < self.floor || from > self.generation {
            let upsert = self.items.values().map(|(_, item)| item.clone()).collect();
            return Some(Delta { generation: self.generation, full: true, upsert, removed: Vec::new() });
        }
        let mut delta = Delta { generation: self.generation, full: false, upsert: Vec::new(), removed: Vec::new() };
        for id in self.changes.range(from + 1..).map(|(_, id)| id) {
            match self.items.get(id) {
                Some((_, item)) => delta.upsert.push(item.clone()),
                None => delta.removed.push(id.clone()),
            }
        }
        Some(delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(delta: &Delta<String>) -> (bool, Vec<String>, Vec<String>) {
        let mut upsert: Vec<String> = delta.upsert.iter().map(|s| (**s).clone()).collect();
        upsert.sort();
        (delta.full, upsert, delta.removed.clone())
    }

    #[test]
    fn tells_what_changed_since() {
        let mut expected = Expected::new(100);
        assert!(expected.since(100).is_none());
        assert!(expected.set("a", Arc::new("1".to_owned())));
        assert!(!expected.set("a", Arc::new("1".to_owned())));
        assert!(expected.set("b", Arc::new("2".to_owned())));
        let middle = expected.generation();
        assert!(expected.set("a", Arc::new("3".to_owned())));
        assert!(expected.remove("b"));
        assert!(!expected.remove("b"));
        assert_eq!(ids(&expected.since(middle).unwrap()), (false, vec!["3".into()], vec!["b".into()]));
        // From another process, or from nothing: everything.
        assert_eq!(ids(&expected.since(7).unwrap()), (true, vec!["3".into()], vec![]));
        assert_eq!(ids(&expected.since(0).unwrap()), (true, vec!["3".into()], vec![]));
        assert_eq!(ids(&expected.since(u64::MAX).unwrap()), (true, vec!["3".into()], vec![]));
        assert!(expected.since(expected.generation()).is_none());
        // A removed id that comes back is an upsert only.
        expected.set("b", Arc::new("4".to_owned()));
        assert_eq!(ids(&expected.since(middle).unwrap()), (false, vec!["3".into(), "4".into()], vec![]));
        assert_eq!(expected.changes.len(), 2);
    }

    #[test]
    fn memory_is_bounded_and_old_generations_get_a_full_state() {
        let mut expected = Expected::new(0);
        expected.set("stays", Arc::new("x".to_owned()));
        let early = expected.generation();
        for n in 0..3 * REMEMBERED {
            let id = format!("p{n}");
            expected.set(&id, Arc::new(String::new()));
            expected.remove(&id);
        }
        assert!(expected.removed.len() <= REMEMBERED && expected.changes.len() <= REMEMBERED + 1);
        assert!(expected.since(early).unwrap().full);
        assert!(!expected.since(expected.generation() - 4).unwrap().full);
    }
}
