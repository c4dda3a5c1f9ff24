//! Controllers over the real pipeline: admission, defaulting, validation and RBAC as in production, on the memory store.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use vctl_api::names::EnvironmentName;
use vctl_machinery::selector::LabelSelector;
use vctl_runtime::tasks::Tasks;

use crate::{
    client::Client,
    controllers::{
        Controllers,
        object::{is_deleting, name, namespace, rfc3339, text},
        pod,
    },
    tests::{Fixture, NAME},
    user::User,
};

/// Where objects of a resource are in these tests.
fn namespace_of(resource: &str) -> &'static str {
    match resource {
        "nodes"
        | "namespaces"
        | "persistentvolumes"
        | "storageclasses.storage.k8s.io"
        | "clusterroles.rbac.authorization.k8s.io" => "",
        _ => "default",
    }
}

/// One cluster with a node `n1`, whose clock stands still until it is advanced.
pub(super) struct Pipeline {
    pub(super) fixture: Fixture,
    pub(super) client: Arc<dyn Client>,
    pub(super) controllers: Controllers,
    tasks: Tasks,
}

impl Pipeline {
    pub(super) async fn running() -> Self {
        Self::over(Fixture::new().await).await
    }

    /// Over a cluster with workers of its own.
    pub(super) async fn over(fixture: Fixture) -> Self {
        let tasks = Tasks::new();
        let client = fixture.planes.client(&EnvironmentName::new(NAME).unwrap(), User::internal("system:test"));
        let controllers = Controllers::new(
            fixture.store.clone(),
            Arc::new(fixture.planes.clone()),
            fixture.clock.clone(),
            tasks.clone(),
        );
        controllers.run();
        let this = Self { fixture, client, controllers, tasks };
        this.create("nodes", super::node("n1")).await;
        this
    }

    /// Creates an object, in `default` when it is of a namespace.
    pub(super) async fn create(&self, resource: &str, object: Value) -> Value {
        self.client.create(resource, namespace_of(resource), object).await.unwrap()
    }

    pub(super) async fn get(&self, resource: &str, of: &str) -> Value {
        self.client.get(resource, namespace_of(resource), of).await.unwrap_or_default()
    }

    /// All objects of `default` in order of their names.
    pub(super) async fn list(&self, resource: &str) -> Vec<Value> {
        let mut items =
            self.client.list(resource, namespace_of(resource), &LabelSelector::default()).await.unwrap().items;
        items.sort_by_key(|o| name(o).to_owned());
        items
    }

    pub(super) async fn names(&self, resource: &str) -> Vec<String> {
        self.list(resource).await.iter().map(|o| name(o).to_owned()).collect()
    }

    pub(super) async fn patch(&self, resource: &str, of: &str, patch: Value) -> Value {
        self.client.merge_patch(resource, namespace_of(resource), of, "", patch).await.unwrap()
    }

    pub(super) async fn delete(&self, resource: &str, of: &str) {
        self.client
            .delete(resource, namespace_of(resource), of, json!({ "propagationPolicy": "Background" }))
            .await
            .unwrap_or_else(|e| panic!("{resource} {of}: {e}"));
    }

    /// Whether there is an event of a reason with exactly this message.
    pub(super) async fn told(&self, reason: &str, message: &str) -> bool {
        self.list("events").await.iter().any(|e| text(e, "/reason") == reason && text(e, "/message") == message)
    }

    /// Moves the clock.
    pub(super) fn advance(&self, seconds: i64) {
        self.fixture.clock.advance(seconds);
        self.controllers.wake();
    }

    /// The worker: bound pods start and become ready, deleted ones go. Pods annotated `hold` are left alone.
    pub(super) async fn work(&self) {
        for mut pod in self.client.list("pods", "", &LabelSelector::default()).await.unwrap().items {
            let (ns, of) = (namespace(&pod).to_owned(), name(&pod).to_owned());
            if text(&pod, "/spec/nodeName").is_empty() || pod["metadata"]["annotations"]["hold"] == "true" {
                continue;
            }
            if is_deleting(&pod) {
                let _ = self.client.delete("pods", &ns, &of, json!({ "gracePeriodSeconds": 0 })).await;
            } else if pod::phase(&pod) == "Pending" {
                pod["status"]["phase"] = "Running".into();
                pod["status"]["podIP"] = "10.1.0.9".into();
                pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "True", "lastTransitionTime": rfc3339(self.fixture.clock.now()) }]);
                let _ = self.client.update("pods", &ns, &of, "status", pod).await;
            }
        }
    }

    /// Ends a pod with an exit code.
    pub(super) async fn end(&self, of: &str, exit_code: i64) {
        let mut pod = self.client.get("pods", "default", of).await.unwrap();
        let container = text(&pod, "/spec/containers/0/name").to_owned();
        pod["status"]["phase"] = if exit_code == 0 { "Succeeded" } else { "Failed" }.into();
        pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "False", "reason": "PodCompleted" }]);
        pod["status"]["containerStatuses"] = json!([{
            "name": container, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": exit_code, "finishedAt": rfc3339(self.fixture.clock.now()) } },
        }]);
        self.client.update("pods", "default", of, "status", pod).await.unwrap();
    }

    /// Works until `done` holds; fails after ten seconds.
    pub(super) async fn until<F: AsyncFn(&Self) -> bool>(&self, what: &str, done: F) {
        let end = tokio::time::Instant::now() + Duration::from_secs(10);
        while !done(self).await {
            if tokio::time::Instant::now() > end {
                let mut seen = Vec::new();
                for resource in ["pods", "events", "statefulsets.apps", "jobs.batch", "daemonsets.apps"] {
                    for mut object in self.list(resource).await {
                        object["metadata"]["managedFields"] = Value::Null;
                        seen.push(format!("{resource} {} {} {}", name(&object), object["status"], object["message"]));
                    }
                }
                panic!("never came to pass: {what}\n{}", seen.join("\n"));
            }
            self.work().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Works until the controllers have nothing to do, except for times to come.
    pub(super) async fn settle(&self) {
        let revision = async || self.fixture.store_revision().await;
        loop {
            let before = revision().await;
            self.work().await;
            self.until("idle", async |p| p.controllers.is_idle()).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if self.controllers.is_idle() && revision().await == before {
                return;
            }
        }
    }

    pub(super) async fn stop(self) {
        assert!(self.tasks.shutdown(Duration::from_secs(5)).await, "controllers stop when told");
    }
}

/// A pod template with one container of an image.
pub(super) fn template(image: &str) -> Value {
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "c", "image": image }] } })
}
