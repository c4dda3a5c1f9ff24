//! DaemonSets over the real pipeline.

use serde_json::{Value, json};

use super::pipeline::{Pipeline, template};
use crate::controllers::object::text;

const SETS: &str = "daemonsets.apps";

fn set(more: Value) -> Value {
    let mut set = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "d" },
        "spec": { "selector": { "matchLabels": { "app": "web" } }, "template": template("v1") } });
    for (key, value) in more.as_object().into_iter().flatten() {
        set["spec"][key] = value.clone();
    }
    set
}

/// `node image` of every pod.
async fn placed(p: &Pipeline) -> Vec<String> {
    let pods = p.list("pods").await;
    let mut placed: Vec<String> =
        pods.iter().map(|p| format!("{} {}", text(p, "/spec/nodeName"), text(p, "/spec/containers/0/image"))).collect();
    placed.sort();
    placed
}

async fn complete(p: &Pipeline, nodes: u64) -> bool {
    let set = p.get(SETS, "d").await;
    let s = &set["status"];
    ["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable", "updatedNumberScheduled"]
        .iter()
        .all(|f| s[*f].as_u64().unwrap_or(0) == nodes)
        && s["observedGeneration"] == set["metadata"]["generation"]
}

#[tokio::test]
async fn a_daemon_set_follows_the_nodes_and_rolls() {
    let p = Pipeline::running().await;
    p.create(SETS, set(json!({}))).await;
    p.until("on the one node", async |p| complete(p, 1).await).await;
    p.create("nodes", super::node("n2")).await;
    let mut tainted = super::node("n3");
    tainted["spec"]["taints"] = json!([{ "key": "gpu", "effect": "NoSchedule" }]);
    p.create("nodes", tainted).await;
    p.until("on both, but not on the tainted one", async |p| {
        complete(p, 2).await && placed(p).await == ["n1 v1", "n2 v1"]
    })
    .await;
    let pod = p.list("pods").await[0].clone();
    assert_eq!(
        text(&pod, "/metadata/labels/controller-revision-hash"),
        text(&p.list("controllerrevisions.apps").await[0], "/metadata/labels/controller-revision-hash")
    );
    p.client.merge_patch("nodes", "", "n3", "", json!({ "spec": { "taints": null } })).await.unwrap();
    p.until("on all", async |p| complete(p, 3).await).await;

    p.patch(SETS, "d", json!({ "spec": { "template": template("v2") } })).await;
    p.until("all are new", async |p| complete(p, 3).await && placed(p).await == ["n1 v2", "n2 v2", "n3 v2"]).await;
    assert_eq!(p.list("controllerrevisions.apps").await.len(), 2);
    let strategy = json!({ "type": "OnDelete", "rollingUpdate": null });
    p.patch(SETS, "d", json!({ "spec": { "template": template("v1"), "updateStrategy": strategy } })).await;
    p.settle().await;
    assert_eq!(placed(&p).await, ["n1 v2", "n2 v2", "n3 v2"]);
    assert!(p.get(SETS, "d").await["status"].get("updatedNumberScheduled").is_none());
    p.delete("pods", p.names("pods").await[0].as_str()).await;
    p.until("the deleted one comes back old", async |p| {
        placed(p).await.iter().filter(|x| x.ends_with("v1")).count() == 1
    })
    .await;

    p.patch(SETS, "d", json!({ "spec": { "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } } } })).await;
    p.until("surged", async |p| complete(p, 3).await && placed(p).await == ["n1 v1", "n2 v1", "n3 v1"]).await;
    p.settle().await;
    let before = p.fixture.store_revision().await;
    p.settle().await;
    assert_eq!(p.fixture.store_revision().await, before);
    p.delete(SETS, "d").await;
    p.until("nothing is left", async |p| {
        p.list("pods").await.is_empty() && p.list("controllerrevisions.apps").await.is_empty()
    })
    .await;
    p.stop().await;
}
