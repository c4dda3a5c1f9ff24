//! The containers of a worker as Podman itself knows them, past the agent and the server.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{
    image,
    kubectl::{Output, finish},
};

/// A running container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its name in Podman.
    pub name: String,
    /// Process id of its first process, on the machine.
    pub pid: u64,
    /// When that process was started, in seconds since 1970: a container that was restarted has another time.
    pub started: u64,
}

/// The running containers of a worker (`worker` is its state directory) by id, those that only hold a pod's network too.
///
/// # Errors
/// Podman fails.
pub fn running(worker: &Path) -> Result<BTreeMap<String, Container>> {
    let list = podman(worker, &["ps", "--no-trunc", "--format", "json"])?.ok()?;
    let list: Vec<Value> = serde_json::from_str(&list).context("podman ps prints JSON")?;
    list.iter()
        .map(|one| {
            let number = |key: &str| one[key].as_u64().with_context(|| format!("{key} in {one}"));
            let name = one["Names"][0].as_str().with_context(|| format!("Names in {one}"))?.to_owned();
            let id = one["Id"].as_str().with_context(|| format!("Id in {one}"))?.to_owned();
            Ok((id, Container { name, pid: number("Pid")?, started: number("StartedAt")? }))
        })
        .collect()
}

/// Runs `podman` on the storage of a worker.
///
/// # Errors
/// It cannot be started.
pub fn podman(worker: &Path, args: &[&str]) -> Result<Output> {
    let mut command = Command::new("podman");
    command
        .args(image::podman_args(worker))
        .args(["--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file"])
        .args(args);
    finish(command)
}
