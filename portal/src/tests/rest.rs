//! What holds for the whole REST API: its OpenAPI document, pages, entity tags, idempotency keys, and the form of errors.

mod browsers;
mod races;
mod requests;
mod streams;
mod told;

use std::collections::BTreeSet;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::{
    http::{Access, endpoints, openapi_document},
    testing::{World, as_somebody},
};

/// Endpoints whose answers are not the portal's own, or pages.
const UNDESCRIBED: [&str; 1] = ["/api/v1/environments/{name}/kube/{path}"];

fn operations(document: &Value) -> Vec<(String, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().expect("an item").iter().map(move |(method, o)| (method.to_uppercase(), path.as_str(), o))
        })
        .collect()
}

async fn sent(world: &World, request: Request<Body>) -> (StatusCode, http::HeaderMap, Value) {
    let (parts, body) = world.send(request).await.into_parts();
    let bytes = body.collect().await.expect("body").to_bytes();
    (parts.status, parts.headers, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// As the administrator, with further headers.
async fn with(
    world: &World,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&str>,
) -> (StatusCode, http::HeaderMap, Value) {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("authorization", format!("Bearer {}", world.token));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    sent(world, request.body(Body::from(body.unwrap_or_default().to_owned())).expect("request")).await
}

#[tokio::test]
async fn the_openapi_document_has_every_endpoint_and_is_for_everybody() {
    let world = World::new();
    let (status, _, document) = sent(&world, as_somebody(None, "GET", "/api/v1/openapi.json", None)).await;
    assert_eq!((status, document["openapi"].as_str()), (StatusCode::OK, Some("3.1.1")));
    let described: BTreeSet<(String, String)> =
        operations(&document).into_iter().map(|(method, path, _)| (method, path.to_owned())).collect();
    let there: BTreeSet<(String, String)> =
        endpoints().iter().map(|e| (e.method.to_owned(), e.path.replace("{*", "{"))).collect();
    assert_eq!(described, there);
    let golden = include_str!("permissions.golden").lines().filter(|line| !line.starts_with('#'));
    let golden: BTreeSet<(String, String)> = golden
        .map(|line| {
            let mut words = line.split_whitespace();
            let mut word = || words.next().expect("a method and a path").to_owned();
            (word(), word().replace("{*", "{"))
        })
        .collect();
    assert_eq!(described, golden, "the document and the golden list of permissions");
}

#[test]
fn every_operation_says_who_may_call_it_and_what_it_answers() {
    let document = openapi_document("1.2.3");
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let at = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().expect("an id")), "{at}: its id is not unique");
        let endpoint = endpoints().into_iter().find(|e| e.method == method && e.path.replace("{*", "{") == path);
        let endpoint = endpoint.expect("an endpoint");
        match endpoint.access {
            Access::Public => assert_eq!(operation["security"], json!([]), "{at}"),
            _ => assert_ne!(operation["security"], json!([]), "{at}"),
        }
        if let Access::Needs(permission, _) = endpoint.access {
            assert_eq!(operation["x-permission"], permission.as_str(), "{at}");
        }
        for name in path.split('{').skip(1).filter_map(|part| part.split('}').next()) {
            let parameters = operation["parameters"].as_array().expect("parameters");
            assert!(parameters.iter().any(|p| p["in"] == "path" && p["name"] == name), "{at}: {name}");
        }
        if path.starts_with("/api/v1/") && !UNDESCRIBED.contains(&path) {
            let responses = operation["responses"].as_object().expect("responses");
            assert!(responses.keys().any(|status| status.starts_with('2')), "{at}: what it answers is not described");
            assert!(!responses.contains_key("default"), "{at}: answer with a type that says what it is");
        }
    }
    // Everything that is referred to is there.
    let text = document.to_string();
    for reference in text.split("\"#/").skip(1).filter_map(|part| part.split('"').next()) {
        assert!(document.pointer(&format!("/{reference}")).is_some(), "{reference}");
    }
}

/// Every object with fields that a schema has in it, by where it is; references are followed.
fn objects<'a>(
    document: &'a Value,
    schema: &'a Value,
    place: &str,
    seen: &mut BTreeSet<String>,
    open: &mut Vec<String>,
) {
    if !schema.is_object() {
        return;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        if seen.insert(reference.to_owned()) {
            let named = document.pointer(reference.trim_start_matches('#')).expect("a schema");
            objects(document, named, reference, seen, open);
        }
        return;
    }
    if schema["properties"].is_object() && schema["additionalProperties"] != false {
        open.push(place.to_owned());
    }
    let inner = schema["properties"].as_object().into_iter().flatten().map(|(_, inner)| inner);
    let of = ["anyOf", "oneOf", "allOf"].iter().filter_map(|of| schema[of].as_array()).flatten();
    for inner in inner.chain(of).chain([&schema["items"], &schema["additionalProperties"]]) {
        objects(document, inner, place, seen, open);
    }
}

#[test]
fn a_body_has_no_fields_that_its_schema_does_not_name() {
    let document = openapi_document("1.2.3");
    let (mut seen, mut open, mut bodies) = (BTreeSet::new(), Vec::new(), 0);
    for (method, path, operation) in operations(&document) {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        if !schema.is_null() && !UNDESCRIBED.contains(&path) {
            bodies += 1;
            objects(&document, schema, &format!("{method} {path}"), &mut seen, &mut open);
        }
    }
    assert!(bodies > 25, "{bodies}");
    assert_eq!(open, [""; 0], "#[schemars(deny_unknown_fields)], so that a misspelt field is an error");
}

#[tokio::test]
async fn every_error_is_a_problem_document() {
    let world = World::new();
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(2 << 20));
    let cases: [(&str, &str, Option<&str>, u16); 9] = [
        ("GET", "/api/v1/nothing", None, 404),
        ("GET", "/nothing/at/all", None, 404),
        ("TRACE", "/api/v1/environments", None, 405),
        ("PUT", "/api/v1/environments", Some("{}"), 405),
        ("POST", "/api/v1/environments", Some("{"), 400),
        ("POST", "/api/v1/environments", Some(&large), 413),
        ("GET", "/api/v1/environments?limit=no", None, 400),
        ("GET", "/api/v1/environments/%ff", None, 400),
        ("POST", "/api/v1/environments", None, 415),
    ];
    for (method, path, body, expected) in cases {
        let (status, headers, problem) = with(&world, method, path, &[], body).await;
        assert_eq!(status.as_u16(), expected, "{method} {path}: {problem}");
        assert_eq!(headers["content-type"], "application/problem+json", "{method} {path}");
        assert_eq!(problem["status"], expected, "{method} {path}");
        for field in ["type", "detail", "requestId"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{method} {path}: {problem}");
        }
    }
}

#[tokio::test]
async fn lists_come_in_pages_that_stay_put_while_others_write() {
    let world = World::new();
    for name in ["a", "c", "d", "e"] {
        world.create(name, "blank").await;
    }
    let names = |page: &Value| -> String {
        page["items"].as_array().expect("items").iter().filter_map(|i| i["name"].as_str()).collect()
    };
    let (_, headers, first) = with(&world, "GET", "/api/v1/environments?limit=2&template=blank", &[], None).await;
    assert_eq!(names(&first), "ac");
    let link = headers["link"].to_str().expect("a link").to_owned();
    assert!(link.ends_with("; rel=\"next\""), "{link}");
    world.create("b", "blank").await;
    let path = link.trim_start_matches('<').split('>').next().expect("an address").to_owned();
    let (_, headers, second) = with(&world, "GET", &path, &[], None).await;
    assert_eq!((names(&second), headers.get("link")), ("de".to_owned(), None));
    for (query, expected) in [
        ("sort=-name&limit=3", "edc"),
        ("sort=createdAt", "acdeb"),
        ("q=LOCAL-ADMIN&limit=1", "a"),
        ("q=nothing-like-it", ""),
        ("phase=Creating&owner=local-admin", "abcde"),
        ("template=team-x,BLANK&limit=1", "a"),
        ("project=other", ""),
    ] {
        let (status, _, page) = with(&world, "GET", &format!("/api/v1/environments?{query}"), &[], None).await;
        assert_eq!((status, names(&page)), (StatusCode::OK, expected.to_owned()), "{query}");
    }
    let (_, _, jobs) = with(&world, "GET", "/api/v1/jobs?environment=b&operation=create", &[], None).await;
    assert_eq!(jobs["items"].as_array().map(Vec::len), Some(1));
    let (status, _, problem) = with(&world, "GET", "/api/v1/environments?sort=nmae", &[], None).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(problem["detail"].as_str().is_some_and(|d| d.contains("did you mean name?")), "{problem}");
}

#[tokio::test]
async fn a_change_of_what_has_changed_is_told_what_is_there_now() {
    let world = World::new();
    world.call("POST", "/api/v1/projects", Some(json!({"name": "web", "title": "one"}))).await;
    world.create("env", "blank").await;
    let cases = [
        ("PUT", "/api/v1/projects/web", "/api/v1/projects/web", json!({"title": "two"})),
        ("PUT", "/api/v1/teams/ops", "/api/v1/teams/ops", json!({"title": "two"})),
        ("PUT", "/api/v1/roles/own", "/api/v1/roles/own", json!({"rules": ["environments.list"]})),
        ("PUT", "/api/v1/platform", "/api/v1/platform", json!({"userQuota": {"environments": 7}})),
        ("DELETE", "/api/v1/environments/env", "/api/v1/environments/env", Value::Null),
        ("PUT", "/api/v1/environments/env/authentication", "/api/v1/environments/env/authentication", json!({})),
    ];
    for (method, path, read, body) in cases {
        let body = Some(body).filter(|b| !b.is_null()).map(|b| b.to_string());
        if method == "PUT" && !path.contains("environments") {
            let (status, headers, made) = with(&world, method, path, &[], body.as_deref()).await;
            assert_eq!(status, StatusCode::OK, "{path}: {made}");
            assert!(headers.contains_key("etag"), "{path}");
        }
        let (_, headers, now) = with(&world, "GET", read, &[], None).await;
        let tag = headers["etag"].to_str().expect("a tag").to_owned();
        let (status, _, problem) = with(&world, method, path, &[("if-match", "\"99999\"")], body.as_deref()).await;
        assert_eq!((status, problem["type"].as_str()), (StatusCode::PRECONDITION_FAILED, Some("changed")), "{path}");
        assert_eq!(problem["current"], now, "{path}");
        let (status, _, problem) = with(&world, method, path, &[("if-match", "x")], body.as_deref()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {problem}");
        if !path.ends_with("authentication") {
            let (status, _, problem) = with(&world, method, path, &[("if-match", &tag)], body.as_deref()).await;
            assert!(status.is_success(), "{path}: {status} {problem}");
        }
    }
}

const KEY: &str = "idempotency-key";

#[tokio::test]
async fn a_post_with_a_key_is_done_once_also_across_a_restart() {
    let world = World::on_disk().await;
    let (path, body) = ("/api/v1/environments", r#"{"name": "env", "template": "blank"}"#);
    let (status, headers, first) = with(&world, "POST", path, &[(KEY, "k1")], Some(body)).await;
    assert_eq!((status, headers.get("idempotency-replayed")), (StatusCode::CREATED, None), "{first}");
    let world = world.after_crash().await;
    let (status, headers, again) = with(&world, "POST", path, &[(KEY, "k1")], Some(body)).await;
    assert_eq!((status, &again), (StatusCode::CREATED, &first));
    assert_eq!(
        (&headers["idempotency-replayed"], &headers["location"]),
        (&"true".parse().expect("a value"), &"/api/v1/environments/env".parse().expect("a value"))
    );
    assert_eq!(headers["content-type"], "application/json");
    let other = r#"{"name": "other", "template": "blank"}"#;
    let (status, _, problem) = with(&world, "POST", path, &[(KEY, "k1")], Some(other)).await;
    assert_eq!((status.as_u16(), problem["type"].as_str()), (422, Some("idempotency-key-reused")));
    // Somebody else's key is another one, and what was refused can be tried again with the same.
    let (status, _, _) = with(&world, "POST", path, &[(KEY, "k2")], Some(body)).await;
    assert_eq!(status, StatusCode::CONFLICT, "the name is taken");
    with(&world, "DELETE", "/api/v1/environments/env", &[], None).await;
    let (status, _, _) = with(&world, "POST", "/api/v1/projects", &[(KEY, "k2")], Some(r#"{"name": "web"}"#)).await;
    assert_eq!(status, StatusCode::CREATED);
    for wrong in ["", "two words", &"x".repeat(256)] {
        let (status, _, _) = with(&world, "POST", path, &[(KEY, wrong)], Some(other)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong:?}");
    }
}

#[tokio::test]
async fn a_secret_is_not_kept_for_a_key() {
    let world = World::at_fixed_time();
    let expires = (world.clock.now() + jiff::SignedDuration::from_hours(1)).to_string();
    let body = json!({"name": "ci", "scopes": {"verbs": ["read"]}, "expiresAt": expires}).to_string();
    let (status, _, made) = with(&world, "POST", "/api/v1/api-keys", &[(KEY, "k")], Some(&body)).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let (status, _, problem) = with(&world, "POST", "/api/v1/api-keys", &[(KEY, "k")], Some(&body)).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    let (_, _, keys) = with(&world, "GET", "/api/v1/api-keys", &[], None).await;
    assert_eq!(keys["items"].as_array().map(Vec::len), Some(1), "one was made");
    // A day later the key is forgotten.
    world.clock.advance(24 * 3600);
    let (status, _, _) = with(&world, "POST", "/api/v1/projects", &[(KEY, "k")], Some(r#"{"name": "web"}"#)).await;
    assert_eq!(status, StatusCode::CREATED);
}

#[tokio::test]
async fn requests_with_one_key_at_the_same_moment_are_done_once() {
    let world = World::new();
    let body = r#"{"name": "env", "template": "blank"}"#;
    let one = || with(&world, "POST", "/api/v1/environments", &[(KEY, "k")], Some(body));
    let answers = futures::future::join_all((0..8).map(|_| one())).await;
    for (status, _, answer) in &answers {
        let in_flight = *status == StatusCode::CONFLICT && answer["type"] == "conflict";
        assert!(*status == StatusCode::CREATED || in_flight, "{status} {answer}");
    }
    let (_, _, jobs) = with(&world, "GET", "/api/v1/jobs", &[], None).await;
    assert_eq!(jobs["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_stream_of_changes_says_first_where_it_begins() {
    let world = World::new();
    let begin = async |headers: &[(&str, &str)]| {
        let mut request =
            Request::builder().uri("/api/v1/events").header("authorization", format!("Bearer {}", world.token));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = world.send(request.body(Body::empty()).expect("request")).await;
        let mut body = response.into_body();
        let mut text = String::new();
        while !text.contains("\n\n") || (!headers.is_empty() && text.matches("\n\n").count() < 2) {
            let frame = body.frame().await.expect("a frame").expect("a frame");
            text.push_str(&String::from_utf8_lossy(frame.data_ref().expect("data")));
        }
        text
    };
    let first = begin(&[]).await;
    assert!(first.contains("id: ") || first.contains("id:"), "{first}");
    let position = first.lines().find_map(|l| l.strip_prefix("id:")).expect("an id").trim().to_owned();
    world.create("env", "blank").await;
    let resumed = begin(&[("last-event-id", &position)]).await;
    assert!(resumed.contains("\"env\""), "{resumed}");
    for unknown in ["of another server", "\u{ff}", "1.99999", "1.2.3.4", "-1"] {
        let lost = begin(&[("last-event-id", unknown)]).await;
        assert!(lost.contains("reset"), "{unknown}: {lost}");
    }
}

#[tokio::test]
async fn a_stream_of_changes_ends_with_the_credential_that_it_was_asked_for_with() {
    let world = World::new();
    let expires = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1)).to_string();
    let body = json!({"name": "ci", "scopes": {"verbs": ["read"]}, "expiresAt": expires});
    let (status, key) = world.call("POST", "/api/v1/api-keys", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{key}");
    let token = key["token"].as_str().expect("a token");
    let request = Request::builder().uri("/api/v1/events").header("authorization", format!("Bearer {token}"));
    let response = world.send(request.body(Body::empty()).expect("request")).await;
    assert_eq!(response.status(), StatusCode::OK);
    let mut stream = response.into_body();
    stream.frame().await.expect("where it begins").expect("a frame");
    world.create("one", "blank").await;
    let frame = stream.frame().await.expect("a change").expect("a frame");
    assert!(String::from_utf8_lossy(frame.data_ref().expect("data")).contains("\"one\""));
    let (status, _) =
        world.call("DELETE", &format!("/api/v1/api-keys/{}", key["id"].as_str().expect("an id")), None).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    world.create("two", "blank").await;
    while let Some(frame) = stream.frame().await {
        let frame = frame.expect("a frame");
        assert!(!String::from_utf8_lossy(frame.data_ref().expect("data")).contains("\"two\""));
    }
}
