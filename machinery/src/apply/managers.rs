//! The entries of `managedFields`.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::set::FieldSet;
use crate::status::ApiError;

/// Update entries that an object keeps apart; older ones become [`ANCIENT`].
const MAX_UPDATE_MANAGERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// One entry: what one manager owns by one kind of operation.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    manager: String,
    applied: bool,
    version: String,
    subresource: String,
    time: Option<String>,
    pub(super) set: FieldSet,
}

impl Entry {
    pub(super) fn apply(manager: &str, subresource: &str, version: &str, now: &str, set: FieldSet) -> Self {
        Self { applied: true, ..Self::update(manager, subresource, version, now, set) }
    }

    pub(super) fn update(manager: &str, subresource: &str, version: &str, now: &str, set: FieldSet) -> Self {
        Self {
            manager: manager.into(),
            applied: false,
            version: version.into(),
            subresource: subresource.into(),
            time: Some(now.into()),
            set,
        }
    }

    pub(super) fn is_applied_by(&self, manager: &str, subresource: &str) -> bool {
        self.applied && self.manager == manager && self.subresource == subresource
    }

    /// Appliers are the same across versions, updaters are not.
    fn same(&self, other: &Self) -> bool {
        self.applied == other.applied
            && self.manager == other.manager
            && self.subresource == other.subresource
            && (self.applied || self.version == other.version)
    }

    fn printed(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if !self.applied {
            text.push_str(&format!(" using {}", self.version));
        }
        text
    }

    fn order(&self, other: &Self) -> Ordering {
        let operation = |e: &Self| u8::from(!e.applied);
        operation(self)
            .cmp(&operation(other))
            .then_with(|| self.time.cmp(&other.time))
            .then_with(|| self.manager.cmp(&other.manager))
            .then_with(|| self.version.cmp(&other.version))
            .then_with(|| self.subresource.cmp(&other.subresource))
    }
}

/// All entries of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Managers(Vec<Entry>);

impl Managers {
    /// From `metadata.managedFields`; entries that are not understood make all of it void, as upstream.
    pub(super) fn decode(fields: &Value) -> Self {
        let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_owned();
        let mut all = Self::default();
        for entry in fields.as_array().into_iter().flatten() {
            let applied = match entry["operation"].as_str() {
                Some("Apply") => true,
                Some("Update") => false,
                _ => return Self::default(),
            };
            if entry["fieldsType"] != "FieldsV1" || entry["apiVersion"].as_str().is_none_or(str::is_empty) {
                return Self::default();
            }
            all.put_union(Entry {
                manager: text(entry, "manager"),
                applied,
                version: text(entry, "apiVersion"),
                subresource: text(entry, "subresource"),
                time: entry["time"].as_str().map(str::to_owned),
                set: FieldSet::decode(&entry["fieldsV1"]),
            });
        }
        all
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }

    pub(super) fn applied(&self, manager: &str, subresource: &str) -> Option<&Entry> {
        self.0.iter().find(|e| e.is_applied_by(manager, subresource))
    }

    /// Sets an entry; an empty one goes.
    pub(super) fn put(&mut self, entry: Entry) {
        self.0.retain(|e| !e.same(&entry));
        if !entry.set.is_empty() {
            self.0.push(entry);
        }
    }

    /// Adds to an entry.
    pub(super) fn put_union(&mut self, entry: Entry) {
        match self.0.iter_mut().find(|e| e.same(&entry)) {
            Some(mine) => {
                mine.set.extend(&entry.set);
                mine.time = entry.time;
            }
            None => self.0.push(entry),
        }
    }

    /// Nobody (but the applier `except`) owns what another has written or removed.
    pub(super) fn release(&mut self, written: &FieldSet, removed: &FieldSet, except: Option<(&str, &str)>) {
        if written.is_empty() && removed.is_empty() {
            return;
        }
        for entry in &mut self.0 {
            if except.is_none_or(|(manager, subresource)| !entry.is_applied_by(manager, subresource)) {
                entry.set = entry.set.difference(written).difference(removed);
            }
        }
        self.0.retain(|e| !e.set.is_empty());
    }

    /// At most ten entries of updates: the oldest are merged, by version.
    pub(super) fn cap(&mut self) {
        let mut updates: Vec<Entry> = Vec::new();
        let mut rest: Vec<Entry> = Vec::new();
        for entry in self.0.drain(..) {
            if entry.applied { rest.push(entry) } else { updates.push(entry) }
        }
        updates.sort_by(Entry::order);
        let mut at = 0;
        while updates.len() > MAX_UPDATE_MANAGERS && at < updates.len() {
            let version = updates[at].version.clone();
            match updates[..at].iter().position(|e| e.version == version) {
                Some(bucket) => {
                    let merged = updates.remove(at);
                    let bucket = &mut updates[bucket];
                    bucket.manager = ANCIENT.into();
                    bucket.subresource = String::new();
                    bucket.set.extend(&merged.set);
                    bucket.time = merged.time;
                }
                None => at += 1,
            }
        }
        rest.extend(updates);
        self.0 = rest;
    }

    /// Gives entries that are as they were their time back; the applier's own too when the object did not change.
    pub(super) fn keep_time(&mut self, old: &Value, unchanged: bool) {
        let old = Self::decode(old);
        for entry in &mut self.0 {
            if let Some(before) = old.0.iter().find(|e| e.same(entry))
                && before.set == entry.set
                && (unchanged || !entry.applied)
            {
                entry.time.clone_from(&before.time);
            }
        }
    }

    /// To `metadata.managedFields`; null when there are none.
    pub(super) fn encode(&self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        let mut entries: Vec<&Entry> = self.0.iter().collect();
        entries.sort_by(|a, b| a.order(b));
        entries
            .into_iter()
            .map(|e| {
                let mut entry = json!({
                    "manager": e.manager,
                    "operation": if e.applied { "Apply" } else { "Update" },
                    "apiVersion": e.version,
                });
                if let Some(time) = &e.time {
                    entry["time"] = time.as_str().into();
                }
                entry["fieldsType"] = "FieldsV1".into();
                entry["fieldsV1"] = e.set.encode();
                if !e.subresource.is_empty() {
                    entry["subresource"] = e.subresource.as_str().into();
                }
                entry
            })
            .collect()
    }
}

/// Whether a request clears `managedFields`: `[]` or `[{}]`.
pub(super) fn is_reset(fields: &Value) -> bool {
    match fields.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

/// The entries without their times and in an order that does not depend on them.
pub(super) fn without_times(fields: &Value) -> Vec<Value> {
    let mut entries = fields.as_array().cloned().unwrap_or_default();
    for entry in &mut entries {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
    }
    entries
        .sort_by_cached_key(|e| format!("{}{}{}{}", e["operation"], e["manager"], e["apiVersion"], e["subresource"]));
    entries
}

/// 409 for fields that others own.
pub(super) fn conflict(conflicts: &[(&Entry, FieldSet)]) -> ApiError {
    let mut all: Vec<(String, String)> =
        conflicts.iter().flat_map(|(entry, set)| set.paths().into_iter().map(|path| (entry.printed(), path))).collect();
    all.sort();
    let message = match all.as_slice() {
        [(manager, path)] => format!("Apply failed with 1 conflict: conflict with {manager}: {path}"),
        many => {
            let mut lines = Vec::new();
            let mut last = "";
            for (manager, path) in many {
                if manager != last {
                    lines.push(format!("conflicts with {manager}:"));
                    last = manager;
                }
                lines.push(format!("- {path}"));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    let causes: Vec<Value> = all
        .iter()
        .map(|(manager, path)| {
            json!({ "reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": path })
        })
        .collect();
    ApiError { code: 409, reason: "Conflict", message, details: json!({ "causes": causes }) }
}
