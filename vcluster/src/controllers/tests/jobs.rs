//! Jobs over the real pipeline.

use serde_json::{Value, json};

use super::pipeline::Pipeline;
use crate::controllers::object::{annotation, condition, is_deleting, list, name, text};

const JOBS: &str = "jobs.batch";

fn job(spec: Value) -> Value {
    let mut job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "j" }, "spec": {
        "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } });
    for (key, value) in spec.as_object().into_iter().flatten() {
        job["spec"][key] = value.clone();
    }
    job
}

async fn status(p: &Pipeline) -> Value {
    p.get(JOBS, "j").await["status"].clone()
}

/// Names of pods that run.
async fn running(p: &Pipeline) -> Vec<String> {
    let pods = p.list("pods").await;
    pods.iter()
        .filter(|p| text(p, "/status/phase") == "Running" && !is_deleting(p))
        .map(|p| name(p).to_owned())
        .collect()
}

async fn condition_types(p: &Pipeline) -> Vec<String> {
    list(&status(p).await, "/conditions")
        .iter()
        .filter(|c| text(c, "/status") == "True")
        .map(|c| text(c, "/type").to_owned())
        .collect()
}

#[tokio::test]
async fn a_job_runs_to_completion_and_counts_every_pod_once() {
    let p = Pipeline::running().await;
    p.create(JOBS, job(json!({ "completions": 3, "parallelism": 2 }))).await;
    p.until("two run", async |p| running(p).await.len() == 2).await;
    p.settle().await;
    let s = status(&p).await;
    assert_eq!((&s["active"], &s["ready"], &s["terminating"]), (&json!(2), &json!(2), &json!(0)));
    assert_eq!(s["startTime"], "2026-01-02T03:04:05Z");
    let pod = p.list("pods").await[0].clone();
    assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    assert_eq!(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"], "j");

    for pod in running(&p).await {
        p.end(&pod, 0).await;
    }
    p.until("the third runs alone", async |p| {
        let s = status(p).await;
        s["succeeded"] == 2 && s["active"] == 1 && running(p).await.len() == 1
    })
    .await;
    p.advance(60);
    p.end(&running(&p).await[0], 0).await;
    p.until("complete", async |p| condition_types(p).await == ["SuccessCriteriaMet", "Complete"]).await;
    let s = status(&p).await;
    assert_eq!(
        (&s["succeeded"], &s["uncountedTerminatedPods"], &s["completionTime"]),
        (&json!(3), &json!({}), &json!("2026-01-02T03:05:05Z"))
    );
    assert!(s.get("active").is_none() && s.get("failed").is_none(), "{s}");
    assert!(p.list("pods").await.iter().all(|p| list(p, "/metadata/finalizers").is_empty()));
    assert!(p.told("Completed", "Job completed").await);
    let before = p.fixture.store_revision().await;
    p.settle().await;
    assert_eq!(p.fixture.store_revision().await, before);
    p.delete(JOBS, "j").await;
    p.until("pods go with it", async |p| p.list("pods").await.is_empty()).await;
    p.stop().await;
}

#[tokio::test]
async fn failures_are_retried_with_back_off_up_to_the_limit() {
    let p = Pipeline::running().await;
    p.create(JOBS, job(json!({ "backoffLimit": 1 }))).await;
    p.until("it runs", async |p| running(p).await.len() == 1).await;
    p.end(&running(&p).await[0], 3).await;
    p.settle().await;
    assert_eq!(
        (status(&p).await["failed"].clone(), p.list("pods").await.len()),
        (json!(1), 1),
        "not before ten seconds"
    );
    p.advance(11);
    p.until("again", async |p| running(p).await.len() == 1).await;
    p.end(&running(&p).await[0], 3).await;
    p.until("failed", async |p| condition_types(p).await == ["FailureTarget", "Failed"]).await;
    let job = p.get(JOBS, "j").await;
    let failed = condition(&job, "Failed").unwrap();
    assert_eq!(text(failed, "/reason"), "BackoffLimitExceeded");
    assert_eq!(text(failed, "/message"), "Job has reached the specified backoff limit");
    assert_eq!((&job["status"]["failed"], job["status"].get("completionTime")), (&json!(2), None));
    assert!(p.told("BackoffLimitExceeded", "Job has reached the specified backoff limit").await);
    p.stop().await;
}

#[tokio::test]
async fn an_indexed_job_runs_each_index_and_its_pods_know_theirs() {
    let p = Pipeline::running().await;
    p.create(JOBS, job(json!({ "completions": 4, "parallelism": 3, "completionMode": "Indexed" }))).await;
    p.until("three run", async |p| running(p).await.len() == 3).await;
    let pods = p.list("pods").await;
    for (n, pod) in pods.iter().enumerate() {
        assert!(name(pod).starts_with(&format!("j-{n}-")), "{}", name(pod));
        assert_eq!(text(pod, "/spec/hostname"), format!("j-{n}"));
        assert_eq!(annotation(pod, "batch.kubernetes.io/job-completion-index"), Some(&*n.to_string()));
        assert_eq!(text(pod, "/spec/containers/0/env/0/name"), "JOB_COMPLETION_INDEX");
    }
    for pod in [&pods[0], &pods[1]] {
        p.end(name(pod), 0).await;
    }
    p.until("0 and 1 are done", async |p| status(p).await["completedIndexes"] == "0,1").await;
    p.until("3 runs", async |p| running(p).await.len() == 2).await;
    p.end(name(&pods[2]), 1).await;
    p.until("2 is counted as failed", async |p| status(p).await["failed"] == 1).await;
    p.advance(11);
    p.until("2 runs again", async |p| running(p).await.iter().any(|n| n.starts_with("j-2-"))).await;
    for pod in running(&p).await {
        p.end(&pod, 0).await;
    }
    p.until("complete", async |p| condition_types(p).await.contains(&"Complete".to_owned())).await;
    let s = status(&p).await;
    assert_eq!((&s["succeeded"], &s["completedIndexes"], &s["failed"]), (&json!(4), &json!("0-3"), &json!(1)));
    p.stop().await;
}

#[tokio::test]
async fn with_a_limit_per_index_the_others_go_on() {
    let p = Pipeline::running().await;
    let spec = json!({ "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1 });
    p.create(JOBS, job(spec)).await;
    for round in 0..2 {
        p.until("0 runs", async |p| running(p).await.iter().any(|n| n.starts_with("j-0-"))).await;
        let pod = running(&p).await[0].clone();
        let counted = p.get("pods", &pod).await;
        assert_eq!(annotation(&counted, "batch.kubernetes.io/job-index-failure-count"), Some(&*round.to_string()));
        p.end(&pod, 1).await;
        p.settle().await;
        p.advance(30);
    }
    p.until("0 has failed for good", async |p| status(p).await["failedIndexes"] == "0").await;
    assert!(condition_types(&p).await.is_empty(), "1 still runs");
    p.end(&running(&p).await[0], 0).await;
    p.until("failed, as one index has", async |p| {
        let job = p.get(JOBS, "j").await;
        condition(&job, "Failed").is_some_and(|c| text(c, "/reason") == "FailedIndexes")
    })
    .await;
    let s = status(&p).await;
    assert_eq!((&s["succeeded"], &s["failed"], &s["completedIndexes"]), (&json!(1), &json!(2), &json!("1")));
    p.stop().await;
}

#[tokio::test]
async fn a_suspended_job_has_no_pods_and_starts_anew_when_resumed() {
    let p = Pipeline::running().await;
    p.create(JOBS, job(json!({ "suspend": true, "activeDeadlineSeconds": 100 }))).await;
    p.until("suspended", async |p| condition_types(p).await == ["Suspended"]).await;
    assert!(p.list("pods").await.is_empty() && status(&p).await.get("startTime").is_none());
    p.advance(500);
    p.patch(JOBS, "j", json!({ "spec": { "suspend": false } })).await;
    p.until("it runs", async |p| running(p).await.len() == 1).await;
    assert!(p.told("Resumed", "Job resumed").await);
    p.patch(JOBS, "j", json!({ "spec": { "suspend": true } })).await;
    p.until("its pod goes, and is no failure", async |p| {
        p.list("pods").await.is_empty()
            && status(p).await["terminating"] == 0
            && status(p).await.get("failed").is_none()
    })
    .await;
    p.advance(500);
    p.patch(JOBS, "j", json!({ "spec": { "suspend": false } })).await;
    p.until("it runs again", async |p| running(p).await.len() == 1).await;
    p.settle().await;
    p.advance(101);
    p.until("too long", async |p| {
        let job = p.get(JOBS, "j").await;
        condition(&job, "Failed").is_some_and(|c| text(c, "/reason") == "DeadlineExceeded")
            && p.list("pods").await.is_empty()
            && job["status"]["failed"] == 1
    })
    .await;
    p.stop().await;
}

#[tokio::test]
async fn policies_end_a_job_early_and_a_finished_one_goes_after_its_time() {
    let p = Pipeline::running().await;
    let rules = json!({ "rules": [
        { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget" }] },
        { "action": "FailJob", "onExitCodes": { "operator": "In", "values": [42] } } ] });
    p.create(
        JOBS,
        job(json!({ "parallelism": 2, "completions": 2, "podFailurePolicy": rules, "ttlSecondsAfterFinished": 50 })),
    )
    .await;
    p.until("two run", async |p| running(p).await.len() == 2).await;
    p.end(&running(&p).await[0], 42).await;
    p.until("failed", async |p| condition_types(p).await == ["FailureTarget", "Failed"]).await;
    let job = p.get(JOBS, "j").await;
    let failed = condition(&job, "Failed").unwrap();
    assert_eq!(text(failed, "/reason"), "PodFailurePolicy");
    assert!(
        text(failed, "/message").starts_with("Container c for pod default/j-")
            && text(failed, "/message").ends_with(" failed with exit code 42 matching FailJob rule at index 1"),
        "{failed}"
    );
    p.settle().await;
    assert_eq!(p.list("pods").await.len(), 1, "the pod that ran was deleted");
    p.advance(51);
    p.until("the job is gone, and its pods", async |p| {
        p.list(JOBS).await.is_empty() && p.list("pods").await.is_empty()
    })
    .await;
    p.stop().await;
}

#[tokio::test]
async fn pods_of_an_orphaned_job_are_let_go() {
    let p = Pipeline::running().await;
    p.create(JOBS, job(json!({}))).await;
    p.until("it runs", async |p| running(p).await.len() == 1).await;
    p.client.delete(JOBS, "default", "j", json!({ "propagationPolicy": "Orphan" })).await.unwrap();
    p.until("nothing holds the pod", async |p| {
        let pods = p.list("pods").await;
        p.list(JOBS).await.is_empty() && pods.len() == 1 && list(&pods[0], "/metadata/finalizers").is_empty()
    })
    .await;
    p.stop().await;
}
