//! Snapshots, restorations and backups through the REST API.

mod races;

use std::{sync::atomic::Ordering, time::Duration};

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use vctl_machinery::requests::Requests;
use vctl_store::Backup;

use crate::{ports::PortError, testing::World};

async fn world() -> World {
    let world = World::new();
    world.portal.start();
    let job = world.create("dev", "blank").await;
    world.ended(&job).await;
    let object = |name: &str| format!("ConfigMap/{name}");
    world.planes.state().clusters.insert("dev".to_owned(), [object("a"), object("b")].into());
    world
}

async fn bytes(world: &World, method: &str, path: &str, body: Vec<u8>) -> (StatusCode, Vec<u8>) {
    let request =
        Request::builder().method(method).uri(path).header("authorization", format!("Bearer {}", world.token));
    let response = world.send(request.body(Body::from(body)).expect("request")).await;
    let status = response.status();
    (status, response.into_body().collect().await.expect("body").to_bytes().to_vec())
}

async fn snapshot(world: &World) -> Vec<u8> {
    let (status, file) = bytes(world, "GET", "/api/v1/environments/dev/snapshot", Vec::new()).await;
    assert_eq!(status, StatusCode::OK);
    file
}

async fn restore(world: &World, target: &str, file: Vec<u8>) -> (StatusCode, Value) {
    let (status, body) = bytes(world, "POST", &format!("/api/v1/environments/{target}"), file).await;
    (status, serde_json::from_slice(&body).expect("JSON"))
}

#[tokio::test]
async fn an_environment_is_put_back_under_another_name() {
    let world = world().await;
    let file = snapshot(&world).await;
    let (status, copy) = restore(&world, "copy/restore", file).await;
    assert_eq!(status, StatusCode::OK, "{copy}");
    assert_eq!((&copy["phase"], &copy["template"], &copy["job"]), (&json!("Ready"), &json!("blank"), &Value::Null));
    let (_, original) = world.call("GET", "/api/v1/environments/dev", None).await;
    assert_ne!(copy["uid"], original["uid"], "another environment");
    let clusters = world.planes.state().clusters.clone();
    assert_eq!(clusters["copy"], clusters["dev"]);
    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    let actions: Vec<_> = audit["items"].as_array().expect("items").iter().map(|e| e["action"].clone()).collect();
    assert_eq!(actions[..2], [json!("environment.restore"), json!("environment.snapshot")]);
    // It can be deleted like any other.
    let (status, job) = world.call("DELETE", "/api/v1/environments/copy", None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    world.ended(job["id"].as_str().expect("id")).await;
    assert!(!world.planes.state().clusters.contains_key("copy"));
}

#[tokio::test]
async fn an_environment_is_replaced_only_when_that_is_said() {
    let world = world().await;
    let file = snapshot(&world).await;
    world.planes.state().clusters.insert("dev".to_owned(), [].into());
    let (status, problem) = restore(&world, "dev/restore", file.clone()).await;
    assert_eq!((status, &problem["type"]), (StatusCode::CONFLICT, &json!("already-exists")));
    assert!(world.planes.state().clusters["dev"].is_empty());
    let (_, before) = world.call("GET", "/api/v1/environments/dev", None).await;
    let (status, restored) = restore(&world, "dev/restore?replace=true", file).await;
    assert_eq!((status, &restored["uid"]), (StatusCode::OK, &before["uid"]));
    assert_eq!(world.planes.state().clusters["dev"].len(), 2);
}

#[tokio::test]
async fn what_is_put_back_counts_for_quotas() {
    let world = world().await;
    let file = snapshot(&world).await;
    let cpu = |cpu| Requests { cpu, ..Requests::NONE };
    let in_file = |cpu| world.planes.state().requested_by.insert("dev".to_owned(), cpu);
    let inside = |name: &str, cpu| world.planes.state().requested.insert(name.to_owned(), cpu);
    let (status, answer) =
        world.call("PUT", "/api/v1/projects/default", Some(json!({"quota": {"environments": 2, "cpu": "2"}}))).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    inside("dev", cpu(1000));

    in_file(cpu(1500));
    let (status, problem) = restore(&world, "copy/restore", file.clone()).await;
    assert_eq!((status, &problem["type"]), (StatusCode::FORBIDDEN, &json!("quota-exceeded")));
    let detail = problem["detail"].as_str().expect("detail");
    assert!(detail.contains("1 are taken and this asks for 1500m"), "{detail}");
    assert_eq!(world.call("GET", "/api/v1/environments/copy", None).await.0, StatusCode::NOT_FOUND);
    in_file(cpu(1000));
    assert_eq!(restore(&world, "copy/restore", file.clone()).await.0, StatusCode::OK);
    inside("copy", cpu(1000));

    // In place of one that is there, what is more.
    assert_eq!(restore(&world, "dev/restore?replace=true", file.clone()).await.0, StatusCode::OK);
    in_file(cpu(1500));
    let (status, problem) = restore(&world, "dev/restore?replace=true", file.clone()).await;
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(detail.contains("2 are taken and this asks for 500m"), "{detail}");

    in_file(Requests::NONE);
    let (_, problem) = restore(&world, "third/restore", file).await;
    assert!(
        problem["detail"].as_str().is_some_and(|d| d.contains("may have 2 environments, and 2 are there")),
        "{problem}"
    );
}

#[tokio::test]
async fn a_file_that_is_not_whole_changes_nothing() {
    let world = world().await;
    let file = snapshot(&world).await;
    let mut damaged = file.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let cut = file[..file.len() - 10].to_vec();
    for (wrong, says) in [(damaged, "damaged"), (cut, "cut short"), (b"kind: List".to_vec(), "not a backup")] {
        for target in ["dev/restore?replace=true", "copy/restore"] {
            let (status, problem) = restore(&world, target, wrong.clone()).await;
            assert_eq!((status, &problem["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("invalid-backup")));
            assert!(problem["detail"].as_str().expect("detail").contains(says), "{problem}");
        }
    }
    assert_eq!(world.planes.state().clusters.len(), 1);
    let (status, _) = world.call("GET", "/api/v1/environments/copy", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, problem) = restore(&world, "Not_A_Name/restore", file).await;
    assert_eq!((status, &problem["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("invalid-name")));
}

#[tokio::test]
async fn a_failed_restoration_leaves_no_name_taken() {
    let world = world().await;
    let file = snapshot(&world).await;
    let failure = PortError::Temporary("the disk is full".to_owned());
    world.planes.state().failures.insert("restore", vec![failure]);
    let (status, problem) = restore(&world, "copy/restore", file.clone()).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{problem}");
    let (status, _) = world.call("GET", "/api/v1/environments/copy", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(restore(&world, "copy/restore", file).await.0, StatusCode::OK);
}

/// Its environment when that has left `Creating`.
async fn settled(world: &World, name: &str) -> Value {
    world.until(None, &format!("/api/v1/environments/{name}"), |e| e["phase"] != "Creating").await
}

#[tokio::test]
async fn a_restoration_that_was_killed_ends_failed_and_can_be_restored_again_or_deleted() {
    let world = world().await;
    let file = snapshot(&world).await;
    let calls = world.planes.calls.load(Ordering::SeqCst);
    world.planes.hang_from.store(calls + 1, Ordering::SeqCst);
    for target in ["copy", "other"] {
        // Nobody waits for the answer: it never comes.
        let target = format!("{target}/restore");
        let request = restore(&world, &target, file.clone());
        assert!(tokio::time::timeout(Duration::from_millis(200), request).await.is_err());
    }
    let world = world.after_crash().await;
    world.planes.hang_from.store(0, Ordering::SeqCst);
    let (_, before) = world.call("GET", "/api/v1/environments/copy", None).await;
    assert_eq!(before["phase"], "Creating");
    world.portal.start();
    let failed = settled(&world, "copy").await;
    assert_eq!(failed["phase"], "Failed");
    let message = failed["message"].as_str().expect("message");
    assert!(message.contains("--as copy --replace") && message.contains("vctl delete copy"), "{message}");
    let (status, restored) = restore(&world, "copy/restore?replace=true", file).await;
    assert_eq!((status, &restored["phase"]), (StatusCode::OK, &json!("Ready")), "{restored}");
    settled(&world, "other").await;
    let (status, job) = world.call("DELETE", "/api/v1/environments/other", None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    world.ended(job["id"].as_str().expect("id")).await;
    assert_eq!(world.call("GET", "/api/v1/environments/other", None).await.0, StatusCode::NOT_FOUND);
    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    assert!(audit.to_string().contains("environment.restore-failed"), "{audit}");
}

#[tokio::test]
async fn a_restoration_that_was_killed_after_the_cluster_was_there_is_finished() {
    let world = world().await;
    let file = snapshot(&world).await;
    let calls = world.planes.calls.load(Ordering::SeqCst);
    world.planes.hang_from.store(calls + 1, Ordering::SeqCst);
    let request = restore(&world, "copy/restore", file);
    assert!(tokio::time::timeout(Duration::from_millis(200), request).await.is_err());
    let world = world.after_crash().await;
    world.planes.hang_from.store(0, Ordering::SeqCst);
    world.planes.state().clusters.insert("copy".to_owned(), ["ConfigMap/a".to_owned()].into());
    world.portal.start();
    assert_eq!(settled(&world, "copy").await["phase"], "Ready");
}

#[tokio::test]
async fn a_backup_has_everything() {
    let world = world().await;
    world.store.create_tenant("dev", Vec::new()).await.expect("tenant");
    let (status, file) = bytes(&world, "GET", "/api/v1/backup", Vec::new()).await;
    assert_eq!(status, StatusCode::OK);
    let backup = Backup::decode(&file.into()).expect("whole");
    assert_eq!(backup.names(), ["dev"]);
    let system = &backup.tenants[0].export.entries;
    assert!(system.iter().any(|e| &*e.key.name == "dev"), "the environment's document");
}

#[tokio::test]
async fn compaction_is_audited_and_needs_an_environment() {
    let world = world().await;
    let (status, done) = world.call("POST", "/api/v1/environments/dev/compact", None).await;
    assert_eq!((status, &done["revision"]), (StatusCode::OK, &json!(7)));
    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    assert_eq!(audit["items"][0]["action"], "environment.compact", "{audit}");
    let (status, _) = world.call("POST", "/api/v1/environments/nothing/compact", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn without_a_key_nothing_is_encrypted_anew() {
    let world = world().await;
    let (status, problem) = world.call("POST", "/api/v1/reencrypt", None).await;
    assert_eq!((status, &problem["type"]), (StatusCode::CONFLICT, &json!("conflict")));
}
