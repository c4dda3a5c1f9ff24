//! Clusters of other minor versions of Kubernetes.

use vctl_machinery::version::MinorVersion;

use super::*;
use crate::NewCluster;

/// Sends a request to the cluster of a version, which is made if need be.
async fn of(f: &Fixture, version: &str, method: &str, uri: &str, body: Value) -> (StatusCode, Value) {
    let name = EnvironmentName::new(format!("v{}", version.replace('.', "-"))).unwrap();
    let kubernetes: MinorVersion = version.parse().unwrap();
    match f.planes.create_as(&name, NewCluster { kubernetes, ..NewCluster::default() }).await {
        Err(e) if e.reason != "AlreadyExists" => panic!("{e}"),
        _ => {}
    }
    let admin = peer(&f.planes, &name).await;
    let mut request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
    if uri == "/apis" {
        request = request.header("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    }
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let response = f.planes.handle(name.as_str(), request.body(body).unwrap(), admin).await;
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

#[tokio::test]
async fn every_version_says_which_it_is_and_serves_its_own_kinds() {
    let f = Fixture::new().await;
    for version in MinorVersion::all() {
        let text = version.to_string();
        let (_, said) = of(&f, &text, "GET", "/version", Value::Null).await;
        assert_eq!(
            (&said["minor"], &said["gitVersion"]),
            (&json!(version.number().to_string()), &json!(version.git_version()))
        );
        let (_, discovery) = of(&f, &text, "GET", "/apis", Value::Null).await;
        let groups: Vec<&str> =
            discovery["items"].as_array().unwrap().iter().filter_map(|g| g["metadata"]["name"].as_str()).collect();
        assert_eq!(groups.contains(&"resource.k8s.io"), version.number() >= 34, "{groups:?}");
        assert_eq!(groups.contains(&"storagemigration.k8s.io"), version.number() >= 37, "{groups:?}");
        let (_, list) = of(&f, &text, "GET", "/apis/admissionregistration.k8s.io/v1", Value::Null).await;
        let has = list["resources"].as_array().unwrap().iter().any(|r| r["name"] == "mutatingadmissionpolicies");
        assert_eq!(has, version.number() >= 36);
        let (_, document) = of(&f, &text, "GET", "/openapi/v3/api/v1", Value::Null).await;
        assert_eq!(document["info"]["version"], version.git_version());
        let (status, _) = of(&f, &text, "GET", "/apis/certificates.k8s.io/v1/clustertrustbundles", Value::Null).await;
        assert_eq!(status.is_success(), version.number() >= 37);
    }
}

#[tokio::test]
async fn fields_of_later_versions_are_refused_or_dropped() {
    let f = Fixture::new().await;
    let mut sent = pod("p");
    sent["spec"]["hostnameOverride"] = "other".into();
    let uri = "/api/v1/namespaces/default/pods";
    let (status, refused) = of(&f, "1.33", "POST", &format!("{uri}?fieldValidation=Strict"), sent.clone()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let message = refused["message"].as_str().unwrap();
    assert!(message.ends_with(r#"strict decoding error: unknown field "spec.hostnameOverride""#), "{message}");
    let (status, stored) = of(&f, "1.33", "POST", uri, sent.clone()).await;
    assert_eq!((status, &stored["spec"]["hostnameOverride"]), (StatusCode::CREATED, &Value::Null));
    let (status, stored) = of(&f, "1.34", "POST", &format!("{uri}?fieldValidation=Strict"), sent).await;
    assert_eq!((status, &stored["spec"]["hostnameOverride"]), (StatusCode::CREATED, &json!("other")), "{stored}");
}

#[tokio::test]
async fn a_restored_cluster_keeps_its_version() {
    let f = Fixture::new().await;
    let name = EnvironmentName::new("old").unwrap();
    let kubernetes: MinorVersion = "1.34".parse().unwrap();
    f.planes.create_as(&name, NewCluster { kubernetes, ..NewCluster::default() }).await.unwrap();
    let backup = f.planes.snapshot(&name).await.unwrap();
    let other = EnvironmentName::new("copy").unwrap();
    f.planes.restore(&other, &backup, false).await.unwrap();
    assert_eq!(f.planes.kubernetes(&other).await.unwrap(), kubernetes);
}
