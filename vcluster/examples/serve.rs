//! One virtual cluster on loopback: `cargo run -p vctl-vcluster --example serve -- PORT KUBECONFIG [DIRECTORY]`, in memory or, with a
//! directory, on SQLite; with controllers. For trying and measuring the API server alone; `vctl up` is the real thing.

use std::{error::Error, sync::Arc, time::Duration};

use axum::{Router, extract::Request};
use vctl_api::names::EnvironmentName;
use vctl_machinery::status::ApiError;
use vctl_runtime::{
    clock::Clock,
    pki::{Authority, Validity},
    serve::{PeerCertificates, Server, Tls, bind_tcp},
    tasks::Tasks,
};
use vctl_store::{MemoryStore, SqliteStore, Store};
use vctl_vcluster::{
    Config, ControlPlanes, Peer,
    controllers::Controllers,
    streams::{ContainerTarget, Duplex, ExecOptions, ExecSession, LogOptions, LogStream, PodStreams},
};

struct NoWorker;

fn none() -> ApiError {
    ApiError::internal("there is no worker behind this server")
}

#[async_trait::async_trait]
impl PodStreams for NoWorker {
    async fn logs(&self, _: ContainerTarget, _: LogOptions) -> Result<LogStream, ApiError> {
        Err(none())
    }
    async fn exec(&self, _: ContainerTarget, _: ExecOptions) -> Result<ExecSession, ApiError> {
        Err(none())
    }
    async fn port_forward(&self, _: ContainerTarget, _: u16) -> Result<Box<dyn Duplex>, ApiError> {
        Err(none())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().ok_or("give a port")?.parse()?;
    let path = arguments.next().ok_or("give the path of the kubeconfig to write")?;

    let validity = Validity::from_now(Clock::system().now(), Duration::from_hours(24));
    let authority = Authority::generate("example", validity)?;
    let identity = authority.server(&["127.0.0.1".into(), "localhost".into()], validity)?;
    let tasks = Tasks::new();
    let config = Config::new(authority.certificate_pem(), format!("https://127.0.0.1:{port}"));
    let store: Arc<dyn Store> = match arguments.next() {
        Some(directory) => Arc::new(SqliteStore::open(directory.as_ref(), &tasks).await?),
        None => Arc::new(MemoryStore::new()),
    };
    let planes = ControlPlanes::new(store.clone(), config, Arc::new(NoWorker), tasks.clone());
    Controllers::new(store, Arc::new(planes.clone()), Clock::system(), tasks.clone()).run();
    let name = EnvironmentName::new("dev")?;
    planes.create(&name, Vec::new()).await?;
    std::fs::write(path, planes.kubeconfig(&name, &format!("https://127.0.0.1:{port}/clusters/dev")).await?)?;

    let router = Router::new().fallback(move |mut request: Request| {
        let planes = planes.clone();
        async move {
            let certificates = request.extensions().get::<PeerCertificates>().cloned().unwrap_or_default().0;
            let stripped =
                request.uri().path_and_query().map(|p| p.as_str().replacen("/clusters/dev", "", 1)).unwrap_or_default();
            if let Ok(uri) = stripped.parse() {
                *request.uri_mut() = uri;
            }
            planes.handle("dev", request, Peer { certificates, ..Peer::default() }).await
        }
    });
    let server = Server::new(Tls::new(&identity.certificate_pem, &identity.key_pem)?, router, tasks.clone());
    server.listen_tcp(bind_tcp(([127, 0, 0, 1], port).into()).await?);
    tokio::signal::ctrl_c().await?;
    tasks.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
