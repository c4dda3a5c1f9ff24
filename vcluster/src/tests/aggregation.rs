//! An aggregated API on a real TLS server on loopback, which takes part as a pod.

use std::{net::SocketAddr, sync::Mutex, time::Duration};

use axum::{Extension, Json, Router, extract::State, response::IntoResponse};
use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::net::{TcpListener, TcpStream};
use vctl_runtime::{
    pki::{Authority, ClientTrust, Validity},
    serve::{PeerCertificates, Server, Tls},
};

use super::*;
use crate::controllers::Controllers;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const ADDED: &str = "/apis/wardle.example.com/v1alpha1";

/// The server: what it was asked, and the certificates that it was shown.
#[derive(Clone, Default)]
struct Seen {
    requests: Arc<Mutex<Vec<(http::HeaderMap, String)>>>,
    shown: Arc<Mutex<Vec<Vec<u8>>>>,
}

async fn answer(
    State(seen): State<Seen>,
    Extension(certificates): Extension<PeerCertificates>,
    request: Request<Body>,
) -> impl IntoResponse {
    let uri = request.uri().to_string();
    seen.requests.lock().unwrap().push((request.headers().clone(), format!("{} {uri}", request.method())));
    (*certificates.0).clone_into(&mut seen.shown.lock().unwrap());
    let body = match request.uri().path() {
        "/apis/wardle.example.com/v1alpha1" => json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "wardle.example.com/v1alpha1",
            "resources": [{ "name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["get", "list"] }],
        }),
        "/openapi/v3" => json!({ "paths": { "apis/wardle.example.com/v1alpha1": {
            "serverRelativeURL": "/openapi/v3/apis/wardle.example.com/v1alpha1?hash=1" }, "apis/other/v1": { "serverRelativeURL": "/x" } } }),
        "/openapi/v3/apis/wardle.example.com/v1alpha1" => json!({ "openapi": "3.0.0" }),
        _ => json!({ "kind": "FlunderList", "apiVersion": "wardle.example.com/v1alpha1", "items": [] }),
    };
    ([("x-served-by", "wardle")], Json(body))
}

/// Workers whose pods all listen at one address.
struct OneAddress(SocketAddr);

#[async_trait::async_trait]
impl PodStreams for OneAddress {
    async fn logs(&self, _: ContainerTarget, _: LogOptions) -> Result<LogStream, ApiError> {
        Err(ApiError::internal("no logs"))
    }
    async fn exec(&self, _: ContainerTarget, _: ExecOptions) -> Result<ExecSession, ApiError> {
        Err(ApiError::internal("no worker"))
    }
    async fn port_forward(&self, _: ContainerTarget, _: u16) -> Result<Box<dyn Duplex>, ApiError> {
        Ok(Box::new(TcpStream::connect(self.0).await.map_err(ApiError::internal)?))
    }
}

async fn until(f: &Fixture, uri: &str, done: impl Fn(&Value) -> bool) -> Value {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let object = f.ok("GET", uri, Value::Null).await;
        if done(&object) {
            return object;
        }
        assert!(tokio::time::Instant::now() < deadline, "{object}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_api_in_the_tenants_pods_becomes_part_of_the_cluster() {
    let validity = Validity::from_now(jiff::Timestamp::now(), Duration::from_hours(1));
    let authority = Authority::generate("wardle", validity).unwrap();
    let identity = authority.server(&["api.wardle.svc".to_owned()], validity).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Seen::default();
    let tls = Tls::new(&identity.certificate_pem, &identity.key_pem).unwrap();
    let router = Router::new().fallback(answer).with_state(seen.clone());
    Server::new(tls, router, Tasks::new()).listen_tcp(listener);

    let f = Fixture::with(Arc::new(OneAddress(address)), |_| {}).await;
    let tasks = Tasks::new();
    let controllers = Controllers::new(f.store.clone(), Arc::new(f.planes.clone()), f.clock.clone(), tasks.clone());
    controllers.run();

    assert_eq!(f.send("GET", ADDED, Value::Null).await.0, StatusCode::NOT_FOUND);
    let wrong =
        json!({ "metadata": { "name": "wrong" }, "spec": { "group": "wardle.example.com", "version": "v1alpha1" } });
    let (status, refused) = f.send("POST", SERVICES, wrong).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("must be `spec.version+\".\"+spec.group`: \"v1alpha1.wardle.example.com\""),
        "{refused}"
    );
    let service = json!({ "metadata": { "name": "v1alpha1.wardle.example.com" }, "spec": {
        "group": "wardle.example.com", "version": "v1alpha1", "groupPriorityMinimum": 2000, "versionPriority": 200,
        "caBundle": STANDARD.encode(authority.certificate_pem()), "service": { "namespace": "wardle", "name": "api", "port": 443 } } });
    f.ok("POST", SERVICES, service).await;
    let uri = format!("{SERVICES}/v1alpha1.wardle.example.com");
    let reason = |r: &'static str| move |o: &Value| o["status"]["conditions"][0]["reason"] == r;
    let missing = until(&f, &uri, reason("ServiceNotFound")).await;
    assert_eq!(missing["status"]["conditions"][0]["message"], "service/api in \"wardle\" is not present");
    let answer = f.send("GET", &format!("{ADDED}/namespaces/wardle/flunders"), Value::Null).await;
    assert_eq!((answer.0, answer.1), (StatusCode::SERVICE_UNAVAILABLE, json!("service unavailable\n")));

    f.ok("POST", "/api/v1/namespaces", json!({ "metadata": { "name": "wardle" } })).await;
    until(&f, "/api/v1/namespaces/wardle/serviceaccounts", |l| l["items"].as_array().is_some_and(|i| !i.is_empty()))
        .await;
    let ports = json!({ "metadata": { "name": "api" }, "spec": { "ports": [{ "port": 443, "targetPort": 8443 }] } });
    f.ok("POST", "/api/v1/namespaces/wardle/services", ports).await;
    until(&f, &uri, reason("EndpointsNotFound")).await;
    let mut server = pod("server");
    server["spec"]["nodeName"] = "node".into();
    f.ok("POST", "/api/v1/namespaces/wardle/pods", server).await;
    let slice = json!({
        "metadata": { "name": "api-1", "labels": { "kubernetes.io/service-name": "api" } }, "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.1.1.1"], "conditions": { "ready": true }, "targetRef": { "kind": "Pod", "name": "server", "namespace": "wardle" } }],
        "ports": [{ "name": "", "port": 8443, "protocol": "TCP" }],
    });
    f.ok("POST", "/apis/discovery.k8s.io/v1/namespaces/wardle/endpointslices", slice).await;
    until(&f, &uri, reason("Passed")).await;

    // Requests arrive with the user's name, by a certificate of the front-proxy authority that the cluster publishes.
    seen.requests.lock().unwrap().clear();
    let headers = [("x-remote-group", "system:masters"), ("accept", "application/json")];
    let list = format!("{ADDED}/namespaces/wardle/flunders?limit=5");
    let response = f.raw(&f.admin, &headers, "GET", &list, Value::Null).await;
    assert_eq!((response.status(), &response.headers()["x-served-by"]), (StatusCode::OK, &"wardle".parse().unwrap()));
    let (headers, line) = seen.requests.lock().unwrap().pop().unwrap();
    assert_eq!(line, format!("GET {list}"));
    assert_eq!(headers["x-remote-user"], "kubernetes-admin");
    let groups: Vec<_> = headers.get_all("x-remote-group").iter().collect();
    assert_eq!(groups, ["system:masters", "system:authenticated"]);
    let map =
        f.ok("GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", Value::Null).await;
    assert_eq!(map["data"]["requestheader-allowed-names"], "[\"front-proxy-client\"]");
    let trust = ClientTrust::new(map["data"]["requestheader-client-ca-file"].as_str().unwrap()).unwrap();
    let subject = trust.verify(&seen.shown.lock().unwrap(), f.clock.now()).unwrap();
    assert_eq!(subject.common_name, "front-proxy-client");
    // Who may not, may not: authorization is decided here.
    let jane = [("impersonate-user", "jane")];
    assert_eq!(f.send_as(&f.admin, &jane, "GET", &list, Value::Null).await.0, StatusCode::FORBIDDEN);

    // Discovery of both forms, and OpenAPI, know it.
    let groups = f.ok("GET", "/apis", Value::Null).await;
    let found =
        groups["groups"].as_array().unwrap().iter().find(|g| g["name"] == "wardle.example.com").cloned().unwrap();
    assert_eq!(found["preferredVersion"]["groupVersion"], "wardle.example.com/v1alpha1");
    assert_eq!(f.ok("GET", "/apis/wardle.example.com", Value::Null).await["kind"], "APIGroup");
    assert_eq!(f.ok("GET", ADDED, Value::Null).await["resources"][0]["name"], "flunders");
    let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let (_, all) = f.send_as(&f.admin, &accept, "GET", "/apis", Value::Null).await;
    let found = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["metadata"]["name"] == "wardle.example.com")
        .cloned()
        .unwrap();
    assert_eq!(
        (&found["versions"][0]["freshness"], &found["versions"][0]["resources"][0]["resource"]),
        (&json!("Current"), &json!("flunders"))
    );
    let index = f.ok("GET", "/openapi/v3", Value::Null).await;
    assert!(index["paths"]["apis/other/v1"].is_null());
    let document = index["paths"]["apis/wardle.example.com/v1alpha1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    assert_eq!(f.ok("GET", &document, Value::Null).await["openapi"], "3.0.0");
    f.ok("DELETE", &uri, Value::Null).await;
    assert_eq!(f.send("GET", ADDED, Value::Null).await.0, StatusCode::NOT_FOUND);
    tasks.stop();
}
