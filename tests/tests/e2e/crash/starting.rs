//! SIGTERM while the server starts.

use std::path::Path;

use anyhow::{Result, ensure};
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
        let code = platform.stop_while_starting(|pid| now(pid, &data))?;
        ensure!(code == 0, "{moment}: exit code {code}\n{}", platform.log());
        ensure!(left(&data).is_none(), "{moment}: {:?} is left", left(&data));
        let list = platform.vctl(&["list"])?;
        ensure!(list.code == 6 && list.stderr.contains("vctl up"), "{moment}: {list:?}");
    }
    platform.start_server()?;
    platform.kubectl("1.33", "dev")?.ok(&["get", "configmap", "kept"])?;
    Ok(())
}

/// Whether a process has a file open that is at this path or below it.
fn opened(pid: u32, path: &Path) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| file.path().read_link().ok()).any(|file| file.starts_with(path))
}
