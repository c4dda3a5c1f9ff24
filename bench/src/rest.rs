//! Lists of the REST API, with many environments.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use vctl_tests::platform::{Platform, Workers};

use crate::{clients::Rest, memory::ready, process::resident, samples::Samples};

/// Environments that are asked for at a time while they are made.
const AT_A_TIME: usize = 8;
/// Requests before anything is measured.
const WARM: usize = 20;
/// Requests of a figure.
const ASKED: usize = 500;

/// A platform with `count` environments, `env-00000` and so on, which are all ready.
pub(crate) async fn environments(count: u32) -> Result<(Platform, Rest)> {
    let platform = Platform::start(Workers::Simulated)?;
    let rest = Rest::new(&platform)?;
    let begun = Instant::now();
    let creates = stream::iter((0..count).map(|n| {
        let rest = &rest;
        async move { rest.create(&format!("env-{n:05}")).await }
    }));
    creates.buffer_unordered(AT_A_TIME).try_collect::<Vec<()>>().await?;
    ready(&rest, count as usize).await?;
    println!("{count} environments, until all are ready: {:.1} s", begun.elapsed().as_secs_f64());
    Ok((platform, rest))
}

/// What the lists of the console and of programs take beside `count` environments, one after the other on one connection.
pub(crate) async fn run(platform: &Platform, rest: &Rest, count: u32) -> Result<()> {
    let middle = count / 2;
    for (what, query, times) in [
        ("the first 100", "?limit=100".to_owned(), ASKED),
        ("the newest 100", "?limit=100&sort=-createdAt".to_owned(), ASKED),
        ("100 in the middle", format!("?limit=100&offset={middle}"), ASKED),
        ("how many, by phase and template", "?limit=1&counts=phase&counts=template".to_owned(), ASKED),
        (
            "100 that are Ready, of one template, by owner",
            "?limit=100&phase=Ready&template=blank&sort=owner".to_owned(),
            ASKED,
        ),
        ("a search that finds one", format!("?limit=100&q=env-{middle:05}"), ASKED),
        ("all of them", String::new(), ASKED / 10),
    ] {
        let mut samples = Samples::default();
        let mut bytes = 0;
        for n in 0..WARM + times {
            let begun = Instant::now();
            bytes = rest.list("environments", &query).await?.len();
            if n >= WARM {
                samples.push(begun.elapsed());
            }
        }
        ensure!(bytes > 0, "an empty list");
        println!(
            "REST list of environments beside {count}, {what}: p99 {:.1} ms, {}; {} KiB",
            samples.quantile(0.99).as_secs_f64() * 1e3,
            samples.report(),
            bytes >> 10
        );
    }
    let pid = platform.server_pid().context("the server runs")?;
    println!(
        "memory of a server with {count} environments that was asked for lists: {:.1} MiB",
        resident(pid)? as f64 / 1048576.0
    );
    Ok(())
}
