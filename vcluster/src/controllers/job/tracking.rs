//! Counting pods exactly once: a pod keeps a finalizer until it stands in `status.uncountedTerminatedPods`, and stands there until the
//! finalizer is gone and it is counted. Whatever fails in between is taken up by the next reconcile.

use std::collections::HashSet;

use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use super::{
    OWNER, RESOURCE,
    indexes::{Indexes, is_indexed, of_pod},
    is_failed, is_tracked,
    plan::End,
    policy::{self, Action},
    set_condition, untrack,
};
use crate::controllers::{
    context::{Context, Failure},
    event::EventType,
    object::{int, is_deleting, list, name, namespace, rfc3339, uid},
    pod, pod_control,
};

/// Pods counted in one reconcile, so that the status stays small.
const MOST: usize = 500;

/// What the pods of a job amount to.
pub(super) struct Counts {
    pub(super) pods: Vec<Value>,
    uncounted_succeeded: HashSet<String>,
    uncounted_failed: HashSet<String>,
    /// Succeeded so far, counted or not.
    pub(super) succeeded: i64,
    /// Failed so far, counted or not, but for those that a policy ignores.
    pub(super) failed: i64,
    /// Indexes that have succeeded (Indexed jobs).
    pub(super) succeeded_indexes: Indexes,
    /// As the status says.
    recorded_indexes: Indexes,
    /// Indexes that have failed for good (`backoffLimitPerIndex`).
    pub(super) failed_indexes: Option<Indexes>,
    /// UIDs of failed pods whose count must go over to their successors first.
    pub(super) delayed: HashSet<String>,
}

/// What is there after this reconcile's creations and deletions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    pub(super) active: usize,
    ready: usize,
    terminating: usize,
}

impl Running {
    /// Pods of these UIDs are being deleted.
    pub(super) fn delete(&mut self, counts: &Counts, uids: &[String]) {
        for pod in counts.pods.iter().filter(|p| pod::is_active(p) && uids.iter().any(|u| u == uid(p))) {
            self.active = self.active.saturating_sub(1);
            self.terminating += 1;
            if pod::is_ready(pod) {
                self.ready = self.ready.saturating_sub(1);
            }
        }
    }
}

fn uids(job: &Value, which: &str) -> HashSet<String> {
    list(job, &format!("/status/uncountedTerminatedPods/{which}"))
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

impl Counts {
    pub(super) fn of(job: &Value, mut pods: Vec<Value>) -> Self {
        pods.sort_by_key(|p| (of_pod(job, p), name(p).to_owned()));
        let (uncounted_succeeded, uncounted_failed) = (uids(job, "succeeded"), uids(job, "failed"));
        let completions = int(job, "/spec/completions").unwrap_or(0);
        let recorded_indexes =
            Indexes::parse(crate::controllers::object::text(job, "/status/completedIndexes"), completions);
        let mut this = Self {
            succeeded: int(job, "/status/succeeded").unwrap_or(0) + uncounted_succeeded.len() as i64,
            failed: int(job, "/status/failed").unwrap_or(0) + uncounted_failed.len() as i64,
            succeeded_indexes: recorded_indexes.clone(),
            recorded_indexes,
            failed_indexes: None,
            delayed: HashSet::new(),
            uncounted_succeeded,
            uncounted_failed,
            pods,
        };
        let indexed = is_indexed(job);
        for pod in this.pods.iter().filter(|p| is_tracked(p)) {
            let index = of_pod(job, pod);
            if indexed && index.is_none() {
                continue;
            }
            if pod::phase(pod) == "Succeeded" && !this.uncounted_succeeded.contains(uid(pod)) {
                this.succeeded += 1;
                this.succeeded_indexes.0.extend(index.filter(|_| indexed));
            } else if is_failed(job, pod)
                && !this.uncounted_failed.contains(uid(pod))
                && policy::on_failure(job, pod) != Action::Ignore
            {
                this.failed += 1;
            }
        }
        if indexed {
            this.succeeded = this.succeeded_indexes.len();
        }
        this
    }

    /// Pods that run or will.
    pub(super) fn active(&self) -> Vec<Value> {
        self.pods.iter().filter(|p| pod::is_active(p)).cloned().collect()
    }

    /// Pods on their way out.
    pub(super) fn terminating(&self) -> usize {
        self.pods.iter().filter(|p| pod::is_terminating(p)).count()
    }

    pub(super) fn running(&self) -> Running {
        let active = || self.pods.iter().filter(|p| pod::is_active(p));
        Running {
            active: active().count(),
            ready: active().filter(|p| pod::is_ready(p)).count(),
            terminating: self.terminating(),
        }
    }
}

fn set_count(status: &mut Value, field: &str, count: i64) {
    if count > 0 {
        status[field] = count.into();
    } else if let Some(status) = status.as_object_mut() {
        status.remove(field);
    }
}

fn write_uncounted(status: &mut Value, succeeded: &[String], failed: &[String]) {
    let mut uncounted = json!({});
    for (field, uids) in [("succeeded", succeeded), ("failed", failed)] {
        if !uids.is_empty() {
            uncounted[field] = json!(uids);
        }
    }
    status["uncountedTerminatedPods"] = uncounted;
}

/// Counts pods, lets them go, and writes the status; says how the job ended when it did. `job` is what is `stored`
/// with the changes of this reconcile in its status.
pub(super) async fn track(
    cx: &Context<'_>,
    job: &mut Value,
    stored: &Value,
    counts: &mut Counts,
    running: Running,
    end: Option<End>,
) -> Result<Option<Value>, Failure> {
    let status = &mut job["status"];
    set_count(status, "active", running.active as i64);
    status["ready"] = running.ready.into();
    status["terminating"] = running.terminating.into();

    let mut tracked: HashSet<String> =
        counts.pods.iter().filter(|p| is_tracked(p)).map(|p| uid(p).to_owned()).collect();
    let mut succeeded: Vec<String> = sorted(&counts.uncounted_succeeded);
    let mut failed: Vec<String> = sorted(&counts.uncounted_failed);
    settle(job, &mut succeeded, &mut failed, &tracked);
    let (releasable, all) = select(job, counts, &mut succeeded, &mut failed, end.as_ref());
    write_uncounted(&mut job["status"], &succeeded, &failed);
    if is_indexed(job) {
        let status = &mut job["status"];
        set_count(status, "succeeded", counts.recorded_indexes.len());
        if counts.recorded_indexes.len() > 0 {
            status["completedIndexes"] = counts.recorded_indexes.to_string().into();
        }
        if let Some(indexes) = &counts.failed_indexes {
            status["failedIndexes"] = indexes.to_string().into();
        }
    }
    if let Some(end) = &end {
        set_condition(&mut job["status"], end.interim(), "True", end.reason, &end.message, cx.now);
    }
    if !releasable.is_empty() || end.is_some() {
        write(cx, job, stored).await?;
    }
    for pod in &releasable {
        untrack(cx, pod).await?;
        tracked.remove(uid(pod));
    }
    let noted = job["status"].clone();
    settle(job, &mut succeeded, &mut failed, &tracked);
    write_uncounted(&mut job["status"], &succeeded, &failed);

    let mut finished = None;
    if let Some(end) = end.filter(|_| all && succeeded.is_empty() && failed.is_empty() && running.terminating == 0) {
        let status = &mut job["status"];
        set_condition(status, end.last(), "True", end.reason, &end.message, cx.now);
        if end.is_success() {
            status["completionTime"] = rfc3339(cx.now).into();
        }
        finished = crate::controllers::job::finished(job).cloned();
        write(cx, job, stored).await?;
        tell(cx, job, &end).await;
    } else if releasable.is_empty() || job["status"] != noted {
        write(cx, job, stored).await?;
    }
    Ok(finished)
}

fn sorted(uids: &HashSet<String>) -> Vec<String> {
    let mut uids: Vec<String> = uids.iter().cloned().collect();
    uids.sort();
    uids
}

/// Counts what has no finalizer any more.
fn settle(job: &mut Value, succeeded: &mut Vec<String>, failed: &mut Vec<String>, tracked: &HashSet<String>) {
    for (field, uids) in [("succeeded", succeeded), ("failed", failed)] {
        let before = uids.len();
        uids.retain(|u| tracked.contains(u));
        let counted = (before - uids.len()) as i64;
        let number = int(job, &format!("/status/{field}")).unwrap_or(0) + counted;
        set_count(&mut job["status"], field, number);
    }
}

/// The pods that can be let go now, noting how they count; and whether these are all.
fn select(
    job: &Value,
    counts: &mut Counts,
    succeeded: &mut Vec<String>,
    failed: &mut Vec<String>,
    end: Option<&End>,
) -> (Vec<Value>, bool) {
    let indexed = is_indexed(job);
    let mut selected = Vec::new();
    let mut noted = 0;
    for pod in counts.pods.iter().filter(|p| is_tracked(p)) {
        let has_failed = is_failed(job, pod);
        let has_succeeded = pod::phase(pod) == "Succeeded";
        let counts_now = is_deleting(job) || end.is_some() || has_succeeded || has_failed;
        let waits = end.is_none() && !is_deleting(job) && !has_succeeded && counts.delayed.contains(uid(pod));
        if !counts_now || waits {
            continue;
        }
        selected.push(pod.clone());
        let index = of_pod(job, pod);
        let own = uid(pod).to_owned();
        if has_succeeded && !failed.contains(&own) {
            if indexed {
                // The index alone keeps it from being counted twice.
                if let Some(index) = index {
                    noted += usize::from(counts.recorded_indexes.0.insert(index));
                }
            } else if !succeeded.contains(&own) {
                succeeded.push(own);
            }
        } else if (has_failed || end.is_some_and(|e| !e.is_success()))
            && !failed.contains(&own)
            && (!indexed || index.is_some())
            && policy::on_failure(job, pod) != Action::Ignore
        {
            failed.push(own);
        }
        if noted + succeeded.len() + failed.len() >= MOST {
            return (selected, false);
        }
    }
    (selected, true)
}

/// Writes the status if it differs from what is stored, and takes over the new version.
async fn write(cx: &Context<'_>, job: &mut Value, stored: &Value) -> Result<(), Failure> {
    if job["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"] && job["status"] == stored["status"]
    {
        return Ok(());
    }
    match cx.client.update(RESOURCE, namespace(job), name(job), "status", job.clone()).await {
        Ok(written) => {
            job["metadata"] = written["metadata"].clone();
            Ok(())
        }
        Err(ApiError { code: 404, .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

async fn tell(cx: &Context<'_>, job: &Value, end: &End) {
    let record = async |kind, reason: &str, message: &str| {
        cx.record(pod_control::event(job, OWNER, kind, reason, message.to_owned())).await;
    };
    if !end.is_success() {
        record(EventType::Warning, end.reason, &end.message).await;
        return;
    }
    if int(job, "/spec/completions").is_some_and(|c| int(job, "/status/succeeded").unwrap_or(0) > c) {
        record(
            EventType::Warning,
            "TooManySucceededPods",
            "Too many succeeded pods running after completion count reached",
        )
        .await;
    }
    record(EventType::Normal, "Completed", "Job completed").await;
}
