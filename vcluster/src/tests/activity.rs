//! What counts as use of a cluster, and what wakes one that sleeps.

use std::time::Duration;

use serde_json::json;
use vctl_api::names::EnvironmentName;

use super::{Fixture, NAME, config_map, pod};
use crate::Peer;

async fn asked(f: &Fixture) -> Option<String> {
    tokio::time::timeout(Duration::ZERO, f.planes.wake_requested()).await.ok()
}

#[tokio::test]
async fn only_writes_from_outside_wake_a_cluster_that_sleeps() {
    let f = Fixture::new().await;
    let name = EnvironmentName::new(NAME).unwrap();
    let maps = "/api/v1/namespaces/default/configmaps";
    f.config_map("before", "1").await;
    assert_eq!(asked(&f).await, None, "it is awake");

    f.planes.sleep(&name).await.unwrap();
    assert_eq!(f.ok("GET", maps, json!(null)).await["items"][0]["metadata"]["name"], "before");
    f.ok("POST", &format!("{maps}?dryRun=All"), config_map("dry", "1")).await;
    let question = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } } });
    f.ok("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", question).await;
    let inside = Peer { pod: true, ..f.admin.clone() };
    let (status, _) = f.send_as(&inside, &[], "POST", maps, config_map("inside", "1")).await;
    assert!(status.is_success());
    let (status, _) = f.send_as(&Peer::default(), &[], "POST", maps, config_map("stranger", "1")).await;
    assert!(!status.is_success());
    assert_eq!(asked(&f).await, None);

    f.config_map("outside", "1").await;
    f.ok("POST", "/api/v1/namespaces/default/pods", pod("p")).await;
    assert_eq!(asked(&f).await.as_deref(), Some(NAME));
    assert_eq!(asked(&f).await, None, "once for all that was written");

    f.planes.wake(&name).await.unwrap();
    f.config_map("awake", "1").await;
    assert_eq!(asked(&f).await, None);
}

#[tokio::test]
async fn requests_of_people_count_as_use() {
    let f = Fixture::new().await;
    let name = EnvironmentName::new(NAME).unwrap();
    let last = async || f.planes.last_request(&name).await.unwrap();
    f.ok("GET", "/livez", json!(null)).await;
    let inside = Peer { pod: true, ..f.admin.clone() };
    f.send_as(&inside, &[], "GET", "/api/v1/pods", json!(null)).await;
    assert_eq!(last().await, None);
    f.ok("GET", "/api/v1/pods", json!(null)).await;
    let first = last().await.unwrap();
    assert_eq!(first, f.clock.now());
    f.clock.advance(3600);
    f.planes.evict_all();
    assert_eq!(last().await, Some(first), "it is known also of a cluster that is not in memory");
    f.planes.delete(&name).await.unwrap();
    assert_eq!(last().await, None);
}
