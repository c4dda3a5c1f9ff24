//! What a server says when it is told to stop.

use anyhow::{Result, ensure};
use vctl_tests::platform::{Platform, Workers};

/// Times that it is stopped: what goes wrong then depends on who notices first.
const TIMES: usize = 5;

/// An ordinary stop is no error of anything that follows the store.
#[test]
fn an_ordinary_stop_logs_no_error() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "team-x", &[])?;
    for _ in 0..TIMES {
        let code = platform.stop_server()?;
        let log = platform.log();
        ensure!(code == 0, "exit code {code}\n{log}");
        let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
        ensure!(errors.is_empty(), "{errors:#?}");
        platform.start_server()?;
    }
    Ok(())
}
