//! Reads of one object beside a file of the same bytes from nginx.

use std::{path::Path, time::Duration};

use anyhow::Result;
use hyper::Method;

use crate::{
    api::{CONFIG_MAPS, config_map},
    load::{self, Client},
    nginx::Nginx,
    peers::{Plan, RUNS, fresh},
    samples::{median, row},
    target::{Ask, Target},
    wire::Wire,
};

/// A client that reads one path.
struct Reader {
    wire: Wire,
    request: Vec<u8>,
}

impl Reader {
    async fn all(target: &Target, path: &str, count: usize) -> Result<Vec<Self>> {
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(Self { wire: target.wire().await?, request: target.request(&Ask::get(path)) });
        }
        Ok(all)
    }
}

impl Client for Reader {
    async fn ask(&mut self, _: usize) -> Result<()> {
        self.wire.ok(&self.request).await?;
        Ok(())
    }
}

/// GETs of one object, and of the same bytes from nginx in turn.
pub(crate) async fn beside_nginx(target: &Target, plan: &Plan, duration: Duration, scratch: &Path) -> Result<()> {
    const CLIENTS: usize = 16;
    let path = format!("{CONFIG_MAPS}/one");
    let mut control = target.connect().await?;
    control.ok(Ask::send(Method::POST, CONFIG_MAPS, config_map("one"))).await?;
    let body = control.ok(Ask::get(path.clone())).await?;
    let nginx = if plan.peers { Some(Nginx::start(&fresh(scratch, "nginx")?, &body).await?) } else { None };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let done = load::run(Reader::all(target, &path, CLIENTS).await?, duration, plan.server()).await?;
        println!(
            "  GETs, {CLIENTS} clients, run {run}: {:.0}/s, {}; {}",
            done.rate(),
            done.latency.report(),
            done.cost()
        );
        ours.push(done.rate());
        if let Some(nginx) = &nginx {
            let readers = Reader::all(&nginx.target, "/object", CLIENTS).await?;
            let done = load::run(readers, duration, &nginx.workers()?).await?;
            println!(
                "  nginx, {CLIENTS} clients, run {run}: {:.0}/s, {}; {}",
                done.rate(),
                done.latency.report(),
                done.cost()
            );
            theirs.push(done.rate());
        }
    }
    println!("GET of a ConfigMap, {CLIENTS} clients: {} per second", row(&ours));
    if !theirs.is_empty() {
        println!("GET of the same bytes from nginx over TLS, {CLIENTS} clients: {} per second", row(&theirs));
        println!("  ratio of the medians: {:.2}", median(ours) / median(theirs));
    }
    Ok(())
}
