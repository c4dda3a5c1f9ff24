//! Holds what an informer saw against what was written.
//!
//! A list must be the state at one version, not older than what the informer knew. From there on its watch must deliver exactly the
//! changes that follow, each once, in order, with the right type and content, also across reconnects; until it is told 410 and lists
//! again. Objects that others write (root certificates, releases of helm) are held to increasing versions.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    record::{Item, Kind, Record},
    truth::{Key, Lane, Truth},
};

/// A change as a selection sees it.
#[derive(Debug, Clone)]
struct Change {
    version: u64,
    key: Key,
    kind: Kind,
    number: u64,
    acknowledged: Option<i64>,
}

/// What one informer did, when nothing was wrong.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    /// Events of the load's objects.
    pub(crate) events: usize,
    pub(crate) lists: usize,
    pub(crate) expired: usize,
    /// Connections lost or refused.
    pub(crate) failed: usize,
    /// When each event's write was acknowledged, and how much later it was delivered, in microseconds.
    pub(crate) lags: Vec<(i64, i64)>,
}

/// State of an object after a write, as a selection sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Is(Option<u64>),
    /// Deleted at a version that nobody saw: until it is made anew, it is there as it was or gone.
    MayBeGone(Option<u64>),
}

impl Seen {
    fn fits(self, listed: Option<u64>) -> bool {
        match self {
            Self::Is(version) => version == listed,
            Self::MayBeGone(version) => listed.is_none() || version == listed,
        }
    }
}

/// What a selection would have seen.
pub(crate) struct Expectation {
    changes: Vec<Change>,
    /// Every write: its version, whose object (by index), and what is to be seen after it.
    states: Vec<(u64, usize, Seen)>,
    index: HashMap<Key, usize>,
    /// Content by version.
    numbers: HashMap<u64, u64>,
}

impl Expectation {
    /// Of a truth whose deletions are known as far as anybody saw them.
    pub(crate) fn new(truth: &Truth, lane: Option<Lane>) -> Self {
        let mut made = Self { changes: Vec::new(), states: Vec::new(), index: HashMap::new(), numbers: HashMap::new() };
        for (key, writes) in &truth.objects {
            let index = made.index.len();
            made.index.insert(key.clone(), index);
            let mut before: Option<(u64, u64)> = None;
            for (at, write) in writes.iter().enumerate() {
                let visible = write.lane.is_some_and(|l| lane.is_none_or(|wanted| wanted == l));
                let Some(version) = write.version else {
                    before = None;
                    continue;
                };
                let after = visible.then_some((version, write.number));
                made.numbers.insert(version, write.number);
                let lost = writes.get(at + 1).is_some_and(|next| next.version.is_none());
                let seen = after.map(|a| a.0);
                made.states.push((version, index, if lost { Seen::MayBeGone(seen) } else { Seen::Is(seen) }));
                let kind = match (before, after) {
                    (None, Some(_)) => Some(Kind::Added),
                    (Some(_), Some(_)) => Some(Kind::Modified),
                    (Some(_), None) => Some(Kind::Deleted),
                    (None, None) => None,
                };
                if let Some(kind) = kind {
                    // What goes is shown as it was last.
                    let number = after.or(before).map_or(0, |(_, number)| number);
                    let acknowledged = write.acknowledged;
                    made.changes.push(Change { version, key: key.clone(), kind, number, acknowledged });
                }
                before = after;
            }
        }
        made.changes.sort_unstable_by_key(|c| c.version);
        made.states.sort_unstable_by_key(|s| s.0);
        made
    }

    /// Positions in the changes at which everything is as listed: every version range whose state is that.
    fn positions(&self, version: Option<u64>, items: &[Item]) -> Result<Vec<usize>> {
        let mut listed = vec![None; self.index.len()];
        for item in items {
            let Some(&index) = self.index.get(&item.key) else { continue };
            ensure!(
                self.numbers.get(&item.version).copied() == item.number,
                "the list has {item:?}, which nobody wrote"
            );
            listed[index] = Some(item.version);
        }
        let mut now = vec![Seen::Is(None); self.index.len()];
        let mut wrong = listed.iter().filter(|l| l.is_some()).count();
        let mut positions = Vec::new();
        let mut least = (usize::MAX, 0);
        let mut note = |from: u64, until: u64, wrong: usize| {
            let wanted = version.is_none_or(|v| from <= v && v < until);
            if wanted && wrong < least.0 {
                least = (wrong, from);
            }
            if wanted && wrong == 0 {
                let position = self.changes.partition_point(|c| c.version <= from);
                if positions.last() != Some(&position) {
                    positions.push(position);
                }
            }
        };
        let mut from = 0;
        for &(at, index, seen) in &self.states {
            note(from, at, wrong);
            let before = now[index].fits(listed[index]);
            now[index] = seen;
            match (before, seen.fits(listed[index])) {
                (true, false) => wrong += 1,
                (false, true) => wrong -= 1,
                _ => {}
            }
            from = at;
        }
        note(from, u64::MAX, wrong);
        ensure!(
            !positions.is_empty(),
            "a list at {version:?} of {} objects is the state at no version: nearest is {} with {} objects different",
            items.len(),
            least.1,
            least.0
        );
        Ok(positions)
    }

    /// Goes through everything that an informer saw.
    pub(crate) fn hold(&self, records: &[Record]) -> Result<Findings> {
        let mut findings = Findings::default();
        // Which changes may come next: several only after a list whose client does not tell its version.
        let mut next: Vec<usize> = Vec::new();
        let mut relist = true;
        let mut newest = 0;
        let mut others: BTreeMap<Key, u64> = BTreeMap::new();
        for (line, record) in records.iter().enumerate() {
            match record {
                Record::List { version, items } => {
                    ensure!(relist, "line {line}: listed again although nothing had expired");
                    relist = false;
                    findings.lists += 1;
                    let known = next.first().copied().unwrap_or_default();
                    next = self.positions(*version, items).with_context(|| format!("line {line}"))?;
                    next.retain(|p| *p >= known);
                    ensure!(!next.is_empty(), "line {line}: a list went back behind what the watch had delivered");
                    newest = 0;
                    for item in items.iter().filter(|i| !self.index.contains_key(&i.key)) {
                        let before = others.insert(item.key.clone(), item.version).unwrap_or_default();
                        ensure!(before <= item.version, "line {line}: {item:?} was listed after {before}");
                    }
                }
                // From here on everything, but it does not tell from where.
                Record::Started => {
                    findings.lists += 1;
                    next = Vec::new();
                    newest = 0;
                }
                Record::Event { kind, item, at } => {
                    ensure!(findings.lists > 0, "line {line}: an event before the first list");
                    ensure!(item.version > newest, "line {line}: {kind:?} {item:?} after {newest}");
                    newest = item.version;
                    if !self.index.contains_key(&item.key) {
                        let before = others.insert(item.key.clone(), item.version).unwrap_or_default();
                        ensure!(before < item.version, "line {line}: {kind:?} {item:?} after {before}");
                        continue;
                    }
                    if next.is_empty() {
                        next.extend(self.changes.binary_search_by_key(&item.version, |c| c.version));
                    }
                    let found = next.iter().copied().find(|p| self.changes.get(*p).is_some_and(|c| c.is(*kind, item)));
                    let Some(found) = found else {
                        bail!("line {line}: {}", self.explain(&next, *kind, item));
                    };
                    findings.events += 1;
                    if let Some(written) = self.changes[found].acknowledged {
                        findings.lags.push((written, (at - written).max(0)));
                    }
                    next = vec![found + 1];
                }
                Record::Expired { .. } => {
                    relist = true;
                    findings.expired += 1;
                }
                Record::Failed(_) => findings.failed += 1,
            }
        }
        ensure!(findings.lists > 0, "it never listed");
        let left = next.iter().map(|p| self.changes.len() - p).min().unwrap_or_default();
        let first = next.first().and_then(|p| self.changes.get(*p));
        ensure!(left == 0, "{left} changes were never delivered, the first: {first:?}");
        Ok(findings)
    }

    fn explain(&self, next: &[usize], kind: Kind, item: &Item) -> String {
        let position = next.first().copied().unwrap_or_default();
        let expected = self.changes.get(position);
        let around = self.changes.iter().position(|c| c.is(kind, item));
        let what = match around {
            Some(at) if at < position => "doubled or out of order",
            Some(at) => {
                return format!("missed {} changes, the first: {expected:?}; came: {kind:?} {item:?}", at - position);
            }
            None => "not what was written",
        };
        let same = self.changes.iter().find(|c| c.version == item.version);
        format!("{what}: {kind:?} {item:?}; expected: {expected:?}; written at that version: {same:?}")
    }
}

impl Change {
    fn is(&self, kind: Kind, item: &Item) -> bool {
        let kind = self.kind == kind || (kind == Kind::Applied && self.kind != Kind::Deleted);
        kind && self.version == item.version && self.key == item.key && Some(self.number) == item.number
    }
}
