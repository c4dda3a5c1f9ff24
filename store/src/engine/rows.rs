use std::sync::Arc;

use bytes::Bytes;

use crate::{Entry, Key, List, ListOptions, Revision, Scope};

/// (namespace, name): the order of lists.
pub(crate) type Place = (Arc<str>, Arc<str>);

/// A document in memory.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) revision: Revision,
    pub(crate) created: Revision,
    pub(crate) value: Bytes,
}

impl Row {
    pub(crate) fn entry(&self, key: &Key) -> Entry {
        Entry { key: key.clone(), revision: self.revision, created: self.created, value: self.value.clone() }
    }
}

/// Rows of one leaf.
const LEAF: usize = 256;

type Leaf = Vec<(Place, Row)>;

/// Documents in the order of lists. A copy costs little and shares the leaves; who changes a shared leaf gets one of its own. So a list is
/// read from a copy, and those who write do not wait for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    /// None is empty.
    leaves: Vec<Arc<Leaf>>,
}

/// Leaf and index in it; behind the last row it is the number of leaves.
type Position = (usize, usize);

impl Rows {
    /// The first row for which `before` does not hold any more; it must hold for a beginning of the rows.
    fn find(&self, before: impl Fn(&Place) -> bool) -> Position {
        let leaf = self.leaves.partition_point(|leaf| leaf.last().is_some_and(|(place, _)| before(place)));
        let index = self.leaves.get(leaf).map_or(0, |leaf| leaf.partition_point(|(place, _)| before(place)));
        (leaf, index)
    }

    fn at(&self, (leaf, index): Position) -> Option<&(Place, Row)> {
        self.leaves.get(leaf)?.get(index)
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Row> {
        let position = self.find(|place| (&*place.0, &*place.1) < (namespace, name));
        self.at(position).filter(|(place, _)| *place.0 == *namespace && *place.1 == *name).map(|(_, row)| row)
    }

    /// Puts a row in; returns the one that was there.
    pub(crate) fn insert(&mut self, place: Place, row: Row) -> Option<Row> {
        let position = self.find(|other| *other < place);
        if self.at(position).is_some_and(|(found, _)| *found == place) {
            let leaf = Arc::make_mut(&mut self.leaves[position.0]);
            return Some(std::mem::replace(&mut leaf[position.1].1, row));
        }
        // Behind the last row: at the end of the last leaf.
        let number = position.0.min(self.leaves.len().saturating_sub(1));
        let Some(leaf) = self.leaves.get_mut(number) else {
            self.leaves.push(Arc::new(vec![(place, row)]));
            return None;
        };
        let appends = position.0 > number;
        if leaf.len() >= LEAF && appends {
            // Names often come in order.
            self.leaves.push(Arc::new(vec![(place, row)]));
            return None;
        }
        let leaf = Arc::make_mut(leaf);
        let index = if appends { leaf.len() } else { position.1 };
        leaf.insert(index, (place, row));
        if leaf.len() > LEAF {
            let rest = leaf.split_off(LEAF / 2);
            self.leaves.insert(number + 1, Arc::new(rest));
        }
        None
    }

    /// Takes a row out.
    pub(crate) fn remove(&mut self, place: &Place) -> Option<Row> {
        let (number, index) = self.find(|other| other < place);
        self.at((number, index)).filter(|(found, _)| found == place)?;
        let leaf = Arc::make_mut(&mut self.leaves[number]);
        let (_, row) = leaf.remove(index);
        let left = leaf.len();
        if left == 0 {
            self.leaves.remove(number);
        } else if left < LEAF / 4 && self.leaves.get(number + 1).is_some_and(|next| left + next.len() <= LEAF / 2) {
            let next = self.leaves.remove(number + 1);
            Arc::make_mut(&mut self.leaves[number]).extend_from_slice(&next);
        }
        Some(row)
    }

    /// How many rows there are from one position to another one behind it.
    fn between(&self, from: Position, to: Position) -> usize {
        let whole: usize = self.leaves.get(from.0..to.0).unwrap_or_default().iter().map(|leaf| leaf.len()).sum();
        (whole + to.1).saturating_sub(from.1)
    }

    /// A page of a scope.
    pub(crate) fn page(&self, options: &ListOptions, revision: Revision) -> List {
        let Scope { resource, namespace } = &options.scope;
        let after = options.after.as_ref().map(|(namespace, name)| (namespace.as_str(), name.as_str()));
        let first = self.find(|place| {
            let place = (&*place.0, &*place.1);
            namespace.as_ref().is_some_and(|n| place.0 < &**n) || after.is_some_and(|after| place <= after)
        });
        let end = self.find(|place| namespace.as_ref().is_none_or(|n| *place.0 <= **n));
        let count = if first < end { self.between(first, end) } else { 0 };
        let wanted = if options.limit == 0 { count } else { count.min(options.limit) };
        let rows = self.leaves.iter().skip(first.0).flat_map(|leaf| leaf.iter()).skip(first.1);
        let mut entries = Vec::with_capacity(wanted);
        entries.extend(rows.take(wanted).map(|((namespace, name), row)| {
            let (namespace, name) = (namespace.clone(), name.clone());
            row.entry(&Key { resource: resource.clone(), namespace, name })
        }));
        List { revision, entries, remaining: count - wanted }
    }

    /// Puts a document back as it was.
    pub(crate) fn restore(&mut self, key: &Key, row: Option<Row>) {
        let place = (key.namespace.clone(), key.name.clone());
        match row {
            Some(row) => self.insert(place, row),
            None => self.remove(&place),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn row(revision: Revision) -> Row {
        Row { revision, created: revision, value: Bytes::new() }
    }

    fn place(n: u32) -> Place {
        (format!("ns-{}", n % 3).into(), format!("name-{n:05}").into())
    }

    fn pages(rows: &Rows, scope: &Scope, limit: usize) -> Vec<(Place, Revision)> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = rows.page(&ListOptions { scope: scope.clone(), at: None, after: after.clone(), limit }, 1);
            all.extend(page.entries.iter().map(|e| ((e.key.namespace.clone(), e.key.name.clone()), e.revision)));
            let last = page.entries.last().map(|e| (e.key.namespace.to_string(), e.key.name.to_string()));
            if page.remaining == 0 {
                return all;
            }
            assert_eq!(page.entries.len(), limit);
            after = last;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn rows_are_a_sorted_map_and_copies_stay(
            changes in proptest::collection::vec((0..900_u32, any::<bool>()), 0..3000), limit in 1..700_usize,
        ) {
            let (mut rows, mut model) = (Rows::default(), BTreeMap::new());
            // Enough for several leaves, in order.
            for n in 0..1500 {
                rows.insert(place(n), row(0));
                model.insert(place(n), 0);
            }
            let (before, count) = (rows.clone(), model.len());
            for (revision, (n, keeps)) in changes.into_iter().enumerate() {
                let revision = revision as u64 + 1;
                let was = if keeps {
                    (rows.insert(place(n), row(revision)).map(|r| r.revision), model.insert(place(n), revision))
                } else {
                    (rows.remove(&place(n)).map(|r| r.revision), model.remove(&place(n)))
                };
                prop_assert_eq!(was.0, was.1);
            }
            for n in [0, 1, 450, 899, 900, 1499, 1500] {
                let (namespace, name) = place(n);
                prop_assert_eq!(rows.get(&namespace, &name).map(|r| r.revision), model.get(&place(n)).copied());
            }
            prop_assert!(rows.leaves.iter().all(|leaf| !leaf.is_empty() && leaf.len() <= LEAF));
            let all: Vec<_> = model.iter().map(|(place, revision)| (place.clone(), *revision)).collect();
            prop_assert_eq!(&pages(&rows, &Scope::all("pods"), limit), &all);
            for namespace in ["ns-0", "ns-1", "ns-2", "ns", "z"] {
                let of: Vec<_> = all.iter().filter(|((ns, _), _)| **ns == *namespace).cloned().collect();
                prop_assert_eq!(pages(&rows, &Scope::namespaced("pods", namespace), limit), of);
            }
            let before = before.page(&ListOptions::newest(Scope::all("pods")), 1);
            prop_assert!(before.entries.len() == count && before.entries.iter().all(|e| e.revision == 0));
        }
    }
}
