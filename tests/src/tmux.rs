//! A real terminal: tmux with a socket of its own and a fixed size.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::wait;

const LIMIT: Duration = Duration::from_secs(20);

/// A tmux server with one session of 120 by 30 cells, in which a shell runs. Ended when dropped.
#[derive(Debug)]
pub struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// Starts a shell without anybody's configuration in it; `env` is set for what runs there.
    ///
    /// # Errors
    /// There is no tmux (Debian package tmux), it cannot start, or the shell does not answer.
    pub fn start(dir: &Path, env: &[(&str, &str)]) -> Result<Self> {
        let tmux = Self { socket: dir.join("tmux") };
        let mut args = vec!["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "30"];
        let env: Vec<String> = env.iter().map(|(key, value)| format!("{key}={value}")).collect();
        for one in &env {
            args.extend(["-e", one]);
        }
        args.push("exec env PS1='$ ' TERM=screen-256color sh");
        tmux.run(&args)?;
        // What is typed before the prompt is there would stand before it.
        tmux.until("the prompt", |screen| screen.starts_with("$ ") || screen.trim_end() == "$")?;
        Ok(tmux)
    }

    fn run(&self, args: &[&str]) -> Result<String> {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(&self.socket)
            .args(args)
            .env_remove("TMUX")
            .output()
            .context("running tmux (Debian package tmux)")?;
        if !output.status.success() {
            bail!("tmux {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Types a line and presses Enter.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn line(&self, text: &str) -> Result<()> {
        self.run(&["send-keys", "-l", text])?;
        self.keys(&["Enter"])
    }

    /// Presses keys by their tmux names, such as `Enter`, `Down` or `q`.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn keys(&self, keys: &[&str]) -> Result<()> {
        self.run(&[&["send-keys"], keys].concat()).map(drop)
    }

    /// Changes the size of the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn resize(&self, columns: u16, rows: u16) -> Result<()> {
        self.run(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]).map(drop)
    }

    /// What the screen shows.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn screen(&self) -> Result<String> {
        self.run(&["capture-pane", "-p"])
    }

    /// What the screen shows, with the sequences of its colours.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn coloured(&self) -> Result<String> {
        self.run(&["capture-pane", "-p", "-e"])
    }

    /// A variable of tmux, such as `#{alternate_on}`.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn variable(&self, format: &str) -> Result<String> {
        Ok(self.run(&["display-message", "-p", format])?.trim_end().to_owned())
    }

    /// Waits until the screen is as `shows` wants it; the screen.
    ///
    /// # Errors
    /// It is not within 20 s: with the screen.
    pub fn until(&self, what: &str, shows: impl Fn(&str) -> bool) -> Result<String> {
        wait::until(what, LIMIT, || {
            let screen = self.screen().map_err(|e| format!("{e:#}"))?;
            if shows(&screen) { Ok(screen) } else { Err(format!("\n{screen}")) }
        })
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        if let Err(e) = self.run(&["kill-server"]) {
            eprintln!("a tmux server was left behind: {e:#}");
        }
    }
}
