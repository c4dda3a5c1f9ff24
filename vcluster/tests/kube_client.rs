//! A client of others (kube) against the API server over TLS.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{sync::Arc, time::Duration};

use axum::{Router, extract::Request};
use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, ServiceAccount},
};
use kube::{
    Api, Client, Config as KubeConfig,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use vctl_api::names::EnvironmentName;
use vctl_machinery::status::ApiError;
use vctl_runtime::{
    clock::Clock,
    pki::{Authority, Validity},
    serve::{PeerCertificates, Server, Tls, bind_tcp, install_crypto_provider},
    tasks::Tasks,
};
use vctl_store::MemoryStore;
use vctl_vcluster::{
    Config, ControlPlanes, Peer,
    streams::{ContainerTarget, Duplex, ExecOptions, ExecSession, LogOptions, LogStream, PodStreams},
};

struct NoWorker;

#[async_trait::async_trait]
impl PodStreams for NoWorker {
    async fn logs(&self, _: ContainerTarget, _: LogOptions) -> Result<LogStream, ApiError> {
        Err(ApiError::internal("no worker"))
    }
    async fn exec(&self, _: ContainerTarget, _: ExecOptions) -> Result<ExecSession, ApiError> {
        Err(ApiError::internal("no worker"))
    }
    async fn port_forward(&self, _: ContainerTarget, _: u16) -> Result<Box<dyn Duplex>, ApiError> {
        Err(ApiError::internal("no worker"))
    }
}

/// A listener with the clusters `one` and `two`.
struct Fixture {
    planes: ControlPlanes,
    url: String,
    tasks: Tasks,
}

impl Fixture {
    async fn new() -> Self {
        install_crypto_provider();
        let validity = Validity::from_now(Clock::system().now(), Duration::from_hours(24));
        let authority = Authority::generate("test", validity).unwrap();
        let identity = authority.server(&["127.0.0.1".into()], validity).unwrap();
        let listener = bind_tcp(([127, 0, 0, 1], 0).into()).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let tasks = Tasks::new();
        let config = Config::new(authority.certificate_pem(), url.clone());
        let planes = ControlPlanes::new(Arc::new(MemoryStore::new()), config, Arc::new(NoWorker), tasks.clone());
        for name in ["one", "two"] {
            planes.create(&EnvironmentName::new(name).unwrap(), Vec::new()).await.unwrap();
        }
        let served = planes.clone();
        let router = Router::new().fallback(move |mut request: Request| {
            let planes = served.clone();
            async move {
                let certificates = request.extensions().get::<PeerCertificates>().cloned().unwrap_or_default().0;
                let path =
                    request.uri().path_and_query().unwrap().as_str().strip_prefix("/clusters/").unwrap().to_owned();
                let (name, rest) = path.split_once('/').unwrap();
                *request.uri_mut() = format!("/{rest}").parse().unwrap();
                planes.handle(name, request, Peer { certificates, ..Peer::default() }).await
            }
        });
        let server =
            Server::new(Tls::new(&identity.certificate_pem, &identity.key_pem).unwrap(), router, tasks.clone());
        server.listen_tcp(listener);
        Self { planes, url, tasks }
    }

    /// A client with the credentials of `of` against the address of `at`.
    async fn client(&self, of: &str, at: &str) -> Client {
        let name = EnvironmentName::new(of).unwrap();
        let text = self.planes.kubeconfig(&name, &format!("{}/clusters/{at}", self.url)).await.unwrap();
        let config = Kubeconfig::from_yaml(&text).unwrap();
        let config = KubeConfig::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "a": "b" } }, "data": { "k": "v" } }))
        .unwrap()
}

#[tokio::test]
async fn objects_are_created_watched_and_deleted() {
    let f = Fixture::new().await;
    let client = f.client("one", "one").await;
    assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.36.0");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let before = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = maps.watch(&WatchParams::default().labels("a=b"), &before).await.unwrap().boxed();
    maps.create(&PostParams::default(), &config_map("x")).await.unwrap();
    let patch = json!({ "data": { "more": "1" } });
    let patched = maps.patch("x", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(patched.data.unwrap().len(), 2);
    maps.delete("x", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let event = tokio::time::timeout(Duration::from_secs(10), events.next()).await.unwrap().unwrap().unwrap();
        seen.push(match event {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["added", "modified", "deleted"]);
    let missing = maps.get("x").await.unwrap_err();
    assert!(matches!(missing, kube::Error::Api(e) if e.code == 404 && e.reason == "NotFound"));
    f.tasks.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn clusters_do_not_see_each_other() {
    let f = Fixture::new().await;
    let one: Api<ConfigMap> = Api::namespaced(f.client("one", "one").await, "default");
    let two: Api<ConfigMap> = Api::namespaced(f.client("two", "two").await, "default");
    one.create(&PostParams::default(), &config_map("x")).await.unwrap();
    assert!(two.get_opt("x").await.unwrap().is_none());
    let crossed: Api<Namespace> = Api::all(f.client("one", "two").await);
    let refused = crossed.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(e) if e.code == 401));
}

#[tokio::test]
async fn typed_objects_survive_the_round_trip() {
    let f = Fixture::new().await;
    let client = f.client("one", "one").await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let body: Deployment = serde_json::from_value(json!({
        "metadata": { "name": "d" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "d" } }, "template": {
            "metadata": { "labels": { "app": "d" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } } },
    }))
    .unwrap();
    let created = deployments.create(&PostParams::default(), &body).await.unwrap();
    assert_eq!((created.metadata.generation, created.spec.unwrap().replicas), (Some(1), Some(2)));
    let scaled = deployments
        .patch_scale("d", &PatchParams::default(), &Patch::Merge(json!({ "spec": { "replicas": 3 } })))
        .await
        .unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(3));
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
    let request = serde_json::from_value(json!({ "metadata": {}, "spec": { "audiences": [] } })).unwrap();
    let token = accounts.create_token_request("default", &PostParams::default(), &request).await.unwrap();
    assert_eq!(token.status.unwrap().token.unwrap().split('.').count(), 3);
}
