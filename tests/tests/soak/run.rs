//! One soak from its start to its end.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::Value;
use vctl_tests::{kubectl::Kubectl, platform::Platform, wait};

use crate::{
    check::Expectation,
    commands::{self, Helm, Outage, Rounds},
    faults::CATCH_UP,
    kubectl_watch::KubectlWatch,
    program::Program,
    record::{Cache, Journal, Kind, Record},
    rust_client::{self, Informer},
    soak::{self, Soak},
    summary::{self, Line},
    truth::{Lane, Resource, Truth},
};

/// Runs a soak of about this length and prints what it found.
pub(crate) fn run(length: Duration) -> Result<()> {
    let outage = Outage::default();
    let (mut soak, direct) = soak::start(&outage)?;
    let scratch = soak.platform.scratch().to_owned();
    let kubectls = [soak.platform.kubectl("1.33", "soak")?, soak.platform.kubectl("1.37", "soak")?];
    let helms =
        [Helm::new("1.31", &direct, scratch.join("helm-3"))?, Helm::new("1.33", &direct, scratch.join("helm-4"))?];

    let client = rust_client::client(&soak.runtime, &direct)?;
    let runtime = soak.runtime.handle().clone();
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
        let prune = scope.spawn(|| {
            commands::rounds("prune", &stop, &outage, |name| {
                commands::prune_round(&kubectls[0], &client, &runtime, name)
            })
        });
        let begun = Instant::now();
        let disturbed = soak.disturb(length, || {
            ensure!(![&kubectl, &helm, &prune].iter().any(|t| t.is_finished()), "a command failed");
            Ok(())
        });
        stop.store(true, Ordering::SeqCst);
        // Their own failures say more than that one of them ended.
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Rounds>>| {
            thread.join().map_err(|_| anyhow!("a thread of commands panicked"))?
        };
        let commands = [join(kubectl)?, join(helm)?, join(prune)?];
        disturbed?;
        Ok((begun, commands))
    })?;
    let unanswered = soak.load.unanswered();
    let took = begun.elapsed();
    let Soak { platform, runtime, load, informers, mut programs, mut watches, disturbed, way: _way, .. } = soak;
    let mut truth = load.end(&runtime)?;
    let writes: usize = truth.iter().map(Truth::writes).sum();
    let objects = converge(&platform, &informers, &mut programs, &watches)?;
    watches.iter_mut().try_for_each(KubectlWatch::end)?;
    informers.iter().for_each(Informer::end);

    let mut journals: Vec<Journal> = informers.iter().map(|i| i.journal.clone()).collect();
    journals.extend(programs.iter().flat_map(|p| p.journals.clone()));
    journals.extend(watches.iter().map(|w| w.journal.clone()));
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
    summary::print(&lines, journals.len(), writes, unanswered, took, objects, &commands);
    ensure!(failures.is_empty(), "{} informers saw what was not written:\n- {}", failures.len(), failures.join("\n- "));
    Ok(())
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
fn converge(
    platform: &Platform,
    informers: &[Informer],
    programs: &mut [Program],
    watches: &[KubectlWatch],
) -> Result<usize> {
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
        for KubectlWatch { journal, .. } in watches {
            let uncut = informers.iter().find(|i| i.journal.resource == journal.resource).ok_or("no informer")?;
            let (far, newest) = (journal.newest(), uncut.journal.newest());
            if far < newest {
                return Err(format!("{} is at {far:?} of {newest:?}", journal.name));
            }
        }
        Ok(())
    })?;
    Ok(Resource::ALL.iter().filter_map(|r| lists.get(&(*r, None))).map(Cache::len).sum())
}
