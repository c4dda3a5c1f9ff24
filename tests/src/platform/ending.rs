//! How a platform ends, and what must not be left of it.

use std::{
    io::ErrorKind,
    os::unix::fs::MetadataExt as _,
    process::{Child, Command},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::Platform;
use crate::{remains, wait};

/// What the server says, in the platform's directory.
pub(super) const SERVER_LOG: &str = "server.log";
/// Names of what its agents have said begin so.
const AGENT_LOGS: &str = "agent.log-";

impl Platform {
    /// Ends it, as dropping it does; what is wrong with how it ended.
    fn end(&mut self) -> Vec<String> {
        if let Some(mut server) = self.server.take() {
            if std::thread::panicking() {
                eprintln!("--- server log\n{}", self.log());
            }
            stop(&mut server);
        }
        let mut wrong = Vec::new();
        match self.vctl(&["down"]) {
            Ok(output) if output.code == 0 => {}
            Ok(output) => wrong.push(format!("vctl down failed: {}{}", output.stdout, output.stderr)),
            Err(e) => wrong.push(format!("vctl down cannot be run: {e:#}")),
        }
        for entry in std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten() {
            let (log, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if name != SERVER_LOG && !name.starts_with(AGENT_LOGS) {
                continue;
            }
            let text = match std::fs::read(&log) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(e) => {
                    wrong.push(format!("{} cannot be read: {e}", log.display()));
                    continue;
                }
            };
            let lines: Vec<&str> = text.lines().collect();
            // What the hook of the standard library says of every panic, and the place.
            for at in (0..lines.len())
                .filter(|at| lines[*at].contains(" panicked at ") || lines[*at].contains("a task panicked"))
            {
                wrong.push(format!("{}: {}", log.display(), lines[at..(at + 3).min(lines.len())].join(" / ")));
            }
        }
        if let Err(e) = remains::nothing(&self.data_dir(), self.netns()) {
            wrong.push(format!("{e:#}"));
        }
        wrong
    }
}

impl Platform {
    /// Keeps the agent's log, to its last word: the worker's directory goes with `vctl down`, and this is the same file by another name.
    pub(super) fn keep_agent_log(&self) -> Result<()> {
        let log = self.worker().join("agent.log");
        let kept = || -> std::io::Result<()> {
            // Each agent that was torn down had a file of its own.
            let number = std::fs::metadata(&log)?.ino();
            std::fs::hard_link(&log, self.dir.path().join(format!("{AGENT_LOGS}{number}")))
        };
        match kept() {
            // There was no agent, or it has been kept before.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => Ok(()),
            kept => kept.with_context(|| format!("{} cannot be kept", log.display())),
        }
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        let wrong = self.end();
        for what in &wrong {
            eprintln!("{what}");
        }
        assert!(wrong.is_empty() || std::thread::panicking(), "the platform did not end well:\n{}", wrong.join("\n"));
    }
}

/// Sends a signal by its name.
pub(super) fn signal(pid: u32, name: &str) -> Result<()> {
    let status = Command::new("kill").args(["-s", name, &pid.to_string()]).status()?;
    anyhow::ensure!(status.success(), "kill -s {name} {pid} failed");
    Ok(())
}

/// SIGTERM, and after 10 s SIGKILL.
pub(super) fn stop(child: &mut Child) {
    if signal(child.id(), "TERM").is_ok()
        && wait::until("it ends", Duration::from_secs(10), || match child.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .is_ok()
    {
        return;
    }
    if let Err(e) = child.kill().and_then(|()| child.wait()) {
        eprintln!("a server was left behind: {e}");
    }
}
