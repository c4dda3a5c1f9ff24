//! How long it takes until a new environment answers.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use vctl_tests::platform::{Platform, Workers};

use crate::{
    clients::{Kube, Rest},
    samples::Samples,
};

const LIMIT: Duration = Duration::from_secs(10);

/// Creates `count` environments one after the other, then a tenth as many by the whole `vctl create` process.
pub(crate) async fn run(count: u32) -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    let rest = Rest::new(&platform)?;
    let mut answered = Samples::default();
    for n in 0..count {
        answered.push(create(&rest, &format!("bench-{n}")).await?);
    }
    println!("REST create to first 200 of GET /api/v1/namespaces on a new TLS connection: {}", answered.report());
    let mut process = Samples::default();
    for n in 0..count.div_ceil(10) {
        let begun = Instant::now();
        platform.create(&format!("cli-{n}"), "blank", &[])?;
        process.push(begun.elapsed());
    }
    println!("whole `vctl create` process (waits until ready): {}", process.report());
    Ok(())
}

/// From the request to the first answer of the new API server, on a new TLS connection.
pub(crate) async fn create(rest: &Rest, name: &str) -> Result<Duration> {
    let begun = Instant::now();
    rest.create(name).await?;
    while begun.elapsed() < LIMIT {
        if let Some(kubeconfig) = rest.kubeconfig(name).await?
            && Kube::new(&kubeconfig)?.get("/api/v1/namespaces").await?.is_some()
        {
            return Ok(begun.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    bail!("{name} did not answer within {LIMIT:?}")
}
