//! A cluster that sleeps has no controllers; when it wakes they look at all of it.

use serde_json::json;
use vctl_api::names::EnvironmentName;
use vctl_store::Store as _;

use super::pipeline::{Pipeline, template};
use crate::tests::NAME;

#[tokio::test]
async fn nothing_starts_while_it_sleeps_and_all_that_is_missing_when_it_wakes() {
    let p = Pipeline::running().await;
    let name = EnvironmentName::new(NAME).unwrap();
    let cron = json!({ "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "c" }, "spec": {
        "schedule": "*/10 * * * *", "concurrencyPolicy": "Forbid",
        "jobTemplate": { "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } } } });
    p.create("cronjobs.batch", cron).await;
    p.settle().await;

    p.fixture.planes.sleep(&name).await.unwrap();
    p.fixture.planes.sleep(&name).await.unwrap();
    p.until("the controllers know", async |p| p.controllers.sleeping() == 1).await;
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": template("i") } });
    p.create("deployments.apps", deployment).await;
    p.advance(3600);
    p.settle().await;
    assert!(p.names("replicasets.apps").await.is_empty() && p.names("pods").await.is_empty());

    p.fixture.planes.wake(&name).await.unwrap();
    p.until("it is made up for", async |p| p.names("pods").await.len() == 3 && p.names("jobs.batch").await.len() == 1)
        .await;
    p.fixture.planes.wake(&name).await.unwrap();
    p.stop().await;
}

#[tokio::test]
async fn one_in_which_nothing_happened_is_not_looked_at_again() {
    use crate::controllers::queue::{Controller, Key};

    let p = Pipeline::running().await;
    let name = EnvironmentName::new(NAME).unwrap();
    let cron = json!({ "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "c" }, "spec": {
        "schedule": "*/10 * * * *",
        "jobTemplate": { "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } } } });
    p.create("cronjobs.batch", cron).await;
    p.settle().await;
    let shared = &p.controllers.shared;
    let tenant = p.fixture.store.tenant(NAME).await.unwrap().unwrap().tenant;
    let due = Key { tenant, controller: Controller::CronJob, namespace: "default".into(), name: "c".into() };
    let scans = || shared.queue.queued(Controller::Scan);
    assert!(shared.queue.is_due(&due));

    let before = scans();
    p.fixture.planes.sleep(&name).await.unwrap();
    p.until("the controllers know", async |p| p.controllers.sleeping() == 1).await;
    assert!(shared.queue.is_about(tenant).is_none(), "nothing comes while it sleeps");
    p.fixture.planes.wake(&name).await.unwrap();
    p.until("the controllers know", async |p| p.controllers.sleeping() == 0).await;
    p.until("its times are back", async |_| shared.queue.is_due(&due)).await;
    assert_eq!(scans(), before, "it is as it was left");

    p.fixture.planes.sleep(&name).await.unwrap();
    p.until("the controllers know", async |p| p.controllers.sleeping() == 1).await;
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" },
        "spec": { "selector": { "app": "s" }, "ports": [{ "port": 80 }] } });
    p.create("services", service).await;
    p.fixture.planes.wake(&name).await.unwrap();
    p.until("what happened is made up for", async |p| p.names("endpoints").await.contains(&"s".to_owned())).await;
    assert_eq!(scans(), before + 1);
    p.stop().await;
}
