use super::*;

#[tokio::test]
async fn a_new_cluster_has_what_kubernetes_has() {
    let f = Fixture::new().await;
    let namespaces = f.ok("GET", "/api/v1/namespaces", Value::Null).await;
    let names: Vec<&str> =
        namespaces["items"].as_array().unwrap().iter().map(|n| n["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let service = f.ok("GET", "/api/v1/namespaces/default/services/kubernetes", Value::Null).await;
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    let role = f.ok("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin", Value::Null).await;
    assert_eq!(role["metadata"]["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(role["metadata"]["uid"].as_str().unwrap().len(), 36);
    let ca = f.ok("GET", "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt", Value::Null).await;
    let roots = ca["data"]["ca.crt"].as_str().unwrap();
    assert!(roots.starts_with("CA\n-----BEGIN CERTIFICATE-----"), "{roots}");
}

#[tokio::test]
async fn constants_have_uids_of_their_own_in_each_cluster() {
    let f = Fixture::new().await;
    let other = EnvironmentName::new("other").unwrap();
    f.planes.create(&other, Vec::new()).await.unwrap();
    let uid = async |name: &EnvironmentName| {
        let client = f.planes.client(name, crate::User::internal("test"));
        client.get("clusterroles.rbac.authorization.k8s.io", "", "view").await.unwrap()["metadata"]["uid"].clone()
    };
    let dev = EnvironmentName::new(NAME).unwrap();
    assert_eq!(uid(&dev).await, uid(&dev).await);
    assert_ne!(uid(&dev).await, uid(&other).await);
}

#[tokio::test]
async fn a_name_is_used_once_and_a_deleted_cluster_is_gone() {
    let f = Fixture::new().await;
    let name = EnvironmentName::new(NAME).unwrap();
    assert_eq!(f.planes.create(&name, Vec::new()).await.unwrap_err().reason, "AlreadyExists");
    f.planes.delete(&name).await.unwrap();
    f.planes.delete(&name).await.unwrap();
    let (status, body) = f.send("GET", "/api/v1/namespaces", Value::Null).await;
    assert_eq!((status, &body["kind"]), (StatusCode::NOT_FOUND, &json!("Status")));
    assert!(f.planes.names().await.unwrap().is_empty());
    // The administrator of the old cluster is nobody in a new one of the same name.
    f.planes.create(&name, Vec::new()).await.unwrap();
    assert_eq!(f.send("GET", "/api/v1/namespaces", Value::Null).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn an_idle_cluster_has_nothing_in_memory() {
    let f = Fixture::new().await;
    f.ok("GET", "/api/v1/namespaces", Value::Null).await;
    assert_eq!(f.planes.loaded(), 1);
    f.clock.advance(61);
    f.planes.evict_idle();
    assert_eq!(f.planes.loaded(), 0);
    f.ok("GET", "/api/v1/namespaces", Value::Null).await;
}

#[tokio::test]
async fn creating_a_cluster_is_fast() {
    let f = Fixture::new().await;
    let mut times = Vec::new();
    for i in 0..20 {
        let start = std::time::Instant::now();
        f.planes.create(&EnvironmentName::new(format!("e{i}")).unwrap(), Vec::new()).await.unwrap();
        times.push(start.elapsed());
    }
    times.sort();
    println!("create: median {:?}", times[times.len() / 2]);
    assert!(times[times.len() / 2] < std::time::Duration::from_millis(100));
}

#[tokio::test]
async fn version_health_and_discovery_answer() {
    let f = Fixture::new().await;
    let version = f.ok("GET", "/version", Value::Null).await;
    assert_eq!(
        (&version["major"], &version["minor"], &version["gitVersion"]),
        (&json!("1"), &json!("36"), &json!("v1.36.0"))
    );
    assert_eq!(f.ok("GET", "/readyz", Value::Null).await, "ok");
    let live = f.ok("GET", "/livez?verbose&exclude=etcd", Value::Null).await;
    assert_eq!(live, "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\nlivez check passed\n");
    let ready = f.ok("GET", "/readyz?verbose", Value::Null).await;
    assert_eq!(
        ready,
        "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n[+]shutdown ok\nreadyz check passed\n"
    );
    assert_eq!(f.ok("GET", "/readyz/shutdown", Value::Null).await, "ok");
    assert_eq!(f.send("GET", "/livez/shutdown", Value::Null).await.0, StatusCode::NOT_FOUND);
    assert_eq!(f.ok("GET", "/api", Value::Null).await["versions"], json!(["v1"]));
    let groups = f.ok("GET", "/apis", Value::Null).await;
    assert!(groups["groups"].as_array().unwrap().iter().any(|g| g["name"] == "apps"));
    let core = f.ok("GET", "/api/v1", Value::Null).await;
    assert!(core["resources"].as_array().unwrap().iter().any(|r| r["name"] == "pods/log"));
    let (status, text) = f.send("GET", "/apis/nonsense.example.org/v1/things", Value::Null).await;
    assert_eq!((status, text), (StatusCode::NOT_FOUND, json!("404 page not found\n")));
}

#[tokio::test]
async fn aggregated_discovery_is_negotiated_and_cached() {
    let f = Fixture::new().await;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    let response = f.raw(&f.admin, &[("accept", accept)], "GET", "/apis", Value::Null).await;
    assert_eq!(
        response.headers()["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let etag = response.headers()["etag"].to_str().unwrap().to_owned();
    let body: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(body["kind"], "APIGroupDiscoveryList");
    let again = f.raw(&f.admin, &[("accept", accept), ("if-none-match", &etag)], "GET", "/apis", Value::Null).await;
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
}
