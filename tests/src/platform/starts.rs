//! Starts that are not ordinary ones.

use std::{path::PathBuf, process::Child, time::Duration};

use anyhow::{Context as _, Result};

use super::{Platform, ending::signal};
use crate::wait;

impl Platform {
    /// Stops the server and starts it at another time, such as `+400d`; its clients of [`Platform::vctl`] have that time too. It is
    /// libfaketime's (Debian package faketime), which changes no time by which a process waits.
    ///
    /// # Errors
    /// libfaketime is not installed; it does not stop or start.
    pub fn restart_at(&mut self, offset: &str) -> Result<()> {
        let library = std::fs::read_dir("/usr/lib")?
            .flatten()
            .map(|entry| entry.path().join("faketime/libfaketime.so.1"))
            .find(|path| path.is_file())
            .context("there is no libfaketime (Debian package faketime): run scripts/setup tools")?;
        self.stop_server()?;
        self.clock = [
            ("LD_PRELOAD", library),
            ("FAKETIME", offset.into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("NO_FAKE_STAT", "1".into()),
        ]
        .map(|(name, value): (_, PathBuf)| (name.to_owned(), value.display().to_string()))
        .to_vec();
        self.start_server()
    }

    /// Starts the server and ends it with SIGTERM at the first moment at which `now` says so of its process id; its exit code, -1 after a signal.
    ///
    /// # Errors
    /// It ends by itself, or the moment does not come, or it does not end.
    pub fn stop_while_starting(&mut self, now: impl Fn(u32) -> bool) -> Result<i32> {
        let mut child = self.spawn()?;
        let looked = moment(&mut child, now);
        if looked.is_err() {
            super::ending::stop(&mut child);
        }
        looked?;
        signal(child.id(), "TERM")?;
        wait::until("the server ends", Duration::from_secs(30), || match child.try_wait() {
            Ok(Some(status)) => Ok(status.code().unwrap_or(-1)),
            other => Err(format!("{other:?}")),
        })
    }
}

fn moment(child: &mut Child, now: impl Fn(u32) -> bool) -> Result<()> {
    let pid = child.id();
    wait::often("the moment", Duration::from_secs(30), || {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("it ended with {status}"));
        }
        if now(pid) { Ok(()) } else { Err("not yet".into()) }
    })
}
