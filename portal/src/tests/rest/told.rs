//! What `GET` answers can be sent back whole to `PUT` and `PATCH`.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Value, json};
use vctl_api::rest::Phase;
use vctl_store::Expect;

use super::with;
use crate::{
    documents::put,
    http::{Endpoint, endpoints, openapi_document},
    testing::{self, World},
};

/// What is changed by `PUT` and cannot be read at its own address.
const NOT_READ: [&str; 1] = ["/api/v1/environments/{name}/shares/{user}"];

/// One of everything that can be changed.
async fn world() -> World {
    let world = World::new();
    world.planes.state().clusters.entry("env".to_owned()).or_default();
    let environment = put(&testing::environment("env", Phase::Ready), Expect::Absent).expect("environment");
    world.portal.inner().environments.documents.transact(vec![environment]).await.expect("written");
    world.sign_in("ann", &[]).await;
    let files =
        json!({"template.yaml": "apiVersion: vctl.dev/v1\nkind: Template\nname: app\nversion: 1.0.0\ntitle: T\n"});
    for (method, path, body) in [
        ("POST", "/api/v1/projects", json!({"name": "web"})),
        ("POST", "/api/v1/templates", json!({"files": files})),
        ("PUT", "/api/v1/teams/ops", json!({"title": "Ops"})),
        ("PUT", "/api/v1/roles/ops", json!({"rules": ["*.list"]})),
        ("PUT", "/api/v1/webhooks/chat", json!({"url": "https://hooks.example.com/"})),
        ("PUT", "/api/v1/approval-rules/large", json!({"templates": ["app"]})),
        ("PUT", "/api/v1/projects/web/approval-rules/large", json!({"templates": ["app"]})),
    ] {
        let (status, answer) = world.call(method, path, Some(body)).await;
        assert!(status.is_success(), "{method} {path}: {answer}");
    }
    world
}

fn address(path: &str) -> String {
    let (name, rest) = match path {
        p if p.contains("/environments/") => ("env", p),
        p if p.contains("/projects/") => ("web", p),
        p if p.contains("/teams/") || p.contains("/roles/") => ("ops", p),
        p if p.contains("/webhooks/") => ("chat", p),
        p if p.contains("/templates/") => ("app", p),
        p => ("large", p),
    };
    let rest = rest.replace("{name}", name).replace("{rule}", "large").replace("{version}", "1.0.0");
    rest.replace("{id}", "ann")
}

/// Endpoints that change something at an address where it can be read, with the fields that they take.
fn changes() -> Vec<(Endpoint, Vec<String>)> {
    let document = openapi_document("0");
    let mut all = Vec::new();
    for endpoint in endpoints() {
        if !["PUT", "PATCH"].contains(&endpoint.method) || endpoint.path.contains("/kube/") {
            continue;
        }
        if NOT_READ.contains(&endpoint.path) {
            continue;
        }
        let operation = &document["paths"][endpoint.path][endpoint.method.to_lowercase()];
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let reference = body["$ref"].as_str().expect("a body");
        let schema = document.pointer(reference.trim_start_matches('#')).expect("a schema");
        let fields = schema["properties"].as_object().expect("fields").keys().cloned().collect();
        all.push((endpoint, fields));
    }
    all
}

#[tokio::test]
async fn whatever_can_be_read_can_be_sent_back_whole() {
    let world = world().await;
    let mut told = BTreeMap::new();
    for (endpoint, fields) in changes() {
        let (path, method) = (address(endpoint.path), endpoint.method);
        let at = format!("{method} {path}");
        let (status, now) = world.call("GET", &path, None).await;
        assert_eq!(status, StatusCode::OK, "{at}: what is changed can be read: {now}");
        let (status, answer) = world.call(method, &path, Some(now.clone())).await;
        assert_eq!(status, StatusCode::OK, "{at}: {now}: {answer}");

        let (_, now) = world.call("GET", &path, None).await;
        let only_told: Vec<&String> =
            now.as_object().expect("fields").keys().filter(|name| !fields.contains(*name)).collect();
        for name in &only_told {
            let mut other = now.clone();
            let (status, kind) = if *name == "revision" {
                other["revision"] = json!(now["revision"].as_u64().expect("a number") + 7);
                (StatusCode::PRECONDITION_FAILED, "changed")
            } else {
                other[name.as_str()] = json!("something else");
                (StatusCode::UNPROCESSABLE_ENTITY, "invalid-body")
            };
            let (is, problem) = world.call(method, &path, Some(other)).await;
            assert_eq!((is, problem["type"].as_str()), (status, Some(kind)), "{at} {name}: {problem}");
            match kind {
                "changed" => assert_eq!(problem["current"], now, "{at}"),
                _ => assert!(problem["detail"].as_str().expect("why").contains(name.as_str()), "{at}: {problem}"),
            }
        }
        assert_eq!(world.call("GET", &path, None).await.1, now, "{at}: what was refused has changed nothing");
        told.insert(endpoint.path, only_told.len());
    }
    // Not by having nothing to look at.
    assert_eq!(told["/api/v1/projects/{name}"], 3, "{told:?}");
    assert_eq!(told["/api/v1/roles/{name}"], 3, "{told:?}");
    assert_eq!(told["/api/v1/platform"], 1, "{told:?}");
    assert!(told["/api/v1/users/{id}"] >= 6 && told["/api/v1/webhooks/{name}"] >= 3, "{told:?}");
}

#[tokio::test]
async fn of_what_is_not_there_nothing_is_told() {
    let world = world().await;
    let (status, problem) = world.call("PUT", "/api/v1/teams/new", Some(json!({"name": "new"}))).await;
    assert_eq!((status, &problem["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("invalid-body")));
    // Nor to whoever may not read it.
    let role = json!({"rules": ["users.update"]});
    assert_eq!(world.call("PUT", "/api/v1/roles/keeper", Some(role)).await.0, StatusCode::OK);
    let member = json!({"members": [{"kind": "user", "name": "keeper", "role": "keeper"}]});
    assert_eq!(world.call("PUT", "/api/v1/platform", Some(member)).await.0, StatusCode::OK);
    let keeper = world.sign_in("keeper", &[]).await;
    let ann = "/api/v1/users/ann";
    for guess in ["ann", "bob"] {
        let body = json!({"disabled": false, "name": guess});
        let (status, problem) = world.call_as(Some(&keeper), "PATCH", ann, Some(body)).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert!(problem["detail"].as_str().expect("why").contains("there is no field"), "{problem}");
    }
    let (status, _) = world.call_as(Some(&keeper), "PATCH", ann, Some(json!({"disabled": false}))).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn a_change_that_is_based_on_another_one_is_told_so_first() {
    let world = world().await;
    let path = "/api/v1/projects/web";
    let (_, before) = world.call("GET", path, None).await;
    assert_eq!(world.call("PUT", path, Some(json!({"title": "Theirs"}))).await.0, StatusCode::OK);
    // Without a revision in it, by the condition.
    let mut body: Value = before.clone();
    body.as_object_mut().expect("fields").remove("revision");
    body["createdAt"] = json!("2020-01-01T00:00:00Z");
    let tag = format!("\"{}\"", before["revision"]);
    let (status, headers, problem) = with(&world, "PUT", path, &[("if-match", &tag)], Some(&body.to_string())).await;
    assert_eq!((status, &problem["current"]["title"]), (StatusCode::PRECONDITION_FAILED, &json!("Theirs")));
    assert!(headers.contains_key("etag"), "{headers:?}");
    // By its revision, without a condition.
    let (status, problem) = world.call("PUT", path, Some(before)).await;
    assert_eq!((status, &problem["current"]["title"]), (StatusCode::PRECONDITION_FAILED, &json!("Theirs")));
}
