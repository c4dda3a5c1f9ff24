//! Autoscalers over the real pipeline, with workers that have measured what they are told.

use std::sync::Arc;

use serde_json::{Value, json};

use super::pipeline::Pipeline;
use crate::{
    controllers::object::{condition, text, uid},
    tests::{Fixture, resource_metrics::Measured},
};

const SCALERS: &str = "horizontalpodautoscalers.autoscaling";
const DEPLOYMENTS: &str = "deployments.apps";

fn deployment(replicas: i64) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" }, "spec": {
        "replicas": replicas, "selector": { "matchLabels": { "app": "web" } },
        "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [
            { "name": "c", "image": "i", "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } } } ] } } } })
}

fn scaler(metrics: Value) -> Value {
    json!({ "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" }, "spec": {
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
        "minReplicas": 1, "maxReplicas": 5, "metrics": metrics } })
}

fn cpu(percent: i64) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": percent });
    json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }])
}

/// A cluster with a deployment whose pods run.
async fn with_deployment(replicas: i64) -> (Pipeline, Arc<Measured>) {
    let workers = Arc::new(Measured::default());
    let p = Pipeline::over(Fixture::with(workers.clone(), |_| {}).await).await;
    p.create(DEPLOYMENTS, deployment(replicas)).await;
    p.until("the pods run", async |p| ready(p).await == replicas).await;
    (p, workers)
}

async fn ready(p: &Pipeline) -> i64 {
    p.get(DEPLOYMENTS, "web").await["status"]["readyReplicas"].as_i64().unwrap_or_default()
}

async fn replicas(p: &Pipeline) -> i64 {
    p.get(DEPLOYMENTS, "web").await["spec"]["replicas"].as_i64().unwrap()
}

/// Says that every pod there is uses so much, as measured now, and that they have run for long.
async fn measure(p: &Pipeline, workers: &Measured, millicores: i64) {
    for mut pod in p.list("pods").await {
        workers.set(uid(&pod), p.fixture.clock.now(), millicores * 1_000_000, 10 << 20);
        if text(&pod, "/status/startTime").is_empty() {
            pod["status"]["startTime"] = "2026-01-01T00:00:00Z".into();
            let name = text(&pod, "/metadata/name").to_owned();
            p.client.update("pods", "default", &name, "status", pod).await.unwrap();
        }
    }
}

async fn says(p: &Pipeline, kind: &str, reason: &str) -> bool {
    condition(&p.get(SCALERS, "web").await, kind).is_some_and(|c| text(c, "/reason") == reason)
}

#[tokio::test]
async fn a_deployment_grows_with_what_its_pods_use_and_shrinks_five_minutes_later() {
    let (p, workers) = with_deployment(1).await;
    measure(&p, &workers, 150).await;
    p.create(SCALERS, scaler(cpu(50))).await;
    p.until("three times as many", async |p| replicas(p).await == 3).await;
    p.settle().await;
    let scaled = p.get(DEPLOYMENTS, "web").await;
    assert_eq!(scaled["spec"]["template"]["spec"]["containers"][0]["image"], "i", "nothing else has changed");
    let message = "New size: 3; reason: cpu resource utilization (percentage of request) above target";
    assert!(p.told("SuccessfulRescale", message).await);
    let scaler = p.get(SCALERS, "web").await;
    let status = &scaler["status"];
    assert_eq!(
        (&status["currentReplicas"], &status["desiredReplicas"], &status["observedGeneration"]),
        (&json!(1), &json!(3), &scaler["metadata"]["generation"])
    );
    assert_eq!(
        status["currentMetrics"],
        json!([{ "type": "Resource", "resource": { "name": "cpu", "current": { "averageUtilization": 150, "averageValue": "150m" } } }])
    );
    let able = condition(&scaler, "AbleToScale").unwrap();
    assert_eq!(text(able, "/message"), "the HPA controller was able to update the target scale to 3");
    let active = condition(&scaler, "ScalingActive").unwrap();
    assert_eq!(
        text(active, "/message"),
        "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)"
    );

    p.until("all run", async |p| ready(p).await == 3).await;
    p.advance(15);
    measure(&p, &workers, 50).await;
    p.advance(15);
    p.settle().await;
    assert!(says(&p, "AbleToScale", "ReadyForNewScale").await, "{}", p.get(SCALERS, "web").await["status"]);
    measure(&p, &workers, 10).await;
    p.advance(15);
    p.until("it waits", async |p| says(p, "AbleToScale", "ScaleDownStabilized").await).await;
    assert_eq!(replicas(&p).await, 3);
    for _ in 0..22 {
        measure(&p, &workers, 10).await;
        p.advance(15);
        p.settle().await;
    }
    assert_eq!(replicas(&p).await, 1);
    assert!(p.told("SuccessfulRescale", "New size: 1; reason: All metrics below target").await);
    p.delete(SCALERS, "web").await;
    p.settle().await;
    p.stop().await;
}

#[tokio::test]
async fn bounds_hold_without_any_measurement() {
    let (p, _workers) = with_deployment(7).await;
    p.create(SCALERS, scaler(cpu(50))).await;
    p.until("not more than five", async |p| replicas(p).await == 5).await;
    p.until("told", async |p| {
        p.told("SuccessfulRescale", "New size: 5; reason: Current number of replicas above Spec.MaxReplicas").await
    })
    .await;
    p.patch(SCALERS, "web", json!({ "spec": { "minReplicas": 6, "maxReplicas": 9 } })).await;
    p.until("not less than six", async |p| replicas(p).await == 6).await;
    p.patch(DEPLOYMENTS, "web", json!({ "spec": { "replicas": 0 } })).await;
    p.advance(15);
    p.until("zero is off", async |p| says(p, "ScalingActive", "ScalingDisabled").await).await;
    p.settle().await;
    assert_eq!(replicas(&p).await, 0);
    p.stop().await;
}

#[tokio::test]
async fn what_cannot_be_known_is_told_as_upstream_tells_it() {
    let (p, workers) = with_deployment(2).await;
    p.create(SCALERS, scaler(cpu(50))).await;
    let unable = "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API";
    p.until("told", async |p| p.told("FailedGetResourceMetric", unable).await).await;
    let all = format!(
        "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {unable}"
    );
    p.until("summed up", async |p| p.told("FailedComputeMetricsReplicas", &all).await).await;
    p.until("in the status", async |p| says(p, "ScalingActive", "FailedGetResourceMetric").await).await;
    let scaler = p.get(SCALERS, "web").await;
    assert_eq!(
        text(condition(&scaler, "ScalingActive").unwrap(), "/message"),
        format!("the HPA was unable to compute the replica count: {unable}")
    );
    assert_eq!(scaler["status"]["currentReplicas"], 2);

    // One metric that is known is enough to grow, but not to shrink.
    let external = json!({ "type": "External", "external": { "metric": { "name": "queue" }, "target": { "type": "Value", "value": "5" } } });
    let mut both = cpu(50);
    both.as_array_mut().unwrap().push(external);
    p.patch(SCALERS, "web", json!({ "spec": { "metrics": both } })).await;
    measure(&p, &workers, 10).await;
    p.advance(15);
    let queue = "unable to get external metric default/queue/nil: unable to fetch metrics from external metrics API: the server could \
                 not find the requested resource (get queue.external.metrics.k8s.io)";
    p.until("told", async |p| p.told("FailedGetExternalMetric", queue).await).await;
    p.until("not less", async |p| says(p, "ScalingActive", "FailedGetExternalMetric").await).await;
    assert_eq!(replicas(&p).await, 2);
    measure(&p, &workers, 100).await;
    p.advance(15);
    p.until("more", async |p| replicas(p).await == 4).await;

    p.patch(SCALERS, "web", json!({ "spec": { "scaleTargetRef": { "name": "gone" } } })).await;
    p.until("no target", async |p| says(p, "AbleToScale", "FailedGetScale").await).await;
    let scaler = p.get(SCALERS, "web").await;
    assert_eq!(
        text(condition(&scaler, "AbleToScale").unwrap(), "/message"),
        "the HPA controller was unable to get the target's current scale: deployments/scale.apps \"gone\" not found"
    );
    p.patch(SCALERS, "web", json!({ "spec": { "scaleTargetRef": { "kind": "Nothing" } } })).await;
    p.until("no kind", async |p| p.told("FailedGetScale", "no matches for kind \"Nothing\" in group \"apps\"").await)
        .await;
    p.stop().await;
}

#[tokio::test]
async fn two_autoscalers_of_the_same_pods_leave_them_alone() {
    let (p, workers) = with_deployment(1).await;
    measure(&p, &workers, 50).await;
    p.create(SCALERS, scaler(cpu(50))).await;
    p.settle().await;
    let mut other = scaler(cpu(5));
    other["metadata"]["name"] = "other".into();
    p.create(SCALERS, other).await;
    let message = "pods by selector app=web are controlled by multiple HPAs: [default/other default/web]";
    p.until("told", async |p| p.told("AmbiguousSelector", message).await).await;
    p.settle().await;
    assert_eq!(replicas(&p).await, 1);
    p.stop().await;
}

#[tokio::test]
async fn a_policy_slows_growth_down() {
    let (p, workers) = with_deployment(1).await;
    measure(&p, &workers, 500).await;
    let mut slow = scaler(cpu(50));
    slow["spec"]["behavior"] =
        json!({ "scaleUp": { "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 60 }] } });
    p.create(SCALERS, slow).await;
    p.until("one more", async |p| replicas(p).await == 2).await;
    p.until("why", async |p| says(p, "ScalingLimited", "ScaleUpLimit").await).await;
    for expected in [2, 2, 2, 3] {
        p.advance(15);
        p.until("all run", async |p| ready(p).await == replicas(p).await).await;
        measure(&p, &workers, 500).await;
        p.settle().await;
        assert_eq!(replicas(&p).await, expected);
    }
    p.stop().await;
}

#[tokio::test]
async fn a_custom_resource_with_a_scale_is_scaled() {
    let (p, workers) = with_deployment(1).await;
    measure(&p, &workers, 150).await;
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "farms.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": "farms", "kind": "Farm" }, "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            "subresources": { "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector" } },
        }] },
    });
    p.client.create("customresourcedefinitions.apiextensions.k8s.io", "", definition).await.unwrap();
    p.settle().await;
    let farm = json!({ "apiVersion": "example.com/v1", "kind": "Farm", "metadata": { "name": "web" },
        "spec": { "replicas": 1, "soil": "clay" }, "status": { "replicas": 1, "selector": "app=web" } });
    p.create("farms.example.com", farm).await;
    let mut of_farm = scaler(cpu(50));
    of_farm["spec"]["scaleTargetRef"] = json!({ "apiVersion": "example.com/v1", "kind": "Farm", "name": "web" });
    p.create(SCALERS, of_farm).await;
    p.until("it grows", async |p| p.get("farms.example.com", "web").await["spec"]["replicas"] == 3).await;
    assert_eq!(p.get("farms.example.com", "web").await["spec"]["soil"], "clay");
    p.stop().await;
}
