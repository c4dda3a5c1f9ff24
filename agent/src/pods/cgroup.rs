//! Each container's own control group, above the one its runtime makes: it outlives the container's end, so that the end can be explained.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sha2::{Digest as _, Sha256};

const ROOT: &str = "/sys/fs/cgroup";

/// Group of an agent. Agents of one machine may have the same name, but not the same state directory.
pub(crate) fn root(worker: &str, state_dir: &Path) -> String {
    format!("/vctl-{worker}-{}", &hex::encode(Sha256::digest(state_dir.as_os_str().as_encoded_bytes()))[..8])
}

/// Path of the group, as Podman's `cgroup_parent` and below each hierarchy.
pub(crate) fn path(root: &str, uid: &str, container: &str, attempt: u32) -> String {
    format!("{root}/{uid}/{container}-{attempt}")
}

/// Version 2 has one hierarchy; version 1 one per controller.
fn unified() -> bool {
    Path::new(ROOT).join("cgroup.controllers").exists()
}

fn file(controller: &str, group: &str, name: &str) -> PathBuf {
    let base = if unified() { PathBuf::from(ROOT) } else { Path::new(ROOT).join(controller) };
    base.join(group.trim_start_matches('/')).join(name)
}

fn number(path: &Path) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn keyed(path: &Path, key: &str) -> Option<i64> {
    fs::read_to_string(path).ok()?.lines().find_map(|l| l.strip_prefix(key)?.trim().parse().ok())
}

/// Whether a container that was killed with this memory limit ran out of memory. Version 2 counts that; version 1 counts it in the
/// runtime's group, which is gone by now, so that the highest use ever seen has to tell.
pub(crate) fn out_of_memory(group: &str, limit: Option<i64>) -> bool {
    if unified() {
        return keyed(&file("", group, "memory.events"), "oom_kill ").is_some_and(|n| n > 0);
    }
    let Some(limit) = limit else { return false };
    // The kernel charges in batches of pages and counts the container's monitor too.
    number(&file("memory", group, "memory.max_usage_in_bytes")).is_some_and(|peak| peak >= limit - limit / 100)
}

/// Processor time used so far in nanoseconds, and the working set in bytes.
pub(crate) fn usage(group: &str) -> Option<(i64, i64)> {
    if unified() {
        let cpu = keyed(&file("", group, "cpu.stat"), "usage_usec ")? * 1000;
        let memory = number(&file("", group, "memory.current"))?;
        let inactive = keyed(&file("", group, "memory.stat"), "inactive_file ").unwrap_or(0);
        return Some((cpu, (memory - inactive).max(0)));
    }
    let cpu = number(&file("cpuacct", group, "cpuacct.usage"))?;
    let memory = number(&file("memory", group, "memory.usage_in_bytes"))?;
    let inactive = keyed(&file("memory", group, "memory.stat"), "total_inactive_file ").unwrap_or(0);
    Some((cpu, (memory - inactive).max(0)))
}

/// Removes a group whose containers have been removed. Monitors that have not ended within a second are killed: Podman lets those of
/// exec sessions linger.
pub(crate) async fn remove_patiently(group: &str) {
    for round in 0..60 {
        if remove(group) {
            return;
        }
        if round >= 20 {
            let hierarchy = if unified() { PathBuf::from(ROOT) } else { Path::new(ROOT).join("pids") };
            kill_below(&hierarchy.join(group.trim_start_matches('/')));
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    tracing::warn!(group, "a control group still has processes and is left");
}

/// Removes a group with all below it, in every hierarchy. What still has processes stays: then false.
pub(crate) fn remove(group: &str) -> bool {
    let relative = group.trim_start_matches('/');
    let hierarchies: Vec<PathBuf> = if unified() {
        vec![PathBuf::from(ROOT)]
    } else {
        fs::read_dir(ROOT).into_iter().flatten().flatten().map(|e| e.path()).collect()
    };
    let mut gone = true;
    for hierarchy in hierarchies {
        let dir = hierarchy.join(relative);
        remove_below(&dir);
        gone &= !dir.exists();
    }
    gone
}

fn kill_below(dir: &Path) {
    for pid in fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines().filter_map(|l| l.parse().ok()) {
        // It may have ended by itself meanwhile.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            kill_below(&entry.path());
        }
    }
}

fn remove_below(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_below(&entry.path());
        }
    }
    let _ = fs::remove_dir(dir);
}
