//! What a platform has left on the machine: nothing, after `vctl down`.
//!
//! It looks where the kernel keeps things, not where vctl says that it put them.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use regex::Regex;
use sha2::{Digest as _, Sha256};

use crate::{netns::command_inside, wait};

/// Everything that is there of a platform, one line each: processes, mounts and control groups of its data directory; devices, rules,
/// addresses, routes and processes in the network namespace of its worker, which is taken to be nobody else's.
///
/// # Errors
/// The machine cannot be looked at.
pub fn of(data_dir: &Path, netns: Option<&str>) -> Result<Vec<String>> {
    let mut found = Vec::new();
    processes(data_dir, &mut found)?;
    mounts(data_dir, &mut found)?;
    control_groups(&data_dir.join("worker"), &mut found);
    if let Some(netns) = netns {
        network(netns, &mut found)?;
    }
    Ok(found)
}

/// Wants that nothing is there. What was killed gets a moment to be gone.
///
/// # Errors
/// Something is left: with all of it.
pub fn nothing(data_dir: &Path, netns: Option<&str>) -> Result<()> {
    wait::until("nothing is left after vctl down", Duration::from_secs(5), || match of(data_dir, netns) {
        Ok(left) if left.is_empty() => Ok(()),
        Ok(left) => Err(left.join("\n")),
        Err(e) => Err(format!("{e:#}")),
    })
}

/// By their command line, and by their root: that of a container is below the data directory. What else is mounted for a process tells
/// nothing: a mount namespace that somebody makes has copies of all mounts there are.
fn processes(data_dir: &Path, found: &mut Vec<String>) -> Result<()> {
    let dir = data_dir.display().to_string();
    let own = Path::new("/proc/self").read_link().context("reading /proc/self")?;
    for entry in fs::read_dir("/proc").context("reading /proc")? {
        let path = entry?.path();
        let pid = path.file_name().unwrap_or_default();
        if pid == own.as_os_str() || !pid.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        // What ends meanwhile cannot be read and is gone.
        let read = |name: &str| fs::read(path.join(name)).unwrap_or_default();
        let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let mounts = String::from_utf8_lossy(&read("mountinfo")).into_owned();
        let root = mounts.lines().find(|mount| mount.split(' ').nth(4) == Some("/")).unwrap_or_default();
        if line.contains(&dir) || root.contains(&dir) {
            found.push(format!("process {}: {}", pid.to_string_lossy(), line.trim()));
        }
    }
    Ok(())
}

fn mounts(data_dir: &Path, found: &mut Vec<String>) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
    let below =
        table.lines().filter_map(|line| line.split(' ').nth(4)).filter(|at| Path::new(at).starts_with(data_dir));
    found.extend(below.map(|at| format!("mount {at}")));
    Ok(())
}

/// In the one hierarchy of version 2, or in each of version 1. A worker's group ends with what is told of its directory (agent/src/pods/cgroup.rs).
fn control_groups(worker: &Path, found: &mut Vec<String>) {
    let digest = Sha256::digest(worker.as_os_str().as_encoded_bytes());
    let suffix = format!("{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3]);
    let root = PathBuf::from("/sys/fs/cgroup");
    let below = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let hierarchies: Vec<PathBuf> = below(&root);
    for hierarchy in std::iter::once(&root).chain(&hierarchies) {
        let groups: Vec<PathBuf> = below(hierarchy);
        let of_it = |group: &&PathBuf| {
            group
                .file_name()
                .is_some_and(|n| n.to_str().is_some_and(|n| n.starts_with("vctl-") && n.ends_with(&suffix)))
        };
        found.extend(groups.iter().filter(of_it).map(|group| format!("control group {}", group.display())));
    }
}

fn network(netns: &str, found: &mut Vec<String>) -> Result<()> {
    let inside = |args: &[&str]| -> Result<String> {
        let (program, rest) = args.split_first().context("a program")?;
        let output = command_inside(Some(netns), program).args(rest).output().context("running nsenter")?;
        ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // The loopback device is what the namespace was made with, with its own addresses.
    for line in inside(&["ip", "-o", "link"])?.lines().filter(|line| !line.starts_with("1: lo:")) {
        found.push(format!("device {line}"));
    }
    let loopback = Regex::new(r"^1: lo +inet6? (127\.0\.0\.1/8|::1/128) ")?;
    for line in inside(&["ip", "-o", "address"])?.lines().filter(|line| !loopback.is_match(line)) {
        found.push(format!("address {line}"));
    }
    found.extend(inside(&["ip", "-4", "route"])?.lines().map(|line| format!("route {line}")));
    found.extend(inside(&["nft", "list", "tables"])?.lines().map(|line| format!("nft {line}")));
    let pids = Command::new("ip").args(["netns", "pids", netns]).output().context("running ip netns pids")?;
    let pids: BTreeSet<String> = String::from_utf8_lossy(&pids.stdout).lines().map(ToOwned::to_owned).collect();
    for pid in pids {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
        found.push(format!("process {pid} in the network namespace: {line}"));
    }
    Ok(())
}
