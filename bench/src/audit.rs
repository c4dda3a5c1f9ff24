//! The audit trail: changes with their entries.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};
use hyper::Method;
use vctl_tests::platform::{Platform, Workers};

use crate::{
    api,
    clients::Rest,
    creates::Creator,
    load::{self, Client},
    peers::RUNS,
    samples::{median, row},
    target::{Ask, Target},
    wire::{Numbered, Wire},
};

/// Stands for the number in a title.
const MARK: &str = "0#####0";
const CLIENTS: usize = 64;

/// A platform that records requests to its environments at this level, and nothing else of them.
fn platform(scratch: &Path, level: &str) -> Result<Platform> {
    let policy = scratch.join(format!("{level}.yaml"));
    let text = format!(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules:\n\
         - {{level: None, verbs: [get, list, watch]}}\n- {{level: {level}}}\n"
    );
    std::fs::write(&policy, text)?;
    let policy = policy.to_str().unwrap_or_default();
    Platform::start_configured(Workers::Simulated, &["--audit-policy-file", policy], &[])
}

/// A client that changes the title of a team of its own: one document and one entry, in one transaction.
struct Changer {
    wire: Wire,
    request: Numbered,
}

impl Client for Changer {
    async fn ask(&mut self, n: usize) -> Result<()> {
        self.wire.ok(self.request.with(n)).await?;
        Ok(())
    }
}

/// Changes of the platform; then changes inside of an environment, recorded and not, in turn.
pub(crate) async fn run(seconds: u64) -> Result<()> {
    let duration = Duration::from_secs(seconds);
    changes(duration).await?;
    let scratch = tempfile::tempdir()?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (recorded, silent) = (platform(scratch.path(), "Metadata")?, platform(scratch.path(), "None")?);
    for run in 0..RUNS {
        for (platform, rates, what) in [(&silent, &mut without, "not recorded"), (&recorded, &mut with, "recorded")] {
            if run == 0 {
                platform.create("bench", "blank", &[])?;
            }
            let target = Target::from_kubeconfig(&platform.kubeconfig("bench")?)?;
            api::prepare(&target).await?;
            let pid: Vec<u32> = platform.server_pid().into_iter().collect();
            let done = load::run(Creator::all(&target, run, CLIENTS).await?, duration, &pid).await?;
            println!("  creates, {what}, run {run}: {:.0}/s, {}; {}", done.rate(), done.latency.report(), done.cost());
            rates.push(done.rate());
        }
    }
    verify(&recorded)?;
    println!("creates in an environment, {CLIENTS} clients, not recorded: {} per second", row(&without));
    println!("the same, each with its entry (Metadata): {} per second", row(&with));
    println!("  ratio of the medians: {:.2}", median(with) / median(without));
    Ok(())
}

async fn changes(duration: Duration) -> Result<()> {
    let platform = Platform::start(Workers::None)?;
    let (address, ca, token) = Rest::parts(&platform)?;
    let target = Target::with_token(&address, &ca, &token)?;
    let pid: Vec<u32> = platform.server_pid().into_iter().collect();
    let mut rates = Vec::new();
    for run in 0..RUNS {
        let mut clients = Vec::with_capacity(CLIENTS);
        for number in 0..CLIENTS {
            let body = format!("{{\"title\": \"{run} {MARK}\"}}");
            let ask = Ask::send(Method::PUT, format!("/api/v1/teams/bench-{number}"), body);
            let request = Numbered::new(target.request(&ask), MARK);
            clients.push(Changer { wire: target.wire().await?, request });
        }
        let done = load::run(clients, duration, &pid).await?;
        println!("  changes, run {run}: {:.0}/s, {}; {}", done.rate(), done.latency.report(), done.cost());
        rates.push(done.rate());
    }
    verify(&platform)?;
    println!("changes of the platform, each with its audit entry, {CLIENTS} clients: {} per second", row(&rates));
    Ok(())
}

/// The chains are whole.
fn verify(platform: &Platform) -> Result<()> {
    let said = platform.vctl(&["audit", "verify"])?.ok()?;
    ensure!(said.contains("entries in"), "{said}");
    println!("  verified: {}", said.trim());
    Ok(())
}
