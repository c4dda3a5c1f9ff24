//! Custom resources through the whole pipeline.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use vctl_runtime::tasks::Tasks;

use super::Fixture;
use crate::controllers::Controllers;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TABS: &str = "/apis/stable.example.com/v1/namespaces/default/crontabs";

fn schema() -> Value {
    json!({
        "type": "object", "properties": {
            "spec": { "type": "object", "required": ["cron"], "properties": {
                "cron": { "type": "string", "pattern": "^[0-9*/ ]+$" },
                "replicas": { "type": "integer", "minimum": 0, "default": 1 },
                "color": { "type": "string", "enum": ["red", "blue"] },
                "ports": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": { "type": "object", "required": ["port"], "properties": {
                        "port": { "type": "integer" }, "protocol": { "type": "string", "default": "TCP" }, "name": { "type": "string" },
                    } } },
            } },
            "status": { "type": "object", "properties": {
                "replicas": { "type": "integer" }, "selector": { "type": "string" },
                "phase": { "type": "string", "enum": ["Good", "Bad"] },
            } },
        },
    })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "crontabs.stable.example.com" },
        "spec": { "group": "stable.example.com", "scope": "Namespaced",
            "names": { "plural": "crontabs", "kind": "CronTab", "shortNames": ["ct"], "categories": ["all"] },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema() },
                "subresources": { "status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
                } },
                "selectableFields": [{ "jsonPath": ".spec.color" }],
                "additionalPrinterColumns": [
                    { "name": "Cron", "type": "string", "jsonPath": ".spec.cron" },
                    { "name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1 },
                ] }] },
    })
}

fn tab(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": { "name": name }, "spec": spec })
}

async fn defined() -> Fixture {
    let f = Fixture::new().await;
    f.ok("POST", DEFINITIONS, definition()).await;
    f
}

#[tokio::test]
async fn objects_are_pruned_defaulted_and_validated() {
    let f = defined().await;
    let created = f.ok("POST", TABS, tab("a", json!({ "cron": "* * 1", "oops": 1, "color": null }))).await;
    assert_eq!(created["spec"], json!({ "cron": "* * 1", "replicas": 1 }));
    assert_eq!(created["metadata"]["generation"], 1);
    let (status, refused) =
        f.send("POST", &format!("{TABS}?fieldValidation=Strict"), tab("b", json!({ "cron": "*", "oops": 1 }))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        refused["message"].as_str().unwrap().ends_with("strict decoding error: unknown field \"spec.oops\""),
        "{refused}"
    );
    let (status, refused) =
        f.send("POST", TABS, tab("b", json!({ "cron": "x", "replicas": -1, "color": "green" }))).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("CronTab.stable.example.com \"b\" is invalid: ["), "{message}");
    for part in [
        "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        "spec.cron: Invalid value: \"x\": spec.cron in body should match '^[0-9*/ ]+$'",
        "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let (_, refused) =
        f.send("POST", TABS, tab("b", json!({ "cron": "*", "ports": [{ "port": 1 }, { "port": 1 }] }))).await;
    assert_eq!(
        refused["details"]["causes"],
        json!([{ "reason": "FieldValueDuplicate", "field": "spec.ports[1]", "message": "Duplicate value: {\"port\":1,\"protocol\":\"TCP\"}" }])
    );
}

#[tokio::test]
async fn what_is_stored_is_read_by_the_schema_of_today() {
    let f = defined().await;
    f.ok("POST", TABS, tab("a", json!({ "cron": "*", "color": "red" }))).await;
    let mut changed = f.ok("GET", &format!("{DEFINITIONS}/crontabs.stable.example.com"), Value::Null).await;
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let fields = changed.pointer_mut(properties).and_then(Value::as_object_mut).unwrap();
    fields.remove("color");
    fields.insert("zone".into(), json!({ "type": "string", "default": "UTC" }));
    changed["spec"]["versions"][0].as_object_mut().unwrap().remove("selectableFields");
    f.ok("PUT", &format!("{DEFINITIONS}/crontabs.stable.example.com"), changed).await;
    let read = f.ok("GET", &format!("{TABS}/a"), Value::Null).await;
    assert_eq!(read["spec"], json!({ "cron": "*", "replicas": 1, "zone": "UTC" }));
    let listed = f.ok("GET", TABS, Value::Null).await;
    assert_eq!(listed["items"][0]["spec"]["zone"], "UTC");
}

#[tokio::test]
async fn status_and_scale_are_views() {
    let f = defined().await;
    let mut with_status = tab("a", json!({ "cron": "*" }));
    with_status["status"] = json!({ "phase": "Good" });
    let created = f.ok("POST", TABS, with_status.clone()).await;
    assert_eq!(created.get("status"), None);
    let merge = [("content-type", "application/merge-patch+json")];
    let status = format!("{TABS}/a/status");
    let (code, updated) = f
        .send_as(
            &f.admin,
            &merge,
            "PATCH",
            &status,
            json!({ "spec": { "cron": "1" }, "status": { "phase": "Good", "replicas": 3, "selector": "a=b" } }),
        )
        .await;
    assert_eq!(code, StatusCode::OK, "{updated}");
    assert_eq!((&updated["spec"]["cron"], &updated["metadata"]["generation"]), (&json!("*"), &json!(1)));
    let (code, refused) =
        f.send_as(&f.admin, &merge, "PATCH", &status, json!({ "status": { "phase": "So-so" } })).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused["details"]["causes"][0]["field"], "status.phase");

    let scale = format!("{TABS}/a/scale");
    let shown = f.ok("GET", &scale, Value::Null).await;
    assert_eq!(
        (&shown["spec"], &shown["status"]),
        (&json!({ "replicas": 1 }), &json!({ "replicas": 3, "selector": "a=b" }))
    );
    let (code, scaled) = f.send_as(&f.admin, &merge, "PATCH", &scale, json!({ "spec": { "replicas": 5 } })).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (StatusCode::OK, &json!(5)));
    let read = f.ok("GET", &format!("{TABS}/a"), Value::Null).await;
    assert_eq!((&read["spec"]["replicas"], &read["metadata"]["generation"]), (&json!(5), &json!(2)));
}

#[tokio::test]
async fn columns_and_selectable_fields_come_from_the_definition() {
    let f = defined().await;
    f.ok("POST", TABS, tab("a", json!({ "cron": "1", "color": "red" }))).await;
    f.ok("POST", TABS, tab("b", json!({ "cron": "2", "color": "blue" }))).await;
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let (_, table) = f.send_as(&f.admin, &table, "GET", TABS, Value::Null).await;
    let names: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Name", "Cron", "Replicas"]);
    assert_eq!(table["rows"][1]["cells"], json!(["b", "2", 1]));
    let blue = f.ok("GET", &format!("{TABS}?fieldSelector=spec.color%3Dblue"), Value::Null).await;
    assert_eq!(blue["items"].as_array().unwrap().len(), 1);
    let (code, _) = f.send("GET", &format!("{TABS}?fieldSelector=spec.cron%3D1"), Value::Null).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn lists_are_applied_by_the_keys_of_the_schema() {
    let f = defined().await;
    let apply = [("content-type", "application/apply-patch+yaml")];
    let by = |manager: &str| format!("{TABS}/a?fieldManager={manager}");
    let one = tab("a", json!({ "cron": "*", "ports": [{ "port": 80, "name": "web" }] }));
    let (code, first) = f.send_as(&f.admin, &apply, "PATCH", &by("one"), one.clone()).await;
    assert_eq!(code, StatusCode::CREATED, "{first}");
    let other = tab("a", json!({ "ports": [{ "port": 443, "name": "tls" }] }));
    let (code, both) = f.send_as(&f.admin, &apply, "PATCH", &by("two"), other).await;
    assert_eq!(code, StatusCode::OK, "{both}");
    assert_eq!(both["spec"]["ports"].as_array().unwrap().len(), 2);
    let (_, again) = f.send_as(&f.admin, &apply, "PATCH", &by("one"), one).await;
    assert_eq!(again["metadata"]["resourceVersion"], both["metadata"]["resourceVersion"]);
    let conflict = tab("a", json!({ "ports": [{ "port": 80, "name": "other" }] }));
    let (code, refused) = f.send_as(&f.admin, &apply, "PATCH", &by("two"), conflict).await;
    assert_eq!(code, StatusCode::CONFLICT);
    assert_eq!(refused["details"]["causes"][0]["field"], ".spec.ports[port=80,protocol=\"TCP\"].name");
    let gone = tab("a", json!({ "cron": "*" }));
    let (_, left) = f.send_as(&f.admin, &apply, "PATCH", &by("one"), gone).await;
    assert_eq!(left["spec"]["ports"], json!([{ "port": 443, "protocol": "TCP", "name": "tls" }]));
}

#[tokio::test]
async fn several_versions_are_one_object() {
    let f = Fixture::new().await;
    let mut definition = definition();
    let mut old = definition["spec"]["versions"][0].clone();
    old["name"] = "v1beta1".into();
    old["storage"] = false.into();
    old["deprecated"] = true.into();
    definition["spec"]["versions"].as_array_mut().unwrap().push(old);
    f.ok("POST", DEFINITIONS, definition).await;
    f.ok("POST", TABS, tab("a", json!({ "cron": "*" }))).await;
    let uri = "/apis/stable.example.com/v1beta1/namespaces/default/crontabs/a";
    let response = f.raw(&f.admin, &[], "GET", uri, Value::Null).await;
    assert_eq!(response.headers()["warning"], "299 - \"stable.example.com/v1beta1 CronTab is deprecated\"");
    let read: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(read["apiVersion"], "stable.example.com/v1beta1");
    let group = f.ok("GET", "/apis/stable.example.com", Value::Null).await;
    assert_eq!(group["preferredVersion"]["version"], "v1");
}

#[tokio::test]
async fn documents_of_openapi_have_the_schema_at_once() {
    let f = defined().await;
    let before = f.ok("GET", "/openapi/v3", Value::Null).await;
    let document = f.ok("GET", "/openapi/v3/apis/stable.example.com/v1", Value::Null).await;
    let schema = &document["components"]["schemas"]["com.example.stable.v1.CronTab"];
    assert_eq!(schema["properties"]["spec"]["properties"]["cron"]["pattern"], "^[0-9*/ ]+$");
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "CronTab");
    assert_eq!(
        schema["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    let list = &document["components"]["schemas"]["com.example.stable.v1.CronTabList"];
    assert_eq!(list["properties"]["items"]["items"]["$ref"], "#/components/schemas/com.example.stable.v1.CronTab");
    let document = f.ok("GET", "/openapi/v2", Value::Null).await;
    assert!(document["definitions"]["com.example.stable.v1.CronTab"]["properties"]["spec"].is_object());
    let mut changed = f.ok("GET", &format!("{DEFINITIONS}/crontabs.stable.example.com"), Value::Null).await;
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["more"] =
        json!({ "type": "string" });
    f.ok("PUT", &format!("{DEFINITIONS}/crontabs.stable.example.com"), changed).await;
    let after = f.ok("GET", "/openapi/v3", Value::Null).await;
    let path = "apis/stable.example.com/v1";
    assert_ne!(before["paths"][path], after["paths"][path]);
    assert_eq!(before["paths"]["api/v1"], after["paths"]["api/v1"]);
}

/// Waits until a condition holds of what a GET answers.
async fn until(f: &Fixture, uri: &str, holds: impl Fn(StatusCode, &Value) -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let (status, value) = f.send("GET", uri, Value::Null).await;
        if holds(status, &value) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{uri}: {status} {value}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_deleted_definition_takes_its_objects_and_frees_its_names() {
    let f = defined().await;
    f.ok("POST", TABS, tab("a", json!({ "cron": "*" }))).await;
    let mut kept = tab("kept", json!({ "cron": "*" }));
    kept["metadata"]["finalizers"] = json!(["example.com/wait"]);
    f.ok("POST", TABS, kept).await;

    let mut second = definition();
    second["metadata"]["name"] = "others.stable.example.com".into();
    second["spec"]["names"] = json!({ "plural": "others", "kind": "Other", "shortNames": ["ct"] });
    let waiting = f.ok("POST", DEFINITIONS, second).await;
    assert_eq!(waiting["status"]["conditions"][0]["reason"], "ShortNamesConflict");
    assert_eq!(waiting["status"]["conditions"][0]["message"], "\"ct\" is already in use");
    let others = "/apis/stable.example.com/v1/namespaces/default/others";
    assert_eq!(f.send("GET", others, Value::Null).await.0, StatusCode::NOT_FOUND);

    let tasks = Tasks::new();
    let controllers = Controllers::new(f.store.clone(), Arc::new(f.planes.clone()), f.clock.clone(), tasks);
    controllers.run();
    let uri = format!("{DEFINITIONS}/crontabs.stable.example.com");
    let marked = f.ok("DELETE", &uri, Value::Null).await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    until(&f, &format!("{TABS}/a"), |status, _| status == StatusCode::NOT_FOUND).await;
    let (status, _) = f.send("POST", TABS, tab("late", json!({ "cron": "*" }))).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    let read = f.ok("GET", &uri, Value::Null).await;
    let terminating =
        read["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Terminating").unwrap();
    assert_eq!(terminating["reason"], "InstanceDeletionInProgress");
    let merge = [("content-type", "application/merge-patch+json")];
    f.send_as(&f.admin, &merge, "PATCH", &format!("{TABS}/kept"), json!({ "metadata": { "finalizers": null } })).await;
    f.clock.advance(6);
    controllers.wake();
    until(&f, &uri, |status, _| status == StatusCode::NOT_FOUND).await;
    until(&f, others, |status, _| status == StatusCode::OK).await;
    f.ok("POST", DEFINITIONS, definition()).await;
}

/// As many ask at the same time as want to: a document is built once for all clusters, and not at all for who has it.
#[tokio::test]
async fn documents_of_openapi_are_built_once() {
    let f = Fixture::new().await;
    let documents = f.planes.documents();
    let gzip = [("accept-encoding", "gzip")];
    let all = (0..16).map(|_| f.raw(&f.admin, &gzip, "GET", "/openapi/v2", Value::Null));
    let all = futures::future::join_all(all).await;
    assert_eq!(documents.builds(), 1);
    let etag = all[0].headers()["etag"].to_str().unwrap().to_owned();
    assert!(all.iter().all(|r| r.status() == StatusCode::OK && r.headers()["etag"] == etag.as_str()));
    assert_eq!(all[0].headers()["content-encoding"], "gzip");
    let plain = f.ok("GET", "/openapi/v2", Value::Null).await;
    let packed = all.into_iter().next().unwrap().into_body().collect().await.unwrap().to_bytes();
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*packed), &mut text).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), plain);

    // Another cluster has the same.
    let name = vctl_api::names::EnvironmentName::new("other").unwrap();
    f.planes.create(&name, Vec::new()).await.unwrap();
    let admin = super::peer(&f.planes, &name).await;
    let request = http::Request::get("/openapi/v2").body(axum::body::Body::empty()).unwrap();
    let response = f.planes.handle("other", request, admin).await;
    assert_eq!((response.status(), &response.headers()["etag"]), (StatusCode::OK, &etag.parse().unwrap()));
    assert_eq!(documents.builds(), 1);

    // With a definition it is another one; who has it, or knows what it is called, needs none to be built.
    f.ok("POST", DEFINITIONS, definition()).await;
    let index = f.ok("GET", "/openapi/v3", Value::Null).await;
    let url = index["paths"]["apis/stable.example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    let known = format!("\"{}\"", url.split_once("hash=").unwrap().1);
    let headers = [("if-none-match", known.as_str())];
    assert_eq!(f.raw(&f.admin, &headers, "GET", url, Value::Null).await.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(documents.builds(), 1);
    let headers = [("if-none-match", etag.as_str())];
    for _ in 0..3 {
        assert_eq!(f.raw(&f.admin, &headers, "GET", "/openapi/v2", Value::Null).await.status(), StatusCode::OK);
        assert_eq!(f.raw(&f.admin, &[], "GET", url, Value::Null).await.headers()["etag"], known.as_str());
    }
    assert_eq!(documents.builds(), 3);
}

/// Were they compiled, this would take gigabytes.
#[tokio::test]
async fn patterns_that_take_too_much_are_refused_where_they_stand() {
    let f = Fixture::new().await;
    let mut definition = definition();
    let patterns =
        (0..3000).map(|n| (format!("f{n:04}"), json!({ "type": "string", "pattern": format!("(a{{900}}){{8}}{n}") })));
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        json!({ "type": "object", "properties": patterns.collect::<serde_json::Map<_, _>>() });
    let (status, refused) = f.send("POST", DEFINITIONS, definition).await;
    assert_eq!((status, &refused["reason"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("Invalid")));
    let causes = refused["details"]["causes"].as_array().unwrap();
    let last = causes.iter().find(|c| c["field"].as_str().unwrap().ends_with("properties[f2999].pattern")).unwrap();
    assert!(last["message"].as_str().unwrap().contains("all patterns together are too large"), "{last}");
}
