//! The queue of jobs: how many are enqueued and finished in a second, on a real Postgres.
//!
//! Each job is a request by REST and three transactions: one for its environment, an audit entry and the job, one for its claim, and one for
//! its end with the environment and an audit entry; its control plane writes its own.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hyper::Method;
use vctl_tests::{
    platform::{Platform, Workers},
    postgres::Postgres,
};

use crate::{
    clients::Rest,
    load::spawn,
    process::cpu,
    samples::row,
    target::{Ask, Target},
    wire::Numbered,
};

/// Clients that enqueue.
const CLIENTS: usize = 32;
/// Stands for the number in a name.
const MARK: &str = "0#####0";
const LIMIT: Duration = Duration::from_mins(5);
const FINISHED: &str = "vctl_jobs_finished_total{state=\"succeeded\"}";

/// Puts `count` environments without anything in them to sleep and wakes them in turn, `rounds` times.
pub(crate) async fn run(count: usize, rounds: usize) -> Result<()> {
    let postgres = Postgres::start()?;
    let platform = Platform::start_configured(Workers::None, &[], &[("VCTL_STORE", &postgres.url("bench"))])?;
    let rest = Rest::new(&platform)?;
    for n in 0..count {
        rest.create(&name(n)).await?;
    }
    finished(&rest, count as u64).await?;
    let (address, ca, token) = Rest::parts(&platform)?;
    let target = Target::with_token(&address, &ca, &token)?;
    let (mut sleeps, mut wakes) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let (operation, rates) = if round % 2 == 0 { ("sleep", &mut sleeps) } else { ("wake", &mut wakes) };
        let ask = Ask::send(Method::POST, format!("/api/v1/environments/job-{MARK}/{operation}"), "");
        let mut wires = Vec::with_capacity(CLIENTS);
        for _ in 0..CLIENTS {
            wires.push((target.wire().await?, Numbered::new(target.request(&ask), MARK)));
        }
        let before = rest.measured(FINISHED).await?;
        let spent = || -> Result<[Duration; 3]> {
            let sum = |pids: Vec<u32>| pids.into_iter().map(|pid| cpu(pid).unwrap_or_default()).sum();
            Ok([sum(platform.server_pid().into_iter().collect()), sum(postgres.processes()?), cpu(std::process::id())?])
        };
        let (begun, spent_before) = (Instant::now(), spent()?);
        let mut clients = Vec::new();
        for (client, (mut wire, mut request)) in wires.into_iter().enumerate() {
            clients.push(spawn(async move {
                for n in (client..count).step_by(CLIENTS) {
                    wire.ok(request.with(n)).await?;
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
        let spent = spent()?;
        let each = |n: usize| spent[n].saturating_sub(spent_before[n]).as_secs_f64() * 1e6 / count as f64;
        println!(
            "  {count} jobs ({operation}), enqueued in {:.0} ms: {rate:.0} per second; CPU a job: server {:.0} us, Postgres {:.0} us, \
             generator {:.0} us",
            enqueued.as_secs_f64() * 1e3,
            each(0),
            each(1),
            each(2)
        );
        rates.push(rate);
    }
    let failed = rest.measured("vctl_jobs_finished_total{state=\"failed\"}").await?;
    ensure!(failed == 0, "{failed} jobs failed");
    let said = platform.vctl(&["audit", "verify"])?.ok()?;
    ensure!(said.contains("entries in"), "{said}");
    println!("  verified: {}", said.trim());
    for (operation, rates) in [("sleep", sleeps), ("wake", wakes)] {
        if !rates.is_empty() {
            println!("jobs enqueued by REST and finished, on Postgres, {operation}: {} per second", row(&rates));
        }
    }
    Ok(())
}

fn name(n: usize) -> String {
    format!("job-{n:07}")
}

/// How often it is asked whether the jobs have ended: the answer is made of all measurements of the server.
const POLL: Duration = Duration::from_millis(20);

/// Waits until so many jobs have ended.
async fn finished(rest: &Rest, wanted: u64) -> Result<()> {
    let begun = Instant::now();
    loop {
        let now = rest.measured(FINISHED).await?;
        if now >= wanted {
            return Ok(());
        }
        ensure!(begun.elapsed() < LIMIT, "{now} of {wanted} jobs have ended within {LIMIT:?}");
        tokio::time::sleep(POLL).await;
    }
}
