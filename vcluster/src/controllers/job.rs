//! Jobs: pods that run to completion (`pkg/controller/job` upstream). What is to be done is decided in [`plan`]; how often pods
//! succeeded and failed is counted in [`tracking`], which every pod waits for with its finalizer.

mod backoff;
mod indexes;
mod plan;
mod pods;
mod policy;
mod tracking;

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use vctl_machinery::{selector::LabelSelector, status::ApiError};

use super::{
    claim::claim_all,
    context::{Context, Failure},
    event::EventType,
    object::{
        controller_of, flag, int, is_deleting, labels, list, name, namespace, rfc3339, text, time, uid,
        uid_precondition,
    },
    pod, pod_control,
};
use plan::Manage;

const RESOURCE: &str = "jobs.batch";
const OWNER: pod_control::OwnerType = ("batch/v1", "Job");
const TYPE: (&str, &str, &str) = (RESOURCE, OWNER.0, OWNER.1);
/// Finalizer of pods that have not been counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// A condition that is True.
fn condition_true<'a>(job: &'a Value, kind: &str) -> Option<&'a Value> {
    super::object::condition(job, kind).filter(|c| text(c, "/status") == "True")
}

/// The condition that says how a job ended; none while it has not.
pub(super) fn finished(job: &Value) -> Option<&Value> {
    condition_true(job, "Complete").or_else(|| condition_true(job, "Failed"))
}

fn is_tracked(pod: &Value) -> bool {
    list(pod, "/metadata/finalizers").iter().any(|f| f == TRACKING)
}

/// The name of the job that a pod waits for to be counted.
pub(super) fn tracker_of(pod: &Value) -> Option<&str> {
    if !is_tracked(pod) {
        return None;
    }
    match controller_of(pod) {
        Some(owner) => (text(owner, "/kind") == "Job").then(|| text(owner, "/name")),
        None => labels(pod).get("batch.kubernetes.io/job-name").and_then(Value::as_str),
    }
}

fn is_suspended(job: &Value) -> bool {
    flag(job, "/spec/suspend")
}

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str, of: &str) -> Result<Option<Timestamp>, Failure> {
    let job = cx.find(RESOURCE, namespace, of).await?;
    let candidates = cx.list("pods", namespace).await?;
    release_strays(cx, of, job.as_ref(), &candidates).await?;
    let Some(job) = job else { return Ok(None) };
    let manager = text(&job, "/spec/managedBy");
    if !manager.is_empty() && manager != "kubernetes.io/job-controller" {
        return Ok(None);
    }
    if let Some(condition) = finished(&job) {
        for pod in candidates.iter().filter(|p| is_controlled_by(p, &job) && is_tracked(p)) {
            untrack(cx, pod).await?;
        }
        return expire(cx, &job, condition).await;
    }
    let Ok(selector) = LabelSelector::from_object(&job["spec"]["selector"]) else { return Ok(None) };
    let pods = claim(cx, &job, candidates, &selector).await?;
    sync(cx, job, pods).await
}

fn is_controlled_by(pod: &Value, job: &Value) -> bool {
    controller_of(pod).is_some_and(|o| text(o, "/uid") == uid(job))
}

/// Its pods; those that it adopts are tracked from then on.
async fn claim(
    cx: &Context<'_>,
    job: &Value,
    candidates: Vec<Value>,
    selector: &LabelSelector,
) -> Result<Vec<Value>, Failure> {
    let before: HashSet<String> =
        candidates.iter().filter(|p| is_controlled_by(p, job)).map(|p| uid(p).to_owned()).collect();
    let mut pods = claim_all(cx, job, TYPE, "pods", candidates, selector, |_| true).await?;
    for pod in &mut pods {
        if !before.contains(uid(pod)) && !is_tracked(pod) {
            let mut finalizers = list(pod, "/metadata/finalizers").to_vec();
            finalizers.push(TRACKING.into());
            *pod = patch_finalizers(cx, pod, finalizers).await?.unwrap_or_else(|| pod.clone());
        }
    }
    Ok(pods)
}

/// Lets pods go that wait to be counted by a job that is gone, or that is not theirs any more.
async fn release_strays(cx: &Context<'_>, of: &str, job: Option<&Value>, pods: &[Value]) -> Result<(), Failure> {
    for pod in pods.iter().filter(|p| is_tracked(p)) {
        let stray = match controller_of(pod) {
            Some(owner) => {
                text(owner, "/kind") == "Job"
                    && text(owner, "/name") == of
                    && job.is_none_or(|j| uid(j) != text(owner, "/uid"))
            }
            None => {
                let selected = || {
                    job.is_some_and(|j| {
                        LabelSelector::from_object(&j["spec"]["selector"]).is_ok_and(|s| s.matches(labels(pod)))
                    })
                };
                labels(pod)["batch.kubernetes.io/job-name"] == of && !selected()
            }
        };
        if stray {
            untrack(cx, pod).await?;
        }
    }
    Ok(())
}

/// Removes the finalizer of a pod; one that is gone needs none.
async fn untrack(cx: &Context<'_>, pod: &Value) -> Result<(), Failure> {
    let rest = list(pod, "/metadata/finalizers").iter().filter(|f| *f != TRACKING).cloned().collect();
    patch_finalizers(cx, pod, rest).await?;
    Ok(())
}

async fn patch_finalizers(cx: &Context<'_>, pod: &Value, finalizers: Vec<Value>) -> Result<Option<Value>, Failure> {
    let finalizers = if finalizers.is_empty() { Value::Null } else { finalizers.into() };
    let patch = json!({ "metadata": { "finalizers": finalizers, "uid": uid(pod) } });
    match cx.client.merge_patch("pods", namespace(pod), name(pod), "", patch).await {
        Ok(patched) => Ok(Some(patched)),
        Err(ApiError { code: 404, .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Deletes a finished job when its time has come (`ttlSecondsAfterFinished`).
async fn expire(cx: &Context<'_>, job: &Value, condition: &Value) -> Result<Option<Timestamp>, Failure> {
    let Some(seconds) = int(job, "/spec/ttlSecondsAfterFinished").filter(|_| !is_deleting(job)) else {
        return Ok(None);
    };
    let Some(at) =
        time(condition, "/lastTransitionTime").and_then(|t| t.checked_add(SignedDuration::from_secs(seconds)).ok())
    else {
        return Ok(None);
    };
    if at > cx.now {
        return Ok(Some(at));
    }
    let mut options = uid_precondition(uid(job));
    options["propagationPolicy"] = "Foreground".into();
    cx.delete(RESOURCE, namespace(job), name(job), options).await?;
    Ok(None)
}

async fn sync(cx: &Context<'_>, mut job: Value, pods: Vec<Value>) -> Result<Option<Timestamp>, Failure> {
    let stored = job.clone();
    if !job["status"].is_object() {
        job["status"] = json!({});
    }
    if text(&job, "/status/startTime").is_empty() && !is_suspended(&job) {
        job["status"]["startTime"] = rfc3339(cx.now).into();
    }
    let mut counts = tracking::Counts::of(&job, pods);
    let mut wake: Vec<Timestamp> = Vec::new();
    let mut failure = None;
    let mut end = plan::end(&job, &mut counts, cx.now);
    let mut running = counts.running();
    if end.is_some() {
        let (deleted, error) = pod_control::delete(cx, &job, OWNER, &counts.active()).await;
        if deleted.len() < counts.active().len() {
            // It has not ended before its pods are on their way out.
            end = None;
        }
        running.delete(&counts, &deleted);
        failure = error;
    } else {
        let mut managed = false;
        if !is_deleting(&job) {
            managed = true;
            let (error, at) = manage(cx, &job, &counts, &mut running).await?;
            failure = error;
            wake.extend(at);
        }
        if plan::is_complete(&job, &counts, running.active) {
            end = Some(plan::End::complete());
        } else if managed {
            note_suspension(cx, &mut job).await;
            wake.extend(plan::deadline(&job));
        }
    }
    let finished = tracking::track(cx, &mut job, &stored, &mut counts, running, end).await?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    if let Some(condition) = finished {
        return expire(cx, &job, &condition).await;
    }
    Ok(wake.into_iter().filter(|at| *at > cx.now).min())
}

/// Creates or deletes pods. Returns the first error, and when to look again.
async fn manage(
    cx: &Context<'_>,
    job: &Value,
    counts: &tracking::Counts,
    running: &mut tracking::Running,
) -> Result<(Option<ApiError>, Option<Timestamp>), Failure> {
    match plan::manage(job, counts, cx.now) {
        Manage::Nothing => Ok((None, None)),
        Manage::Delete(surplus) => {
            // Pods that are not wanted any more are not counted as failed.
            for pod in surplus.iter().filter(|p| is_tracked(p)) {
                untrack(cx, pod).await?;
            }
            let (deleted, error) = pod_control::delete(cx, job, OWNER, &surplus).await;
            running.delete(counts, &deleted);
            Ok((error, None))
        }
        Manage::Create { pods, again } => {
            let (created, error) = pod_control::create(cx, job, OWNER, pods).await;
            running.active += created.len();
            Ok((error, again))
        }
    }
}

/// Shows in the status, and as an event, that the job was suspended or resumed.
async fn note_suspension(cx: &Context<'_>, job: &mut Value) {
    let suspended = is_suspended(job);
    let (status, condition_reason, reason, message) = if suspended {
        ("True", "JobSuspended", "Suspended", "Job suspended")
    } else {
        ("False", "JobResumed", "Resumed", "Job resumed")
    };
    if !set_condition(&mut job["status"], "Suspended", status, condition_reason, message, cx.now) {
        return;
    }
    if !suspended {
        // Time in which it was suspended does not count against its deadline.
        job["status"]["startTime"] = rfc3339(cx.now).into();
    }
    cx.record(pod_control::event(job, OWNER, EventType::Normal, reason, message.to_owned())).await;
}

/// Sets a condition; true when that changed something. One that is not there is not made for a False.
fn set_condition(status: &mut Value, kind: &str, value: &str, reason: &str, message: &str, now: Timestamp) -> bool {
    let new = json!({
        "type": kind, "status": value, "lastProbeTime": rfc3339(now), "lastTransitionTime": rfc3339(now),
        "reason": reason, "message": message,
    });
    if !status["conditions"].is_array() {
        if value == "False" {
            return false;
        }
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return false };
    match conditions.iter_mut().find(|c| text(c, "/type") == kind) {
        Some(there) if ["status", "reason", "message"].iter().all(|f| there[*f] == new[*f]) => false,
        Some(there) => {
            *there = new;
            true
        }
        None if value == "False" => false,
        None => {
            conditions.push(new);
            true
        }
    }
}

/// Whether a pod counts as failed. One that is being deleted does, unless the job waits for pods to end.
fn is_failed(job: &Value, pod: &Value) -> bool {
    match pod::phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => is_deleting(pod) && !replaces_failed_only(job),
    }
}

/// `podReplacementPolicy: Failed`: pods that are being deleted are not replaced before they have ended.
fn replaces_failed_only(job: &Value) -> bool {
    text(job, "/spec/podReplacementPolicy") == "Failed"
}
