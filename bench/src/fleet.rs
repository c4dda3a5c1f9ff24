//! Many idle environments in one server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vctl_tests::platform::{Platform, Workers};

use crate::{
    clients::{Kube, Rest},
    environments::create,
    memory::ready,
    process::{cpu, resident},
    samples::Samples,
};

const IDLE: Duration = Duration::from_secs(30);
/// Creates that are measured once all others are there.
const MEASURED: u32 = 100;

/// `count` environments: what they cost while idle, what one more costs, and how long a start takes.
pub(crate) async fn run(count: u32) -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    let rest = Rest::new(&platform)?;
    let pid = platform.server_pid().context("the server runs")?;
    rest.create("first").await?;
    ready(&rest, 1).await?;
    let before = resident(pid)?;
    let begun = Instant::now();
    for n in 0..count {
        rest.create(&format!("idle-{n}")).await?;
    }
    ready(&rest, count as usize + 1).await?;
    println!(
        "{count} environments, one asked for after the other, until all are ready: {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    let after = resident(pid)?;
    println!(
        "memory per idle environment: {:.0} KiB over {count} ({:.1} MiB after)",
        after.saturating_sub(before) as f64 / 1024.0 / f64::from(count),
        after as f64 / 1048576.0
    );
    let (used, begun) = (cpu(pid)?, Instant::now());
    tokio::time::sleep(IDLE).await;
    let share = (cpu(pid)?.saturating_sub(used)).as_secs_f64() / begun.elapsed().as_secs_f64();
    println!("CPU of a server with {count} idle environments: {:.2} % of one core over {IDLE:?}", share * 100.0);

    let mut answered = Samples::default();
    for n in 0..MEASURED {
        answered.push(create(&rest, &format!("more-{n}")).await?);
    }
    println!(
        "create an environment beside {count} others, to the first 200: {}, p99 {:.1} ms",
        answered.report(),
        answered.quantile(0.99).as_secs_f64() * 1e3
    );

    platform.stop_server()?;
    let begun = Instant::now();
    platform.start_server()?;
    let rest = Rest::new(&platform)?;
    for name in ["first".to_owned(), format!("idle-{}", count / 2), format!("more-{}", MEASURED - 1)] {
        let kubeconfig = rest.kubeconfig(&name).await?.with_context(|| format!("{name} serves after the start"))?;
        Kube::new(&kubeconfig)?.get("/api/v1/namespaces").await?.with_context(|| format!("{name} answers"))?;
    }
    println!(
        "start with {} environments to answers of the first, middle and last: {:.2} s",
        count + MEASURED + 1,
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}
