//! Deployments, ReplicaSets, namespaces and the garbage collector over the real pipeline.

use serde_json::{Value, json};

use super::pipeline::{Pipeline, template};
use crate::controllers::object::{annotation, condition, controller_of, list, text};

const DEPLOYMENTS: &str = "deployments.apps";
const SETS: &str = "replicasets.apps";

fn deployment(replicas: u32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } }, "template": template("v1") } })
}

async fn complete(p: &Pipeline, replicas: u64) -> bool {
    let d = p.get(DEPLOYMENTS, "web").await;
    d["status"]["observedGeneration"] == d["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|f| d["status"][*f] == replicas)
        && condition(&d, "Progressing").is_some_and(|c| text(c, "/reason") == "NewReplicaSetAvailable")
}

#[tokio::test]
async fn a_deployment_rolls_goes_back_and_leaves_nothing() {
    let p = Pipeline::running().await;
    p.create(DEPLOYMENTS, deployment(2)).await;
    p.until("complete", async |p| complete(p, 2).await).await;
    let created = p.list("events").await.iter().filter(|e| text(e, "/reason") == "SuccessfulCreate").count();
    assert_eq!(created, 2, "each pod has its event");
    for (image, revision) in [("v2", "2"), ("v1", "3")] {
        p.patch(DEPLOYMENTS, "web", json!({ "spec": { "template": template(image) } })).await;
        p.until("rolled", async |p| {
            let pods = p.list("pods").await;
            complete(p, 2).await && pods.len() == 2 && pods.iter().all(|x| text(x, "/spec/containers/0/image") == image)
        })
        .await;
        let d = p.get(DEPLOYMENTS, "web").await;
        assert_eq!(annotation(&d, "deployment.kubernetes.io/revision"), Some(revision));
    }
    assert_eq!(p.list(SETS).await.len(), 2, "going back uses the old one");
    p.settle().await;
    let before = p.fixture.store_revision().await;
    p.settle().await;
    assert_eq!(p.fixture.store_revision().await, before, "nothing is written when nothing changes");
    p.client.delete(DEPLOYMENTS, "default", "web", json!({ "propagationPolicy": "Foreground" })).await.unwrap();
    p.until("nothing is left", async |p| {
        p.list(DEPLOYMENTS).await.is_empty() && p.list(SETS).await.is_empty() && p.list("pods").await.is_empty()
    })
    .await;
    p.stop().await;
}

#[tokio::test]
async fn a_refused_pod_shows_in_the_replica_set() {
    let p = Pipeline::running().await;
    let mut set = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "web" },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } }, "template": template("v1") } });
    set["spec"]["template"]["spec"]["serviceAccountName"] = "nobody".into();
    p.create(SETS, set).await;
    p.until("the failure shows", async |p| {
        let set = p.get(SETS, "web").await;
        condition(&set, "ReplicaFailure").is_some_and(|c| {
            text(c, "/reason") == "FailedCreate" && text(c, "/message").contains("serviceaccount \"nobody\" not found")
        })
    })
    .await;
    p.create(
        "serviceaccounts",
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "nobody" } }),
    )
    .await;
    // The back-off has grown in the meantime; it is a due time.
    p.advance(1000);
    p.until("it recovers", async |p| {
        let set = p.get(SETS, "web").await;
        set["status"]["readyReplicas"] == 1 && condition(&set, "ReplicaFailure").is_none()
    })
    .await;
    p.stop().await;
}

#[tokio::test]
async fn a_namespace_goes_with_all_its_workloads() {
    let p = Pipeline::running().await;
    p.create("namespaces", json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } })).await;
    p.until("it has its account", async |p| p.client.get("serviceaccounts", "team", "default").await.is_ok()).await;
    let create = async |resource: &str, object: Value| {
        p.client.create(resource, "team", object).await.unwrap();
    };
    create(DEPLOYMENTS, deployment(2)).await;
    create(
        "jobs.batch",
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "j" }, "spec": { "template": {
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } }),
    )
    .await;
    p.until("three pods", async |p| p.client.list("pods", "team", &Default::default()).await.unwrap().items.len() == 3)
        .await;
    p.client.delete("namespaces", "", "team", Value::Null).await.unwrap();
    p.until("all is gone", async |p| p.client.get("namespaces", "", "team").await.is_err()).await;
    for resource in ["pods", "jobs.batch", DEPLOYMENTS, SETS, "serviceaccounts", "configmaps"] {
        let left = p.client.list(resource, "team", &Default::default()).await.unwrap().items;
        assert!(left.is_empty(), "{resource}");
    }
    p.stop().await;
}

#[tokio::test]
async fn orphans_are_kept_and_adopted() {
    let p = Pipeline::running().await;
    p.create(DEPLOYMENTS, deployment(2)).await;
    p.until("complete", async |p| complete(p, 2).await).await;
    p.client.delete(DEPLOYMENTS, "default", "web", json!({ "propagationPolicy": "Orphan" })).await.unwrap();
    p.until("it is gone", async |p| p.list(DEPLOYMENTS).await.is_empty()).await;
    p.settle().await;
    let sets = p.list(SETS).await;
    assert!(sets.len() == 1 && controller_of(&sets[0]).is_none() && list(&sets[0], "/metadata/finalizers").is_empty());
    p.create(DEPLOYMENTS, deployment(2)).await;
    p.until("adopted", async |p| {
        let sets = p.list(SETS).await;
        complete(p, 2).await && sets.len() == 1 && controller_of(&sets[0]).is_some() && p.list("pods").await.len() == 2
    })
    .await;
    p.stop().await;
}
