//! `vctl down`: stops the platform of a data directory and everything it runs. The data stays.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use vctl_store::DirectoryLock;

use super::{data_dir::DataDir, local_worker};
use crate::cli::Global;

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
    if let Some(netns) = super::agent::netns_of(state_dir).filter(|name| Path::new("/run/netns").join(name).exists()) {
        command.args(["--netns", &netns]);
    }
    let status = command.status().await.context("starting the clean-up of the worker")?;
    if !status.success() {
        bail!("cleaning up {} failed ({status}); run `vctl down` again", state_dir.display());
    }
    Ok(())
}

/// The server: whoever holds the data directory, whatever its program is called.
async fn stop_server(data: &DataDir) -> Result<()> {
    if let Some(pid) = DirectoryLock::holder(data.root())? {
        terminate(pid, "server").await?;
    }
    // A server that ended in good order has removed them itself.
    data.withdraw()
}

async fn stop_agent(state_dir: &Path) -> Result<()> {
    let pid = std::fs::read_to_string(state_dir.join("agent.lock")).ok().and_then(|text| text.trim().parse().ok());
    if local_worker::is_running(state_dir)?
        && let Some(pid) = pid
    {
        terminate(pid, "agent").await?;
    }
    Ok(())
}

/// Ends a process that has proved by its lock what it is, and waits for it.
async fn terminate(pid: u32, what: &str) -> Result<()> {
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
