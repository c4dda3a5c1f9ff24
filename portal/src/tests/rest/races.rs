//! Many people change one thing at the same moment, each as they have read it.

use futures::future::join_all;
use http::StatusCode;
use serde_json::{Value, json};

use super::with;
use crate::testing::World;

const PEOPLE: usize = 20;

/// What 20 changes get that are all based on what is there: on a disk, so that all have read it before the first is written.
async fn race(
    world: &World,
    method: &str,
    path: &str,
    condition: (&str, &str),
    body: Option<&str>,
) -> Vec<(StatusCode, Value)> {
    let (_, headers, _) = with(world, "GET", path, &[], None).await;
    let tag = headers.get("etag").and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned();
    let value = if condition.1.is_empty() { tag.as_str() } else { condition.1 };
    let all = (0..PEOPLE).map(|_| async move {
        let (status, headers, answer) = with(world, method, path, &[(condition.0, value)], body).await;
        if status == StatusCode::PRECONDITION_FAILED {
            assert!(headers.contains_key("etag"), "{method} {path}: {answer}");
        }
        (status, answer)
    });
    join_all(all).await
}

/// One has won, and every other is told that it has changed, and what it is now.
fn one_won(at: &str, answers: &[(StatusCode, Value)], others: &[StatusCode]) {
    let won = answers.iter().filter(|(status, _)| status.is_success()).count();
    assert_eq!(won, 1, "{at}: {answers:?}");
    for (status, answer) in answers.iter().filter(|(status, _)| !status.is_success()) {
        assert!(others.contains(status), "{at}: {status}: {answer}");
        if *status == StatusCode::PRECONDITION_FAILED {
            assert_eq!(answer["type"], "changed", "{at}: {answer}");
        }
    }
}

async fn world() -> World {
    let world = World::on_disk().await;
    let app = |version: &str| {
        let text = format!("apiVersion: vctl.dev/v1\nkind: Template\nname: app\nversion: {version}\ntitle: T\n");
        json!({"files": {"template.yaml": text}})
    };
    world.sign_in("ann", &[]).await;
    for (method, path, body) in [
        ("POST", "/api/v1/projects", json!({"name": "web"})),
        ("POST", "/api/v1/templates", app("1.0.0")),
        ("PUT", "/api/v1/teams/ops", json!({})),
        ("PUT", "/api/v1/roles/ops", json!({"rules": []})),
        ("PUT", "/api/v1/webhooks/chat", json!({"url": "https://hooks.example.com/"})),
        ("PUT", "/api/v1/approval-rules/large", json!({"templates": ["app"]})),
    ] {
        let (status, answer) = world.call(method, path, Some(body)).await;
        assert!(status.is_success(), "{method} {path}: {answer}");
    }
    world
}

#[tokio::test]
async fn a_race_that_is_lost_against_a_condition_is_412() {
    let world = world().await;
    let rule = r#"{"templates": ["app"], "approvals": 2}"#;
    for (method, path, body) in [
        ("PUT", "/api/v1/projects/web", r#"{"title": "Web"}"#),
        ("PUT", "/api/v1/projects/default", r#"{"title": "Ours"}"#),
        ("PUT", "/api/v1/teams/ops", r#"{"title": "Ops"}"#),
        ("PUT", "/api/v1/roles/ops", r#"{"rules": ["*.list"]}"#),
        ("PUT", "/api/v1/platform", r#"{"userQuota": {"environments": 3}}"#),
        ("PUT", "/api/v1/webhooks/chat", r#"{"url": "https://hooks.example.com/other"}"#),
        ("PUT", "/api/v1/approval-rules/large", rule),
        ("PATCH", "/api/v1/users/ann", r#"{"disabled": true}"#),
        ("PATCH", "/api/v1/templates/app/versions/1.0.0", r#"{"yanked": true}"#),
    ] {
        let answers = race(&world, method, path, ("if-match", ""), Some(body)).await;
        one_won(&format!("{method} {path}"), &answers, &[StatusCode::PRECONDITION_FAILED]);
        let (_, _, now) = with(&world, "GET", path, &[], None).await;
        for (_, problem) in answers.iter().filter(|(status, _)| *status == StatusCode::PRECONDITION_FAILED) {
            assert_eq!(problem["current"], now, "{path}");
        }
    }
}

#[tokio::test]
async fn only_one_makes_what_is_not_there_yet_or_deletes_what_is() {
    let world = world().await;
    for (path, body) in [
        ("/api/v1/teams/new", "{}"),
        ("/api/v1/roles/new", r#"{"rules": []}"#),
        ("/api/v1/webhooks/new", r#"{"url": "https://hooks.example.com/"}"#),
        ("/api/v1/approval-rules/new", r#"{"templates": ["app"]}"#),
    ] {
        let answers = race(&world, "PUT", path, ("if-none-match", "*"), Some(body)).await;
        one_won(path, &answers, &[StatusCode::PRECONDITION_FAILED]);
        // It is gone for whoever comes later, and was changed for whoever was in the race.
        let answers = race(&world, "DELETE", path, ("if-match", ""), None).await;
        one_won(path, &answers, &[StatusCode::PRECONDITION_FAILED, StatusCode::NOT_FOUND]);
    }
    let (status, _, problem) = with(&world, "DELETE", "/api/v1/webhooks/chat", &[("if-match", "\"999\"")], None).await;
    assert_eq!((status, &problem["current"]["name"]), (StatusCode::PRECONDITION_FAILED, &json!("chat")));
    let (status, _, problem) = with(&world, "DELETE", "/api/v1/users/ann", &[("if-match", "\"999\"")], None).await;
    assert_eq!((status, &problem["current"]["id"]), (StatusCode::PRECONDITION_FAILED, &json!("ann")));
}
