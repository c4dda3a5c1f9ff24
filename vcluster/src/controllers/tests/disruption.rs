//! Disruption budgets and eviction over the real pipeline.

use serde_json::{Value, json};

use super::pipeline::{Pipeline, template};
use crate::controllers::object::{condition, text};

const BUDGETS: &str = "poddisruptionbudgets.policy";

async fn status(p: &Pipeline) -> Value {
    p.get(BUDGETS, "b").await["status"].clone()
}

async fn evict(p: &Pipeline, pod: &str) -> Result<Value, vctl_machinery::status::ApiError> {
    let eviction =
        json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod, "namespace": "default" } });
    p.client.update("pods", "default", pod, "eviction", eviction).await
}

fn budget(spec: Value) -> Value {
    let mut budget =
        json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "b" }, "spec": spec });
    budget["spec"]["selector"] = json!({ "matchLabels": { "app": "web" } });
    budget
}

#[tokio::test]
async fn a_budget_follows_its_deployment_and_evictions_spend_it() {
    let p = Pipeline::running().await;
    p.create(
        "deployments.apps",
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 4, "selector": { "matchLabels": { "app": "web" } }, "template": template("v1") } }),
    )
    .await;
    p.create(BUDGETS, budget(json!({ "maxUnavailable": "25%" }))).await;
    p.until("one may go", async |p| {
        let s = status(p).await;
        s["expectedPods"] == 4 && s["desiredHealthy"] == 3 && s["currentHealthy"] == 4 && s["disruptionsAllowed"] == 1
    })
    .await;
    let b = p.get(BUDGETS, "b").await;
    assert_eq!(text(condition(&b, "DisruptionAllowed").unwrap(), "/reason"), "SufficientPods");

    // The worker is slow: the evicted pod is on its way out.
    let pods = p.names("pods").await;
    p.patch("pods", &pods[0], json!({ "metadata": { "annotations": { "hold": "true" } } })).await;
    evict(&p, &pods[0]).await.unwrap();
    let leaving = p.get("pods", &pods[0]).await;
    assert_eq!(text(condition(&leaving, "DisruptionTarget").unwrap(), "/reason"), "EvictionByEvictionAPI");
    let refused = evict(&p, &pods[1]).await.unwrap_err();
    assert_eq!(
        (refused.code, &*refused.message),
        (429, "Cannot evict pod as it would violate the pod's disruption budget.")
    );
    assert_eq!(refused.details["causes"][0]["reason"], "DisruptionBudget");
    p.until("a replacement is healthy", async |p| status(p).await["disruptionsAllowed"] == 1).await;
    assert!(status(&p).await.get("disruptedPods").is_none());
    evict(&p, &pods[1]).await.unwrap();

    p.patch("deployments.apps", "web", json!({ "spec": { "replicas": 8 } })).await;
    p.until("two of eight", async |p| {
        let s = status(p).await;
        s["expectedPods"] == 8 && s["disruptionsAllowed"] == 2
    })
    .await;
    p.stop().await;
}

#[tokio::test]
async fn pods_without_controller_are_counted_only_by_a_number() {
    let p = Pipeline::running().await;
    let mut pod = template("v1");
    pod["metadata"]["name"] = "p".into();
    p.create("pods", pod).await;
    p.create(BUDGETS, budget(json!({ "minAvailable": 1 }))).await;
    p.until("one healthy, none to spare", async |p| {
        let s = status(p).await;
        s["currentHealthy"] == 1 && s["expectedPods"] == 1 && s["disruptionsAllowed"] == 0
    })
    .await;
    p.patch(BUDGETS, "b", json!({ "spec": { "minAvailable": null, "maxUnavailable": 1 } })).await;
    p.until("told", async |p| p.list("events").await.iter().any(|e| text(e, "/reason") == "UnmanagedPods")).await;
    p.create("jobs.batch", json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "j" }, "spec": { "template": {
        "metadata": { "labels": { "app": "web" } }, "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } })).await;
    p.until("a job has no scale", async |p| {
        let b = p.get(BUDGETS, "b").await;
        condition(&b, "DisruptionAllowed").is_some_and(|c| text(c, "/reason") == "SyncFailed")
    })
    .await;
    assert!(
        p.told(
            "CalculateExpectedPodCountFailed",
            "Failed to calculate the number of expected pods: jobs.batch does not implement the scale subresource"
        )
        .await,
        "{:?}",
        p.list("events").await.iter().map(|e| text(e, "/message").to_owned()).collect::<Vec<_>>()
    );
    p.stop().await;
}
