//! Whether a job has ended, and which pods it needs; pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    backoff, condition_true,
    indexes::{Indexes, is_indexed, of_pod},
    is_failed, is_suspended, pods,
    policy::{self, Action},
    replaces_failed_only,
    tracking::Counts,
};
use crate::controllers::{
    object::{int, list, text, time, uid},
    pod,
    replica_set::ranking::first_to_go,
};

/// Pods created or deleted in one reconcile.
const BURST: usize = 500;

/// How a job ends: first it is decided, then, when all pods are counted and gone, final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    success: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl End {
    fn failed(reason: &'static str, message: impl Into<String>) -> Self {
        Self { success: false, reason, message: message.into() }
    }

    /// All completions are there.
    pub(super) fn complete() -> Self {
        Self {
            success: true,
            reason: "CompletionsReached",
            message: "Reached expected number of succeeded pods".into(),
        }
    }

    pub(super) fn is_success(&self) -> bool {
        self.success
    }

    /// The condition that says that it is decided.
    pub(super) fn interim(&self) -> &'static str {
        if self.success { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    /// The condition that says that it is over.
    pub(super) fn last(&self) -> &'static str {
        if self.success { "Complete" } else { "Failed" }
    }
}

/// Reasons that a condition can have.
const REASONS: [&str; 8] = [
    "CompletionsReached",
    "SuccessPolicy",
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "MaxFailedIndexesExceeded",
    "FailedIndexes",
    "PodFailurePolicy",
    "FailureTarget",
];

/// What an earlier reconcile decided.
fn decided(job: &Value) -> Option<End> {
    let (condition, success) = condition_true(job, "SuccessCriteriaMet")
        .map(|c| (c, true))
        .or_else(|| condition_true(job, "FailureTarget").map(|c| (c, false)))?;
    let reason = REASONS.iter().find(|r| **r == text(condition, "/reason")).copied().unwrap_or_default();
    Some(End { success, reason, message: text(condition, "/message").to_owned() })
}

/// Whether the job has ended for another reason than that all is done; fills in which indexes have failed.
pub(super) fn end(job: &Value, counts: &mut Counts, now: Timestamp) -> Option<End> {
    let mut end = decided(job).or_else(|| by_policy(job, &counts.pods));
    if end.is_none() {
        let limit = int(job, "/spec/backoffLimit").unwrap_or(6);
        if counts.failed > limit || restarted_too_often(job, &counts.pods, limit) {
            end = Some(End::failed("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
        } else if deadline(job).is_some_and(|at| at <= now) {
            end = Some(End::failed("DeadlineExceeded", "Job was active longer than specified deadline"));
        }
    }
    if !is_indexed(job) {
        return end;
    }
    if let Some(limit) = int(job, "/spec/backoffLimitPerIndex") {
        let failed = failed_indexes(job, &counts.pods, limit);
        let (bad, good) = (failed.len(), counts.succeeded_indexes.len());
        if end.is_none() {
            if int(job, "/spec/maxFailedIndexes").is_some_and(|most| bad > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                end = Some(End::failed("MaxFailedIndexesExceeded", message));
            } else if bad > 0 && bad + good >= int(job, "/spec/completions").unwrap_or(0) {
                end = Some(End::failed("FailedIndexes", "Job has failed indexes"));
            }
        }
        for (index, last) in last_failures(job, &counts.pods) {
            let replaced = counts.pods.iter().any(|p| pod::is_active(p) && of_pod(job, p) == Some(index));
            if !replaced && !failed.contains(index) && !counts.succeeded_indexes.contains(index) {
                counts.delayed.insert(uid(last).to_owned());
            }
        }
        counts.failed_indexes = Some(failed);
    }
    end.or_else(|| {
        let message = policy::success(job, &counts.succeeded_indexes)?;
        Some(End { success: true, reason: "SuccessPolicy", message })
    })
}

fn by_policy(job: &Value, pods: &[Value]) -> Option<End> {
    pods.iter().filter(|p| is_failed(job, p)).find_map(|p| match policy::on_failure(job, p) {
        Action::FailJob(message) => Some(End::failed("PodFailurePolicy", message)),
        _ => None,
    })
}

/// With `restartPolicy: OnFailure` restarts of containers count instead of pods.
fn restarted_too_often(job: &Value, pods: &[Value], limit: i64) -> bool {
    if text(job, "/spec/template/spec/restartPolicy") != "OnFailure" {
        return false;
    }
    let restarts: i64 = pods
        .iter()
        .filter(|p| matches!(pod::phase(p), "Running" | "Pending"))
        .flat_map(|p| list(p, "/status/initContainerStatuses").iter().chain(list(p, "/status/containerStatuses")))
        .filter_map(|s| int(s, "/restartCount"))
        .sum();
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

/// When `activeDeadlineSeconds` are over; none when there is no such time, or while the job is suspended. A job that is being resumed
/// still says Suspended: its time starts anew.
pub(super) fn deadline(job: &Value) -> Option<Timestamp> {
    let suspended = is_suspended(job) || condition_true(job, "Suspended").is_some();
    let seconds = int(job, "/spec/activeDeadlineSeconds").filter(|_| !suspended)?;
    time(job, "/status/startTime")?.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn failed_indexes(job: &Value, pods: &[Value], limit: i64) -> Indexes {
    let mut failed = Indexes::parse(text(job, "/status/failedIndexes"), int(job, "/spec/completions").unwrap_or(0));
    for pod in pods.iter().filter(|p| is_failed(job, p)) {
        let Some(index) = of_pod(job, pod) else { continue };
        let gives_up = match policy::on_failure(job, pod) {
            Action::FailIndex => true,
            Action::Ignore => false,
            _ => pods::failures_before(pod) >= limit,
        };
        if gives_up {
            failed.0.insert(index);
        }
    }
    failed
}

/// The failed pod of each index that failed last.
fn last_failures<'a>(job: &Value, pods: &'a [Value]) -> BTreeMap<i64, &'a Value> {
    let mut last: BTreeMap<i64, &Value> = BTreeMap::new();
    for pod in pods.iter().filter(|p| is_failed(job, p)) {
        if let Some(index) = of_pod(job, pod)
            && last.get(&index).is_none_or(|l| pods::all_failures_before(l) <= pods::all_failures_before(pod))
        {
            last.insert(index, pod);
        }
    }
    last
}

/// Whether all is done, with so many pods left active.
pub(super) fn is_complete(job: &Value, counts: &Counts, active: usize) -> bool {
    match int(job, "/spec/completions") {
        // Of a work queue: as soon as one has succeeded, the others are waited for.
        None => counts.succeeded > 0 && active == 0,
        Some(completions) => counts.succeeded >= completions && active == 0,
    }
}

/// What brings the number of active pods to the wanted one.
#[derive(Debug, PartialEq)]
pub(super) enum Manage {
    Nothing,
    Delete(Vec<Value>),
    /// `again`: when more can be created.
    Create {
        pods: Vec<Value>,
        again: Option<Timestamp>,
    },
}

pub(super) fn manage(job: &Value, counts: &Counts, now: Timestamp) -> Manage {
    let active = counts.active();
    let parallelism = usize::try_from(int(job, "/spec/parallelism").unwrap_or(1)).unwrap_or(0);
    if is_suspended(job) {
        return if active.is_empty() { Manage::Nothing } else { Manage::Delete(active) };
    }
    let wanted = match int(job, "/spec/completions") {
        None if counts.succeeded > 0 => active.len(),
        None => parallelism,
        Some(completions) => usize::try_from(completions - counts.succeeded).unwrap_or(0).min(parallelism),
    };
    let mut surplus = surplus(job, &active, active.len().saturating_sub(wanted), now);
    if !surplus.is_empty() {
        surplus.truncate(BURST);
        return Manage::Delete(surplus);
    }
    let waiting = if replaces_failed_only(job) { counts.terminating() } else { 0 };
    let missing = wanted.saturating_sub(active.len() + waiting).min(BURST);
    if missing == 0 {
        return Manage::Nothing;
    }
    let per_index = int(job, "/spec/backoffLimitPerIndex").is_some();
    if !per_index && let Some(at) = backoff::until(job, &counts.pods).filter(|at| *at > now) {
        return Manage::Create { pods: Vec::new(), again: Some(at) };
    }
    if !is_indexed(job) {
        return Manage::Create { pods: vec![pods::new(job); missing], again: None };
    }
    indexed(job, counts, missing, per_index, now)
}

/// Pods for the first indexes that have none.
fn indexed(job: &Value, counts: &Counts, missing: usize, per_index: bool, now: Timestamp) -> Manage {
    let occupies = |p: &&Value| pod::is_active(p) || (replaces_failed_only(job) && pod::is_terminating(p));
    let occupied: BTreeSet<i64> = counts.pods.iter().filter(occupies).filter_map(|p| of_pod(job, p)).collect();
    let last = last_failures(job, &counts.pods);
    let mut pods = Vec::new();
    let mut again: Option<Timestamp> = None;
    for index in 0..int(job, "/spec/completions").unwrap_or(0) {
        if pods.len() >= missing {
            break;
        }
        if occupied.contains(&index)
            || counts.succeeded_indexes.contains(index)
            || counts.failed_indexes.as_ref().is_some_and(|f| f.contains(index))
        {
            continue;
        }
        let last = last.get(&index).copied();
        if per_index
            && let Some(at) =
                last.and_then(|l| backoff::until_index(l, pods::all_failures_before(l))).filter(|at| *at > now)
        {
            again = Some(again.map_or(at, |a| a.min(at)));
            continue;
        }
        pods.push(pods::of_index(job, index, last));
    }
    Manage::Create { pods, again }
}

/// At least `count` pods that are not needed, and of an indexed job all that have no index of their own.
fn surplus(job: &Value, active: &[Value], count: usize, now: Timestamp) -> Vec<Value> {
    let mut surplus = Vec::new();
    let mut rest = Vec::new();
    if is_indexed(job) {
        let mut by_index: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
        for pod in active {
            match of_pod(job, pod) {
                Some(index) => by_index.entry(index).or_default().push(pod.clone()),
                None => surplus.push(pod.clone()),
            }
        }
        for same in by_index.into_values() {
            let doubles = first_to_go(&same, &[], same.len() - 1, now);
            rest.extend(same.into_iter().filter(|p| !doubles.iter().any(|d| uid(d) == uid(p))));
            surplus.extend(doubles);
        }
    } else {
        rest = active.to_vec();
    }
    if surplus.len() < count {
        surplus.extend(first_to_go(&rest, &[], count - surplus.len(), now));
    }
    surplus
}
