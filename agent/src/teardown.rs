//! Removes everything an agent has made on this machine.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nix::mount::{MntFlags, umount2};

use crate::{
    error::{AgentError, state},
    files,
    network::{self, DEVICE_PREFIX},
    podman::service::{Paths, end_recorded},
    pods::cgroup,
    volumes::PersistentVolumes,
};

/// Mount points below a directory, deepest first.
fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut all: Vec<PathBuf> = table
        .lines()
        .filter_map(|l| l.split(' ').nth(4))
        .map(|p| PathBuf::from(p.replace("\\040", " ")))
        .filter(|p| p.starts_with(dir))
        .collect();
    all.sort_by_key(|p| std::cmp::Reverse(p.as_os_str().len()));
    all
}

/// Removes all pods, namespaces, devices, rules, mounts and Podman's storage of the agent with this state directory, and the directory
/// itself, unless there are volumes: their data stays for the next agent. The agent must have ended. Fine when there is nothing; can be repeated after a failure. Call it in the network namespace
/// the agent ran in.
///
/// # Errors
/// The first thing that could not be removed.
pub async fn teardown(state_dir: &Path) -> Result<(), AgentError> {
    if !state_dir.exists() {
        return Ok(());
    }
    let paths = Paths::new(state_dir);
    end_recorded(&paths).await;
    let names = state_dir.join("worker");
    if paths.root().exists() {
        let mut command = paths.command().map_err(state("making", &paths.work()))?;
        match command.args(["rm", "--all", "--force", "--time=0", "--volumes"]).output().await {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(AgentError::Podman(crate::podman::PodmanError::Start(e.to_string()))),
            Ok(done) if done.status.success() => {}
            Ok(done) => {
                let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                return Err(AgentError::Podman(crate::podman::PodmanError::Refused {
                    status: 500,
                    message: format!("removing containers: {why}"),
                }));
            }
        }
    }
    if let Some(worker) = files::read_if_present(&names).map_err(state("reading", &names))? {
        cgroup::remove_patiently(&cgroup::root(String::from_utf8_lossy(&worker).trim(), state_dir)).await;
    }
    network(state_dir).await?;
    for mount in mounts_below(state_dir) {
        umount2(&mount, MntFlags::MNT_DETACH).map_err(|e| state("unmounting", &mount)(e.into()))?;
    }
    let volumes = PersistentVolumes::root(state_dir);
    for entry in fs::read_dir(state_dir).map_err(state("reading", state_dir))? {
        let path = entry.map_err(state("reading", state_dir))?.path();
        if path == volumes {
            // Fails when there are any.
            let _ = fs::remove_dir(&path);
        } else if path.is_dir() {
            files::remove_tree(&path).map_err(state("removing", &path))?;
        } else {
            fs::remove_file(&path).map_err(state("removing", &path))?;
        }
    }
    if volumes.exists() { Ok(()) } else { fs::remove_dir(state_dir).map_err(state("removing", state_dir)) }
}

/// Devices, the table, the worker's address, and forwarding as it was.
async fn network(state_dir: &Path) -> Result<(), AgentError> {
    let before = state_dir.join("ip-forward-before");
    let Some(old) = files::read_if_present(&before).map_err(state("reading", &before))? else { return Ok(()) };
    for name in network::devices() {
        if name.starts_with(DEVICE_PREFIX) && name.len() == DEVICE_PREFIX.len() + 12 {
            network::tool("ip", &["link", "del", &name], "").await?;
        }
    }
    network::tool("nft", &["-f", "-"], "table ip vctl {}\ndelete table ip vctl\n").await?;
    let address = state_dir.join("worker-address");
    if let Some(node) = files::read_if_present(&address).map_err(state("reading", &address))? {
        // It may be gone already, with the namespace it was in.
        let _ = network::tool(
            "ip",
            &["addr", "del", &format!("{}/32", String::from_utf8_lossy(&node).trim()), "dev", "lo"],
            "",
        )
        .await;
    }
    let forward = Path::new("/proc/sys/net/ipv4/ip_forward");
    fs::write(forward, old).map_err(state("writing", forward))
}
