//! Definitions of custom resources over the real pipeline.

use serde_json::json;

use super::pipeline::Pipeline;
use crate::custom::{DEFINITIONS, names::is_true};

/// Whoever may write the status may also drop what is in it: upstream's naming and establishing controllers say it again.
#[tokio::test]
async fn conditions_that_someone_dropped_come_back() {
    let p = Pipeline::running().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "foos.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "foos", "kind": "Foo" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    });
    p.client.create(DEFINITIONS, "", definition).await.unwrap();
    let read = async || p.client.get(DEFINITIONS, "", "foos.example.com").await.unwrap();
    p.until("it is established", async |_| is_true(&read().await, "Established")).await;
    let mut changed = read().await;
    changed["status"]["conditions"] = json!([{ "type": "Mine", "status": "True", "reason": "R", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    p.client.update(DEFINITIONS, "", "foos.example.com", "status", changed).await.unwrap();
    p.until("it is established again", async |_| {
        let now = read().await;
        is_true(&now, "Established") && is_true(&now, "NamesAccepted") && is_true(&now, "Mine")
    })
    .await;
}
