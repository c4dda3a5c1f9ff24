//! Starts that are not ordinary ones.

use std::{path::PathBuf, process::Child, time::Duration};

use anyhow::{Context as _, Result};

use super::{
    Platform, Workers, directory,
    ending::{signal, stop},
};
use crate::wait;

/// What a program is started by so that it can make no namespaces, as under a seccomp profile that refuses them: it is in a user namespace
/// that may have none, whoever runs the test. Each of these programs becomes the next one.
const WITHOUT_NAMESPACES: &[&str] = &[
    "unshare",
    "--user",
    "--map-root-user",
    "sh",
    "-c",
    "cd /proc/sys/user && echo 0 > max_net_namespaces && echo 0 > max_user_namespaces && cd / && exec \"$0\" \"$@\"",
];

impl Platform {
    /// Starts one whose server can make no namespaces, with further arguments, and waits until it serves.
    ///
    /// # Errors
    /// It does not start: with its log.
    pub fn start_without_namespaces(workers: Workers, arguments: &[&str]) -> Result<Self> {
        let more = arguments.iter().map(Into::into).collect();
        Self::new(workers, directory()?, more, Vec::new(), false, WITHOUT_NAMESPACES)
    }

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

    /// Starts the server with further arguments and ends it with SIGTERM at the first moment at which `now` says so of its process id; its exit
    /// code, -1 after a signal.
    ///
    /// # Errors
    /// It ends by itself, or the moment does not come, or it does not end.
    pub fn stop_while_starting(&mut self, arguments: &[&str], now: impl Fn(u32) -> bool) -> Result<i32> {
        let ordinary = self.more.len();
        self.more.extend(arguments.iter().map(Into::into));
        let child = self.spawn();
        self.more.truncate(ordinary);
        let mut child = child?;
        let ended = moment(&mut child, now).and_then(|()| signal(child.id(), "TERM")).and_then(|()| code(&mut child));
        if ended.is_err() {
            stop(&mut child);
        }
        ended
    }

    /// Asks the server to end with SIGTERM, again and again; its exit code, -1 after a signal.
    ///
    /// # Errors
    /// It was not running or does not end.
    pub fn stop_server_at_once(&mut self) -> Result<i32> {
        let mut child = self.server.take().context("the server is not running")?;
        wait::until("the server ends", Duration::from_secs(30), || match child.try_wait() {
            Ok(Some(status)) => Ok(status.code().unwrap_or(-1)),
            other => Err(format!("{other:?}, {:?}", signal(child.id(), "TERM"))),
        })
    }
}

fn code(child: &mut Child) -> Result<i32> {
    wait::until("the server ends", Duration::from_secs(30), || match child.try_wait() {
        Ok(Some(status)) => Ok(status.code().unwrap_or(-1)),
        other => Err(format!("{other:?}")),
    })
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
