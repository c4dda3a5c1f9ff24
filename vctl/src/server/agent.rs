//! `vctl agent`: the agent of a worker. `vctl up` starts one for the local worker; others are started by hand or by a supervisor.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::Write as _,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use nix::sched::{CloneFlags, setns};
use tokio_util::sync::CancellationToken;
use vctl_agent::{Config, DnsService, Hooks, PodCidr};
use vctl_api::agent::ExpectedDns;
use vctl_edge::dns::DnsServer;
use vctl_runtime::{
    serve,
    tasks::Tasks,
    telemetry::{self, LogFormat},
};

use super::{signals, traces::TracesArgs};

const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);
/// In the state directory: the network namespace that the agent lives in.
const NETNS_FILE: &str = "netns";

/// Arguments of `vctl agent`.
#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Name of the worker and of its Node
    #[arg(long)]
    name: String,
    /// The server: HOST:PORT, or the path of a unix socket
    #[arg(long, required_unless_present = "teardown")]
    server: Option<String>,
    /// PEM file with the authority of the server's certificate
    #[arg(long, value_name = "FILE", required_unless_present = "teardown")]
    server_ca: Option<PathBuf>,
    /// File with a join token, needed once
    #[arg(long, value_name = "FILE")]
    join_token_file: Option<PathBuf>,
    /// Directory for everything the agent keeps
    #[arg(long, value_name = "DIR")]
    state_dir: PathBuf,
    /// Network namespace (`ip netns`) to live in
    #[arg(long, value_name = "NS")]
    netns: Option<String>,
    /// Range of pod addresses
    #[arg(long, value_name = "CIDR", default_value = "10.200.1.0/24")]
    pod_cidr: PodCidr,
    /// Pods worked on at a time
    #[arg(long, default_value_t = 4)]
    parallel: usize,
    /// Address and port to answer `GET /metrics` on, by HTTP and without sign-in [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    metrics_listen: Option<SocketAddr>,
    /// What to log
    #[arg(long, env = "VCTL_LOG", value_name = "FILTER", default_value = "info")]
    log: String,
    /// Log one JSON object per line
    #[arg(long)]
    log_json: bool,
    #[command(flatten)]
    traces: TracesArgs,
    /// Remove everything the agent has made on this machine, with its state directory, instead of running
    #[arg(long)]
    teardown: bool,
}

impl Agent {
    /// Moves the process into its network namespace. Threads inherit it, so this comes before there are any.
    pub(crate) fn enter(&self) -> Result<()> {
        let Some(name) = &self.netns else { return Ok(()) };
        let path = Path::new("/run/netns").join(name);
        let file = File::open(&path)
            .with_context(|| format!("there is no network namespace {name}: `ip netns add {name}` makes it"))?;
        setns(file, CloneFlags::CLONE_NEWNET).with_context(|| format!("cannot enter network namespace {name}"))
    }

    /// Runs until SIGINT or SIGTERM. Containers go on running.
    pub(crate) async fn run(self) -> Result<()> {
        let format = if self.log_json { LogFormat::Json } else { LogFormat::Text };
        let traces = self.traces.config("vctl-agent", &self.name);
        let traces = telemetry::init(&self.log, format, traces.as_ref()).map_err(|e| anyhow!(e))?;
        let stop = CancellationToken::new();
        signals::until_ended(&stop, async {
            let done = self.run_logged(&stop).await;
            traces.close().await;
            done
        })
        .await
    }

    async fn run_logged(self, stop: &CancellationToken) -> Result<()> {
        serve::install_crypto_provider();
        std::fs::create_dir_all(&self.state_dir)
            .with_context(|| format!("cannot make {}", self.state_dir.display()))?;
        let lock = lock(&self.state_dir)?;
        if self.teardown {
            let Some(done) = stop.run_until_cancelled(vctl_agent::teardown(&self.state_dir)).await else {
                bail!("interrupted: what is left of {} stays until this is run again", self.state_dir.display())
            };
            return Ok(done?);
        }
        let (Some(server), Some(ca)) = (&self.server, &self.server_ca) else {
            bail!("--server and --server-ca are needed")
        };
        std::fs::write(self.state_dir.join(NETNS_FILE), self.netns.as_deref().unwrap_or_default())?;
        let ca = std::fs::read_to_string(ca).with_context(|| format!("cannot read {}", ca.display()))?;
        let mut config = Config::new(&self.name, server.parse()?, ca, &self.state_dir);
        config.pod_cidr = self.pod_cidr;
        config.parallel = self.parallel;
        config.metrics_listen = self.metrics_listen;
        env!("CARGO_PKG_VERSION").clone_into(&mut config.version);
        if let Some(file) = &self.join_token_file {
            let token = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            config.join_token = Some(token.trim().to_owned());
        }
        let dns = Arc::new(Resolver(DnsServer::new(&config.cluster_domain, Vec::new())));
        let tasks = Tasks::new();
        let (stopping, stop) = (tasks.clone(), stop.clone());
        tasks.spawn_until_stopped("signals", async move {
            stop.cancelled().await;
            tracing::info!("stopping; containers keep running");
            stopping.stop();
        });
        let ended = vctl_agent::run(config, Hooks { dns }, tasks.clone()).await;
        if !tasks.shutdown(SHUTDOWN_LIMIT).await {
            tracing::warn!("some tasks did not end within {SHUTDOWN_LIMIT:?}");
        }
        drop(lock);
        Ok(ended?)
    }
}

/// Takes the lock of a state directory, with this process' id in it.
fn lock(state_dir: &Path) -> Result<File> {
    let path = state_dir.join("agent.lock");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    if let Err(e) = file.try_lock() {
        bail!("another agent has the state directory {} ({e})", state_dir.display());
    }
    file.set_len(0)?;
    write!(file, "{}", std::process::id())?;
    file.sync_all()?;
    Ok(file)
}

/// The network namespace that the agent of a state directory lives in.
pub(crate) fn netns_of(state_dir: &Path) -> Option<String> {
    std::fs::read_to_string(state_dir.join(NETNS_FILE)).ok().filter(|name| !name.is_empty())
}

/// The edge's resolver as the agent drives it.
struct Resolver(DnsServer);

#[async_trait::async_trait]
impl DnsService for Resolver {
    async fn bind(&self, address: SocketAddr, tasks: &Tasks) -> Result<(), String> {
        self.0.bind(address, tasks).await.map(drop).map_err(|e| e.to_string())
    }

    fn apply(&self, expected: ExpectedDns) {
        self.0.apply(expected);
    }

    fn set_clients(&self, clients: HashMap<IpAddr, String>) {
        self.0.set_clients(clients);
    }
}
