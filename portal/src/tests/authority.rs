//! Another certificate authority, and whose tokens count.

use std::{sync::atomic::Ordering, time::Duration};

use http::StatusCode;
use serde_json::json;
use vctl_api::rest::{JobState, Phase};

use crate::{ports::PortError, testing::World};

async fn ready(world: &World, name: &str) {
    assert_eq!(world.ended(&world.create(name, "blank").await).await.state, JobState::Succeeded);
}

async fn rotate(world: &World, name: &str, body: serde_json::Value) -> (StatusCode, serde_json::Value) {
    world.call("POST", &format!("/api/v1/environments/{name}/rotate-ca"), Some(body)).await
}

#[tokio::test]
async fn a_crash_at_any_step_of_a_rotation_costs_nothing() {
    // create; then announce, publish, switch, drop, publish.
    for crash_at in 2..=6 {
        let world = World::on_disk().await;
        world.portal.start();
        ready(&world, "env").await;
        world.planes.hang_from.store(crash_at, Ordering::SeqCst);
        let (status, job) = rotate(&world, "env", json!({ "now": true })).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{job}");
        let wait = async {
            while world.planes.calls.load(Ordering::SeqCst) < crash_at {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(20), wait).await.is_ok(), "call {crash_at}");

        let world = world.after_crash().await;
        world.planes.hang_from.store(0, Ordering::SeqCst);
        world.portal.start();
        let job = world.ended(job["id"].as_str().expect("id")).await;
        assert_eq!((job.state, job.attempt), (JobState::Succeeded, 2), "crash at {crash_at}: {job:?}");
        let done = world.planes.state().clusters["env"].clone();
        for step in ["Announce { at_once: true }", "Publish", "Switch { overlap: 0ns }", "Drop"] {
            assert!(done.contains(step), "{done:?}");
        }
        world.tasks.stop();
    }
}

#[tokio::test]
async fn a_rotation_is_asked_for_in_order_and_told() {
    let world = World::new();
    world.portal.start();
    ready(&world, "env").await;
    let (status, job) = rotate(&world, "env", json!({ "overlapSeconds": 3600 })).await;
    assert_eq!((status, &job["operation"]), (StatusCode::ACCEPTED, &json!("rotate-ca")), "{job}");
    let job = world.ended(job["id"].as_str().expect("id")).await;
    assert_eq!((job.state, &*job.steps[3].message), (JobState::Succeeded, "by itself, in 1 h"));
    assert!(!world.planes.state().clusters["env"].contains("Drop"));
    for (body, wanted) in [
        (json!({ "now": true, "overlapSeconds": 5 }), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({ "overlapSeconds": 0 }), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({ "overlapSeconds": 99_999_999 }), StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let (status, answer) = rotate(&world, "env", body).await;
        assert_eq!(status, wanted, "{answer}");
    }
    assert_eq!(rotate(&world, "nobody", json!({})).await.0, StatusCode::NOT_FOUND);

    // What cannot be done leaves the environment as it is, and says so.
    let refused = PortError::Permanent("the one before is believed until then".to_owned());
    world.planes.state().failures.insert("change_authority", vec![refused]);
    let (_, job) = rotate(&world, "env", json!({})).await;
    assert_eq!(world.ended(job["id"].as_str().expect("id")).await.state, JobState::Failed);
    let environment = world.portal.inner().environments.get("env").await.expect("env");
    assert_eq!(environment.phase, Phase::Ready);
    assert!(environment.message.contains("believed until then"), "{}", environment.message);

    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    let actions: Vec<&str> =
        audit["items"].as_array().expect("items").iter().filter_map(|e| e["action"].as_str()).collect();
    for action in ["environment.rotate-ca", "environment.ca-rotated", "environment.ca-rotation-failed"] {
        assert!(actions.contains(&action), "{actions:?}");
    }
}

#[tokio::test]
async fn versions_and_issuers_are_checked_before_anything_is_made() {
    let world = World::new();
    world.portal.start();
    let create = async |more: serde_json::Value| {
        let mut body = json!({ "name": "env", "template": "blank" });
        for (field, value) in more.as_object().into_iter().flatten() {
            body[field] = value.clone();
        }
        world.call("POST", "/api/v1/environments", Some(body)).await
    };
    let (status, answer) = create(json!({ "kubernetesVersion": "1.20" })).await;
    assert!(
        status.is_client_error() && answer["detail"].as_str().expect("detail").contains("take one of 1.33"),
        "{answer}"
    );
    let (status, answer) = create(json!({ "authentication": { "kind": "Nonsense" } })).await;
    assert!(
        status.is_client_error() && answer["detail"].as_str().expect("detail").contains("no such kind"),
        "{answer}"
    );
    let configuration = json!({ "kind": "AuthenticationConfiguration", "jwt": [{ "issuer": { "url": "https://i" } }] });
    let (status, environment) =
        create(json!({ "kubernetesVersion": "v1.34.2", "authentication": configuration })).await;
    assert_eq!((status, &environment["kubernetesVersion"]), (StatusCode::CREATED, &json!("v1.34.0")), "{environment}");
    world.ended(environment["job"].as_str().expect("job")).await;

    let path = "/api/v1/environments/env/authentication";
    assert_eq!(world.call("GET", path, None).await.1["authentication"], configuration);
    let (status, _) = world.call("PUT", path, Some(json!({ "authentication": null }))).await;
    assert_eq!(status, StatusCode::OK);
    assert!(world.call("GET", path, None).await.1["authentication"].is_null());
}
