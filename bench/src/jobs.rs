//! The queue of jobs: how many are enqueued and finished in a second, on a real Postgres.
//!
//! Each job is a request by REST, a transaction (environment, audit entry, job), a claim, a transaction for each step, and one for its end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use vctl_tests::{
    platform::{Platform, Workers},
    postgres::Postgres,
};

use crate::{clients::Rest, load::spawn, samples::row};

/// Clients that enqueue.
const CLIENTS: usize = 32;
const LIMIT: Duration = Duration::from_mins(5);
const FINISHED: &str = "vctl_jobs_finished_total{state=\"succeeded\"}";

/// Puts `count` environments without anything in them to sleep and wakes them in turn, `rounds` times.
pub(crate) async fn run(count: usize, rounds: usize) -> Result<()> {
    let postgres = Postgres::start()?;
    let platform = Platform::start_configured(Workers::None, &[], &[("VCTL_STORE", &postgres.url("bench"))])?;
    let rest = Arc::new(Rest::new(&platform)?);
    for n in 0..count {
        rest.create(&name(n)).await?;
    }
    finished(&rest, count as u64).await?;
    let mut rates = Vec::new();
    for round in 0..rounds {
        let before = rest.measured(FINISHED).await?;
        let operation = if round % 2 == 0 { "sleep" } else { "wake" };
        let begun = Instant::now();
        let mut clients = Vec::new();
        for client in 0..CLIENTS {
            let rest = rest.clone();
            clients.push(spawn(async move {
                for n in (client..count).step_by(CLIENTS) {
                    rest.operate(&name(n), operation).await?;
                }
                anyhow::Ok(())
            }));
        }
        for client in clients {
            client.await??;
        }
        let enqueued = begun.elapsed();
        finished(&rest, before + count as u64).await?;
        let rate = count as f64 / begun.elapsed().as_secs_f64();
        println!(
            "  {count} jobs ({operation}), enqueued in {:.0} ms: {rate:.0} per second",
            enqueued.as_secs_f64() * 1e3
        );
        rates.push(rate);
    }
    let failed = rest.measured("vctl_jobs_finished_total{state=\"failed\"}").await?;
    ensure!(failed == 0, "{failed} jobs failed");
    println!("jobs enqueued by REST and finished, on Postgres: {} per second", row(&rates));
    Ok(())
}

fn name(n: usize) -> String {
    format!("job-{n}")
}

/// Waits until so many jobs have ended.
async fn finished(rest: &Rest, wanted: u64) -> Result<()> {
    let begun = Instant::now();
    loop {
        let now = rest.measured(FINISHED).await?;
        if now >= wanted {
            return Ok(());
        }
        ensure!(begun.elapsed() < LIMIT, "{now} of {wanted} jobs have ended within {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
