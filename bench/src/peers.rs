//! The API server beside its peers, in one run.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use vctl_tests::platform::{Platform, Workers};

use crate::{
    api::{self, CONFIG_MAPS, Creates, Reads, clear, config_map, connections},
    etcd::{Etcd, Puts},
    load,
    nginx::Nginx,
    samples::{median, row},
    target::{Ask, Target},
    watch,
};

const RUNS: usize = 5;

/// What to measure, and for how long.
pub(crate) struct Plan {
    /// Of each load.
    pub(crate) seconds: u64,
    /// Also with the peers etcd and nginx.
    pub(crate) peers: bool,
    /// Of the API server, for its CPU time.
    pub(crate) pid: Option<u32>,
}

/// A platform of our own with one environment.
pub(crate) async fn ours(seconds: u64) -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("bench", "blank", &[])?;
    let target = Target::from_kubeconfig(&platform.kubeconfig("bench")?)?;
    let plan = Plan { seconds, peers: true, pid: platform.server_pid() };
    run(&target, &plan, platform.scratch()).await
}

/// All figures of an API server.
pub(crate) async fn run(target: &Target, plan: &Plan, scratch: &Path) -> Result<()> {
    let duration = Duration::from_secs(plan.seconds);
    api::prepare(target).await?;
    for clients in [16, 64] {
        creates(target, plan, clients, duration, scratch).await.context("creates")?;
    }
    reads(target, plan, duration, scratch).await.context("reads")?;
    api::prepare(target).await?;
    api::fill(target, 1000).await?;
    api::lists(target, plan.pid, 1000, false).await.context("lists")?;
    api::lists(target, plan.pid, 1000, true).await.context("lists")?;
    api::prepare(target).await?;
    api::writes_during_lists(target, duration).await.context("writes during lists")?;
    watch::run(target, 1000, 50, 10).await.context("watches")?;
    watch::run(target, 100, 500, 10).await.context("watches")
}

/// Durable creates, and raw puts into etcd in turn.
async fn creates(target: &Target, plan: &Plan, clients: usize, duration: Duration, scratch: &Path) -> Result<()> {
    let etcd = if plan.peers { Some(Etcd::start(&fresh(scratch, &format!("etcd-{clients}"))?).await?) } else { None };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut control = target.connect().await?;
    for run in 0..RUNS {
        let (done, _) = load::run(connections(target, clients).await?, duration, Creates { run }).await?;
        ours.push(done.rate());
        println!("  creates, {clients} clients, run {run}: {:.0}/s, {}", done.rate(), done.latency.report());
        clear(&mut control).await?;
        if let Some(etcd) = &etcd {
            let mut peers = Vec::new();
            for _ in 0..clients {
                peers.push(etcd.client().await?);
            }
            let (done, _) = load::run(peers, duration, Puts { run, value: config_map("bench-0-0-0") }).await?;
            theirs.push(done.rate());
        }
    }
    println!("durable creates of 1 KiB ConfigMaps, {clients} clients: {} per second", row(&ours));
    if !theirs.is_empty() {
        println!("raw puts into etcd, {clients} clients: {} per second", row(&theirs));
        println!("  ratio of the medians: {:.2}", median(ours) / median(theirs));
    }
    Ok(())
}

/// GETs of one object, and of the same bytes from nginx in turn.
async fn reads(target: &Target, plan: &Plan, duration: Duration, scratch: &Path) -> Result<()> {
    const CLIENTS: usize = 16;
    let path = format!("{CONFIG_MAPS}/one");
    let mut control = target.connect().await?;
    control.ok(Ask::send(hyper::Method::POST, CONFIG_MAPS, config_map("one"))).await?;
    let body = control.ok(Ask::get(path.clone())).await?;
    let nginx = if plan.peers { Some(Nginx::start(&fresh(scratch, "nginx")?, &body).await?) } else { None };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let reads = Reads { path: path.clone() };
        ours.push(load::run(connections(target, CLIENTS).await?, duration, reads).await?.0.rate());
        if let Some(nginx) = &nginx {
            let reads = Reads { path: "/object".to_owned() };
            theirs.push(load::run(connections(&nginx.target, CLIENTS).await?, duration, reads).await?.0.rate());
        }
    }
    println!("GET of a ConfigMap, {CLIENTS} clients: {} per second", row(&ours));
    if !theirs.is_empty() {
        println!("GET of the same bytes from nginx over TLS, {CLIENTS} clients: {} per second", row(&theirs));
        println!("  ratio of the medians: {:.2}", median(ours) / median(theirs));
    }
    Ok(())
}

fn fresh(scratch: &Path, name: &str) -> Result<std::path::PathBuf> {
    let dir = scratch.join(name);
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}
