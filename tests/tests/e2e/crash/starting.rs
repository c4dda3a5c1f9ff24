//! SIGTERM while the server starts, and while it ends.

use std::{cell::RefCell, fs::OpenOptions, net::TcpListener, os::unix::fs::OpenOptionsExt as _, path::Path};

use anyhow::{Result, ensure};
use nix::{fcntl::OFlag, sys::stat::Mode, unistd::mkfifo};
use vctl_tests::platform::{Platform, Workers};

/// At every step: it ends with 0 and leaves nothing by which it could be taken for a running server.
#[test]
fn sigterm_while_it_starts_is_a_clean_end() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    platform.kubectl("1.33", "dev")?.ok(&["create", "configmap", "kept"])?;
    assert_eq!(platform.stop_server()?, 0);
    let data = platform.data_dir();
    let left =
        |data: &Path| ["server.json", "server.sock"].map(|name| data.join(name)).into_iter().find(|p| p.exists());
    type Moment = (&'static str, fn(u32, &Path) -> bool);
    let moments: [Moment; 4] = [
        ("it has the data directory", opened),
        ("it has the data", |pid, data| opened(pid, &data.join("vctl.db"))),
        ("it has a socket", |_, data| data.join("server.sock").exists()),
        ("it is announced", |_, data| data.join("server.json").exists()),
    ];
    for (moment, now) in moments {
        let code = platform.stop_while_starting(&[], |pid| now(pid, &data))?;
        ensure!(code == 0, "{moment}: exit code {code}\n{}", platform.log());
        ensure!(left(&data).is_none(), "{moment}: {:?} is left", left(&data));
        let list = platform.vctl(&["list"])?;
        ensure!(list.code == 6 && list.stderr.contains("vctl up"), "{moment}: {list:?}");
    }
    platform.start_server()?;
    platform.kubectl("1.33", "dev")?.ok(&["get", "configmap", "kept"])?;
    Ok(())
}

/// Also while it waits for a key: from a command that does not end, and from a pipe into which nobody writes.
#[test]
fn sigterm_ends_what_waits_for_a_key() -> Result<()> {
    let mut platform = Platform::start(Workers::None)?;
    ensure!(platform.stop_server()? == 0);
    let asked = platform.scratch().join("asked");
    let command = format!("touch '{}'; exec sleep 1000", asked.display());
    let code = platform.stop_while_starting(&["--encryption-key-command", &command], |_| asked.exists())?;
    ensure!(code == 0, "exit code {code}\n{}", platform.log());
    let pipe = platform.scratch().join("pipe");
    mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let writer = RefCell::new(None);
    // It can be opened so from when somebody reads.
    let read = |_| {
        let opened = OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&pipe).ok();
        *writer.borrow_mut() = opened;
        writer.borrow().is_some()
    };
    let code = platform.stop_while_starting(&["--encryption-key-file", &pipe.display().to_string()], read)?;
    ensure!(code == 0, "exit code {code}\n{}", platform.log());
    Ok(())
}

/// What it would still do, such as send its last traces to somebody who does not answer, is not waited for by whoever asks twice.
#[test]
fn a_second_sigterm_ends_it_at_once() -> Result<()> {
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://{}", silent.local_addr()?);
    let mut platform = Platform::start_configured(Workers::None, &["--otlp-endpoint", &endpoint], &[])?;
    platform.create("dev", "blank", &[])?;
    let code = platform.stop_server_at_once()?;
    ensure!(code == 128 + 15, "exit code {code}\n{}", platform.log());
    ensure!(platform.log().contains("asked to end once more"), "{}", platform.log());
    platform.start_server()?;
    platform.vctl(&["get", "dev"])?.ok()?;
    Ok(())
}

/// Whether a process has a file open that is at this path or below it.
fn opened(pid: u32, path: &Path) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| file.path().read_link().ok()).any(|file| file.starts_with(path))
}
