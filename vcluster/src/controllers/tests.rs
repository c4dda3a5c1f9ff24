//! The controllers together, over the memory store and a small API; those of [`pipeline`] over the real one.

mod cluster_roles;
mod cron_jobs;
mod daemon_sets;
mod definitions;
mod deployments;
mod disruption;
mod endpoint_slice_mirroring;
mod horizontal;
mod jobs;
mod pipeline;
mod sleep;
mod stateful_sets;
mod volumes;

use std::time::Duration;

use serde_json::{Value, json};
use vctl_machinery::selector::LabelSelector;
use vctl_store::MemoryStore;

use super::{
    object::{annotation, condition, controller_of, is_deleting, list, name, namespace, text, uid},
    testing::FakeClients,
    *,
};

/// A store with one tenant and controllers that run.
struct World {
    store: Arc<MemoryStore>,
    clock: Clock,
    tasks: Tasks,
    clients: Arc<FakeClients>,
    controllers: Option<Controllers>,
    tenant: Tenant,
    client: Arc<dyn Client>,
}

impl World {
    /// A tenant with the namespaces `ns` and a node; controllers do not run yet.
    async fn stopped(clock: Clock) -> Self {
        let store = Arc::new(MemoryStore::new());
        let clients = Arc::new(FakeClients { store: store.clone(), clock: clock.clone() });
        let tenant = store.create_tenant("one", Vec::new()).await.unwrap();
        let client = clients.client(tenant, "user");
        let this = Self { store, clock, tasks: Tasks::new(), clients, controllers: None, tenant, client };
        this.create("namespaces", "", json!({ "metadata": { "name": "ns" } })).await;
        this.create("nodes", "", node("n1")).await;
        this
    }

    async fn running() -> Self {
        let mut this = Self::stopped(Clock::system()).await;
        this.start();
        this
    }

    fn start(&mut self) {
        let controllers =
            Controllers::new(self.store.clone(), self.clients.clone(), self.clock.clone(), self.tasks.clone());
        controllers.run();
        self.controllers = Some(controllers);
    }

    async fn create(&self, resource: &str, ns: &str, object: Value) -> Value {
        self.client.create(resource, ns, object).await.unwrap()
    }

    async fn list(&self, resource: &str) -> Vec<Value> {
        self.client.list(resource, "", &LabelSelector::default()).await.unwrap().items
    }

    async fn delete(&self, resource: &str, ns: &str, of: &str, policy: &str) {
        self.client.delete(resource, ns, of, json!({ "propagationPolicy": policy })).await.unwrap();
    }

    async fn patch(&self, resource: &str, of: &str, patch: Value) {
        self.client.merge_patch(resource, "ns", of, "", patch).await.unwrap();
    }

    /// The worker: bound pods become ready, deleted ones go.
    async fn work(&self) {
        for (n, mut pod) in self.list("pods").await.into_iter().enumerate() {
            let (ns, of) = (namespace(&pod).to_owned(), name(&pod).to_owned());
            if text(&pod, "/spec/nodeName").is_empty() {
                continue;
            }
            if is_deleting(&pod) {
                let _ = self.client.delete("pods", &ns, &of, json!({ "gracePeriodSeconds": 0 })).await;
            } else if !pod::is_ready(&pod) {
                pod["status"] = json!({ "phase": "Running", "podIP": format!("10.1.0.{}", n + 1),
                    "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
                let _ = self.client.update("pods", &ns, &of, "status", pod).await;
            }
        }
    }

    /// Works until `done` holds; fails after ten seconds.
    async fn until<F: AsyncFn(&Self) -> bool>(&self, what: &str, done: F) {
        let end = tokio::time::Instant::now() + Duration::from_secs(10);
        while !done(self).await {
            assert!(tokio::time::Instant::now() < end, "never came to pass: {what}");
            self.work().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn count(&self, resource: &str) -> usize {
        self.list(resource).await.len()
    }

    async fn stop(self) {
        assert!(self.tasks.shutdown(Duration::from_secs(5)).await, "controllers stop when told");
    }
}

fn node(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } }, "spec": {},
        "status": { "allocatable": { "cpu": "8", "memory": "8Gi", "pods": "110" }, "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

fn template() -> Value {
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "c", "image": "v1" }] } })
}

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } }, "template": template(),
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } } },
    })
}

fn replica_set(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": name },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } }, "template": template() },
    })
}

fn service() -> Value {
    json!({ "metadata": { "name": "web" }, "spec": { "clusterIP": "10.96.0.9", "selector": { "app": "web" },
        "ports": [{ "name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP" }] } })
}

#[tokio::test]
async fn every_namespace_has_an_account_and_the_root_certificate() {
    let w = World::running().await;
    let has = async |w: &World| {
        w.client.get("serviceaccounts", "ns", "default").await.is_ok()
            && w.client.get("configmaps", "ns", "kube-root-ca.crt").await.is_ok_and(|m| m["data"]["ca.crt"] == "PEM")
    };
    w.until("both are there", has).await;
    w.delete("serviceaccounts", "ns", "default", "Background").await;
    w.patch("configmaps", "kube-root-ca.crt", json!({ "data": { "ca.crt": "evil" } })).await;
    w.until("both are back", has).await;
    w.stop().await;
}

#[tokio::test]
async fn a_deployment_runs_is_reachable_scales_rolls_and_leaves_nothing() {
    let w = World::running().await;
    w.create("services", "ns", service()).await;
    w.create("deployments.apps", "ns", deployment(3)).await;
    let addresses = async |w: &World| {
        let endpoints = w.client.get("endpoints", "ns", "web").await.unwrap_or_default();
        let slices = w.list("endpointslices.discovery.k8s.io").await;
        (
            list(&endpoints, "/subsets/0/addresses").len(),
            slices.iter().map(|s| list(s, "/endpoints").len()).sum::<usize>(),
        )
    };
    w.until("three pods in both kinds of endpoints", async |w| addresses(w).await == (3, 3)).await;
    let available = async |w: &World, count: u64| {
        let d = w.client.get("deployments.apps", "ns", "web").await.unwrap();
        d["status"]["availableReplicas"] == count
            && d["status"]["updatedReplicas"] == count
            && d["status"]["replicas"] == count
            && condition(&d, "Progressing").is_some_and(|c| text(c, "/reason") == "NewReplicaSetAvailable")
            && d["status"]["observedGeneration"] == d["metadata"]["generation"]
    };
    w.until("complete", async |w| available(w, 3).await).await;
    w.patch("deployments.apps", "web", json!({ "spec": { "replicas": 1 } })).await;
    w.until("scaled down", async |w| available(w, 1).await && addresses(w).await == (1, 1)).await;
    let mut next = template();
    next["spec"]["containers"][0]["image"] = "v2".into();
    w.patch("deployments.apps", "web", json!({ "spec": { "template": next } })).await;
    w.until("rolled", async |w| {
        let pods = w.list("pods").await;
        available(w, 1).await && pods.len() == 1 && text(&pods[0], "/spec/containers/0/image") == "v2"
    })
    .await;
    let d = w.client.get("deployments.apps", "ns", "web").await.unwrap();
    assert_eq!(annotation(&d, "deployment.kubernetes.io/revision"), Some("2"));
    let reasons: Vec<String> = w.list("events").await.iter().map(|e| text(e, "/reason").to_owned()).collect();
    for reason in ["ScalingReplicaSet", "SuccessfulCreate", "SuccessfulDelete", "Scheduled"] {
        assert!(reasons.iter().any(|r| r == reason), "{reason} in {reasons:?}");
    }
    w.delete("deployments.apps", "ns", "web", "Background").await;
    w.until("all of it is gone", async |w| w.count("replicasets.apps").await == 0 && w.count("pods").await == 0).await;
    w.delete("services", "ns", "web", "Background").await;
    w.until("endpoints are gone", async |w| {
        w.count("endpoints").await == 0 && w.count("endpointslices.discovery.k8s.io").await == 0
    })
    .await;
    w.stop().await;
}

#[tokio::test]
async fn nothing_is_written_once_everything_is_as_it_should_be() {
    let w = World::running().await;
    w.create("services", "ns", service()).await;
    w.create("deployments.apps", "ns", deployment(2)).await;
    w.until("complete", async |w| {
        let d = w.client.get("deployments.apps", "ns", "web").await.unwrap();
        d["status"]["availableReplicas"] == 2 && w.controllers.as_ref().is_some_and(Controllers::is_idle)
    })
    .await;
    // Everything is looked at anew, and nothing changes.
    let before = w.store.revision(w.tenant).await.unwrap();
    w.controllers.as_ref().unwrap().shared.queue.add(Key::tenant(w.tenant, Controller::Scan));
    w.until("the scan is over", async |w| w.controllers.as_ref().is_some_and(Controllers::is_idle)).await;
    assert_eq!(w.store.revision(w.tenant).await.unwrap(), before);
    w.stop().await;
}

#[tokio::test]
async fn foreground_deletion_waits_for_dependents_and_orphaning_keeps_them() {
    let w = World::running().await;
    w.create("replicasets.apps", "ns", replica_set("web", 2)).await;
    w.until("pods are ready", async |w| {
        w.client.get("replicasets.apps", "ns", "web").await.is_ok_and(|s| s["status"]["readyReplicas"] == 2)
    })
    .await;
    w.delete("replicasets.apps", "ns", "web", "Orphan").await;
    w.until("the set is gone", async |w| w.count("replicasets.apps").await == 0).await;
    let pods = w.list("pods").await;
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|p| controller_of(p).is_none() && !is_deleting(p)));

    w.create("replicasets.apps", "ns", replica_set("other", 2)).await;
    w.until("orphans are adopted, none is created", async |w| {
        let set = w.client.get("replicasets.apps", "ns", "other").await.unwrap();
        let pods = w.list("pods").await;
        set["status"]["readyReplicas"] == 2
            && pods.len() == 2
            && pods.iter().all(|p| controller_of(p).is_some_and(|o| text(o, "/uid") == uid(&set)))
    })
    .await;
    w.delete("replicasets.apps", "ns", "other", "Foreground").await;
    w.until("set and pods are gone", async |w| w.count("replicasets.apps").await == 0).await;
    assert_eq!(w.count("pods").await, 0, "dependents went first");
    w.stop().await;
}

#[tokio::test]
async fn a_pod_whose_labels_change_is_released_and_replaced() {
    let w = World::running().await;
    w.create("replicasets.apps", "ns", replica_set("web", 1)).await;
    w.until("one pod", async |w| w.count("pods").await == 1).await;
    let first = name(&w.list("pods").await[0]).to_owned();
    w.patch("pods", &first, json!({ "metadata": { "labels": { "app": "debug" } } })).await;
    w.until("a second pod", async |w| w.count("pods").await == 2).await;
    let released = w.client.get("pods", "ns", &first).await.unwrap();
    assert!(controller_of(&released).is_none());
    w.stop().await;
}

#[tokio::test]
async fn a_deleted_namespace_takes_everything_with_it() {
    let w = World::running().await;
    w.create("deployments.apps", "ns", deployment(2)).await;
    w.create("services", "ns", service()).await;
    let held = json!({ "metadata": { "name": "held", "finalizers": ["example.com/hold"] } });
    w.create("configmaps", "ns", held).await;
    w.until("pods are there", async |w| w.count("pods").await == 2).await;
    w.delete("namespaces", "", "ns", "Background").await;
    w.until("only what is held is left, and the status says so", async |w| {
        let ns = w.client.get("namespaces", "", "ns").await.unwrap();
        w.count("pods").await == 0 && condition(&ns, "NamespaceFinalizersRemaining").is_some_and(|c| {
            text(c, "/message")
                == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        })
    })
    .await;
    w.patch("configmaps", "held", json!({ "metadata": { "finalizers": null } })).await;
    w.until("the namespace is gone", async |w| w.count("namespaces").await == 0).await;
    for resource in [
        "pods",
        "services",
        "deployments.apps",
        "replicasets.apps",
        "configmaps",
        "serviceaccounts",
        "endpoints",
        "events",
    ] {
        assert_eq!(w.count(resource).await, 0, "{resource}");
    }
    w.stop().await;
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_says_why_and_is_bound_when_a_node_comes() {
    let w = World::running().await;
    let pod = json!({ "metadata": { "name": "p" }, "spec": { "nodeSelector": { "kubernetes.io/hostname": "n2" }, "containers": [] } });
    w.create("pods", "ns", pod).await;
    w.until("refused", async |w| {
        let pod = w.client.get("pods", "ns", "p").await.unwrap();
        let events = w.list("events").await;
        condition(&pod, "PodScheduled").is_some_and(|c| {
            text(c, "/reason") == "Unschedulable"
                && text(c, "/message")
                    .starts_with("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
        }) && events.iter().any(|e| text(e, "/reason") == "FailedScheduling" && text(e, "/type") == "Warning")
    })
    .await;
    w.create("nodes", "", node("n2")).await;
    w.until("bound", async |w| text(&w.client.get("pods", "ns", "p").await.unwrap(), "/spec/nodeName") == "n2").await;
    w.stop().await;
}

#[tokio::test]
async fn what_was_written_while_nobody_looked_is_found_at_start() {
    let mut w = World::stopped(Clock::system()).await;
    w.create("services", "ns", service()).await;
    w.create("deployments.apps", "ns", deployment(2)).await;
    let ghost =
        json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "gone", "controller": true }]);
    w.create("configmaps", "ns", json!({ "metadata": { "name": "left", "ownerReferences": ghost } })).await;
    w.start();
    w.until("all is caught up with", async |w| {
        let d = w.client.get("deployments.apps", "ns", "web").await.unwrap();
        d["status"]["availableReplicas"] == 2
            && w.client.get("configmaps", "ns", "left").await.is_err()
            && w.client.get("serviceaccounts", "ns", "default").await.is_ok()
    })
    .await;
    w.stop().await;
}

#[tokio::test]
async fn an_owner_that_nobody_owns_keeps_what_it_owns_when_something_else_goes() {
    let w = World::running().await;
    let owner = w.create("configmaps", "ns", json!({ "metadata": { "name": "owner" } })).await;
    w.create("configmaps", "ns", json!({ "metadata": { "name": "other" } })).await;
    let owned_by = |uid: &str| json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid }]);
    let kept = json!({ "metadata": { "name": "kept", "ownerReferences": owned_by(uid(&owner)) } });
    w.create("secrets", "ns", kept).await;
    let mut lost = json!({ "metadata": { "name": "lost", "ownerReferences": owned_by("gone") } });
    lost["metadata"]["ownerReferences"][0]["name"] = "gone".into();
    w.client.delete("configmaps", "ns", "other", Value::Null).await.unwrap();
    w.create("secrets", "ns", lost).await;
    w.until("what has no owner goes", async |w| {
        w.client.get("secrets", "ns", "lost").await.is_err() && w.controllers.as_ref().is_some_and(Controllers::is_idle)
    })
    .await;
    assert!(w.client.get("secrets", "ns", "kept").await.is_ok());
    w.client.delete("configmaps", "ns", "owner", Value::Null).await.unwrap();
    w.until("what it owned goes with it", async |w| w.client.get("secrets", "ns", "kept").await.is_err()).await;
    w.stop().await;
}

#[tokio::test]
async fn events_go_after_an_hour_and_orphans_of_a_lost_node_after_their_quarantine() {
    let clock = Clock::fixed("2026-01-01T00:00:00Z".parse().unwrap());
    let mut w = World::stopped(clock.clone()).await;
    w.start();
    w.create("pods", "ns", json!({ "metadata": { "name": "p" }, "spec": { "containers": [] } })).await;
    w.until("bound, with an event", async |w| {
        w.list("events").await.iter().any(|e| text(e, "/reason") == "Scheduled")
            && w.controllers.as_ref().is_some_and(Controllers::is_idle)
    })
    .await;
    w.client.delete("nodes", "", "n1", Value::Null).await.unwrap();
    w.until("its loss is noticed", async |w| {
        w.controllers.as_ref().is_some_and(|c| c.shared.queue.is_due(&Key::tenant(w.tenant, Controller::PodGc)))
    })
    .await;
    assert_eq!(w.count("pods").await, 1, "the node may come back");
    clock.advance(41);
    w.controllers.as_ref().unwrap().wake();
    w.until("the pod is gone", async |w| w.count("pods").await == 0).await;
    clock.advance(3700);
    w.controllers.as_ref().unwrap().wake();
    w.until("no event is left", async |w| w.count("events").await == 0).await;
    w.stop().await;
}

#[tokio::test]
async fn tenants_are_apart_and_a_deleted_one_leaves_no_work() {
    let w = World::running().await;
    let other = w.store.create_tenant("two", Vec::new()).await.unwrap();
    let client = w.clients.client(other, "user");
    client.create("namespaces", "", json!({ "metadata": { "name": "ns" } })).await.unwrap();
    client.create("replicasets.apps", "ns", replica_set("web", 2)).await.unwrap();
    w.until("pods in the other tenant only", async |w| {
        client.list("pods", "ns", &LabelSelector::default()).await.unwrap().items.len() == 2
            && w.count("pods").await == 0
    })
    .await;
    w.store.delete_tenant(other).await.unwrap();
    w.until("nothing is left", async |w| {
        w.controllers.as_ref().is_some_and(|c| c.is_idle() && c.shared.queue.is_about(other).is_none())
    })
    .await;
    w.stop().await;
}
