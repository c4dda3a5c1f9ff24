use std::{
    collections::{BTreeMap, btree_map},
    ops::Bound,
    sync::Arc,
};

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

/// The committed documents of one resource of one tenant.
#[derive(Debug, Default)]
pub(crate) struct Resource {
    rows: BTreeMap<Place, Row>,
    bytes: usize,
    /// The engine's count of uses at the last one.
    pub(crate) used: u64,
}

/// What a row costs besides its value, about.
const ROW_OVERHEAD: usize = 160;

impl Resource {
    pub(crate) fn load(entries: Vec<Entry>) -> Self {
        let mut loaded = Self::default();
        for entry in entries {
            let row = Row { revision: entry.revision, created: entry.created, value: entry.value };
            loaded.set(entry.key, Some(row));
        }
        loaded
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Row> {
        self.rows.get(&(key.namespace.clone(), key.name.clone()))
    }

    pub(crate) fn set(&mut self, key: Key, row: Option<Row>) {
        let place = (key.namespace, key.name);
        let before = match row {
            Some(row) => {
                self.bytes += row.value.len() + ROW_OVERHEAD;
                self.rows.insert(place, row)
            }
            None => self.rows.remove(&place),
        };
        if let Some(before) = before {
            self.bytes -= before.value.len() + ROW_OVERHEAD;
        }
    }

    /// Memory it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A page of it, as it stands.
    pub(crate) fn page(&self, options: &ListOptions, revision: Revision) -> List {
        page(&self.rows, options, revision)
    }

    /// A copy of the documents of a scope.
    pub(crate) fn snapshot(&self, scope: &Scope) -> Snapshot {
        let rows = range(&self.rows, scope, None).map(|(place, row)| (place.clone(), row.clone())).collect();
        Snapshot(rows)
    }
}

/// Documents of a scope at some revision.
pub(crate) struct Snapshot(BTreeMap<Place, Row>);

impl Snapshot {
    /// Puts a document back as it was.
    pub(crate) fn restore(&mut self, key: &Key, row: Option<Row>) {
        let place = (key.namespace.clone(), key.name.clone());
        match row {
            Some(row) => self.0.insert(place, row),
            None => self.0.remove(&place),
        };
    }

    pub(crate) fn page(&self, options: &ListOptions, revision: Revision) -> List {
        page(&self.0, options, revision)
    }
}

fn page(rows: &BTreeMap<Place, Row>, options: &ListOptions, revision: Revision) -> List {
    let mut found = range(rows, &options.scope, options.after.as_ref());
    let limit = if options.limit == 0 { usize::MAX } else { options.limit };
    let entries = found
        .by_ref()
        .take(limit)
        .map(|((namespace, name), row)| {
            let (namespace, name) = (namespace.clone(), name.clone());
            row.entry(&Key { resource: options.scope.resource.clone(), namespace, name })
        })
        .collect();
    List { revision, entries, remaining: found.count() }
}

/// The rows of a scope after a place, in order.
fn range<'a>(
    rows: &'a BTreeMap<Place, Row>,
    scope: &'a Scope,
    after: Option<&(String, String)>,
) -> impl Iterator<Item = (&'a Place, &'a Row)> {
    let after = after.map(|(namespace, name)| (Arc::<str>::from(&**namespace), Arc::<str>::from(&**name)));
    let first = scope.namespace.as_ref().map(|n| (n.clone(), Arc::<str>::from("")));
    let start = match (after, first) {
        // A continuation that lies before the namespace begins with the namespace.
        (Some(after), Some(first)) if after < first => Bound::Included(first),
        (Some(after), _) => Bound::Excluded(after),
        (None, Some(first)) => Bound::Included(first),
        (None, None) => Bound::Unbounded,
    };
    let found: btree_map::Range<'a, Place, Row> = rows.range((start, Bound::Unbounded));
    found.take_while(move |((namespace, _), _)| scope.namespace.as_ref().is_none_or(|n| n == namespace))
}
