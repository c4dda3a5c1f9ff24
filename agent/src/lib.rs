//! The worker agent: it runs the pods the server expects, with Podman, and tells what it observes.
//!
//! The agent dials out and listens to nobody but its own pods (resolver and API tunnel on the worker's address) and, where it is told
//! to, to whoever reads its measurements. It keeps working from
//! the last expected state on disk while the server is away. Containers outlive it: each has its monitor, and after a restart the agent
//! finds them by their labels and touches nothing that runs.
//!
//! A change of the expected state is reconciled in this order: mesh (none yet), DNS, containers, proxy (services). Each pod has one
//! actor that plans ([`pods`]), makes one change and plans again; up to [`Config::parallel`] pods are worked on at a time.
//!
//! Layer L2. Deliberately absent: any knowledge of Kubernetes objects (the server translates), and any port on which it could be told what to do.

mod config;
mod context;
mod control;
mod error;
mod expected;
mod files;
mod hooks;
mod identity;
mod measured;
mod network;
mod node;
mod outbox;
mod podman;
mod pods;
mod proto;
mod reconcile;
mod streams;
mod teardown;
mod transport;
mod volumes;

use std::{net::SocketAddr, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use tokio::sync::Semaphore;
use vctl_runtime::{clock::Clock, tasks::Tasks};

pub use self::{
    config::{Config, ConfigError, Endpoint, PodCidr, PodmanSource},
    error::AgentError,
    hooks::{DnsService, Hooks},
    podman::PodmanError,
    teardown::teardown,
};

/// Checks that what the agent needs is installed and allowed, touching nothing.
///
/// # Errors
/// [`AgentError::ToolMissing`], [`AgentError::NotRoot`]: their texts say what to install, and offer simulated workers.
pub fn check_machine(config: &Config) -> Result<(), AgentError> {
    let mut tools = vec!["ip", "nft"];
    if config.podman == PodmanSource::Managed {
        tools.extend(["podman", "runc", "conmon"]);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    for tool in tools {
        let found = std::env::split_paths(&path).any(|dir| dir.join(tool).is_file())
            || ["/usr/sbin", "/sbin", "/usr/bin", "/usr/libexec/podman"]
                .iter()
                .any(|dir| Path::new(dir).join(tool).is_file());
        if !found {
            return Err(AgentError::ToolMissing(tool.to_owned()));
        }
    }
    if nix::unistd::geteuid().is_root() { Ok(()) } else { Err(AgentError::NotRoot) }
}

/// Runs the agent until the tasks are told to stop. Containers go on running afterwards; [`teardown`] removes them.
///
/// Returns early only when it cannot start; later failures are logged and tried again.
///
/// # Errors
/// A setting, a missing tool, an unusable state directory, Podman that does not start, an address that is taken.
pub async fn run(config: Config, hooks: Hooks, tasks: Tasks) -> Result<(), AgentError> {
    let (ctx, reconciler) = start(config, hooks, tasks).await?;
    control::run(&ctx, &reconciler).await;
    Ok(())
}

/// Everything but the control stream.
async fn start(
    config: Config,
    hooks: Hooks,
    tasks: Tasks,
) -> Result<(Arc<context::Context>, Arc<reconcile::Reconciler>), AgentError> {
    for line in config.check()? {
        tracing::info!("{line}");
    }
    check_machine(&config)?;
    let measurements = match config.metrics_listen {
        Some(address) => Some(measured::Listener::bind(address).await?),
        None => None,
    };
    std::fs::create_dir_all(&config.state_dir).map_err(error::state("creating", &config.state_dir))?;
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&config.state_dir, private).map_err(error::state("protecting", &config.state_dir))?;
    let name = config.state_dir.join("worker");
    std::fs::write(&name, &config.worker).map_err(error::state("writing", &name))?;
    let expected = expected::Expected::open(config.state_dir.join("expected"))?;
    let podman = match &config.podman {
        PodmanSource::Managed => podman::service::run(podman::service::Paths::new(&config.state_dir), &tasks).await?,
        PodmanSource::Socket(path) => podman::Podman::new(path.clone()),
    };
    let version = podman.version().await?;
    let network = network::Network::open(&config.state_dir, config.pod_cidr).await?;
    let ctx = Arc::new(context::Context {
        permits: Semaphore::new(config.parallel),
        volumes: volumes::PersistentVolumes::new(&config.state_dir),
        config,
        podman,
        network,
        outbox: outbox::Outbox::default(),
        dns: hooks.dns,
        measured: measured::Measured::default(),
        clock: Clock::system(),
        tasks: tasks.clone(),
    });
    let address = SocketAddr::from((ctx.network.node_ip(), 53));
    ctx.dns.bind(address, &tasks).await.map_err(|why| AgentError::Dns { address: address.to_string(), why })?;
    let reconciler = reconcile::start(&ctx, expected).await?;
    streams::tunnel::listen(&ctx, &reconciler).await?;
    node::watch(&ctx, version);
    node::measure(&ctx, &reconciler);
    if let Some(measurements) = measurements {
        measurements.serve(&ctx, &reconciler);
    }
    Ok((ctx, reconciler))
}

#[cfg(test)]
mod podman_tests;
