//! Mirroring of Endpoints over the real pipeline.

use serde_json::{Value, json};

use super::pipeline::Pipeline;
use crate::controllers::object::text;

const SLICES: &str = "endpointslices.discovery.k8s.io";

fn service(selector: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "db" },
        "spec": { "ports": [{ "name": "p", "port": 80 }], "selector": selector } })
}

fn endpoints(ip: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": "db" },
        "subsets": [{ "addresses": [{ "ip": ip }], "ports": [{ "port": 80 }] }] })
}

async fn mirrored(p: &Pipeline) -> Vec<Value> {
    let mut slices = p.list(SLICES).await;
    slices.retain(|s| {
        s["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] == "endpointslicemirroring-controller.k8s.io"
    });
    slices
}

async fn shows(p: &Pipeline, ip: &str) -> bool {
    matches!(&mirrored(p).await[..], [slice] if slice["endpoints"][0]["addresses"] == json!([ip]))
}

#[tokio::test]
async fn endpoints_of_a_service_without_selector_are_mirrored_as_long_as_they_are_there() {
    let p = Pipeline::running().await;
    p.create("services", service(Value::Null)).await;
    p.create("endpoints", endpoints("10.1.2.3")).await;
    p.until("a slice", async |p| shows(p, "10.1.2.3").await).await;
    let mut changed = p.get("endpoints", "db").await;
    changed["subsets"][0]["addresses"][0]["ip"] = "10.2.3.4".into();
    p.client.update("endpoints", "default", "db", "", changed).await.unwrap();
    p.until("the slice follows", async |p| shows(p, "10.2.3.4").await).await;
    let slice = mirrored(&p).await.remove(0);
    p.delete(SLICES, text(&slice, "/metadata/name")).await;
    p.until("it is made anew", async |p| shows(p, "10.2.3.4").await).await;

    p.patch("services", "db", json!({ "spec": { "selector": { "app": "web" } } })).await;
    p.until("its pods count now", async |p| mirrored(p).await.is_empty()).await;
    p.patch("services", "db", json!({ "spec": { "selector": null } })).await;
    p.settle().await;
    p.patch("endpoints", "db", json!({ "metadata": { "labels": null }, "subsets": endpoints("10.2.3.4")["subsets"] }))
        .await;
    p.until("it is mirrored again", async |p| shows(p, "10.2.3.4").await).await;

    let label = |value: &str| json!({ "metadata": { "labels": { "endpointslice.kubernetes.io/skip-mirror": value } } });
    p.patch("endpoints", "db", label("true")).await;
    p.until("it says that it is not", async |p| mirrored(p).await.is_empty()).await;
    p.patch("endpoints", "db", label("false")).await;
    p.until("it is again", async |p| shows(p, "10.2.3.4").await).await;
    p.delete("endpoints", "db").await;
    p.until("nothing is left", async |p| mirrored(p).await.is_empty()).await;
    p.stop().await;
}

#[tokio::test]
async fn what_is_too_much_is_told() {
    let p = Pipeline::running().await;
    p.create("services", service(Value::Null)).await;
    let mut many = endpoints("10.1.2.3");
    many["subsets"][0]["addresses"] =
        (0..1001).map(|n| json!({ "ip": format!("10.3.{}.{}", n / 250, n % 250 + 1) })).collect();
    p.create("endpoints", many).await;
    p.until("a thousand", async |p| {
        mirrored(p).await.iter().any(|s| s["endpoints"].as_array().is_some_and(|e| e.len() == 1000))
    })
    .await;
    let message =
        "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped";
    p.until("it is told", async |p| p.told("TooManyAddressesToMirror", message).await).await;
    p.stop().await;
}
