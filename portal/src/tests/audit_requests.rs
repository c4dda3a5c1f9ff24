//! Requests inside of environments, on their way into the trail.

use http::StatusCode;
use serde_json::json;
use vctl_api::rest::Phase;
use vctl_store::Expect;

use crate::{
    RequestEvent,
    documents::put,
    testing::{self, World},
};

fn event(number: usize, changes: bool, size: usize) -> RequestEvent {
    RequestEvent {
        environment: "dev".to_owned(),
        at: "2026-01-02T03:04:05Z".parse().expect("time"),
        user: "ann@example.com".to_owned(),
        impersonated: "bob".to_owned(),
        verb: if changes { "create" } else { "get" }.to_owned(),
        source: "192.0.2.1".to_owned(),
        id: format!("id-{number}"),
        changes,
        size,
        event: json!({ "kind": "Event", "auditID": format!("id-{number}") }),
    }
}

async fn world() -> World {
    let world = World::at_fixed_time();
    let mut environment = testing::environment("dev", Phase::Ready);
    environment.project = "web".to_owned();
    let write = put(&environment, Expect::Any).expect("put");
    world.portal.inner().environments.documents.transact(vec![write]).await.expect("written");
    world
}

#[tokio::test]
async fn many_requests_are_entries_of_the_chains() {
    let world = world().await;
    world.portal.start();
    let record = |number| world.portal.record_request(event(number, true, 1000));
    futures::future::join_all((0..600).map(record)).await;
    let (_, page) = world.call("GET", "/api/v1/audit?action=kubernetes.*&limit=500", None).await;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(500));
    let entry = &page["items"][0];
    assert_eq!(
        (
            &entry["actor"],
            &entry["onBehalfOf"],
            &entry["subject"],
            &entry["project"],
            &entry["source"],
            &entry["action"]
        ),
        (
            &json!("ann@example.com"),
            &json!("bob"),
            &json!("dev"),
            &json!("web"),
            &json!("192.0.2.1"),
            &json!("kubernetes.create")
        )
    );
    assert_eq!(entry["requestId"], entry["detail"]["auditID"]);
    let (_, found) = world.call("GET", "/api/v1/audit?q=id-577", None).await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1));
    let (_, verified) = world.call("GET", "/api/v1/audit/verify", None).await;
    assert_eq!((&verified["breaks"], &verified["entries"]), (&json!(0), &json!(600)));
}

#[tokio::test]
async fn without_room_reads_are_dropped_and_changes_wait() {
    // Nobody writes: what comes stays.
    let world = world().await;
    for number in 0..10 {
        world.portal.offer_request(event(number, false, 2 << 20));
    }
    let measured = || {
        let mut text = vctl_runtime::metrics::Exposition::default();
        world.portal.measurements(&mut text);
        text.into_text()
    };
    assert!(measured().contains("\nvctl_audit_events_dropped_total 3\n"), "{}", measured());
    let mut waiting = Box::pin(world.portal.record_request(event(10, true, 8 << 20)));
    assert!(futures::poll!(&mut waiting).is_pending(), "there is no room for it");
    // The end of the server writes what is there, and then the one that waited.
    tokio::join!(world.portal.finish(), waiting);
    let (status, page) = world.call("GET", "/api/v1/audit?action=kubernetes.*", None).await;
    assert_eq!((status, page["items"].as_array().map(Vec::len)), (StatusCode::OK, Some(8)), "{page}");
    assert!(measured().contains("\nvctl_audit_waiting_bytes 0\n"));
}

#[tokio::test]
async fn a_policy_is_checked_recorded_and_set() {
    let world = world().await;
    let path = "/api/v1/environments/dev/audit-policy";
    let (status, refused) = world.call("PUT", path, Some(json!({ "policy": { "kind": "Pod" } }))).await;
    assert_eq!((status, &refused["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("invalid-audit-policy")));
    let policy = json!({ "kind": "Policy", "rules": [] });
    let (status, _) = world.call("PUT", path, Some(json!({ "policy": policy }))).await;
    assert_eq!(status, StatusCode::OK);
    let (_, shown) = world.call("GET", path, None).await;
    assert_eq!(shown["policy"], policy);
    assert!(world.planes.state().clusters["dev"].contains("audit policy true"));
    let (_, page) = world.call("GET", "/api/v1/audit?action=environment.auditPolicy", None).await;
    assert_eq!(page["items"][0]["detail"], json!({ "before": null, "after": policy }));
}

#[tokio::test]
async fn a_template_brings_its_policy() {
    let world = World::new();
    world.template("watched", "auditPolicy: {kind: Policy, rules: [{level: Metadata}]}\n");
    world.portal.start();
    let job = world.create("dev", "watched").await;
    world.ended(&job).await;
    assert!(world.planes.state().clusters["dev"].contains("audit policy true"));
}
