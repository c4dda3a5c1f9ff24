//! Durable creates of ConfigMaps beside raw puts into etcd, and beside somebody who lists.

use std::{path::Path, time::Duration};

use anyhow::Result;
use hyper::Method;

use crate::{
    api::{CONFIG_MAPS, clear, config_map, fill},
    etcd::{self, Etcd, Putter},
    load::{self, Client},
    peers::{Plan, RUNS, fresh},
    samples::{Samples, median, row},
    target::{Ask, Target},
    wire::{DIGITS, Numbered, Wire},
};

/// Stands for the number in a name.
const MARK: &str = "0#####0";

/// A client that creates new ConfigMaps.
pub(crate) struct Creator {
    wire: Wire,
    request: Numbered,
}

impl Creator {
    /// `count` clients of a run.
    pub(crate) async fn all(target: &Target, run: usize, count: usize) -> Result<Vec<Self>> {
        let mut all = Vec::with_capacity(count);
        for number in 0..count {
            let body = config_map(&name(run, number));
            let request = target.request(&Ask::send(Method::POST, CONFIG_MAPS, body));
            all.push(Self { wire: target.wire().await?, request: Numbered::new(request, MARK) });
        }
        Ok(all)
    }
}

impl Client for Creator {
    async fn ask(&mut self, n: usize) -> Result<()> {
        self.wire.ok(self.request.with(n)).await?;
        Ok(())
    }
}

fn name(run: usize, number: usize) -> String {
    debug_assert_eq!(MARK.len(), DIGITS);
    format!("bench-{run}-{number:02}-{MARK}")
}

/// Clients of etcd that put the same values under the keys that kube-apiserver would give them.
async fn putters(etcd: &Etcd, run: usize, count: usize) -> Result<Vec<Putter>> {
    let mut all = Vec::with_capacity(count);
    for number in 0..count {
        let name = name(run, number);
        let message = etcd::message(&format!("/registry/configmaps/bench/{name}"), &config_map(&name));
        all.push(etcd.client(message, MARK).await?);
    }
    Ok(all)
}

/// Durable creates, and raw puts into etcd in turn.
pub(crate) async fn beside_etcd(
    target: &Target,
    plan: &Plan,
    clients: usize,
    duration: Duration,
    scratch: &Path,
) -> Result<()> {
    let etcd = if plan.peers { Some(Etcd::start(&fresh(scratch, &format!("etcd-{clients}"))?).await?) } else { None };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut control = target.connect().await?;
    for run in 0..RUNS {
        let done = load::run(Creator::all(target, run, clients).await?, duration, plan.server()).await?;
        ours.push(done.rate());
        println!(
            "  creates, {clients} clients, run {run}: {:.0}/s, {}; {}",
            done.rate(),
            done.latency.report(),
            done.cost()
        );
        clear(&mut control).await?;
        if let Some(etcd) = &etcd {
            let done = load::run(putters(etcd, run, clients).await?, duration, &[etcd.pid()]).await?;
            println!(
                "  etcd puts, {clients} clients, run {run}: {:.0}/s, {}; {}",
                done.rate(),
                done.latency.report(),
                done.cost()
            );
            theirs.push(done.rate());
        }
    }
    println!("durable creates of 1 KiB ConfigMaps, {clients} clients: {} per second", row(&ours));
    if !theirs.is_empty() {
        println!("raw puts into etcd, {clients} clients: {} per second", row(&theirs));
        println!("  ratio of the medians: {:.2}", median(ours) / median(theirs));
    }
    Ok(())
}

/// p99.9 of writes alone, and while somebody lists 10,000 objects 500 at a time; in turn, because a disk has its moods.
pub(crate) async fn during_lists(target: &Target, plan: &Plan, duration: Duration) -> Result<()> {
    const OBJECTS: usize = 10_000;
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 3;
    fill(target, OBJECTS).await?;
    let (mut alone, mut during) = (Samples::default(), Samples::default());
    let mut lists = 0;
    for round in 0..ROUNDS {
        let writers = Creator::all(target, 9000 + 2 * round, CLIENTS).await?;
        alone.extend(load::run(writers, duration, plan.server()).await?.latency);
        let writers = Creator::all(target, 9001 + 2 * round, CLIENTS).await?;
        let reading = load::spawn(list_again(target.clone(), duration));
        during.extend(load::run(writers, duration, plan.server()).await?.latency);
        lists += reading.await??;
    }
    let ms = |samples: &Samples| samples.quantile(0.999).as_secs_f64() * 1e3;
    println!(
        "write p99.9, {CLIENTS} clients: {:.1} ms alone (n={}), {:.1} ms during {lists} LISTs of {OBJECTS} (limit=500) (n={}): {:.2} times",
        ms(&alone),
        alone.len(),
        ms(&during),
        during.len(),
        ms(&during) / ms(&alone)
    );
    clear(&mut target.connect().await?).await
}

/// Lists everything page by page until the time is over; says how often.
async fn list_again(target: Target, duration: Duration) -> Result<usize> {
    const NEXT: &[u8] = b"\"continue\":\"";
    let mut wire = target.wire().await?;
    let begun = std::time::Instant::now();
    let mut lists = 0;
    while begun.elapsed() < duration {
        let mut token = String::new();
        loop {
            let ask = Ask::get(format!("{CONFIG_MAPS}?limit=500&continue={token}"));
            let body = wire.ok(&target.request(&ask)).await?;
            // Not parsed: that would hold up the writers of this process. No value of ours looks like it.
            let next = memchr::memmem::find(body, NEXT).map(|at| &body[at + NEXT.len()..]);
            match next.and_then(|rest| rest.split(|b| *b == b'"').next()) {
                Some(next) if !next.is_empty() => token = String::from_utf8(next.to_vec())?,
                _ => break,
            }
        }
        lists += 1;
    }
    Ok(lists)
}
