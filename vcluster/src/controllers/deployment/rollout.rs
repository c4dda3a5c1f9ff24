//! The decisions about a Deployment; pure. One plan is one step: what it changes leads to the next reconcile.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::{
    conditions,
    numbers::{is_rolling, max_surge, max_unavailable, progress_deadline, replicas, sum},
    revision::{self, annotate_sizes, find_new, number, revision_of},
    scaling::proportional,
};
use crate::controllers::{
    object::{annotation, controller_of, flag, int, is_deleting, list, name, text, time, uid},
    pod,
};

/// A change of a ReplicaSet; `event` is the message of a ScalingReplicaSet event.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    Create { set: Value, event: Option<String> },
    Update { set: Value, event: Option<String> },
    Delete(Value),
}

/// One step of a rollout.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) acts: Vec<Act>,
    /// The deployment's revision annotation, when it changes.
    pub(super) revision: Option<String>,
    /// The whole status.
    pub(super) status: Value,
    /// When to look again although nothing changed: at the progress deadline.
    pub(super) again: Option<Timestamp>,
}

const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const AVAILABLE: &str = "NewReplicaSetAvailable";
const PAUSED: &str = "DeploymentPaused";

/// Plans the next step. `sets` are the deployment's ReplicaSets; `controlled_pods` all pods of the namespace that have a controller (only
/// looked at by the Recreate strategy).
pub(super) fn plan(deployment: &Value, sets: Vec<Value>, controlled_pods: &[Value], now: Timestamp) -> Plan {
    let mut rollout = Rollout {
        status: if deployment["status"].is_object() { deployment["status"].clone() } else { Value::Object(Map::new()) },
        deployment,
        sets,
        new: None,
        created: None,
        events: BTreeMap::new(),
        changed: Vec::new(),
        deleted: Vec::new(),
        revision: None,
        now,
    };
    let status = rollout.decide(controlled_pods);
    rollout.finish(status)
}

struct Rollout<'a> {
    deployment: &'a Value,
    /// The status with conditions set on the way.
    status: Value,
    sets: Vec<Value>,
    /// The ReplicaSet of the current template, in `sets`.
    new: Option<usize>,
    /// It is made by this plan.
    created: Option<usize>,
    events: BTreeMap<usize, String>,
    changed: Vec<usize>,
    deleted: Vec<usize>,
    revision: Option<String>,
    now: Timestamp,
}

impl Rollout<'_> {
    fn decide(&mut self, controlled_pods: &[Value]) -> Value {
        if is_deleting(self.deployment) {
            self.new = find_new(self.deployment, &self.sets);
            return self.computed_status();
        }
        self.note_pause();
        if flag(self.deployment, "/spec/paused") || self.is_scaling() {
            return self.sync();
        }
        if is_rolling(self.deployment) { self.roll() } else { self.recreate(controlled_pods) }
    }

    fn wanted(&self) -> i64 {
        replicas(self.deployment)
    }

    fn old(&self) -> Vec<usize> {
        let mut old: Vec<usize> = (0..self.sets.len()).filter(|i| Some(*i) != self.new).collect();
        old.sort_by_key(|i| {
            (text(&self.sets[*i], "/metadata/creationTimestamp").to_owned(), name(&self.sets[*i]).to_owned())
        });
        old
    }

    /// Paused time does not count against the progress deadline.
    fn note_pause(&mut self) {
        if progress_deadline(self.deployment).is_none() {
            return;
        }
        let reason = conditions::get(&self.status, "Progressing").map(|c| text(c, "/reason").to_owned());
        if reason.as_deref() == Some(TIMED_OUT) {
            return;
        }
        let paused = flag(self.deployment, "/spec/paused");
        let noted = reason.as_deref() == Some(PAUSED);
        let (reason, message) = match (paused, noted) {
            (true, false) => (PAUSED, "Deployment is paused"),
            (false, true) => ("DeploymentResumed", "Deployment is resumed"),
            _ => return,
        };
        conditions::set(&mut self.status, conditions::progressing("Unknown", reason, message.into(), self.now));
    }

    /// The deployment has another size than its active ReplicaSets were last scaled for.
    fn is_scaling(&self) -> bool {
        self.sets
            .iter()
            .filter(|s| replicas(s) > 0)
            .any(|s| number(s, revision::DESIRED).is_some_and(|desired| desired != self.wanted()))
    }

    /// Finds (or makes) the new ReplicaSet and brings revisions and annotations up to date.
    fn sync_revision(&mut self, create: bool) {
        self.new = find_new(self.deployment, &self.sets);
        let newest = self.old().into_iter().map(|i| revision_of(&self.sets[i])).max().unwrap_or(0);
        let deadline = progress_deadline(self.deployment).is_some();
        if let Some(i) = self.new {
            let mut changed = revision::annotate(self.deployment, &mut self.sets[i], newest + 1, true);
            let min_ready = int(self.deployment, "/spec/minReadySeconds").unwrap_or(0);
            if int(&self.sets[i], "/spec/minReadySeconds").unwrap_or(0) != min_ready {
                self.sets[i]["spec"]["minReadySeconds"] = min_ready.into();
                changed = true;
            }
            if changed {
                self.touch(i);
            }
            if deadline && conditions::get(&self.status, "Progressing").is_none() {
                let message = format!("Found new replica set \"{}\"", name(&self.sets[i]));
                conditions::set(
                    &mut self.status,
                    conditions::progressing("True", "FoundNewReplicaSet", message, self.now),
                );
            }
        } else if create {
            let mut set = revision::new_set(self.deployment);
            let message = format!("Created new replica set \"{}\"", name(&set));
            revision::annotate(self.deployment, &mut set, newest + 1, false);
            self.sets.push(set);
            let i = self.sets.len() - 1;
            (self.new, self.created) = (Some(i), Some(i));
            let size = self.next_size(i);
            self.sets[i]["spec"]["replicas"] = size.into();
            if size > 0 {
                self.events.insert(i, format!("Scaled up replica set {} from 0 to {size}", name(&self.sets[i])));
            }
            if deadline {
                conditions::set(
                    &mut self.status,
                    conditions::progressing("True", "NewReplicaSetCreated", message, self.now),
                );
            }
        }
        if let Some(i) = self.new {
            let revision = revision_of(&self.sets[i]).to_string();
            if annotation(self.deployment, revision::REVISION) != Some(&revision) {
                self.revision = Some(revision);
            }
        }
    }

    fn touch(&mut self, i: usize) {
        if Some(i) != self.created && !self.changed.contains(&i) {
            self.changed.push(i);
        }
    }

    /// Gives a ReplicaSet a size; true when that changes it.
    fn scale(&mut self, i: usize, size: i64) -> bool {
        let before = replicas(&self.sets[i]);
        if annotate_sizes(self.deployment, &mut self.sets[i]) {
            self.touch(i);
        }
        if before == size {
            return false;
        }
        self.sets[i]["spec"]["replicas"] = size.into();
        self.touch(i);
        let direction = if size > before { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {} from {before} to {size}", name(&self.sets[i]));
        self.events.insert(i, message);
        true
    }

    /// How far the new ReplicaSet may grow now.
    fn next_size(&self, new: usize) -> i64 {
        if !is_rolling(self.deployment) {
            return self.wanted();
        }
        let size = replicas(&self.sets[new]);
        let total: i64 = self.sets.iter().map(replicas).sum();
        let room = self.wanted() + max_surge(self.deployment) - total;
        if room <= 0 { size } else { size + room.min(self.wanted() - size) }
    }

    /// Resizing, and all that a paused deployment does.
    fn sync(&mut self) -> Value {
        self.sync_revision(false);
        self.resize();
        if flag(self.deployment, "/spec/paused") {
            self.clean_up();
        }
        self.computed_status()
    }

    fn resize(&mut self) {
        let wanted = self.wanted();
        if let Some(only) = self.only_active_or_latest() {
            if replicas(&self.sets[only]) != wanted {
                self.scale(only, wanted);
            } else if annotate_sizes(self.deployment, &mut self.sets[only]) {
                self.touch(only);
            }
            return;
        }
        if self.is_saturated() {
            for i in self.old() {
                if replicas(&self.sets[i]) > 0 {
                    self.scale(i, 0);
                }
            }
            return;
        }
        if is_rolling(self.deployment) {
            let active: Vec<usize> = (0..self.sets.len()).filter(|i| replicas(&self.sets[*i]) > 0).collect();
            let sizes = proportional(self.deployment, &active.iter().map(|i| &self.sets[*i]).collect::<Vec<_>>());
            for (i, size) in active.into_iter().zip(sizes) {
                self.scale(i, size);
            }
        }
    }

    /// The one active ReplicaSet; when none is active the new one, or the newest old one. None when several are active.
    fn only_active_or_latest(&self) -> Option<usize> {
        let active: Vec<usize> = (0..self.sets.len()).filter(|i| replicas(&self.sets[*i]) > 0).collect();
        match active.as_slice() {
            [] => self.new.or_else(|| self.old().last().copied()),
            [one] => Some(*one),
            _ => None,
        }
    }

    /// The new ReplicaSet has its full size and all of it is available.
    fn is_saturated(&self) -> bool {
        self.new.is_some_and(|i| {
            let set = &self.sets[i];
            replicas(set) == self.wanted()
                && number(set, revision::DESIRED) == Some(self.wanted())
                && int(set, "/status/availableReplicas").unwrap_or(0) == self.wanted()
        })
    }

    fn roll(&mut self) -> Value {
        self.sync_revision(true);
        let grew = self.resize_new();
        if !grew && !self.shrink_old() && self.is_complete(&self.status) {
            self.clean_up();
        }
        self.rollout_status()
    }

    fn resize_new(&mut self) -> bool {
        let Some(new) = self.new else { return false };
        if Some(new) == self.created {
            return true;
        }
        let size = replicas(&self.sets[new]);
        if size == self.wanted() {
            return false;
        }
        let next = if size > self.wanted() { self.wanted() } else { self.next_size(new) };
        self.scale(new, next)
    }

    /// Shrinks old ReplicaSets as far as availability allows: first what is not available anyway.
    fn shrink_old(&mut self) -> bool {
        let old: Vec<usize> = self.old();
        let available = |s: &Value| int(s, "/status/availableReplicas").unwrap_or(0);
        if old.iter().map(|i| replicas(&self.sets[*i])).sum::<i64>() == 0 {
            return false;
        }
        let total: i64 = self.sets.iter().map(replicas).sum();
        let least = self.wanted() - max_unavailable(self.deployment);
        let new_unavailable = self.new.map_or(0, |i| replicas(&self.sets[i]) - available(&self.sets[i]));
        let most = total - least - new_unavailable;
        if most <= 0 {
            return false;
        }
        let mut removed = 0;
        for i in &old {
            let (size, available) = (replicas(&self.sets[*i]), available(&self.sets[*i]));
            if removed >= most || size == 0 || size <= available {
                continue;
            }
            let step = (most - removed).min(size - available);
            self.scale_quietly(*i, size - step);
            removed += step;
        }
        let spare = self.sets.iter().map(available).sum::<i64>() - least;
        let mut shrunk = 0;
        for i in &old {
            let size = replicas(&self.sets[*i]);
            if shrunk >= spare || size == 0 {
                continue;
            }
            let step = size.min(spare - shrunk);
            self.scale_quietly(*i, size - step);
            shrunk += step;
        }
        removed + shrunk.max(0) > 0
    }

    /// As [`Rollout::scale`]; two steps of one plan give one event over both.
    fn scale_quietly(&mut self, i: usize, size: i64) {
        let first = self.events.get(&i).and_then(|e| e.split(" from ").nth(1)?.split(' ').next()?.parse::<i64>().ok());
        self.scale(i, size);
        if let Some(first) = first {
            self.events.insert(i, format!("Scaled down replica set {} from {first} to {size}", name(&self.sets[i])));
        }
    }

    fn recreate(&mut self, controlled_pods: &[Value]) -> Value {
        self.sync_revision(false);
        let mut shrunk = false;
        for i in self.old() {
            if replicas(&self.sets[i]) > 0 {
                shrunk |= self.scale(i, 0);
            }
        }
        if shrunk || self.old_pods_running(controlled_pods) {
            return self.rollout_status();
        }
        if self.new.is_none() {
            self.sync_revision(true);
        } else if let Some(new) = self.new {
            self.scale(new, self.wanted());
        }
        if self.is_complete(&self.status) {
            self.clean_up();
        }
        self.rollout_status()
    }

    fn old_pods_running(&self, controlled_pods: &[Value]) -> bool {
        let old = self.old();
        if sum(old.iter().map(|i| &self.sets[*i]), "/status/replicas") > 0 {
            return true;
        }
        let uids: Vec<&str> = old.iter().map(|i| uid(&self.sets[*i])).collect();
        controlled_pods
            .iter()
            .any(|p| !pod::is_terminal(p) && controller_of(p).is_some_and(|o| uids.contains(&text(o, "/uid"))))
    }

    /// Deletes the oldest ReplicaSets beyond the history limit that are empty and settled.
    fn clean_up(&mut self) {
        let Some(limit) = int(self.deployment, "/spec/revisionHistoryLimit").filter(|l| *l != i64::from(i32::MAX))
        else {
            return;
        };
        let mut old: Vec<usize> = self.old().into_iter().filter(|i| !is_deleting(&self.sets[*i])).collect();
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        old.sort_by_key(|i| revision_of(&self.sets[*i]));
        for i in old.into_iter().take(surplus) {
            let set = &self.sets[i];
            let settled =
                int(set, "/metadata/generation").unwrap_or(0) <= int(set, "/status/observedGeneration").unwrap_or(0);
            if replicas(set) == 0 && int(set, "/status/replicas").unwrap_or(0) == 0 && settled {
                self.deleted.push(i);
            }
        }
    }

    /// Everything in this status is new and available.
    fn is_complete(&self, status: &Value) -> bool {
        let count = |field| int(status, field).unwrap_or(0);
        count("/updatedReplicas") == self.wanted()
            && count("/replicas") == self.wanted()
            && count("/availableReplicas") == self.wanted()
            && count("/observedGeneration") >= int(self.deployment, "/metadata/generation").unwrap_or(0)
    }

    /// Counts and the condition Available.
    fn computed_status(&self) -> Value {
        let existing: Vec<&Value> = self.sets.iter().collect();
        let available = sum(existing.iter().copied(), "/status/availableReplicas");
        let sizes: i64 = self.sets.iter().map(replicas).sum();
        let updated = self.new.map_or(0, |i| int(&self.sets[i], "/status/replicas").unwrap_or(0));
        let mut status = Map::new();
        for (field, count) in [
            ("observedGeneration", int(self.deployment, "/metadata/generation").unwrap_or(0)),
            ("replicas", sum(existing.iter().copied(), "/status/replicas")),
            ("updatedReplicas", updated),
            ("readyReplicas", sum(existing.iter().copied(), "/status/readyReplicas")),
            ("availableReplicas", available),
            ("unavailableReplicas", (sizes - available).max(0)),
        ] {
            if count != 0 {
                status.insert(field.into(), count.into());
            }
        }
        let terminating: Option<i64> =
            existing.iter().filter(|s| s.get("status").is_some()).map(|s| int(s, "/status/terminatingReplicas")).sum();
        if let Some(terminating) = terminating {
            status.insert("terminatingReplicas".into(), terminating.into());
        }
        if let Some(count) = int(&self.status, "/collisionCount") {
            status.insert("collisionCount".into(), count.into());
        }
        let present = list(&self.status, "/conditions");
        if !present.is_empty() {
            status.insert("conditions".into(), present.to_vec().into());
        }
        let mut status = Value::Object(status);
        let condition = if available >= self.wanted() - max_unavailable(self.deployment) {
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        let (is, reason, message) = condition;
        conditions::set(&mut status, conditions::new("Available", is, reason, message.into(), self.now));
        status
    }

    /// The status during a rollout, with the conditions Progressing and ReplicaFailure.
    fn rollout_status(&self) -> Value {
        let mut status = self.computed_status();
        let current = conditions::get(&self.status, "Progressing").cloned();
        if progress_deadline(self.deployment).is_none() {
            conditions::remove(&mut status, "Progressing");
        } else {
            let done = int(&status, "/replicas") == int(&status, "/updatedReplicas")
                && current.as_ref().is_some_and(|c| text(c, "/reason") == AVAILABLE);
            if !done {
                self.note_progress(&mut status, current.as_ref());
            }
        }
        let failure = self
            .new
            .into_iter()
            .chain(self.old())
            .find_map(|i| conditions::get(&self.sets[i]["status"], "ReplicaFailure"));
        match failure {
            Some(failure) => {
                let at = failure["lastTransitionTime"].clone();
                let mut condition = conditions::new(
                    "ReplicaFailure",
                    text(failure, "/status"),
                    text(failure, "/reason"),
                    text(failure, "/message").to_owned(),
                    self.now,
                );
                condition["lastTransitionTime"] = at.clone();
                condition["lastUpdateTime"] = at;
                conditions::set(&mut status, condition);
            }
            None => conditions::remove(&mut status, "ReplicaFailure"),
        }
        status
    }

    fn note_progress(&self, status: &mut Value, current: Option<&Value>) {
        let subject = match self.new {
            Some(i) => format!("ReplicaSet \"{}\"", name(&self.sets[i])),
            None => format!("Deployment \"{}\"", name(self.deployment)),
        };
        if self.is_complete(status) {
            let message = format!("{subject} has successfully progressed.");
            conditions::set(status, conditions::progressing("True", AVAILABLE, message, self.now));
        } else if self.has_progressed(status) {
            let mut condition =
                conditions::progressing("True", "ReplicaSetUpdated", format!("{subject} is progressing."), self.now);
            if let Some(current) = current {
                if text(current, "/status") == "True" {
                    condition["lastTransitionTime"] = current["lastTransitionTime"].clone();
                }
                conditions::remove(status, "Progressing");
            }
            conditions::set(status, condition);
        } else if self.deadline(current).is_some_and(|at| at < self.now) {
            let message = format!("{subject} has timed out progressing.");
            conditions::set(status, conditions::progressing("False", TIMED_OUT, message, self.now));
        }
    }

    /// More new pods, fewer old ones, or more that work than the stored status says.
    fn has_progressed(&self, status: &Value) -> bool {
        let before = |field| int(&self.deployment["status"], field).unwrap_or(0);
        let now = |field| int(status, field).unwrap_or(0);
        now("/updatedReplicas") > before("/updatedReplicas")
            || now("/replicas") - now("/updatedReplicas") < before("/replicas") - before("/updatedReplicas")
            || now("/readyReplicas") > before("/readyReplicas")
            || now("/availableReplicas") > before("/availableReplicas")
    }

    /// When the rollout counts as stuck; none while there is nothing to wait for.
    fn deadline(&self, progressing: Option<&Value>) -> Option<Timestamp> {
        let condition = progressing.filter(|c| text(c, "/reason") != AVAILABLE)?;
        let seconds = progress_deadline(self.deployment)?;
        time(condition, "/lastUpdateTime")?.checked_add(SignedDuration::from_secs(seconds)).ok()
    }

    fn finish(mut self, status: Value) -> Plan {
        let progressing = conditions::get(&status, "Progressing");
        let again = (!self.is_complete(&status) && progressing.is_some_and(|c| text(c, "/reason") != TIMED_OUT))
            .then(|| self.deadline(progressing).and_then(|at| at.checked_add(SignedDuration::from_secs(1)).ok()))
            .flatten();
        let mut acts = Vec::new();
        if let Some(i) = self.created {
            acts.push(Act::Create { set: self.sets[i].clone(), event: self.events.remove(&i) });
        }
        for i in self.changed.iter().filter(|i| !self.deleted.contains(i)) {
            acts.push(Act::Update { set: self.sets[*i].clone(), event: self.events.remove(i) });
        }
        acts.extend(self.deleted.iter().map(|i| Act::Delete(self.sets[*i].clone())));
        Plan { acts, revision: self.revision, status, again }
    }
}

#[cfg(test)]
mod tests;
