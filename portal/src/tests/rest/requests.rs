//! Requests as nobody should send them: methods that are not there, bodies of another form, conditions, keys that are used again.

use std::collections::BTreeSet;

use axum::body::Body;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::{Request, StatusCode};
use serde_json::json;

use super::{KEY, sent, with};
use crate::{
    http::endpoints,
    testing::{SignedIn, World, as_somebody},
};

#[tokio::test]
async fn a_method_that_is_not_there_is_told_the_ones_that_are_to_everybody_alike() {
    let world = World::new();
    let all = endpoints();
    let paths: BTreeSet<&str> = all.iter().map(|e| e.path).collect();
    for path in paths {
        let declared: BTreeSet<&str> = all.iter().filter(|e| e.path == path).map(|e| e.method).collect();
        let mut allowed = declared.clone();
        if declared.contains("GET") {
            allowed.insert("HEAD");
        }
        let place = path.replace("{*path}", "x").replace(['{', '}'], "");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS", "QUERY"] {
            if allowed.contains(method) {
                continue;
            }
            for token in [None, Some("wrong"), Some(world.token.as_str())] {
                let mut request = Request::builder().method(method).uri(&place).header(KEY, "k");
                if let Some(token) = token {
                    request = request.header("authorization", format!("Bearer {token}"));
                }
                let (status, headers, problem) = sent(&world, request.body(Body::empty()).expect("request")).await;
                let at = format!("{method} {path} with {token:?}");
                assert_eq!(
                    (status, problem["type"].as_str()),
                    (StatusCode::METHOD_NOT_ALLOWED, Some("method-not-allowed")),
                    "{at}"
                );
                let said = headers["allow"].to_str().expect("text");
                assert_eq!(said.split(',').collect::<BTreeSet<_>>(), allowed, "{at}");
            }
        }
    }
}

#[tokio::test]
async fn a_field_that_is_not_there_is_an_error_and_changes_nothing() {
    let world = World::new();
    for (method, path, body, near) in [
        ("POST", "/api/v1/projects", r#"{"name": "web", "allowedTemplate": ["team-x"]}"#, "allowedTemplates"),
        ("PUT", "/api/v1/projects/default", r#"{"titel": "Web"}"#, "title"),
        ("PUT", "/api/v1/projects/default", r#"{"environmentQuota": {"cpus": "4"}}"#, "cpu"),
        ("PUT", "/api/v1/teams/ops", r#"{"user": ["ann"]}"#, "users"),
        ("PUT", "/api/v1/roles/ops", r#"{"rules": ["*"], "tittle": "Ops"}"#, "title"),
        ("PUT", "/api/v1/platform", r#"{"memberQuota": {}}"#, "members"),
        ("PUT", "/api/v1/approval-rules/large", r#"{"approval": 2}"#, "approvals"),
        ("PUT", "/api/v1/webhooks/chat", r#"{"url": "https://hooks.example.com/", "event": ["approval.*"]}"#, "events"),
        ("POST", "/api/v1/environments", r#"{"name": "e", "template": "blank", "parameter": {}}"#, "parameters"),
    ] {
        let (status, _, problem) = with(&world, method, path, &[], Some(body)).await;
        assert_eq!((status.as_u16(), problem["type"].as_str()), (422, Some("invalid-body")), "{body}: {problem}");
        assert!(problem["detail"].as_str().expect("text").contains("there is no field"), "{problem}");
        assert_eq!(problem["nearest"][0], near, "{problem}");
    }
    let (_, _, platform) = with(&world, "GET", "/api/v1/platform", &[], None).await;
    let (status, _, problem) = with(&world, "PUT", "/api/v1/platform", &[], Some(&platform.to_string())).await;
    assert_eq!(status, StatusCode::OK, "what is answered can be sent back: {problem}");
}

#[tokio::test]
async fn a_body_of_another_form_is_told_apart_from_what_is_no_json() {
    let world = World::new();
    world.create("env", "blank").await;
    let path = "/api/v1/environments/env/rotate-ca";
    for (body, expected) in [
        ("", (400, "bad-request")),
        ("{", (400, "bad-request")),
        (r#"{"overlapSeconds": "x", "now""#, (400, "bad-request")),
        (r#"{"overlapSeconds": "x"}"#, (422, "invalid-body")),
        (r#"{"overlapSeconds": 3600.5}"#, (422, "invalid-body")),
        (r#"{"overlapSeconds": -1}"#, (422, "invalid-body")),
        (r#"{"overlapSeconds": 1e400}"#, (400, "bad-request")),
        (r#"{"now": true, "now": false}"#, (422, "invalid-body")),
        (r#"{"overlapSeconds": 1.0, "overlapSeconds": 3600}"#, (422, "invalid-body")),
        (r#"{"other": 1}"#, (422, "invalid-body")),
        ("[]", (422, "invalid-body")),
        ("null", (422, "invalid-body")),
        ("{} {}", (400, "bad-request")),
        (r#"{"overlapSeconds": 0.0}"#, (422, "invalid-overlap")),
    ] {
        let (status, _, problem) = with(&world, "POST", path, &[], Some(body)).await;
        assert_eq!((status.as_u16(), problem["type"].as_str().unwrap_or_default()), expected, "{body}: {problem}");
    }
    let deep = "[".repeat(100_000);
    let (status, _, _) = with(&world, "POST", path, &[], Some(&deep)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let token = format!("Bearer {}", world.token);
    for (media_type, body, expected) in [
        (Some("application/json"), &b"{\"other\": \"\xff\"}"[..], 400),
        (Some("application/json; charset=utf-8"), b"[]", 422),
        (Some("text/plain"), b"{}", 415),
        (None, b"{}", 415),
    ] {
        let mut request = Request::builder().method("POST").uri(path).header("authorization", &token);
        if let Some(media_type) = media_type {
            request = request.header("content-type", media_type);
        }
        let (status, _, _) = sent(&world, request.body(Body::from(body)).expect("request")).await;
        assert_eq!(status.as_u16(), expected, "{media_type:?}");
    }
    let (status, _, _) = with(&world, "POST", path, &[("content-encoding", "gzip")], Some("{}")).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let keys = [(KEY, "a"), (KEY, "b")];
    let (status, _, _) = with(&world, "POST", path, &keys, Some("{}")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "two keys");
    // A list is not an object with its fields in their order, and an object is not the name of a choice.
    for (method, path, body) in [
        ("PUT", "/api/v1/teams/ops", r#"{"quota": [1, null]}"#),
        ("PUT", "/api/v1/platform", r#"{"members": [["user", "a", "admin"]]}"#),
        ("PUT", "/api/v1/platform", r#"{"members": [{"kind": {"user": null}, "name": "a", "role": "admin"}]}"#),
        ("POST", "/api/v1/projects", r#"{"name": "web", "quota": [1, null]}"#),
        ("POST", "/api/v1/projects", r#"["web"]"#),
    ] {
        let (status, _, problem) = with(&world, method, path, &[], Some(body)).await;
        assert_eq!((status.as_u16(), problem["type"].as_str()), (422, Some("invalid-body")), "{body}: {problem}");
    }
    // Integers however they are written (JSON Schema 2020-12, 6.1.1).
    for text in ["3600.0", "3.6e3", "36E2", "360000e-2"] {
        let world = World::new();
        world.create("env", "blank").await;
        let body = format!("{{\"overlapSeconds\": {text}}}");
        let (status, _, problem) = with(&world, "POST", path, &[], Some(&body)).await;
        // It is still being made: what was sent was read.
        assert_eq!((status, problem["type"].as_str()), (StatusCode::CONFLICT, Some("conflict")), "{text}: {problem}");
    }
}

#[tokio::test]
async fn a_change_is_made_only_if_one_of_the_tags_is_what_is_there() {
    let world = World::new();
    let path = "/api/v1/teams/ops";
    let title = |title: &str| json!({ "title": title }).to_string();
    with(&world, "PUT", path, &[], Some(&title("one"))).await;
    for (condition, expected) in [
        ("", 412),
        (",", 412),
        ("\"other\"", 412),
        ("\"18446744073709551615\"", 412),
        ("\"1-\"", 412),
        ("W/\"{now}\"", 412),
        ("W/\"x\", \"y,z\"", 412),
        ("{now}", 400),
        ("\"{now}", 400),
        ("\"{now}\" \"2\"", 400),
        ("\"a b\"", 400),
        ("w/\"{now}\"", 400),
        ("*, \"1\"", 400),
        ("\"{now}\"", 200),
        ("\"1\" ,, \"{now}\",W/\"9\"", 200),
        ("*", 200),
    ] {
        let (_, headers, _) = with(&world, "GET", path, &[], None).await;
        let now = headers["etag"].to_str().expect("text").trim_matches('"').to_owned();
        let condition = condition.replace("{now}", &now);
        let (status, _, problem) = with(&world, "PUT", path, &[("if-match", &condition)], Some(&title("two"))).await;
        assert_eq!(status.as_u16(), expected, "{condition}: {problem}");
        if status == StatusCode::PRECONDITION_FAILED {
            assert!(problem["current"]["title"].is_string(), "{condition}: {problem}");
        }
    }
    for (name, condition, expected) in [
        ("ops", ("if-none-match", "*"), 412),
        ("ops", ("if-none-match", "\"1\""), 400),
        ("other", ("if-match", "*"), 412),
        ("other", ("if-match", "\"7\""), 412),
        ("other", ("if-none-match", "*"), 200),
        ("other", ("if-none-match", " * "), 412),
        ("other", ("if-match", "*"), 200),
        ("platform", ("if-match", "*"), 200),
    ] {
        let path = if name == "platform" { "/api/v1/platform".to_owned() } else { format!("/api/v1/teams/{name}") };
        let (status, _, problem) = with(&world, "PUT", &path, &[condition], Some("{}")).await;
        assert_eq!(status.as_u16(), expected, "{name} {condition:?}: {problem}");
    }
    let both = [("if-match", "*"), ("if-none-match", "*")];
    let (status, _, _) = with(&world, "DELETE", path, &both, None).await;
    assert_eq!(status, StatusCode::PRECONDITION_FAILED);
    let (status, _, _) = with(&world, "DELETE", path, &[("if-match", "*")], None).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_large_template_can_be_published_with_a_key() {
    let world = World::new();
    let template = "apiVersion: vctl.dev/v1\nkind: Template\nname: large\nversion: 1.0.0\ntitle: Large\n";
    let manifest =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: {:?}}}\n", "x".repeat(700_000));
    let files = json!({"template.yaml": template, "manifests/a.yaml": manifest, "manifests/b.yaml": manifest.replace("name: a", "name: b")});
    let body = json!({ "files": files }).to_string();
    for replayed in [false, true] {
        let (status, headers, answer) = with(&world, "POST", "/api/v1/templates", &[(KEY, "k")], Some(&body)).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        assert_eq!(headers.contains_key("idempotency-replayed"), replayed);
    }
    let (status, _, problem) =
        with(&world, "POST", "/api/v1/projects", &[(KEY, "l")], Some(&format!("{{\"name\": {body:?}}}"))).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{problem}");
}

#[tokio::test]
async fn a_key_is_for_whoever_sends_it_alone() {
    let world = World::new();
    let (ann, ben) = (world.sign_in("ann", &[]).await, world.sign_in("ben", &[]).await);
    let both = json!([{"kind": "user", "name": "ann", "role": "developer"}, {"kind": "user", "name": "ben", "role": "developer"}]);
    world.call("POST", "/api/v1/projects", Some(json!({"name": "web", "members": both}))).await;
    let create = json!({"name": "env", "template": "blank", "project": "web"});
    let as_whom = async |who: &SignedIn| {
        let mut request = as_somebody(Some(who), "POST", "/api/v1/environments", Some(create.clone()));
        request.headers_mut().insert(KEY, "k".parse().expect("a value"));
        sent(&world, request).await
    };
    assert_eq!(as_whom(&ann).await.0, StatusCode::CREATED);
    let (status, headers, _) = as_whom(&ann).await;
    assert_eq!((status, headers.contains_key("idempotency-replayed")), (StatusCode::CREATED, true));
    let (status, headers, problem) = as_whom(&ben).await;
    assert_eq!((status, headers.contains_key("idempotency-replayed")), (StatusCode::CONFLICT, false), "{problem}");
    // A key for programs is not told what its owner was.
    let expires = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1)).to_string();
    let scopes = json!({"verbs": ["read", "write"], "project": "other"});
    let made = json!({"name": "ci", "scopes": scopes, "expiresAt": expires});
    let (_, made) = world.call_as(Some(&ann), "POST", "/api/v1/api-keys", Some(made)).await;
    let mut request = as_somebody(None, "POST", "/api/v1/environments", Some(create.clone()));
    let token = format!("Bearer {}", made["token"].as_str().expect("a token"));
    request.headers_mut().insert("authorization", token.parse().expect("a value"));
    request.headers_mut().insert(KEY, "k".parse().expect("a value"));
    let (status, headers, problem) = sent(&world, request).await;
    assert!(status.is_client_error() && !headers.contains_key("idempotency-replayed"), "{status} {problem}");
    // Somebody who may only look on now, or has lost what they may, is not told what they did.
    let only = json!({"members": [{"kind": "user", "name": "ann", "role": "viewer"}]});
    world.call("PUT", "/api/v1/projects/web", Some(only)).await;
    let (status, headers, problem) = as_whom(&ann).await;
    assert_eq!((status, headers.contains_key("idempotency-replayed")), (StatusCode::FORBIDDEN, false), "{problem}");
    world.call("PUT", "/api/v1/projects/web", Some(json!({}))).await;
    let (status, headers, problem) = as_whom(&ann).await;
    assert_eq!((status, &problem["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("unknown-project")), "{problem}");
    assert!(!headers.contains_key("idempotency-replayed"));
    let update = async |who: &SignedIn| {
        let mut request = as_somebody(Some(who), "POST", "/api/v1/environments/env/sleep", None);
        request.headers_mut().insert(KEY, "k".parse().expect("a value"));
        sent(&world, request).await.0
    };
    assert_eq!(update(&ben).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_was_tampered_with_is_refused_or_finds_nothing() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.create(name, "blank").await;
    }
    let (_, _, page) = with(&world, "GET", "/api/v1/environments?limit=1", &[], None).await;
    let next = page["next"].as_str().expect("a cursor").to_owned();
    let cursor = |json: &str| BASE64_URL_SAFE_NO_PAD.encode(json);
    let long = "x".repeat(20_000);
    for (cursor, expected) in [
        (next.clone(), 200),
        (next[1..].to_owned(), 422),
        (format!("{next}="), 422),
        (format!("{next}{next}"), 422),
        (cursor("{}"), 422),
        (cursor("[\"name\", false, \"a\", \"a\"]"), 200),
        (cursor(r#"{"b": "name", "d": true, "v": "a", "n": "a"}"#), 422),
        (cursor(r#"{"b": "owner", "d": false, "v": "a", "n": "a"}"#), 422),
        (cursor(r#"{"b": "name", "d": false, "v": 9, "n": null}"#), 200),
        (cursor(r#"{"b": "name", "d": false, "v": {}, "n": "a"}"#), 422),
        (cursor(&format!(r#"{{"b": "name", "d": false, "v": "{long}", "n": "a"}}"#)), 200),
        (String::new(), 422),
        ("%00".to_owned(), 422),
        ("%ff".to_owned(), 422),
    ] {
        let path = format!("/api/v1/environments?limit=1&cursor={cursor}");
        let (status, _, answer) = with(&world, "GET", &path, &[], None).await;
        assert_eq!(status.as_u16(), expected, "{cursor:.80}: {answer}");
    }
    for (query, expected) in [
        (format!("phase={long}"), 200),
        (format!("project={}", "a,".repeat(10_000)), 200),
        (format!("q={}", "x".repeat(65)), 400),
        (format!("sort={long}"), 400),
        (format!("limit={}", "9".repeat(100)), 400),
        ("limit=1.0".to_owned(), 400),
        ("limit=".to_owned(), 400),
        ("unknown=1".to_owned(), 200),
    ] {
        let (status, _, answer) = with(&world, "GET", &format!("/api/v1/environments?{query}"), &[], None).await;
        assert_eq!(status.as_u16(), expected, "{query:.80}");
        assert!(answer.to_string().len() < 10_000, "{query:.80}: what was sent is not sent back whole");
    }
    let (_, _, trail) = with(&world, "GET", "/api/v1/audit?limit=1&cursor=%2e%2e%2f", &[], None).await;
    assert!(trail["items"].is_array() || trail["type"].is_string(), "{trail}");
}

#[tokio::test]
async fn a_method_is_what_the_request_line_says() {
    let world = World::new();
    world.create("env", "blank").await;
    for name in ["x-http-method-override", "x-http-method", "x-method-override"] {
        let (status, _, _) =
            with(&world, "GET", "/api/v1/environments/env?_method=DELETE", &[(name, "DELETE")], None).await;
        assert_eq!(status, StatusCode::OK, "{name}");
    }
    let (_, _, environment) = with(&world, "GET", "/api/v1/environments/env", &[], None).await;
    assert_eq!(environment["phase"], "Creating");
}
