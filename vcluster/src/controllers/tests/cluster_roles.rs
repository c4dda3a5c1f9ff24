//! Aggregated ClusterRoles over the real pipeline.

use serde_json::{Value, json};

use super::pipeline::Pipeline;
use crate::controllers::object::list;

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

fn role(name: &str, to: &str, resource: &str) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name, "labels": { format!("rbac.authorization.k8s.io/aggregate-to-{to}"): "true" } },
        "rules": [{ "apiGroups": ["example.com"], "resources": [resource], "verbs": ["get"] }] })
}

async fn grants(p: &Pipeline, of: &str, resource: &str) -> bool {
    let role = p.client.get(ROLES, "", of).await.unwrap();
    list(&role, "/rules").iter().any(|r| r["resources"] == json!([resource]))
}

#[tokio::test]
async fn roles_for_custom_resources_show_in_view_edit_and_admin() {
    let p = Pipeline::running().await;
    let before: Vec<Value> = p.client.list(ROLES, "", &Default::default()).await.unwrap().items;
    p.create(ROLES, role("widgets", "view", "widgets")).await;
    p.until("through view and edit into admin", async |p| {
        grants(p, "view", "widgets").await && grants(p, "edit", "widgets").await && grants(p, "admin", "widgets").await
    })
    .await;
    p.client.delete(ROLES, "", "widgets", Value::Null).await.unwrap();
    p.until("gone again", async |p| !grants(p, "admin", "widgets").await).await;
    p.settle().await;
    // What bootstrap wrote is what the controller computes.
    for role in &before {
        let now = p.client.get(ROLES, "", role["metadata"]["name"].as_str().unwrap()).await.unwrap();
        assert_eq!(now["rules"], role["rules"], "{}", role["metadata"]["name"]);
    }
    p.stop().await;
}
