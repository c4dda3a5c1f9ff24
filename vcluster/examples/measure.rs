//! Time to create a virtual cluster on SQLite and memory that an idle one takes, without the rest of the server:
//! `cargo run -p vctl-vcluster --example measure -- [COUNT]`.

use std::{error::Error, io::Write, sync::Arc, time::Instant};

use axum::body::Body;
use http::Request;
use vctl_api::names::EnvironmentName;
use vctl_machinery::{selector::LabelSelector, status::ApiError};
use vctl_runtime::tasks::Tasks;
use vctl_store::{SqliteStore, Store};
use vctl_vcluster::{
    Config, ControlPlanes, Peer, User,
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

/// Resident memory in KiB.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("no value")?.parse()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let count: u32 = std::env::args().nth(1).map_or(Ok(200), |n| n.parse())?;
    let directory = tempfile::tempdir()?;
    let tasks = Tasks::new();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(directory.path(), &tasks).await?);
    let planes =
        ControlPlanes::new(store, Config::new("CA", "https://127.0.0.1:6443"), Arc::new(NoWorker), tasks.clone());
    let warm = EnvironmentName::new("warm")?;
    planes.create(&warm, Vec::new()).await?;
    planes.client(&warm, User::internal("measure")).list("namespaces", "", &LabelSelector::default()).await?;

    let before = resident()?;
    let (mut creates, mut reads) = (Vec::new(), Vec::new());
    for i in 0..count {
        let name = EnvironmentName::new(format!("e{i}"))?;
        let start = Instant::now();
        planes.create(&name, Vec::new()).await?;
        creates.push(start.elapsed());
        let start = Instant::now();
        let request = Request::get("/version").body(Body::empty())?;
        let response = planes.handle(name.as_str(), request, Peer::default()).await;
        if !response.status().is_success() {
            return Err(format!("{}", response.status()).into());
        }
        reads.push(start.elapsed());
    }
    let loaded = resident()?;
    planes.evict_all();
    let idle = resident()?;
    creates.sort();
    reads.sort();
    let middle = creates.len() / 2;
    let mut out = std::io::stdout();
    writeln!(out, "create: median {:?}, slowest {:?}", creates[middle], creates[creates.len() - 1])?;
    writeln!(out, "first anonymous request (reads roles): median {:?}", reads[middle])?;
    writeln!(
        out,
        "memory per cluster: {} KiB in use, {} KiB idle",
        loaded.saturating_sub(before) / u64::from(count),
        idle.saturating_sub(before) / u64::from(count)
    )?;
    Ok(())
}
