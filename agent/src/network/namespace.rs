//! Network namespaces that live by a bind mount, as `ip netns` makes them.

use std::{
    fs, io,
    io::Write as _,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, setns, unshare},
    sys::statfs::statfs,
};
use tokio::sync::oneshot;

use crate::error::AgentError;

/// File system type of a mounted namespace (linux/magic.h).
const NSFS_MAGIC: i64 = 0x6e73_6673;

pub(crate) fn is_mounted(path: &Path) -> bool {
    statfs(path).is_ok_and(|s| s.filesystem_type().0 == NSFS_MAGIC)
}

/// Runs a function on a thread of its own, because a thread that has changed its namespace cannot be used for anything else.
async fn on_own_thread<T: Send + 'static>(f: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let (done, wait) = oneshot::channel();
    std::thread::Builder::new().name("netns".into()).spawn(move || done.send(f()))?;
    wait.await.map_err(|_| io::Error::other("the thread for a network namespace ended early"))?
}

/// Creates a namespace with these sysctls and mounts it at `path`; or mounts there the one that a process is still in.
pub(crate) async fn create(path: &Path, pid: Option<i32>, sysctls: Vec<(String, String)>) -> Result<(), AgentError> {
    let target = path.to_owned();
    on_own_thread(move || {
        let source = match pid {
            Some(pid) => format!("/proc/{pid}/ns/net"),
            None => {
                unshare(CloneFlags::CLONE_NEWNET)?;
                for (name, value) in sysctls {
                    set(&name, &value)?;
                }
                // Only IPv4 is routed to pods: without this they would reach the worker by link-local addresses.
                for which in ["all", "default"] {
                    if Path::new("/proc/sys/net/ipv6").exists() {
                        set(&format!("net.ipv6.conf.{which}.disable_ipv6"), "1")?;
                    }
                }
                // As other runtimes do: a process that is not root may listen on port 80.
                set("net.ipv4.ip_unprivileged_port_start", "0")?;
                "/proc/thread-self/ns/net".to_owned()
            }
        };
        fs::File::create(&target)?;
        mount(Some(source.as_str()), &target, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
        Ok(())
    })
    .await
    .map_err(|e| AgentError::Network(format!("creating the network namespace {}: {e}", path.display())))
}

fn set(name: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::write(&path, value).map_err(|e| io::Error::new(e.kind(), format!("sysctl {name}: {e}")))
}

/// Runs a batch of `ip` commands inside a namespace. (`ip -n` takes names below /run/netns only.)
pub(crate) async fn ip(path: &Path, batch: String) -> Result<(), AgentError> {
    let target = path.to_owned();
    on_own_thread(move || {
        setns(fs::File::open(&target)?, CloneFlags::CLONE_NEWNET)?;
        let mut child = Command::new("ip")
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(batch.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if output.status.success() {
            Ok(())
        } else {
            Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
        }
    })
    .await
    .map_err(|e| AgentError::Network(format!("setting up the network namespace {}: {e}", path.display())))
}

/// Unmounts and removes; fine when it is not there.
pub(crate) fn remove(path: &Path) -> Result<(), AgentError> {
    if is_mounted(path) {
        umount2(path, MntFlags::MNT_DETACH)
            .map_err(|e| AgentError::Network(format!("unmounting {}: {e}", path.display())))?;
    }
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(AgentError::Network(format!("removing {}: {e}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Connects from inside a namespace: the connection is the pod's own, also to what listens on its loopback address only.
pub(crate) async fn connect(path: &Path, address: SocketAddr, limit: Duration) -> io::Result<tokio::net::TcpStream> {
    let path = path.to_owned();
    let stream = on_own_thread(move || {
        setns(fs::File::open(&path)?, CloneFlags::CLONE_NEWNET)?;
        std::net::TcpStream::connect_timeout(&address, limit)
    })
    .await?;
    stream.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(stream)
}
