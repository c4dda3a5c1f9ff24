//! The tests' own: a panic of the agent is seen however the platform ends.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    platform::{Platform, Workers},
    wait,
};

use super::LIMIT;

/// Also where a test runs `vctl down` itself, with which the agent's log goes.
#[test]
fn a_panic_of_the_agent_fails_a_test_that_has_run_vctl_down() -> Result<()> {
    let platform = Platform::start(Workers::Podman)?;
    let log = platform.worker().join("agent.log");
    wait::until("the agent's log", LIMIT, || fs::metadata(&log).map_err(|e| e.to_string()))?;
    writeln!(OpenOptions::new().append(true).open(&log)?, "thread 'agent' panicked at agent/src/lib.rs:1:1:\nmade up")?;
    platform.vctl(&["down"])?.ok()?;
    ensure!(!log.exists());
    let Err(said) = catch_unwind(AssertUnwindSafe(|| drop(platform))) else { anyhow::bail!("it was not seen") };
    let said = said.downcast_ref::<String>().context("no text")?;
    ensure!(said.contains("panicked at agent/src/lib.rs") && said.contains("made up"), "{said}");
    Ok(())
}
