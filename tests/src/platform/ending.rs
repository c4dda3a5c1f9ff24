//! How a platform ends, and what must not be left of it.

use std::{
    io::ErrorKind,
    process::{Child, Command},
    time::Duration,
};

use anyhow::Result;

use super::Platform;
use crate::{remains, wait};

impl Platform {
    /// Ends it, as dropping it does; what is wrong with how it ended.
    fn end(&mut self) -> Vec<String> {
        if let Some(mut server) = self.server.take() {
            if std::thread::panicking() {
                eprintln!("--- server log\n{}", self.log());
            }
            stop(&mut server);
        }
        // The worker's directory goes with `vctl down`; this is the same file by another name, to the agent's last word.
        let agent = self.dir.path().join("agent.log");
        let kept = std::fs::hard_link(self.worker().join("agent.log"), &agent);
        let mut wrong = Vec::new();
        if let Err(e) = kept
            && !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists)
        {
            wrong.push(format!("the agent's log cannot be kept: {e}"));
        }
        match self.vctl(&["down"]) {
            Ok(output) if output.code == 0 => {}
            Ok(output) => wrong.push(format!("vctl down failed: {}{}", output.stdout, output.stderr)),
            Err(e) => wrong.push(format!("vctl down cannot be run: {e:#}")),
        }
        for log in [self.dir.path().join("server.log"), agent] {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
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
