//! The way of a browser to the Kubernetes API of an environment: as whom, what is let through in each direction, what is recorded.

use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::testing::World;

const POD: &str = "/api/v1/environments/env/kube/api/v1/namespaces/a%2Fb/pods?watch=1";

async fn send(world: &World, method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
    let mut request =
        Request::builder().method(method).uri(path).header("authorization", format!("Bearer {}", world.token));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.send(request.body(Body::empty()).expect("request")).await
}

async fn json(response: Response<Body>) -> Value {
    let bytes = response.into_body().collect().await.expect("body").to_bytes();
    serde_json::from_slice(&bytes).expect("JSON")
}

#[tokio::test]
async fn a_request_goes_on_as_the_user_and_without_what_is_the_portals() {
    let world = World::new();
    world.create("env", "blank").await;
    let headers =
        [("cookie", "a=b"), ("impersonate-user", "other"), ("x-remote-user", "other"), ("accept", "application/json")];
    let response = send(&world, "GET", POD, &headers).await;
    assert_eq!(response.status(), StatusCode::OK);
    let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    assert_eq!(
        (header("audit-id"), header("set-cookie"), header("refresh")),
        ("1".into(), String::new(), String::new())
    );
    assert!(header("content-security-policy").contains("sandbox"), "a page of a tenant can do nothing");
    assert_eq!(header("x-content-type-options"), "nosniff");
    let said = json(response).await;
    assert_eq!(said["uri"], "/api/v1/namespaces/a%2Fb/pods?watch=1");
    assert_eq!(
        (&said["environment"], &said["user"], &said["admin"]),
        (&"env".into(), &"local-admin".into(), &true.into())
    );
    assert_eq!(said["prefix"], "/api/v1/environments/env/kube");
    assert_eq!(said["headers"]["accept"], "application/json");
    for name in ["authorization", "cookie", "impersonate-user", "x-remote-user"] {
        assert!(said["headers"].get(name).is_none(), "{name}: {said}");
    }
}

#[tokio::test]
async fn pages_and_proxies_are_refused() {
    let world = World::new();
    world.create("env", "blank").await;
    assert_eq!(send(&world, "GET", POD, &[("sec-fetch-dest", "document")]).await.status(), StatusCode::FORBIDDEN);
    assert_eq!(send(&world, "GET", POD, &[("sec-fetch-dest", "empty")]).await.status(), StatusCode::OK);
    let proxy = "/api/v1/environments/env/kube/api/v1/namespaces/a/services/web/proxy/x";
    assert_eq!(send(&world, "GET", proxy, &[]).await.status(), StatusCode::FORBIDDEN);
    let encoded = "/api/v1/environments/env/kube/api/v1/namespaces/a/services/web/%70roxy/x";
    assert_eq!(send(&world, "GET", encoded, &[]).await.status(), StatusCode::FORBIDDEN);
    let nowhere = "/api/v1/environments/other/kube/api/v1/pods";
    assert_eq!(send(&world, "GET", nowhere, &[]).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_request_has_one_id_from_the_portal_to_the_cluster() {
    let world = World::new();
    world.create("env", "blank").await;
    let pod = "/api/v1/environments/env/kube/api/v1/namespaces/a/pods/web";
    let response = send(&world, "DELETE", pod, &[("x-request-id", "mine-1"), ("audit-id", "other")]).await;
    assert_eq!(response.headers()["x-request-id"], "mine-1");
    let said = json(response).await;
    assert_eq!(said["headers"]["audit-id"], "mine-1");
}

#[tokio::test]
async fn a_websocket_of_another_site_is_refused() {
    let world = World::new();
    world.create("env", "blank").await;
    let link = world.portal.login_link().await.expect("link");
    let path = link.url.strip_prefix("https://127.0.0.1:8443").expect("our address");
    let signed = world.send(Request::get(path).body(Body::empty()).expect("request")).await;
    let cookie = signed.headers()["set-cookie"].to_str().expect("text").split(';').next().expect("pair").to_owned();
    let exec = "/api/v1/environments/env/kube/api/v1/namespaces/a/pods/web/exec?command=sh";
    for (origin, expected) in [
        (Some("https://evil.example"), StatusCode::FORBIDDEN),
        (None, StatusCode::FORBIDDEN),
        (Some("https://127.0.0.1:8443"), StatusCode::OK),
    ] {
        let mut request = Request::get(exec).header("cookie", &cookie).header("host", "127.0.0.1:8443");
        request = request.header("upgrade", "websocket").header("connection", "upgrade");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let response = world.send(request.body(Body::empty()).expect("request")).await;
        assert_eq!(response.status(), expected, "{origin:?}");
    }
}
