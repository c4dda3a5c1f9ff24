//! The API server beside its peers, in one run.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use vctl_tests::platform::{Platform, Workers};

use crate::{api, creates, reads, target::Target, watch};

/// How often each load runs, in turn with its peer.
pub(crate) const RUNS: usize = 5;

/// What to measure, and for how long.
pub(crate) struct Plan {
    /// Of each load.
    pub(crate) seconds: u64,
    /// Also with the peers etcd and nginx.
    pub(crate) peers: bool,
    /// Of the API server, for its CPU time.
    pub(crate) pid: Option<u32>,
    /// What of it; all when it is empty.
    pub(crate) parts: Vec<Part>,
    /// So many clients create at once, one figure each.
    pub(crate) clients: Vec<usize>,
}

/// A part of the figures of an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Durable creates
    Creates,
    /// Reads of one object
    Reads,
    /// Lists of 1,000 objects
    Lists,
    /// Writes while somebody lists
    Writes,
    /// Delivery to watchers
    Watches,
}

impl Plan {
    /// Processes of the API server.
    pub(crate) fn server(&self) -> &[u32] {
        self.pid.as_slice()
    }

    fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

/// A platform of our own with one environment.
pub(crate) async fn ours(mut plan: Plan) -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("bench", "blank", &[])?;
    let target = Target::from_kubeconfig(&platform.kubeconfig("bench")?)?;
    plan.peers = true;
    plan.pid = platform.server_pid();
    run(&target, &plan, platform.scratch()).await
}

/// All figures of an API server.
pub(crate) async fn run(target: &Target, plan: &Plan, scratch: &Path) -> Result<()> {
    let duration = Duration::from_secs(plan.seconds);
    api::prepare(target).await?;
    if plan.has(Part::Creates) {
        for clients in &plan.clients {
            creates::beside_etcd(target, plan, *clients, duration, scratch).await.context("creates")?;
        }
    }
    if plan.has(Part::Reads) {
        reads::beside_nginx(target, plan, duration, scratch).await.context("reads")?;
        api::prepare(target).await?;
    }
    if plan.has(Part::Lists) {
        api::fill(target, 1000).await?;
        api::lists(target, plan.pid, 1000, false).await.context("lists")?;
        api::lists(target, plan.pid, 1000, true).await.context("lists")?;
        api::prepare(target).await?;
    }
    if plan.has(Part::Writes) {
        creates::during_lists(target, plan, duration).await.context("writes during lists")?;
    }
    if plan.has(Part::Watches) {
        watch::run(target, 1000, 50, 10).await.context("watches")?;
        watch::run(target, 100, 500, 10).await.context("watches")?;
    }
    Ok(())
}

/// A directory of its own.
pub(crate) fn fresh(scratch: &Path, name: &str) -> Result<std::path::PathBuf> {
    let dir = scratch.join(name);
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}
