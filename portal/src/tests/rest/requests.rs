//! Requests as nobody should send them: methods that are not there, bodies of another form, conditions, keys that are used again.

use std::collections::BTreeSet;

use axum::body::Body;
use http::{Request, StatusCode};
use serde_json::json;

use super::{KEY, sent, with};
use crate::{http::endpoints, testing::World};

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
