//! What was written: every acknowledged write of the load, which nobody else writes.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result, bail, ensure};

/// Namespace/name of an object.
pub(crate) type Key = Arc<str>;

/// The two kinds of objects that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Resource {
    ConfigMaps,
    Gadgets,
}

impl Resource {
    pub(crate) const ALL: [Self; 2] = [Self::ConfigMaps, Self::Gadgets];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ConfigMaps => "configmaps",
            Self::Gadgets => "gadgets",
        }
    }
}

/// A value of the label `lane`; some informers select one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    A,
    B,
}

impl Lane {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// One write that happened.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// Its resourceVersion. No answer tells that of a deletion: it is found in what informers saw.
    pub(crate) version: Option<u64>,
    /// The number in the object; of a deletion that of the last state.
    pub(crate) number: u64,
    /// The label; none: a deletion.
    pub(crate) lane: Option<Lane>,
    /// When its answer was read, in microseconds of the Unix epoch; none: the answer never came, and a later read found it done.
    pub(crate) acknowledged: Option<i64>,
}

/// Every write of one resource, by object, in order.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) objects: BTreeMap<Key, Vec<Write>>,
}

impl Truth {
    /// Versions of an object increase and no version is there twice.
    pub(crate) fn check(&self) -> Result<()> {
        let mut all = BTreeMap::new();
        for (key, writes) in &self.objects {
            let mut last = 0;
            for version in writes.iter().filter_map(|w| w.version) {
                ensure!(version > last, "{key}: acknowledged as {version} after {last}");
                last = version;
                if let Some(other) = all.insert(version, key) {
                    bail!("resourceVersion {version} was issued twice: for {other} and {key}");
                }
            }
        }
        Ok(())
    }

    /// An informer saw an object deleted at a version. Of all deletions of the object it is that which happened between the versions
    /// around it; all informers must have seen the same.
    pub(crate) fn saw_deletion(&mut self, key: &str, version: u64) -> Result<()> {
        let Some(writes) = self.objects.get_mut(key) else { return Ok(()) };
        if writes.iter().any(|w| w.version == Some(version)) {
            // A change of the label that took it out of what an informer selects, or known already.
            return Ok(());
        }
        let after = writes.iter().rposition(|w| w.lane.is_some() && w.version.is_some_and(|v| v < version));
        let deletion = writes
            .get_mut(after.map_or(0, |index| index + 1))
            .with_context(|| format!("{key} was seen deleted at {version}; nobody deleted it then"))?;
        ensure!(deletion.lane.is_none(), "{key} was seen deleted at {version}; nobody deleted it then: {deletion:?}");
        if let Some(known) = deletion.version.replace(version) {
            bail!("{key} was seen deleted once, by one informer at {known} and by another at {version}");
        }
        Ok(())
    }

    /// Number of writes.
    pub(crate) fn writes(&self) -> usize {
        self.objects.values().map(Vec::len).sum()
    }
}
