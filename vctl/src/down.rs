//! `vctl down`: stops the platform of a data directory and everything it runs. The data stays.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use vctl_api::rest::ServerFile;

use crate::{cli::Global, data_dir::DataDir, local_worker};

const LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `vctl down`.
#[derive(Debug, Args)]
pub(crate) struct Down {}

impl Down {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let path = global.data_dir()?;
        if !path.exists() {
            return Ok(());
        }
        let data = DataDir::open(&path)?;
        stop_server(&data).await?;
        let worker = data.worker();
        if worker.exists() {
            stop_agent(&worker).await?;
            tear_down(&worker).await?;
        }
        Ok(())
    }
}

/// Removes everything the agent has made, from within the network namespace it lived in.
async fn tear_down(state_dir: &Path) -> Result<()> {
    let mut command = tokio::process::Command::new(std::env::current_exe().context("finding this program")?);
    command.args(["agent", "--name", "local", "--log", "warn", "--teardown", "--state-dir"]).arg(state_dir);
    if let Some(netns) = crate::agent::netns_of(state_dir).filter(|name| Path::new("/run/netns").join(name).exists()) {
        command.args(["--netns", &netns]);
    }
    let status = command.status().await.context("starting the clean-up of the worker")?;
    if !status.success() {
        bail!("cleaning up {} failed ({status}); run `vctl down` again", state_dir.display());
    }
    Ok(())
}

/// The server, by the pid in `server.json`, if it is really that server: it holds the lock of the store.
async fn stop_server(data: &DataDir) -> Result<()> {
    let file = data.server_file();
    let text = match std::fs::read(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", file.display())),
    };
    let server: ServerFile =
        serde_json::from_slice(&text).with_context(|| format!("{} does not parse", file.display()))?;
    terminate(server.pid, "up", "server").await?;
    // A server that ended in good order has removed them itself.
    data.withdraw()
}

async fn stop_agent(state_dir: &Path) -> Result<()> {
    let pid = std::fs::read_to_string(state_dir.join("agent.lock")).ok().and_then(|text| text.trim().parse().ok());
    if local_worker::is_running(state_dir)?
        && let Some(pid) = pid
    {
        terminate(pid, "agent", "agent").await?;
    }
    Ok(())
}

/// Ends a process of ours and waits for it. One that is not a `vctl SUBCOMMAND` (its pid was given to another) is left alone.
async fn terminate(pid: u32, subcommand: &str, what: &str) -> Result<()> {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = command.split(|b| *b == 0);
    let ours = arguments.next().is_some_and(|program| program.ends_with(b"vctl"))
        && arguments.any(|a| a == subcommand.as_bytes());
    if !ours {
        return Ok(());
    }
    let target = Pid::from_raw(i32::try_from(pid)?);
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        match kill(target, signal) {
            Ok(()) => {}
            Err(Errno::ESRCH) => return Ok(()),
            Err(e) => bail!("cannot stop the {what} (pid {pid}): {e}"),
        }
        let gone = async {
            while Path::new(&format!("/proc/{pid}/cmdline")).exists() && !is_zombie(pid) {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(LIMIT, gone).await.is_ok() {
            return Ok(());
        }
    }
    bail!("the {what} (pid {pid}) does not end")
}

/// Ended, but its parent has not asked yet how.
fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}
