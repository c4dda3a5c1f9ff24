//! The agent's own Podman service: a child process that is started, watched and started again. Containers do not depend on it
//! (each has its monitor), so its end costs them nothing.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::process::{Child, Command};
use vctl_runtime::tasks::Tasks;

use super::{Podman, PodmanError};
use crate::{
    error::{AgentError, state},
    files,
};

/// Largest log of one attempt of a container in bytes, as much as a kubelet keeps; the monitor begins anew then. Without a limit, one
/// container that talks could fill the disk that all of them, and an embedded server, need.
const LOG_SIZE: u64 = 50 << 20;
/// How long the service may take to answer after its start.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How often it is looked after.
const WATCH_PERIOD: Duration = Duration::from_secs(5);

/// Where a managed Podman keeps things.
#[derive(Clone)]
pub(crate) struct Paths {
    state_dir: PathBuf,
}

impl Paths {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { state_dir: state_dir.to_owned() }
    }

    pub(crate) fn run(&self) -> PathBuf {
        self.state_dir.join("run")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.run().join("podman.sock")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.state_dir.join("podman")
    }

    fn runroot(&self) -> PathBuf {
        self.run().join("podman")
    }

    fn configuration(&self) -> PathBuf {
        self.state_dir.join("containers.conf")
    }

    pub(crate) fn pid_file(&self) -> PathBuf {
        self.run().join("podman.pid")
    }

    /// Where podman's processes work. The monitors of containers inherit it and write a file `oom` into it when memory runs out, which
    /// must not be the directory in which somebody has started the agent.
    pub(crate) fn work(&self) -> PathBuf {
        self.run().join("work")
    }

    /// Arguments that name this storage, for any podman command.
    fn arguments(&self) -> [OsString; 4] {
        ["--root".into(), self.root().into(), "--runroot".into(), self.runroot().into()]
    }

    /// A podman command on this storage, with its settings.
    ///
    /// # Errors
    /// Its directory cannot be made.
    pub(crate) fn command(&self) -> std::io::Result<Command> {
        fs::create_dir_all(self.work())?;
        let mut command = Command::new("podman");
        command
            .args(self.arguments())
            .env("CONTAINERS_CONF", self.configuration())
            .env("DISABLE_HC_SYSTEMD", "true")
            .current_dir(self.work());
        Ok(command)
    }

    /// Creates the directories and writes `containers.conf`. What an earlier boot left in the run directory is removed: processes,
    /// namespaces and locks it tells of are gone.
    pub(crate) fn prepare(&self) -> Result<(), AgentError> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mark = self.run().join("boot-id");
        if fs::read_to_string(&mark).is_ok_and(|old| old != boot) {
            files::remove_tree(&self.run()).map_err(state("clearing", &self.run()))?;
        }
        for dir in [self.run(), self.root(), self.runroot()] {
            fs::create_dir_all(&dir).map_err(state("creating", &dir))?;
        }
        files::replace(&mark, boot.as_bytes(), 0o600).map_err(state("writing", &mark))?;
        // runc, because crun refuses hybrid cgroup hierarchies; the file event log and k8s-file, because there may be no systemd.
        // The monitor of an exec session stays for ten seconds, not five minutes: probes start many.
        let text = format!(
            "[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nexit_command_delay = 10\ntmp_dir = \"{}\"\n\n\
             [containers]\nlog_driver = \"k8s-file\"\nlog_size_max = {LOG_SIZE}\ndefault_ulimits = [\"nofile=16384:16384\", \"nproc=16384:16384\"]\n",
            self.run().join("libpod").display()
        );
        let path = self.configuration();
        files::replace(&path, text.as_bytes(), 0o600).map_err(state("writing", &path))
    }

    fn start(&self) -> Result<Child, PodmanError> {
        let failed = |e: std::io::Error| PodmanError::Start(e.to_string());
        let log = fs::File::create(self.state_dir.join("podman.log")).map_err(failed)?;
        let _ = fs::remove_file(self.socket());
        let child = self
            .command()
            .map_err(failed)?
            .args(["system", "service", "--time=0"])
            .arg(format!("unix://{}", self.socket().display()))
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        fs::write(self.pid_file(), child.id().unwrap_or_default().to_string()).map_err(failed)?;
        Ok(child)
    }
}

/// Starts the service, or takes over one that still answers, and looks after it until the tasks are stopped.
pub(crate) async fn run(paths: Paths, tasks: &Tasks) -> Result<Podman, AgentError> {
    paths.prepare()?;
    let podman = Podman::new(paths.socket());
    let mut child = None;
    if podman.version().await.is_err() {
        child = Some(paths.start()?);
        wait(&podman).await?;
    }
    let watched = podman.clone();
    let stop = tasks.clone();
    tasks.spawn("podman service", async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(WATCH_PERIOD) => {}
            }
            if watched.version().await.is_ok() {
                continue;
            }
            tracing::warn!("podman's service does not answer and is started again");
            end(child.take(), &paths).await;
            match paths.start() {
                Ok(started) => child = Some(started),
                Err(e) => tracing::error!(error = %e, "podman's service"),
            }
            if let Err(e) = wait(&watched).await {
                tracing::error!(error = %e, "podman's service");
            }
        }
        end(child, &paths).await;
    });
    Ok(podman)
}

async fn wait(podman: &Podman) -> Result<(), PodmanError> {
    let deadline = tokio::time::Instant::now() + START_LIMIT;
    loop {
        match podman.version().await {
            Ok(_) => return Ok(()),
            Err(e) if tokio::time::Instant::now() > deadline => return Err(PodmanError::Start(e.to_string())),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Ends the service: the child, or the one of an earlier agent that was taken over.
async fn end(child: Option<Child>, paths: &Paths) {
    match child {
        Some(mut child) => {
            if let Some(pid) = child.id() {
                let _ =
                    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), nix::sys::signal::Signal::SIGTERM);
            }
            if tokio::time::timeout(Duration::from_secs(5), child.wait()).await.is_err() {
                let _ = child.kill().await;
            }
        }
        None => end_recorded(paths).await,
    }
    let _ = fs::remove_file(paths.pid_file());
    let _ = fs::remove_file(paths.socket());
}

/// Ends the service whose process id is on record, if that process still is podman's service on this storage.
pub(crate) async fn end_recorded(paths: &Paths) {
    let Some(pid) = fs::read_to_string(paths.pid_file()).ok().and_then(|t| t.trim().parse::<i32>().ok()) else {
        return;
    };
    let ours = |pid: i32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("system") && line.contains(&*paths.root().to_string_lossy())
        })
    };
    if !ours(pid) {
        return;
    }
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
    for _ in 0..100 {
        if !ours(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_containers_have_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        paths.prepare().unwrap();
        let text = fs::read_to_string(paths.configuration()).unwrap();
        assert!(text.contains("\nlog_size_max = 52428800\n"), "{text}");
    }
}
