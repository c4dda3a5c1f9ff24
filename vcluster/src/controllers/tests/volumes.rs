//! Claims and volumes over the real pipeline.

use serde_json::{Value, json};

use super::pipeline::{Pipeline, template};
use crate::{
    controllers::{
        object::{annotation, is_deleting, list, text, uid},
        volumes::{CLAIMS, CLASSES, RECLAIM_FINALIZER, VOLUMES},
    },
    tests::limits,
};

fn claim(name: &str, more: Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        claim["spec"][key] = value.clone();
    }
    claim
}

fn pod(name: &str, claim: &str) -> Value {
    let mut pod = template("v1");
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod["spec"]["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
    pod
}

fn volume(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": { "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "5Gi" },
            "csi": { "driver": "volumes.vctl.dev", "volumeHandle": "kept" } },
    })
}

async fn phase(p: &Pipeline, resource: &str, of: &str) -> String {
    text(&p.get(resource, of).await, "/status/phase").to_owned()
}

#[tokio::test]
async fn a_volume_is_made_where_the_first_pod_runs_and_goes_with_its_claim() {
    let p = Pipeline::running().await;
    let class = p.get(CLASSES, "standard").await;
    assert_eq!(class["provisioner"], "volumes.vctl.dev");
    assert!(!uid(&class).is_empty(), "it has been there from the start");
    p.create(CLAIMS, claim("data", json!({}))).await;
    p.until("it is told what it waits for", async |p| {
        p.told("WaitForFirstConsumer", "waiting for first consumer to be created before binding").await
    })
    .await;
    let data = p.get(CLAIMS, "data").await;
    assert_eq!((text(&data, "/spec/storageClassName"), text(&data, "/status/phase")), ("standard", "Pending"));
    assert_eq!(data["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));

    p.create("pods", pod("web", "data")).await;
    p.until("the pod runs", async |p| phase(p, "pods", "web").await == "Running").await;
    let data = p.get(CLAIMS, "data").await;
    let made = format!("pvc-{}", uid(&data));
    assert_eq!(
        (&data["status"], text(&data, "/spec/volumeName")),
        (
            &json!({ "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" } }),
            made.as_str()
        )
    );
    assert_eq!(annotation(&data, "volume.kubernetes.io/selected-node"), Some("n1"));
    assert_eq!(annotation(&data, "pv.kubernetes.io/bind-completed"), Some("yes"));
    assert!(p.told("ProvisioningSucceeded", &format!("Successfully provisioned volume {made}")).await);
    let volume = p.get(VOLUMES, &made).await;
    assert_eq!(text(&volume, "/status/phase"), "Bound");
    assert_eq!(volume["spec"]["csi"], json!({ "driver": "volumes.vctl.dev", "volumeHandle": made }));
    let affinity = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";
    assert_eq!(text(&volume, affinity), "n1");
    assert_eq!(volume["metadata"]["finalizers"], json!([RECLAIM_FINALIZER, "kubernetes.io/pv-protection"]));

    // It grows, because its class allows that, and never shrinks below what it has.
    p.patch(CLAIMS, "data", json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } })).await;
    p.until("it has grown", async |p| p.get(CLAIMS, "data").await["status"]["capacity"]["storage"] == "2Gi").await;

    // Neither goes while it is used.
    p.delete(VOLUMES, &made).await;
    p.delete(CLAIMS, "data").await;
    p.settle().await;
    assert!(is_deleting(&p.get(CLAIMS, "data").await) && is_deleting(&p.get(VOLUMES, &made).await));
    p.delete("pods", "web").await;
    p.until("the claim has gone with its pod", async |p| p.get(CLAIMS, "data").await.is_null()).await;
    p.until("the volume waits for its directory only", async |p| {
        list(&p.get(VOLUMES, &made).await, "/metadata/finalizers") == [RECLAIM_FINALIZER]
    })
    .await;
    p.patch(VOLUMES, &made, json!({ "metadata": { "finalizers": null } })).await;
    p.until("all is gone", async |p| p.list(VOLUMES).await.is_empty()).await;
    p.stop().await;
}

#[tokio::test]
async fn volumes_made_by_hand_are_bound_and_kept() {
    let p = Pipeline::running().await;
    p.create(VOLUMES, volume("mine")).await;
    p.until("it is available", async |p| phase(p, VOLUMES, "mine").await == "Available").await;
    p.create(CLAIMS, claim("data", json!({ "storageClassName": "" }))).await;
    p.until("bound", async |p| phase(p, CLAIMS, "data").await == "Bound").await;
    assert_eq!(p.get(CLAIMS, "data").await["status"]["capacity"]["storage"], "5Gi", "that of the volume");
    p.create(CLAIMS, claim("more", json!({ "storageClassName": "" }))).await;
    p.until("there is no other", async |p| {
        p.told("FailedBinding", "no persistent volumes available for this claim and no storage class is set").await
    })
    .await;
    p.create("pods", pod("web", "more")).await;
    p.until("a pod cannot go anywhere with it", async |p| {
        p.list("events").await.iter().any(|e| {
            text(e, "/reason") == "FailedScheduling"
                && text(e, "/message")
                    .starts_with("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.")
        })
    })
    .await;
    let before = p.fixture.store_revision().await;
    p.settle().await;
    assert_eq!(p.fixture.store_revision().await, before, "nothing is written when nothing changes");

    p.delete(CLAIMS, "data").await;
    p.until("released", async |p| phase(p, VOLUMES, "mine").await == "Released").await;
    p.settle().await;
    assert!(!is_deleting(&p.get(VOLUMES, "mine").await), "the policy is Retain");
    // Whoever clears the reference gives it free.
    p.patch(VOLUMES, "mine", json!({ "spec": { "claimRef": null } })).await;
    p.until("the other claim has it", async |p| phase(p, CLAIMS, "more").await == "Bound").await;
    p.until("and the pod runs", async |p| phase(p, "pods", "web").await == "Running").await;
    p.stop().await;
}

#[tokio::test]
async fn an_immediate_class_of_ours_binds_without_a_pod_and_others_wait_for_their_provisioner() {
    let p = Pipeline::running().await;
    for (name, provisioner) in [("now", "volumes.vctl.dev"), ("theirs", "example.com/disks")] {
        let class = json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
            "provisioner": provisioner, "reclaimPolicy": "Retain" });
        p.create(CLASSES, class).await;
        p.create(CLAIMS, claim(name, json!({ "storageClassName": name }))).await;
    }
    p.until("bound", async |p| phase(p, CLAIMS, "now").await == "Bound").await;
    p.until("told", async |p| {
        p.list("events").await.iter().any(|e| {
            text(e, "/reason") == "ExternalProvisioning" && text(e, "/message").contains("'example.com/disks'")
        })
    })
    .await;
    let theirs = p.get(CLAIMS, "theirs").await;
    assert_eq!(annotation(&theirs, "volume.kubernetes.io/storage-provisioner"), Some("example.com/disks"));
    assert_eq!(text(&theirs, "/status/phase"), "Pending");
    p.delete(CLAIMS, "now").await;
    p.until("kept", async |p| p.list(VOLUMES).await.iter().any(|v| text(v, "/status/phase") == "Released")).await;
    p.stop().await;
}

#[tokio::test]
async fn what_a_released_volume_is_made_to_say_makes_no_room_for_more() {
    let (fixture, _) = limits::fixture(1000, limits::limited()).await;
    let p = Pipeline::over(fixture).await;
    let class = json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "kept" },
        "provisioner": "volumes.vctl.dev", "reclaimPolicy": "Retain" });
    p.create(CLASSES, class).await;
    let sized = |name: &str, class: &str| {
        claim(name, json!({ "storageClassName": class, "resources": { "requests": { "storage": "500" } } }))
    };
    p.create(CLAIMS, sized("a", "kept")).await;
    p.until("bound", async |p| phase(p, CLAIMS, "a").await == "Bound").await;
    let kept = text(&p.get(CLAIMS, "a").await, "/spec/volumeName").to_owned();
    p.delete(CLAIMS, "a").await;
    p.until("released", async |p| phase(p, VOLUMES, &kept).await == "Released").await;
    p.create(CLAIMS, sized("c", "standard")).await;
    let c = p.get(CLAIMS, "c").await;
    let lie = json!({ "namespace": "default", "name": "other", "uid": uid(&c) });
    p.patch(VOLUMES, &kept, json!({ "spec": { "claimRef": lie } })).await;
    let refused = p.client.create(CLAIMS, "default", sized("d", "standard")).await.unwrap_err();
    assert!(refused.message.contains("exceeded quota: project/a"), "{refused}");
    // What was promised is there when it is needed, though nothing is left.
    let mut web = pod("web", "c");
    web["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "1m" } });
    p.create("pods", web).await;
    p.until("the pod runs", async |p| phase(p, "pods", "web").await == "Running").await;
    assert_eq!(p.list(VOLUMES).await.len(), 2);
    p.stop().await;
}
