//! What survives `kill -9` and SIGTERM.

mod podman;
mod starting;
mod stopped;
mod terminated_podman;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vctl_tests::{
    burst::{self, Burst},
    kubectl::Kubectl,
    platform::{Platform, Workers},
};

/// Requests that are under way when the server is killed.
const AT_ONCE: usize = 200;
/// Creates that are acknowledged before: each connection has had one on average.
const ENOUGH: usize = 200;

/// 200 creates are in flight when the server gets SIGKILL; whatever was acknowledged is there after the restart, with the
/// resourceVersion that was told, and no resourceVersion is issued twice.
#[test]
fn acknowledged_objects_survive_a_kill_of_the_server() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let kubeconfig = platform.kubeconfig("dev")?;
    let k = platform.kubectl("1.33", "dev")?;
    // Twice: the second time, the data file is one that a kill has left behind.
    let mut all = Burst::default();
    for round in ["first", "second"] {
        let burst = burst::creates_until(&kubeconfig, round, AT_ONCE, ENOUGH, || platform.kill_server())?;
        ensure!(burst.cut_off == AT_ONCE, "{} of {AT_ONCE} requests were cut off", burst.cut_off);
        all.acknowledged.extend(burst.acknowledged);
        all.cut_off += burst.cut_off;
        platform.start_server()?;
        nothing_is_lost(&k, &all)?;
    }
    Ok(())
}

/// Everything that was acknowledged is there as it was told; what is more was under way; what comes next gets a new revision.
pub(crate) fn nothing_is_lost(k: &Kubectl, burst: &Burst) -> Result<()> {
    ensure!(!burst.acknowledged.is_empty(), "nothing was acknowledged before the end");
    let list: Value = serde_json::from_str(&k.ok(&["get", "--raw", &path(k, "configmaps")?])?)?;
    let there: BTreeMap<&str, &str> = list["items"]
        .as_array()
        .context("a list")?
        .iter()
        .filter_map(|o| Some((o["metadata"]["name"].as_str()?, o["metadata"]["resourceVersion"].as_str()?)))
        .filter(|(name, _)| name.starts_with("first-") || name.starts_with("second-"))
        .collect();
    let wrong: Vec<_> = burst
        .acknowledged
        .iter()
        .filter(|(name, version)| there.get(name.as_str()) != Some(&version.as_str()))
        .collect();
    ensure!(wrong.is_empty(), "lost or changed: {wrong:?}");
    let more = there.len() - burst.acknowledged.len();
    ensure!(more <= burst.cut_off, "{more} objects more than were asked for");
    let version = |text: &str| text.parse::<u64>().with_context(|| format!("resourceVersion {text:?}"));
    let newest = there.values().map(|v| version(v)).collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or_default();
    let next = k.ok(&["create", "configmap", "after", "-o", "jsonpath={.metadata.resourceVersion}"])?;
    ensure!(version(&next)? > newest, "revision {next} was issued again: {newest} is in use");
    k.ok(&["delete", "configmap", "after"])?;
    Ok(())
}

/// The path of a resource in namespace `default` for `kubectl get --raw`, which takes the whole path of the URL.
fn path(k: &Kubectl, resource: &str) -> Result<String> {
    let server = k.ok(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    let prefix = server.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    Ok(format!("/{prefix}/api/v1/namespaces/default/{resource}"))
}

/// SIGTERM: exits with 0, and everything is there afterwards.
#[test]
fn sigterm_ends_cleanly() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    platform.kubectl("1.33", "dev")?.ok(&["create", "configmap", "kept"])?;
    assert_eq!(platform.stop_server()?, 0);
    let down = platform.vctl(&["list"])?;
    ensure!(down.code != 0 && down.stderr.contains("vctl up"), "says how to start the server: {down:?}");
    platform.start_server()?;
    platform.kubectl("1.33", "dev")?.ok(&["get", "configmap", "kept"])?;
    Ok(())
}
