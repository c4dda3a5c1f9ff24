//! The agent of the local worker, as a child process of `vctl up`. It outlives the server: containers, names and services go on while
//! no server runs, and the next server finds the agent by the lock it holds.

use std::{
    fs::{File, OpenOptions},
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use vctl_agent::PodCidr;
use vctl_runtime::tasks::Tasks;
use vctl_syncer::hub::Hub;

use super::data_dir::write_private;

/// How long a join token is valid.
const TOKEN_LIFETIME: Duration = Duration::from_mins(10);
/// How often the agent of an earlier server is looked for, and pause before one that ended is started again.
const LOOK: Duration = Duration::from_secs(2);
/// Programs without which no container runs, with the Debian package of each.
const PROGRAMS: &[(&str, &str)] =
    &[("podman", "podman"), ("runc", "runc"), ("conmon", "conmon"), ("nft", "nftables"), ("ip", "iproute2")];

/// What the agent is started with.
pub(crate) struct LocalWorker {
    pub(crate) state_dir: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) ca_file: PathBuf,
    pub(crate) netns: Option<String>,
    pub(crate) pod_cidr: PodCidr,
    pub(crate) name: String,
    /// Where the agent's traces go, as the server's.
    pub(crate) otlp_endpoint: Option<String>,
    /// Where the agent answers `GET /metrics`.
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) hub: Hub,
}

/// Checks that containers can run here.
///
/// # Errors
/// What is missing, and what to do.
pub(crate) fn check(netns: Option<&str>) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !std::env::split_paths(&path).chain(sbin()).any(|dir| dir.join(program).is_file()))
        .map(|(_, package)| *package)
        .collect();
    // Without podman itself nothing else matters.
    if !missing.is_empty() {
        let what = if missing.contains(&"podman") {
            "podman is not installed".to_owned()
        } else {
            format!("missing: {}", missing.join(", "))
        };
        bail!(
            "{what}: install it with `apt-get install {}`, or run without containers: `vctl up --workers simulated`",
            missing.join(" ")
        );
    }
    if !nix::unistd::geteuid().is_root() {
        bail!(
            "the Podman worker needs root: run `sudo vctl up`, or run without containers: `vctl up --workers simulated`"
        );
    }
    if let Some(netns) = netns
        && !Path::new("/run/netns").join(netns).exists()
    {
        bail!("there is no network namespace {netns}: make it with `ip netns add {netns}`");
    }
    Ok(())
}

/// Where programs for administrators are, which is not always in PATH.
fn sbin() -> impl Iterator<Item = PathBuf> {
    // A PATH that a person has cut down on purpose is left alone.
    let full = std::env::var("PATH").is_ok_and(|path| path.split(':').any(|dir| dir == "/usr/bin"));
    full.then(|| [PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")]).into_iter().flatten()
}

impl LocalWorker {
    /// Starts the agent, unless one of an earlier server runs, and starts it again when it ends.
    pub(crate) fn keep_running(self, tasks: &Tasks) {
        let watched = tasks.clone();
        tasks.spawn_until_stopped("local worker", async move {
            loop {
                if let Err(error) = self.run_once().await {
                    tracing::error!("the local worker: {error:#}");
                }
                if watched.is_stopping() {
                    return;
                }
                tokio::time::sleep(LOOK).await;
            }
        });
    }

    async fn run_once(&self) -> Result<()> {
        std::fs::create_dir_all(&self.state_dir)
            .with_context(|| format!("cannot make {}", self.state_dir.display()))?;
        if is_running(&self.state_dir)? {
            // Its lock goes when it ends.
            return Ok(());
        }
        let token = self.hub.join_token(&self.name, TOKEN_LIFETIME).await?;
        let token_file = self.state_dir.join("join.token");
        write_private(&token_file, token.as_bytes())?;
        let log = OpenOptions::new().create(true).append(true).open(self.state_dir.join("agent.log"))?;
        let mut command = std::process::Command::new(std::env::current_exe().context("finding this program")?);
        command
            .arg("agent")
            .args(["--name", &self.name, "--pod-cidr", &self.pod_cidr.to_string()])
            .arg("--state-dir")
            .arg(&self.state_dir)
            .arg("--server")
            .arg(&self.socket)
            .arg("--server-ca")
            .arg(&self.ca_file)
            .arg("--join-token-file")
            .arg(&token_file)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A process group of its own: Ctrl-C in the server's terminal is not for the agent.
            .process_group(0);
        if let Some(endpoint) = &self.otlp_endpoint {
            command.args(["--otlp-endpoint", endpoint]);
        }
        if let Some(address) = &self.metrics_listen {
            command.args(["--metrics-listen", &address.to_string()]);
        }
        if let Some(netns) = &self.netns {
            command.args(["--netns", netns]);
        }
        let mut child =
            tokio::process::Command::from(command).kill_on_drop(false).spawn().context("starting the agent")?;
        tracing::info!(pid = child.id(), "the agent of the local worker runs");
        let status = child.wait().await?;
        bail!("the agent ended with {status}; see {}", self.state_dir.join("agent.log").display());
    }
}

/// Whether an agent holds the lock of a state directory.
pub(crate) fn is_running(state_dir: &Path) -> Result<bool> {
    let path = state_dir.join("agent.lock");
    match File::open(&path) {
        Ok(file) => match file.try_lock() {
            Ok(()) => Ok(false),
            Err(std::fs::TryLockError::WouldBlock) => Ok(true),
            Err(std::fs::TryLockError::Error(e)) => {
                Err(e).with_context(|| format!("cannot look at {}", path.display()))
            }
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e).with_context(|| format!("cannot look at {}", path.display())),
    }
}
