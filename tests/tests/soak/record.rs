//! What an informer says that it saw.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::Result;

use crate::truth::{Key, Lane, Resource};

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    /// One of the two: kube-rs does not tell them apart.
    Applied,
    Deleted,
}

/// An object as far as the soak looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) key: Key,
    pub(crate) version: u64,
    /// The number that the load wrote into it; none in objects of others.
    pub(crate) number: Option<u64>,
}

/// One line of an informer.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    /// It starts to look on, from some version on.
    Started,
    /// It has listed: everything that is there; the list's version, where the client tells it.
    List { version: Option<u64>, items: Vec<Item> },
    /// Its watch has delivered this, at microseconds of the Unix epoch.
    Event { kind: Kind, item: Item, at: i64 },
    /// It was told 410 Expired, at microseconds of the Unix epoch.
    Expired { at: i64 },
    /// A connection was lost or refused.
    Failed(String),
}

/// All lines of one informer of one resource. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    /// Such as `node gadgets`.
    pub(crate) name: String,
    pub(crate) resource: Resource,
    /// Which label it selects.
    pub(crate) lane: Option<Lane>,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    records: Vec<Record>,
    names: HashSet<Key>,
}

impl Journal {
    pub(crate) fn new(informer: &str, resource: Resource, lane: Option<Lane>) -> Self {
        Self { name: format!("{informer} {}", resource.name()), resource, lane, inner: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, record: Record) {
        self.lock().records.push(record);
    }

    /// One text for all mentions of a key.
    pub(crate) fn key(&self, text: &str) -> Key {
        let mut inner = self.lock();
        if let Some(known) = inner.names.get(text) {
            return known.clone();
        }
        let key: Key = text.into();
        inner.names.insert(key.clone());
        key
    }

    /// Everything so far.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.lock().records.clone()
    }

    /// Why its connection was last lost or refused, for people.
    pub(crate) fn last_failure(&self) -> Option<String> {
        let failure = |record: &Record| if let Record::Failed(why) = record { Some(why.clone()) } else { None };
        self.lock().records.iter().rev().find_map(failure)
    }

    /// Version of the newest event.
    pub(crate) fn newest(&self) -> Option<u64> {
        let version = |record: &Record| if let Record::Event { item, .. } = record { Some(item.version) } else { None };
        self.lock().records.iter().rev().find_map(version)
    }

    /// Writes it to a file in the directory `VCTL_SOAK_JOURNALS`, for whoever looks for the cause of a failure.
    pub(crate) fn save(&self) -> Result<()> {
        let Some(directory) = std::env::var_os("VCTL_SOAK_JOURNALS") else { return Ok(()) };
        let mut file = BufWriter::new(File::create(Path::new(&directory).join(&self.name))?);
        for (line, record) in self.lock().records.iter().enumerate() {
            match record {
                Record::List { version, items } => writeln!(file, "{line} list of {} at {version:?}", items.len())?,
                Record::Event { kind, item, at } => writeln!(file, "{line} {at} {kind:?} {item:?}")?,
                Record::Expired { at } => writeln!(file, "{line} {at} expired")?,
                Record::Started => writeln!(file, "{line} started")?,
                Record::Failed(why) => writeln!(file, "{line} failed: {why}")?,
            }
        }
        Ok(file.flush()?)
    }

    /// How often it has been told 410 so far.
    pub(crate) fn expired(&self) -> usize {
        self.lock().records.iter().filter(|r| matches!(r, Record::Expired { .. })).count()
    }
}

/// What an informer holds: resourceVersion by key.
pub(crate) type Cache = BTreeMap<String, u64>;

/// Microseconds of the Unix epoch.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
