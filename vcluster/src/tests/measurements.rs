//! `/metrics` of a cluster.

use vctl_runtime::metrics::Exposition;

use super::*;

/// The value of the first sample whose line has all these parts.
fn value(text: &str, parts: &[&str]) -> Option<f64> {
    let line = text.lines().find(|l| !l.starts_with('#') && parts.iter().all(|p| l.contains(p)))?;
    line.rsplit(' ').next()?.parse().ok()
}

async fn metrics(f: &Fixture) -> String {
    let response = f.raw(&f.admin, &[], "GET", "/metrics", Value::Null).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn requests_and_objects_are_counted() {
    let f = Fixture::new().await;
    for name in ["a", "b"] {
        f.config_map(name, "x").await;
    }
    let (missing, _) = f.send("GET", "/api/v1/namespaces/default/configmaps/c", Value::Null).await;
    assert_eq!(missing, StatusCode::NOT_FOUND);
    for n in 0..5 {
        // Nobody can make up series.
        f.send("GET", &format!("/apis/made-up-{n}.example/v1/things"), Value::Null).await;
    }
    let text = metrics(&f).await;
    let total = |parts: &[&str]| value(&text, &[&["apiserver_request_total{"], parts].concat());
    assert_eq!(
        total(&["code=\"201\"", "resource=\"configmaps\"", "verb=\"POST\"", "scope=\"namespace\"", "version=\"v1\""]),
        Some(2.0),
        "{text}"
    );
    assert_eq!(total(&["code=\"404\"", "resource=\"configmaps\"", "verb=\"GET\"", "scope=\"resource\""]), Some(1.0));
    assert_eq!(total(&["code=\"404\"", "resource=\"\"", "verb=\"LIST\""]), Some(5.0), "{text}");
    assert!(!text.contains("made-up"));
    let took = ["apiserver_request_duration_seconds_count{", "resource=\"configmaps\"", "verb=\"POST\""];
    assert_eq!(value(&text, &took), Some(2.0));
    assert_eq!(
        value(&text, &["apiserver_current_inflight_requests{request_kind=\"readOnly\"}"]),
        Some(1.0),
        "this one"
    );
    // Two, and the one with which aggregated APIs know their front proxy and the root certificate are elsewhere.
    assert!(value(&text, &["apiserver_storage_objects{resource=\"configmaps\"}"]) >= Some(2.0));
    assert_eq!(value(&text, &["apiserver_storage_objects{resource=\"deployments.apps\"}"]), Some(0.0));

    // Another cluster sees nothing of it, the server all.
    let other = EnvironmentName::new("other").unwrap();
    f.planes.create(&other, Vec::new()).await.unwrap();
    let stranger = peer(&f.planes, &other).await;
    let request = Request::get("/metrics").body(Body::empty()).unwrap();
    let answer = f.planes.handle("other", request, stranger).await;
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert_eq!(value(&text, &["apiserver_request_total{", "resource=\"configmaps\""]), None, "{text}");
    let mut all = Exposition::default();
    f.planes.measurements(&mut all);
    let posts = ["apiserver_request_total{", "resource=\"configmaps\"", "verb=\"POST\""];
    assert_eq!(value(&all.into_text(), &posts), Some(2.0));
}

#[tokio::test]
async fn watches_are_counted_as_long_as_they_last() {
    let f = Fixture::new().await;
    let running = async |f: &Fixture| {
        value(&metrics(f).await, &["apiserver_longrunning_requests{", "resource=\"configmaps\"", "verb=\"WATCH\""])
    };
    let uri = "/api/v1/namespaces/default/configmaps?watch=1";
    let first = f.raw(&f.admin, &[], "GET", uri, Value::Null).await;
    let second = f.raw(&f.admin, &[], "GET", uri, Value::Null).await;
    assert_eq!(running(&f).await, Some(2.0));
    drop(first);
    assert_eq!(running(&f).await, Some(1.0));
    drop(second);
    assert_eq!(running(&f).await, Some(0.0));
    let text = metrics(&f).await;
    assert_eq!(
        value(&text, &["apiserver_request_duration_seconds_count{", "verb=\"WATCH\""]),
        None,
        "they have no duration"
    );
}

#[tokio::test]
async fn it_takes_the_right_to_read_it() {
    let f = Fixture::new().await;
    assert_eq!(f.send_as(&Peer::default(), &[], "GET", "/metrics", Value::Null).await.0, StatusCode::FORBIDDEN);
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "m" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:monitoring" },
        "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "prometheus" }] });
    f.ok("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", role).await;
    let as_prometheus = [("impersonate-user", "prometheus")];
    assert_eq!(f.send_as(&f.admin, &as_prometheus, "GET", "/metrics", Value::Null).await.0, StatusCode::OK);
    let pods = f.send_as(&f.admin, &as_prometheus, "GET", "/api/v1/pods", Value::Null).await.0;
    assert_eq!(pods, StatusCode::FORBIDDEN);
}
