//! How long it takes until watchers see a write.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use hyper::Method;
use serde_json::{Value, json};

use crate::{
    api::{CONFIG_MAPS, NAMESPACE, clear},
    load,
    samples::Samples,
    target::{Ask, Target},
};

/// What a watcher looks for in the bytes it gets: the moment of the write, in nanoseconds since the run began.
const MARK: &[u8] = b"\"sent\":\"";
const DIGITS: usize = 20;
const ARRIVE: Duration = Duration::from_secs(20);

/// `watchers` watch the namespace while `rate` writes happen in each of `seconds`.
pub(crate) async fn run(target: &Target, watchers: usize, rate: u32, seconds: u32) -> Result<()> {
    let mut writer = target.connect().await?;
    clear(&mut writer).await?;
    let list: Value = serde_json::from_slice(&writer.ok(Ask::get(format!("{CONFIG_MAPS}?limit=1"))).await?)?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("a resourceVersion")?.to_owned();
    let (base, total) = (Instant::now(), (rate * seconds) as usize);
    let arrived = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let mut wire = target.wire().await?;
        let ask = Ask::get(format!("{CONFIG_MAPS}?watch=true&resourceVersion={revision}&timeoutSeconds=600"));
        wire.open(&target.request(&ask)).await?;
        let arrived = arrived.clone();
        tasks.push(load::spawn(async move {
            let mut latency = Samples::default();
            let mut rest: Vec<u8> = Vec::new();
            while latency.len() < total {
                let data = wire.chunk().await.context("a watch ended early")?;
                let now = base.elapsed();
                rest.extend_from_slice(data);
                let mut from = 0;
                while let Some(at) = find(&rest[from..]) {
                    let digits = from + at + MARK.len();
                    if rest.len() < digits + DIGITS {
                        break;
                    }
                    let sent: u64 = std::str::from_utf8(&rest[digits..digits + DIGITS])?.parse()?;
                    latency.push(now.saturating_sub(Duration::from_nanos(sent)));
                    from = digits + DIGITS;
                }
                // A mark may be cut by the end of a frame.
                let keep = rest.len().saturating_sub(MARK.len() + DIGITS).max(from);
                rest.drain(..keep);
            }
            arrived.fetch_add(1, Ordering::Relaxed);
            anyhow::Ok(latency)
        }));
    }
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let mut written = Samples::default();
    for n in 0..total {
        ticks.tick().await;
        let begun = Instant::now();
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("w-{n}"), "namespace": NAMESPACE },
            "data": { "sent": format!("{:0width$}", base.elapsed().as_nanos(), width = DIGITS) },
        });
        writer.ok(Ask::send(Method::POST, CONFIG_MAPS, object.to_string())).await?;
        written.push(begun.elapsed());
    }
    let mut delivered = Samples::default();
    let deadline = tokio::time::Instant::now() + ARRIVE;
    for task in tasks {
        let Ok(latency) = tokio::time::timeout_at(deadline, task).await else {
            bail!("{} of {watchers} watchers saw all writes within {ARRIVE:?}", arrived.load(Ordering::Relaxed));
        };
        delivered.extend(latency??);
    }
    let ms = |samples: &Samples, q| samples.quantile(q).as_secs_f64() * 1e3;
    println!(
        "{watchers} watchers at {rate} writes/s: delivery median {:.1} ms, p99 {:.1} ms, max {:.1} ms ({} events); write median {:.1} ms, p99 {:.1} ms",
        ms(&delivered, 0.5),
        ms(&delivered, 0.99),
        ms(&delivered, 1.0),
        delivered.len(),
        ms(&written, 0.5),
        ms(&written, 0.99)
    );
    clear(&mut writer).await
}

fn find(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, MARK)
}
