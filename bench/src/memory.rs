//! What an idle environment costs in memory.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use vctl_tests::platform::{Platform, Workers};

use crate::{clients::Rest, process::resident};

const LIMIT: Duration = Duration::from_mins(5);

/// Resident memory of the server before and after `count` environments are ready.
pub(crate) async fn run(count: u32) -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    let rest = Rest::new(&platform)?;
    let pid = platform.server_pid().context("the server runs")?;
    // Whatever is loaded once is loaded by the first one.
    rest.create("first").await?;
    ready(&rest, 1).await?;
    let before = resident(pid)?;
    for n in 0..count {
        rest.create(&format!("idle-{n}")).await?;
    }
    ready(&rest, count as usize + 1).await?;
    let after = resident(pid)?;
    println!(
        "resident memory per idle environment: {:.0} KiB over {count} ({:.1} MiB before, {:.1} MiB after)",
        (after.saturating_sub(before)) as f64 / 1024.0 / f64::from(count),
        before as f64 / 1048576.0,
        after as f64 / 1048576.0,
    );
    Ok(())
}

/// Waits until `count` environments are ready.
pub(crate) async fn ready(rest: &Rest, count: usize) -> Result<()> {
    let begun = Instant::now();
    loop {
        let now = rest.in_phase("Ready").await?;
        if now >= count {
            return Ok(());
        }
        if begun.elapsed() > LIMIT {
            bail!("only {now} of {count} environments were ready after {LIMIT:?}");
        }
        // Each look is a list of all of them.
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}
