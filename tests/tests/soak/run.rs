//! One soak from its start to its end.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use kube_runtime::watcher::Config;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
    wait,
};

use crate::{
    check::Expectation,
    commands::{self, Helm, Outage, Rounds},
    cut::Way,
    load::{Load, NAMESPACES},
    program::{self, Program},
    record::{self, Cache, Journal, Kind, Record},
    rust_client::{self, Informer},
    summary::{self, Line},
    truth::{Lane, Resource, Truth},
};

const RATE: u32 = 500;
/// How long the informers may take to catch up in the end, on a machine that is busy with other things.
const CATCH_UP: Duration = Duration::from_mins(3);

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.soak.example.com}
spec:
  group: soak.example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                number: {type: integer}
                payload: {type: string}
";

/// What is done to the informers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Their connections break, history is compacted past what they know: they must list again.
    CutAndCompact,
    /// History is compacted while they watch: they must not notice.
    Compact,
    /// Their connections break: they must go on where they were.
    Cut,
    /// kill -9 of the server, and a start.
    Kill,
}

/// Faults one after the other, the one kill in the middle.
fn faults(length: Duration) -> Vec<Fault> {
    let count = usize::try_from(length.as_secs() / 15).unwrap_or_default().max(4);
    let turn = [Fault::CutAndCompact, Fault::Compact, Fault::Cut];
    let mut all: Vec<Fault> = (0..count).map(|number| turn[number % turn.len()]).collect();
    // Not in place of the first, which every informer must have seen.
    all[count / 2] = Fault::Kill;
    all
}

/// Everything that the faults are done to.
struct Soak<'a> {
    platform: Platform,
    runtime: Runtime,
    way: Way,
    load: Load,
    informers: Vec<Informer>,
    programs: Vec<Program>,
    outage: &'a Outage,
    /// When delivery was disturbed, in microseconds of the Unix epoch.
    disturbed: Vec<(i64, i64)>,
}

/// Runs a soak of about this length and prints what it found.
pub(crate) fn run(length: Duration) -> Result<()> {
    let outage = Outage::default();
    let (mut soak, direct) = start(&outage)?;
    let scratch = soak.platform.scratch().to_owned();
    let kubectls = [soak.platform.kubectl("1.33", "soak")?, soak.platform.kubectl("1.37", "soak")?];
    let helms =
        [Helm::new("1.31", &direct, scratch.join("helm-3"))?, Helm::new("1.33", &direct, scratch.join("helm-4"))?];

    let stop = AtomicBool::new(false);
    let (begun, commands) = thread::scope(|scope| -> Result<_> {
        let kubectl = scope.spawn(|| {
            let turn = AtomicUsize::new(0);
            commands::rounds("wait", &stop, &outage, |name| {
                commands::kubectl_round(&kubectls[turn.fetch_add(1, Ordering::SeqCst) % 2], name)
            })
        });
        let helm = scope.spawn(|| {
            let turn = AtomicUsize::new(0);
            commands::rounds("release", &stop, &outage, |name| {
                helms[turn.fetch_add(1, Ordering::SeqCst) % 2].round(name)
            })
        });
        let begun = Instant::now();
        let disturbed = soak.disturb(length, || {
            ensure!(!kubectl.is_finished() && !helm.is_finished(), "a command failed");
            Ok(())
        });
        stop.store(true, Ordering::SeqCst);
        // Their own failures say more than that one of them ended.
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Rounds>>| {
            thread.join().map_err(|_| anyhow!("a thread of commands panicked"))?
        };
        let commands = (join(kubectl)?, join(helm)?);
        disturbed?;
        Ok((begun, commands))
    })?;
    let unanswered = soak.load.unanswered();
    let took = begun.elapsed();
    let Soak { platform, runtime, load, informers, mut programs, disturbed, way: _way, .. } = soak;
    let mut truth = load.end(&runtime)?;
    let writes: usize = truth.iter().map(Truth::writes).sum();
    let objects = converge(&platform, &informers, &mut programs)?;
    informers.iter().for_each(Informer::end);

    let journals: Vec<Journal> =
        informers.iter().map(|i| i.journal.clone()).chain(programs.iter().flat_map(|p| p.journals.clone())).collect();
    let records: Vec<Vec<Record>> = journals.iter().map(Journal::records).collect();
    for (journal, records) in journals.iter().zip(&records) {
        journal.save()?;
        for record in records {
            if let Record::Event { kind: Kind::Deleted, item, .. } = record {
                truth[journal.resource as usize].saw_deletion(&item.key, item.version).context(journal.name.clone())?;
            }
        }
    }
    let mut lines = Vec::new();
    let mut failures = Vec::new();
    for (journal, records) in journals.iter().zip(&records) {
        match Expectation::new(&truth[journal.resource as usize], journal.lane).hold(records) {
            Ok(findings) => lines.push(Line::new(&journal.name, &findings, &disturbed)),
            Err(e) => failures.push(format!("{}: {e:#}", journal.name)),
        }
    }
    summary::print(
        &lines,
        writes,
        unanswered,
        took,
        objects,
        &[("kubectl wait", &commands.0), ("helm --wait", &commands.1)],
    );
    ensure!(failures.is_empty(), "{} informers saw what was not written:\n- {}", failures.len(), failures.join("\n- "));
    Ok(())
}

/// A platform with an environment, the load on it and all informers; the kubeconfig that cannot be cut.
fn start(outage: &Outage) -> Result<(Soak<'_>, PathBuf)> {
    let clients = program::clients()?;
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("soak", "blank", &[])?;
    let k = platform.kubectl("1.33", "soak")?;
    for namespace in NAMESPACES {
        k.ok(&["create", "namespace", namespace])?;
    }
    k.apply(DEFINITION)?;
    k.ok(&["wait", "--for=condition=Established", "customresourcedefinition/gadgets.soak.example.com"])?;

    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let scratch = platform.scratch().to_owned();
    let direct = platform.kubeconfig("soak")?;
    let way = Way::to(&runtime, platform.address())?;
    let cut = scratch.join("cut.kubeconfig");
    let through = std::fs::read_to_string(&direct)?.replace(platform.address(), &way.address().to_string());
    ensure!(through.contains(&way.address().to_string()), "the kubeconfig does not name {}", platform.address());
    std::fs::write(&cut, through)?;

    let load = Load::start(&runtime, &direct, RATE)?;
    let informers = rust_informers(&runtime, &direct, &cut)?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/soak/clients");
    // Node.js looks for packages beside the script.
    let beside = scratch.join("node");
    std::fs::create_dir(&beside)?;
    std::fs::copy(source.join("informer.mjs"), beside.join("informer.mjs"))?;
    std::os::unix::fs::symlink(clients.join("node_modules"), beside.join("node_modules"))?;
    let mut node = Command::new("node");
    node.arg(beside.join("informer.mjs"));
    let mut python = Command::new(clients.join("python/bin/python"));
    python.arg(source.join("informer.py"));
    let programs =
        vec![Program::start("node", node, &cut, &scratch)?, Program::start("python", python, &cut, &scratch)?];
    let soak = Soak { platform, runtime, way, load, informers, programs, outage, disturbed: Vec::new() };
    Ok((soak, direct))
}

/// Those of kube-rs: by lists in pages, by streaming lists, of one value of a label; and one whose connections are never cut.
fn rust_informers(runtime: &Runtime, direct: &Path, cut: &Path) -> Result<Vec<Informer>> {
    let (direct, cut) = (rust_client::client(runtime, direct)?, rust_client::client(runtime, cut)?);
    let paged = Config::default().page_size(100);
    let mut all = Vec::new();
    for resource in Resource::ALL {
        let mut add = |client, name, lane, config| {
            all.push(Informer::start(runtime, client, name, resource, lane, config));
        };
        add(&direct, "kube-rs uncut", None, paged.clone());
        add(&cut, "kube-rs list+watch", None, paged.clone());
        add(&cut, "kube-rs streaming", None, Config::default().streaming_lists());
        add(&cut, "kube-rs lane=a", Some(Lane::A), paged.clone());
    }
    Ok(all)
}

impl Soak<'_> {
    fn journals(&self) -> Vec<Journal> {
        let programs = self.programs.iter().flat_map(|p| p.journals.iter().cloned());
        self.informers.iter().map(|i| i.journal.clone()).chain(programs).collect()
    }

    /// One fault after the other, evenly over the length.
    fn disturb(&mut self, length: Duration, check: impl Fn() -> Result<()>) -> Result<()> {
        wait::until("every informer has listed", CATCH_UP, || {
            let late: Vec<String> =
                self.journals().into_iter().filter(|j| j.records().is_empty()).map(|j| j.name).collect();
            if late.is_empty() { Ok(()) } else { Err(format!("not {late:?}")) }
        })?;
        let faults = faults(length);
        let begun = Instant::now();
        let step = length / u32::try_from(faults.len() + 1)?;
        for (number, fault) in (1_u32..).zip(faults) {
            self.until(begun + step * number, &check)?;
            let from = record::now();
            self.perform(fault).with_context(|| format!("{fault:?}"))?;
            self.disturbed.push((from, record::now()));
        }
        self.until(begun + length, &check)
    }

    /// Looks after everything until a time.
    fn until(&mut self, time: Instant, check: &impl Fn() -> Result<()>) -> Result<()> {
        loop {
            check()?;
            self.load.check()?;
            self.programs.iter_mut().try_for_each(Program::check)?;
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(Duration::from_millis(200)));
        }
    }

    fn perform(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::CutAndCompact => {
                let before: Vec<usize> = self.journals().iter().map(Journal::expired).collect();
                self.way.cut();
                self.written(100)?;
                self.compact()?;
                self.way.mend();
                let journals = self.journals();
                wait::until("every informer that was cut is told 410", CATCH_UP, || {
                    let late = journals.iter().zip(&before).filter(|(j, before)| j.expired() == **before);
                    let late: Vec<&str> = late.map(|(j, _)| j.name.as_str()).filter(|n| !n.contains("uncut")).collect();
                    if late.is_empty() { Ok(()) } else { Err(format!("not {late:?}")) }
                })
            }
            Fault::Compact => self.compact(),
            Fault::Cut => {
                self.way.cut();
                let done = self.written(50);
                self.way.mend();
                done
            }
            Fault::Kill => {
                self.outage.begins();
                let back = self.platform.kill_server().and_then(|()| self.platform.start_server());
                self.outage.ends();
                back
            }
        }
    }

    fn compact(&self) -> Result<()> {
        self.platform.vctl(&["compact", "soak"])?.ok().map(drop)
    }

    /// Waits until so many more objects of each resource were written.
    fn written(&self, more: u64) -> Result<()> {
        let before = Resource::ALL.map(|r| self.load.acknowledged(r));
        wait::until("writes go on", CATCH_UP, || {
            let now = Resource::ALL.map(|r| self.load.acknowledged(r));
            let enough = before.iter().zip(&now).all(|(before, now)| now - before >= more);
            if enough { Ok(()) } else { Err(format!("{before:?}, {now:?}")) }
        })
    }
}

/// What a list answers.
fn list(k: &Kubectl, resource: Resource, lane: Option<Lane>) -> Result<Cache> {
    let label = lane.map_or(String::new(), |lane| format!("--selector=lane={}", lane.name()));
    let mut args = vec!["get", resource.name(), "--all-namespaces", "--output=json"];
    args.extend((!label.is_empty()).then_some(label.as_str()));
    let list: Value = serde_json::from_str(&k.ok(&args)?)?;
    let text = |object: &Value, name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    let entry = |object: &Value| {
        let version = text(object, "resourceVersion").parse().context("a resourceVersion")?;
        Ok((format!("{}/{}", text(object, "namespace"), text(object, "name")), version))
    };
    list["items"].as_array().context("a list")?.iter().map(entry).collect()
}

/// Waits until every informer holds what a list answers; the number of objects.
fn converge(platform: &Platform, informers: &[Informer], programs: &mut [Program]) -> Result<usize> {
    let k = platform.kubectl("1.33", "soak")?;
    let mut lists = BTreeMap::new();
    for resource in Resource::ALL {
        for lane in [None, Some(Lane::A)] {
            lists.insert((resource, lane), list(&k, resource, lane)?);
        }
    }
    let same = |what: &str, journal: &Journal, cache: &Cache| -> Result<(), String> {
        let list = lists.get(&(journal.resource, journal.lane)).ok_or("no list")?;
        if cache == list {
            return Ok(());
        }
        let lacks = list.iter().find(|(key, version)| cache.get(*key) != Some(version));
        let more = cache.iter().find(|(key, _)| !list.contains_key(*key));
        let (name, last) = (&journal.name, journal.last_failure());
        Err(format!("{what} of {name}: lacks {lacks:?}, has too much {more:?}; last failure: {last:?}"))
    };
    wait::until("every cache is the final list", CATCH_UP, || {
        for informer in informers {
            let cache = informer.cache().map_err(|e| e.to_string())?;
            same("the cache", &informer.journal, &cache)?;
        }
        for program in &mut *programs {
            let caches = program.caches().map_err(|e| e.to_string())?;
            for (journal, (cache, handled)) in program.journals.iter().zip(caches) {
                same("the cache", journal, &cache)?;
                same("what handlers keep", journal, &handled)?;
            }
        }
        Ok(())
    })?;
    Ok(Resource::ALL.iter().filter_map(|r| lists.get(&(*r, None))).map(Cache::len).sum())
}
