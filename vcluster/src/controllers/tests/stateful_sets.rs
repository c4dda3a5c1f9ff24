//! StatefulSets and ReplicationControllers over the real pipeline.

use serde_json::{Value, json};

use super::pipeline::{Pipeline, template};
use crate::controllers::object::{controller_of, text, uid};

const SETS: &str = "statefulsets.apps";
const CLAIMS: &str = "persistentvolumeclaims";

fn set(replicas: u32, more: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "web" },
        "spec": { "serviceName": "web", "replicas": replicas, "selector": { "matchLabels": { "app": "web" } }, "template": template("v1") },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        set["spec"][key] = value.clone();
    }
    set
}

async fn images(p: &Pipeline) -> Vec<String> {
    p.list("pods").await.iter().map(|pod| text(pod, "/spec/containers/0/image").to_owned()).collect()
}

async fn complete(p: &Pipeline, replicas: u64) -> bool {
    let set = p.get(SETS, "web").await;
    let s = &set["status"];
    s["observedGeneration"] == set["metadata"]["generation"]
        && s["replicas"] == replicas
        && s["availableReplicas"] == replicas
        && s["updatedReplicas"].as_u64().unwrap_or(0) == replicas
        && s["currentRevision"] == s["updateRevision"]
}

#[tokio::test]
async fn a_stateful_set_comes_in_order_rolls_keeps_its_history_and_goes_back() {
    let p = Pipeline::running().await;
    p.create(SETS, set(3, json!({}))).await;
    p.until("the first is there alone", async |p| p.names("pods").await == ["web-0"]).await;
    p.until("three", async |p| complete(p, 3).await).await;
    let pods = p.list("pods").await;
    let first = text(&pods[0], "/metadata/labels/controller-revision-hash").to_owned();
    assert_eq!(p.names("controllerrevisions.apps").await.join(","), first);
    assert_eq!(pods[2]["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "2");
    assert_eq!(pods[2]["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"], "web-2");
    assert_eq!((&pods[1]["spec"]["hostname"], &pods[1]["spec"]["subdomain"]), (&json!("web-1"), &json!("web")));
    assert!(p.told("SuccessfulCreate", "create Pod web-0 in StatefulSet web successful").await);

    // With a partition only the upper part is updated.
    let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } });
    p.patch(SETS, "web", json!({ "spec": { "template": template("v2"), "updateStrategy": strategy } })).await;
    p.until("web-2 is new", async |p| images(p).await == ["v1", "v1", "v2"]).await;
    p.settle().await;
    let status = p.get(SETS, "web").await["status"].clone();
    assert_eq!((&status["currentReplicas"], &status["updatedReplicas"]), (&json!(2), &json!(1)), "{status}");
    p.delete("pods", "web-0").await;
    p.until("below the partition the old revision comes back", async |p| {
        images(p).await == ["v1", "v1", "v2"] && p.get(SETS, "web").await["status"]["availableReplicas"] == 3
    })
    .await;
    p.patch(SETS, "web", json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 0 } } } })).await;
    p.until("all are new", async |p| complete(p, 3).await && images(p).await == ["v2"; 3]).await;
    assert_eq!(p.names("controllerrevisions.apps").await.len(), 2);

    // Back to the first: its revision becomes the newest.
    p.patch(SETS, "web", json!({ "spec": { "template": template("v1") } })).await;
    p.until("back", async |p| complete(p, 3).await && images(p).await == ["v1"; 3]).await;
    assert_eq!(p.get("controllerrevisions.apps", &first).await["revision"], 3);

    p.patch(SETS, "web", json!({ "spec": { "replicas": 1, "revisionHistoryLimit": 0 } })).await;
    p.until("the first is left, and its revision", async |p| {
        complete(p, 1).await
            && p.names("pods").await == ["web-0"]
            && p.names("controllerrevisions.apps").await.join(",") == first
    })
    .await;
    let before = p.fixture.store_revision().await;
    p.settle().await;
    assert_eq!(p.fixture.store_revision().await, before, "nothing is written when nothing changes");
    p.delete(SETS, "web").await;
    p.until("nothing is left", async |p| {
        p.list("pods").await.is_empty() && p.list("controllerrevisions.apps").await.is_empty()
    })
    .await;
    p.stop().await;
}

#[tokio::test]
async fn on_delete_updates_what_somebody_deletes_and_ended_pods_are_replaced() {
    let p = Pipeline::running().await;
    p.create(SETS, set(2, json!({ "podManagementPolicy": "Parallel", "updateStrategy": { "type": "OnDelete" } })))
        .await;
    p.until("two", async |p| complete(p, 2).await).await;
    p.patch(SETS, "web", json!({ "spec": { "template": template("v2") } })).await;
    p.settle().await;
    assert_eq!(images(&p).await, ["v1", "v1"]);
    p.delete("pods", "web-1").await;
    p.until("replaced by the new one", async |p| images(p).await == ["v1", "v2"]).await;
    let before = uid(&p.get("pods", "web-0").await).to_owned();
    p.end("web-0", 1).await;
    p.until("an ended pod is replaced", async |p| {
        let pod = p.get("pods", "web-0").await;
        uid(&pod) != before && pod["status"]["phase"] == "Running"
    })
    .await;
    p.stop().await;
}

#[tokio::test]
async fn the_next_pod_waits_until_the_one_before_is_available() {
    let p = Pipeline::running().await;
    p.create(SETS, set(2, json!({ "minReadySeconds": 30 }))).await;
    p.until("the first is ready", async |p| p.get(SETS, "web").await["status"]["readyReplicas"] == 1).await;
    p.settle().await;
    assert_eq!(p.get(SETS, "web").await["status"]["availableReplicas"], 0);
    assert_eq!(p.names("pods").await, ["web-0"]);
    p.advance(31);
    p.until("the second came", async |p| p.names("pods").await.len() == 2).await;
    p.stop().await;
}

#[tokio::test]
async fn claims_are_made_kept_and_deleted_as_the_policy_says() {
    let p = Pipeline::running().await;
    let claim = json!([{ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } } } }]);
    p.create(
        SETS,
        set(2, json!({ "volumeClaimTemplates": claim, "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete", "whenDeleted": "Retain" } })),
    )
    .await;
    p.until("two", async |p| complete(p, 2).await).await;
    assert_eq!(p.names(CLAIMS).await, ["data-web-0", "data-web-1"]);
    let pod = p.get("pods", "web-1").await;
    let mounted = pod["spec"]["volumes"].as_array().unwrap().iter().find(|v| v["name"] == "data").unwrap();
    assert_eq!(mounted["persistentVolumeClaim"]["claimName"], "data-web-1");
    assert!(p.told("SuccessfulCreate", "create Claim data-web-1 Pod web-1 in StatefulSet web success").await);

    p.delete("pods", "web-1").await;
    p.settle().await;
    p.until("web-1 is back", async |p| complete(p, 2).await).await;
    assert_eq!(p.names(CLAIMS).await.len(), 2, "a pod that is replaced keeps its claim");
    p.patch(SETS, "web", json!({ "spec": { "replicas": 1 } })).await;
    p.until("the claim goes with the pod", async |p| p.names(CLAIMS).await == ["data-web-0"]).await;

    p.patch(SETS, "web", json!({ "spec": { "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" } } }))
        .await;
    p.until("the set owns the claim", async |p| {
        let claim = p.get(CLAIMS, "data-web-0").await;
        controller_of(&claim).is_some_and(|o| text(o, "/kind") == "StatefulSet")
    })
    .await;
    p.delete(SETS, "web").await;
    p.until("nothing is left", async |p| p.list(CLAIMS).await.is_empty() && p.list("pods").await.is_empty()).await;
    p.stop().await;
}

#[tokio::test]
async fn a_replication_controller_keeps_so_many_pods() {
    let p = Pipeline::running().await;
    p.create(
        "replicationcontrollers",
        json!({ "apiVersion": "v1", "kind": "ReplicationController", "metadata": { "name": "rc" },
            "spec": { "replicas": 2, "template": template("v1") } }),
    )
    .await;
    let ready = async |p: &Pipeline, n: u64| {
        let status = p.get("replicationcontrollers", "rc").await["status"].clone();
        status["replicas"] == n
            && status["availableReplicas"].as_u64().unwrap_or(0) == n
            && p.list("pods").await.len() as u64 == n
    };
    p.until("two", async |p| ready(p, 2).await).await;
    let pods = p.names("pods").await;
    assert!(pods.iter().all(|n| n.starts_with("rc-")), "{pods:?}");
    p.patch("pods", &pods[0], json!({ "metadata": { "labels": { "app": "debug" } } })).await;
    p.until("a released pod is replaced", async |p| p.list("pods").await.len() == 3).await;
    p.patch("pods", &pods[0], json!({ "metadata": { "labels": { "app": "web" } } })).await;
    p.until("it is adopted again and one goes", async |p| ready(p, 2).await).await;
    p.stop().await;
}
