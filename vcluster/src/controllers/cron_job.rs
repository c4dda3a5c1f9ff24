//! CronJobs: Jobs at times (`pkg/controller/cronjob` upstream). The next time is a due time in the shared queue; nothing polls.

mod missed;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use serde_json::{Value, json};
use vctl_machinery::{
    cron::{Schedule, time_zone},
    status::ApiError,
};

use super::{
    context::{Context, Failure, is_namespace_terminating},
    event::EventType,
    job::finished,
    object::{
        controller_of, controller_reference, flag, int, is_deleting, list, name, namespace, rfc3339, set_annotation,
        text, time, uid, uid_precondition,
    },
    pod_control,
};

const RESOURCE: &str = "cronjobs.batch";
const JOBS: &str = "jobs.batch";
const OWNER: pod_control::OwnerType = ("batch/v1", "CronJob");
/// Annotation of a Job: the time that it was for.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

async fn tell(cx: &Context<'_>, cron: &Value, kind: EventType, reason: &str, message: String) {
    cx.record(pod_control::event(cron, OWNER, kind, reason, message)).await;
}

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str, of: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(mut cron) = cx.find(RESOURCE, namespace, of).await? else { return Ok(None) };
    if !cron["status"].is_object() {
        cron["status"] = json!({});
    }
    let stored = cron.clone();
    let mut jobs = cx.list(JOBS, namespace).await?;
    jobs.retain(|j| controller_of(j).is_some_and(|o| text(o, "/uid") == uid(&cron)));

    clean_up(cx, &mut cron, &jobs).await?;
    observe(cx, &mut cron, &jobs).await;
    let outcome = sync(cx, &mut cron, &jobs).await;
    if cron["status"] != stored["status"] {
        match cx.client.update(RESOURCE, namespace, of, "status", cron).await {
            Ok(_) | Err(ApiError { code: 404, .. }) => {}
            Err(e) => return Err(e.into()),
        }
    }
    outcome
}

/// Deletes the oldest finished jobs beyond the history limits.
async fn clean_up(cx: &Context<'_>, cron: &mut Value, jobs: &[Value]) -> Result<(), Failure> {
    for (field, ended) in [("successfulJobsHistoryLimit", "Complete"), ("failedJobsHistoryLimit", "Failed")] {
        let Some(limit) = int(cron, &format!("/spec/{field}")).and_then(|l| usize::try_from(l).ok()) else { continue };
        let mut old: Vec<&Value> =
            jobs.iter().filter(|j| !is_deleting(j) && finished(j).is_some_and(|c| text(c, "/type") == ended)).collect();
        old.sort_by_key(|j| {
            let started = text(j, "/status/startTime");
            (if started.is_empty() { text(j, "/metadata/creationTimestamp") } else { started }, name(j))
        });
        for job in old.iter().take(old.len().saturating_sub(limit)) {
            delete(cx, cron, job).await?;
        }
    }
    Ok(())
}

/// Deletes a job and its pods.
async fn delete(cx: &Context<'_>, cron: &mut Value, job: &Value) -> Result<(), Failure> {
    let mut options = uid_precondition(uid(job));
    options["propagationPolicy"] = "Background".into();
    if let Err(e) = cx.delete(JOBS, namespace(job), name(job), options).await {
        tell(cx, cron, EventType::Warning, "FailedDelete", format!("Deleted job: {e}")).await;
        return Err(e.into());
    }
    forget(cron, uid(job));
    tell(cx, cron, EventType::Normal, "SuccessfulDelete", format!("Deleted job {}", name(job))).await;
    Ok(())
}

/// Takes a job out of `status.active`; true when it was there.
fn forget(cron: &mut Value, job: &str) -> bool {
    let active = list(cron, "/status/active");
    let rest: Vec<Value> = active.iter().filter(|a| text(a, "/uid") != job).cloned().collect();
    if rest.len() == active.len() {
        return false;
    }
    if rest.is_empty() {
        if let Some(status) = cron["status"].as_object_mut() {
            status.remove("active");
        }
    } else {
        cron["status"]["active"] = rest.into();
    }
    true
}

fn is_listed(cron: &Value, job: &str) -> bool {
    list(cron, "/status/active").iter().any(|a| text(a, "/uid") == job)
}

fn remember(cron: &mut Value, job: &Value) {
    let mut active = list(cron, "/status/active").to_vec();
    active.push(json!({
        "apiVersion": "batch/v1", "kind": "Job", "namespace": namespace(job), "name": name(job), "uid": uid(job),
        "resourceVersion": text(job, "/metadata/resourceVersion"),
    }));
    cron["status"]["active"] = active.into();
}

/// Brings `status.active` and `lastSuccessfulTime` in line with the jobs that are there.
async fn observe(cx: &Context<'_>, cron: &mut Value, jobs: &[Value]) {
    for job in jobs {
        match finished(job) {
            None if !is_listed(cron, uid(job)) => {
                let message = format!("Saw a job that the controller did not create or forgot: {}", name(job));
                tell(cx, cron, EventType::Warning, "UnexpectedJob", message).await;
            }
            Some(condition) if forget(cron, uid(job)) => {
                let message = format!("Saw completed job: {}, condition: {}", name(job), text(condition, "/type"));
                tell(cx, cron, EventType::Normal, "SawCompletedJob", message).await;
            }
            _ => {}
        }
        let completed = time(job, "/status/completionTime")
            .filter(|_| finished(job).is_some_and(|c| text(c, "/type") == "Complete"));
        if let Some(at) = completed
            && time(cron, "/status/lastSuccessfulTime").is_none_or(|last| at > last)
        {
            cron["status"]["lastSuccessfulTime"] = rfc3339(at).into();
        }
    }
    for reference in list(cron, "/status/active").to_vec() {
        if !jobs.iter().any(|j| uid(j) == text(&reference, "/uid")) {
            let message = format!("Active job went missing: {}", text(&reference, "/name"));
            tell(cx, cron, EventType::Normal, "MissingJob", message).await;
            forget(cron, text(&reference, "/uid"));
        }
    }
}

/// The zone of a name: of the machine's database, which may be newer, or of the one in this binary where the machine has none.
fn zone(of: &str) -> Option<TimeZone> {
    TimeZone::get(of).ok().or_else(|| time_zone(of))
}

/// Starts the job that is due. Returns when the next one is.
async fn sync(cx: &Context<'_>, cron: &mut Value, jobs: &[Value]) -> Result<Option<Timestamp>, Failure> {
    if is_deleting(cron) || flag(cron, "/spec/suspend") {
        return Ok(None);
    }
    let zone_name = text(cron, "/spec/timeZone").to_owned();
    let Some(zone) = (if zone_name.is_empty() { Some(TimeZone::UTC) } else { zone(&zone_name) }) else {
        let message = format!("invalid timeZone: {zone_name:?}: unknown time zone {zone_name}");
        tell(cx, cron, EventType::Warning, "UnknownTimeZone", message).await;
        return Ok(None);
    };
    let expression = text(cron, "/spec/schedule").to_owned();
    let schedule = match Schedule::parse(&expression) {
        Ok(schedule) => schedule,
        Err(e) => {
            let message = format!("unparseable schedule: {expression:?} : {e}");
            tell(cx, cron, EventType::Warning, "UnparseableSchedule", message).await;
            return Ok(None);
        }
    };
    let next = schedule.next(cx.now, &zone);
    let missed = missed::most_recent(cron, &schedule, &zone, cx.now);
    if missed.too_many {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        tell(cx, cron, EventType::Warning, "TooManyMissedTimes", message.to_owned()).await;
    }
    let Some(due) = missed.most_recent else { return Ok(next) };
    let deadline = int(cron, "/spec/startingDeadlineSeconds").map(SignedDuration::from_secs);
    if deadline.is_some_and(|d| due.checked_add(d).is_ok_and(|latest| latest < cx.now)) {
        let message = format!(
            "Missed scheduled time to start a job: {}",
            due.to_zoned(zone).strftime("%a, %d %b %Y %H:%M:%S %z")
        );
        tell(cx, cron, EventType::Warning, "MissSchedule", message).await;
        return Ok(next);
    }
    if time(cron, "/status/lastScheduleTime") == Some(due) {
        return Ok(next);
    }
    match text(cron, "/spec/concurrencyPolicy") {
        "Forbid" if !list(cron, "/status/active").is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            tell(cx, cron, EventType::Normal, "JobAlreadyActive", message.to_owned()).await;
            return Ok(next);
        }
        "Replace" => {
            for job in jobs.iter().filter(|j| finished(j).is_none()) {
                if is_listed(cron, uid(job)) {
                    delete(cx, cron, job).await?;
                }
            }
        }
        _ => {}
    }
    start(cx, cron, due, (!zone_name.is_empty()).then_some(&zone)).await?;
    Ok(next)
}

/// Creates the job of a time.
async fn start(cx: &Context<'_>, cron: &mut Value, due: Timestamp, zone: Option<&TimeZone>) -> Result<(), Failure> {
    let job = new_job(cron, due, zone);
    let job_name = name(&job).to_owned();
    let started = match cx.client.create(JOBS, namespace(cron), job).await {
        Ok(created) => {
            tell(cx, cron, EventType::Normal, "SuccessfulCreate", format!("Created job {job_name}")).await;
            Some(created)
        }
        Err(e) if is_namespace_terminating(&e) => return Ok(()),
        // Created before this process could say so.
        Err(e) if e.reason == "AlreadyExists" => {
            let there = cx.find(JOBS, namespace(cron), &job_name).await?;
            match there {
                Some(job) if controller_of(&job).is_some_and(|o| text(o, "/uid") == uid(cron)) => {
                    (finished(&job).is_none() && !is_listed(cron, uid(&job))).then_some(job)
                }
                _ => return Err(e.into()),
            }
        }
        Err(e) => {
            tell(cx, cron, EventType::Warning, "FailedCreate", format!("Error creating job: {e}")).await;
            return Err(e.into());
        }
    };
    if let Some(job) = started {
        remember(cron, &job);
    }
    cron["status"]["lastScheduleTime"] = rfc3339(due).into();
    Ok(())
}

/// The job of a time; its name says which: minutes since 1970.
fn new_job(cron: &Value, due: Timestamp, zone: Option<&TimeZone>) -> Value {
    let template = &cron["spec"]["jobTemplate"];
    let mut metadata = json!({
        "name": format!("{}-{}", name(cron), due.as_second() / 60), "namespace": namespace(cron),
        "ownerReferences": [controller_reference(cron, OWNER.0, OWNER.1)],
    });
    for field in ["labels", "annotations"] {
        if let Some(value) = template.pointer("/metadata").and_then(|m| m.get(field)).filter(|v| !v.is_null()) {
            metadata[field] = value.clone();
        }
    }
    let mut job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"] });
    let at = match zone {
        Some(zone) if *zone != TimeZone::UTC => due.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        _ => rfc3339(due),
    };
    set_annotation(&mut job, SCHEDULED, &at);
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_by_its_minute_and_annotated_in_the_zone_of_the_schedule() {
        let cron = json!({ "metadata": { "name": "c", "namespace": "ns", "uid": "u" },
            "spec": { "jobTemplate": { "metadata": { "labels": { "a": "b" } }, "spec": { "x": 1 } } } });
        let due: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let job = new_job(&cron, due, zone("Europe/Berlin").as_ref());
        assert_eq!(text(&job, "/metadata/name"), "c-29454480");
        assert_eq!(job["metadata"]["annotations"][SCHEDULED], "2026-01-01T13:00:00+01:00");
        assert_eq!(job["metadata"]["labels"], json!({ "a": "b" }));
        assert_eq!(new_job(&cron, due, None)["metadata"]["annotations"][SCHEDULED], "2026-01-01T12:00:00Z");
        assert!(zone("Mars/Olympus").is_none());
    }
}
