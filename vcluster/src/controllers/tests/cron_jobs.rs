//! CronJobs over the real pipeline. The clock stands at 2026-01-02T03:04:05Z.

use serde_json::{Value, json};

use super::pipeline::Pipeline;
use crate::controllers::object::{annotation, list, name, text};

const CRONS: &str = "cronjobs.batch";
const JOBS: &str = "jobs.batch";

fn cron(more: Value) -> Value {
    let mut cron = json!({ "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "c" }, "spec": {
        "schedule": "*/10 * * * *",
        "jobTemplate": { "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } } } });
    for (key, value) in more.as_object().into_iter().flatten() {
        cron["spec"][key] = value.clone();
    }
    cron
}

async fn status(p: &Pipeline) -> Value {
    p.get(CRONS, "c").await["status"].clone()
}

/// Ends all pods that run.
async fn end_all(p: &Pipeline, code: i64) {
    for pod in p.list("pods").await {
        if text(&pod, "/status/phase") == "Running" {
            p.end(name(&pod), code).await;
        }
    }
}

/// 2026-01-02T03:10:00Z in minutes.
const FIRST: i64 = 29_455_390;

#[tokio::test]
async fn jobs_come_at_their_times_and_the_oldest_go() {
    let p = Pipeline::running().await;
    p.create(CRONS, cron(json!({ "successfulJobsHistoryLimit": 2, "timeZone": "Europe/Berlin" }))).await;
    p.settle().await;
    assert!(p.list(JOBS).await.is_empty());
    for round in 0..4 {
        p.advance(if round == 0 { 360 } else { 600 });
        let expected = format!("c-{}", FIRST + 10 * round);
        p.until("the job runs", async |p| {
            p.list("pods").await.iter().any(|x| name(x).starts_with(&expected) && text(x, "/status/phase") == "Running")
        })
        .await;
        assert_eq!(list(&status(&p).await, "/active").len(), 1);
        assert_eq!(text(&status(&p).await, "/active/0/name"), expected);
        end_all(&p, 0).await;
        p.until("it is seen to be complete", async |p| status(p).await.get("active").is_none()).await;
    }
    p.settle().await;
    assert_eq!(p.names(JOBS).await, [format!("c-{}", FIRST + 20), format!("c-{}", FIRST + 30)]);
    let s = status(&p).await;
    assert_eq!(
        (&s["lastScheduleTime"], &s["lastSuccessfulTime"]),
        (&json!("2026-01-02T03:40:00Z"), &json!("2026-01-02T03:40:05Z"))
    );
    let job = p.get(JOBS, &format!("c-{}", FIRST + 30)).await;
    assert_eq!(annotation(&job, "batch.kubernetes.io/cronjob-scheduled-timestamp"), Some("2026-01-02T04:40:00+01:00"));
    assert!(p.told("SuccessfulCreate", &format!("Created job c-{FIRST}")).await);
    assert!(p.told("SawCompletedJob", &format!("Saw completed job: c-{FIRST}, condition: Complete")).await);
    assert!(p.told("SuccessfulDelete", &format!("Deleted job c-{FIRST}")).await);
    p.delete(CRONS, "c").await;
    p.until("all goes", async |p| p.list(JOBS).await.is_empty() && p.list("pods").await.is_empty()).await;
    p.stop().await;
}

#[tokio::test]
async fn a_running_job_forbids_or_is_replaced_and_a_suspended_one_starts_nothing() {
    let p = Pipeline::running().await;
    p.create(CRONS, cron(json!({ "concurrencyPolicy": "Forbid" }))).await;
    p.settle().await;
    p.advance(360);
    p.until("the first", async |p| p.names(JOBS).await.len() == 1).await;
    p.settle().await;
    p.advance(600);
    p.settle().await;
    assert_eq!(p.names(JOBS).await, [format!("c-{FIRST}")]);
    let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
    assert!(p.told("JobAlreadyActive", message).await);

    p.patch(CRONS, "c", json!({ "spec": { "concurrencyPolicy": "Replace" } })).await;
    p.until("replaced by the one that was missed", async |p| p.names(JOBS).await == [format!("c-{}", FIRST + 10)])
        .await;
    p.patch(CRONS, "c", json!({ "spec": { "suspend": true } })).await;
    p.settle().await;
    p.advance(6000);
    p.settle().await;
    assert_eq!(p.names(JOBS).await, [format!("c-{}", FIRST + 10)]);

    // Resumed: what was missed longer ago than the deadline is not made up for.
    p.patch(CRONS, "c", json!({ "spec": { "suspend": false, "startingDeadlineSeconds": 60 } })).await;
    p.settle().await;
    assert_eq!(
        p.names(JOBS).await,
        [format!("c-{}", FIRST + 110)],
        "03:10 and 6600 s and 5 s: within a minute of a time"
    );
    p.stop().await;
}
