//! Tests of the whole pipeline: requests in, answers out, on the memory store.

mod access;
mod activity;
mod aggregation;
mod audit;
mod certificates;
mod conversion;
mod custom;
mod flow_control;
mod gated_store;
mod lifecycle;
pub(crate) mod limits;
mod lists;
mod measurements;
mod objects;
mod platform_tokens;
mod pod_security;
mod pods;
mod policies;
mod quotas;
pub(crate) mod resource_metrics;
mod rights;
mod rotation;
mod storage_quota;
mod versions;
mod watches;
mod webhooks;

use std::sync::Arc;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use vctl_api::names::EnvironmentName;
use vctl_machinery::status::ApiError;
use vctl_runtime::{clock::Clock, pki::chain_from_pem, tasks::Tasks};
use vctl_store::MemoryStore;

use crate::{
    Config, ControlPlanes, Peer,
    streams::{ContainerTarget, Duplex, ExecOptions, ExecSession, LogOptions, LogStream, PodStreams},
};

/// Workers that have nothing to say.
struct NoStreams;

#[async_trait::async_trait]
impl PodStreams for NoStreams {
    async fn logs(&self, target: ContainerTarget, options: LogOptions) -> Result<LogStream, ApiError> {
        let line = format!("{} {} {:?}\n", target.pod, target.container, options.tail_lines);
        Ok(Box::pin(futures::stream::iter([Ok(line.into())])))
    }
    async fn exec(&self, _: ContainerTarget, _: ExecOptions) -> Result<ExecSession, ApiError> {
        Err(ApiError::internal("no worker"))
    }
    async fn port_forward(&self, _: ContainerTarget, _: u16) -> Result<Box<dyn Duplex>, ApiError> {
        Err(ApiError::internal("no worker"))
    }
}

/// One cluster called `dev`, with its administrator.
pub(super) struct Fixture {
    pub planes: ControlPlanes,
    pub admin: Peer,
    pub clock: Clock,
    pub store: Arc<MemoryStore>,
}

/// Workers that have nothing to say.
pub(super) fn no_streams() -> Arc<dyn PodStreams> {
    Arc::new(NoStreams)
}

pub(super) const NAME: &str = "dev";

impl Fixture {
    pub(super) async fn new() -> Self {
        Self::with(Arc::new(NoStreams), |_| {}).await
    }

    /// With workers and other settings.
    pub(super) async fn with(streams: Arc<dyn PodStreams>, change: impl FnOnce(&mut Config)) -> Self {
        let clock = Clock::fixed("2026-01-02T03:04:05Z".parse().unwrap());
        let store = Arc::new(MemoryStore::new());
        let mut config = Config::new("CA", "https://127.0.0.1:6443");
        config.clock = clock.clone();
        change(&mut config);
        let planes = ControlPlanes::new(store.clone(), config, streams, Tasks::new());
        let name = EnvironmentName::new(NAME).unwrap();
        planes.create(&name, Vec::new()).await.unwrap();
        let admin = peer(&planes, &name).await;
        Self { planes, admin, clock, store }
    }

    /// Sends a request as the administrator.
    pub(super) async fn send(&self, method: &str, uri: &str, body: Value) -> (StatusCode, Value) {
        self.send_as(&self.admin, &[], method, uri, body).await
    }

    /// Sends a request with a certificate and headers.
    pub(super) async fn send_as(
        &self,
        peer: &Peer,
        headers: &[(&str, &str)],
        method: &str,
        uri: &str,
        body: Value,
    ) -> (StatusCode, Value) {
        let response = self.raw(peer, headers, method, uri, body).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::String(text)))
    }

    pub(super) async fn raw(
        &self,
        peer: &Peer,
        headers: &[(&str, &str)],
        method: &str,
        uri: &str,
        body: Value,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let typed = headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("content-type"));
        if !body.is_null() && !typed {
            request = request.header("content-type", "application/json");
        }
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        self.planes.handle(NAME, request.body(body).unwrap(), peer.clone()).await
    }

    /// A request that must succeed.
    pub(super) async fn ok(&self, method: &str, uri: &str, body: Value) -> Value {
        let (status, value) = self.send(method, uri, body).await;
        assert!(status.is_success(), "{method} {uri}: {status} {value}");
        value
    }

    /// The store's newest revision of the cluster.
    pub(super) async fn store_revision(&self) -> u64 {
        use vctl_store::Store;
        let tenant = self.store.tenant(NAME).await.unwrap().unwrap().tenant;
        self.store.revision(tenant).await.unwrap()
    }

    pub(super) async fn config_map(&self, name: &str, data: &str) -> Value {
        self.ok("POST", "/api/v1/namespaces/default/configmaps", config_map(name, data)).await
    }
}

pub(super) fn config_map(name: &str, data: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": data } })
}

pub(super) fn pod(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "containers": [{ "name": "c", "image": "i" }] } })
}

/// The administrator of a cluster, as the listener sees them.
pub(super) async fn peer(planes: &ControlPlanes, name: &EnvironmentName) -> Peer {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let kubeconfig: Value =
        serde_yaml::from_str(&planes.kubeconfig(name, "https://x/clusters/dev").await.unwrap()).unwrap();
    let pem = STANDARD.decode(kubeconfig["users"][0]["user"]["client-certificate-data"].as_str().unwrap()).unwrap();
    Peer {
        certificates: Arc::new(chain_from_pem(&String::from_utf8(pem).unwrap()).unwrap()),
        address: "127.0.0.1:1".into(),
        pod: false,
    }
}
