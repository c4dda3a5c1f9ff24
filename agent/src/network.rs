//! The worker's network: one namespace per pod, routed /32 addresses, and one nftables table.
//!
//! The worker's own address (first of the range) is on `lo`; it is every pod's gateway, resolver and way to its API server. Each pod
//! has a veth pair and a host route, so that even pod-to-pod traffic passes the forward hook where environments are kept apart.

pub(crate) mod addresses;
pub(crate) mod namespace;
pub(crate) mod rules;

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Mutex, PoisonError},
};

use sha2::{Digest as _, Sha256};
use tokio::{io::AsyncWriteExt as _, process::Command};
use vctl_api::agent::Service;

use self::{
    addresses::Addresses,
    rules::{PodPort, Rules},
};
use crate::{config::PodCidr, error::AgentError};

/// The device names of pods begin with this.
pub(crate) const DEVICE_PREFIX: &str = "vc";

/// Namespaces, addresses and rules of all pods.
pub(crate) struct Network {
    cidr: PodCidr,
    run: PathBuf,
    addresses: Mutex<Addresses>,
    rules: Mutex<Rules>,
    /// One nft transaction at a time, each with the newest rules.
    applying: tokio::sync::Mutex<()>,
}

/// Runs a tool with text on its standard input.
pub(crate) async fn tool(program: &str, arguments: &[&str], input: &str) -> Result<(), AgentError> {
    let failed = |why: String| AgentError::Network(format!("{program} {}: {why}", arguments.join(" ")));
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed(e.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that ends early closes its input; its own message says why.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = child.wait_with_output().await.map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// Whether this namespace has a device. Asked of the thread's own namespace: sysfs would show the one it was mounted in.
pub(crate) fn has_device(name: &str) -> bool {
    devices().iter().any(|d| d == name)
}

/// Names of all devices of this namespace.
pub(crate) fn devices() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    table.lines().filter_map(|l| l.split_once(':')).map(|(name, _)| name.trim().to_owned()).collect()
}

/// Name of the pod's device on the worker's side: short enough for the kernel, and the same after a restart.
fn device(uid: &str) -> String {
    format!("{DEVICE_PREFIX}{}", &hex::encode(Sha256::digest(uid))[..12])
}

impl Network {
    /// Prepares the worker: its address, forwarding, and an empty table.
    pub(crate) async fn open(state_dir: &Path, cidr: PodCidr) -> Result<Self, AgentError> {
        let run = state_dir.join("run/netns");
        std::fs::create_dir_all(&run).map_err(crate::error::state("creating", &run))?;
        let addresses = Addresses::open(state_dir.join("addresses.json"), cidr)?;
        let forward = "/proc/sys/net/ipv4/ip_forward";
        let before = state_dir.join("ip-forward-before");
        if !before.exists() {
            let old = std::fs::read(forward).unwrap_or_else(|_| b"1".to_vec());
            std::fs::write(&before, old).map_err(crate::error::state("writing", &before))?;
        }
        std::fs::write(forward, b"1").map_err(|e| AgentError::Network(format!("switching IP forwarding on: {e}")))?;
        let node = cidr.node_ip();
        let address = state_dir.join("worker-address");
        std::fs::write(&address, node.to_string()).map_err(crate::error::state("writing", &address))?;
        tool("ip", &["-batch", "-"], &format!("link set lo up\naddr replace {node}/32 dev lo\n")).await?;
        Ok(Self {
            cidr,
            run,
            addresses: Mutex::new(addresses),
            rules: Mutex::new(Rules::new(cidr)),
            applying: tokio::sync::Mutex::new(()),
        })
    }

    fn rules<R>(&self, f: impl FnOnce(&mut Rules) -> R) -> R {
        f(&mut self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn addresses<R>(&self, f: impl FnOnce(&mut Addresses) -> R) -> R {
        f(&mut self.addresses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn node_ip(&self) -> Ipv4Addr {
        self.cidr.node_ip()
    }

    pub(crate) fn namespace_path(&self, uid: &str) -> PathBuf {
        self.run.join(uid)
    }

    /// The pod's address, when it has one.
    pub(crate) fn address(&self, uid: &str) -> Option<Ipv4Addr> {
        self.addresses(|a| a.get(uid))
    }

    /// Whether the pod's namespace and device are there.
    pub(crate) fn is_ready(&self, uid: &str) -> bool {
        namespace::is_mounted(&self.namespace_path(uid)) && has_device(&device(uid))
    }

    /// Takes pods whose namespace is there into the rules, without loading them yet.
    pub(crate) fn preload<'a>(&self, pods: impl Iterator<Item = (&'a str, &'a str)>) {
        for (uid, environment) in pods {
            if let Some(ip) = self.address(uid).filter(|_| self.is_ready(uid)) {
                let port = PodPort { ip, device: device(uid), environment: environment.to_owned() };
                self.rules(|r| r.pods.insert(uid.to_owned(), port));
            }
        }
    }

    /// Creates namespace, device, route and rules of a pod; does again what is missing. `pid`: a process that is still in the
    /// pod's namespace, when the name of the namespace was lost.
    pub(crate) async fn add(
        &self,
        uid: &str,
        environment: &str,
        sysctls: Vec<(String, String)>,
        pid: Option<i32>,
    ) -> Result<Ipv4Addr, AgentError> {
        let ip = self.addresses(|a| a.allocate(uid))?;
        let path = self.namespace_path(uid);
        let (device, node) = (device(uid), self.node_ip());
        if !namespace::is_mounted(&path) {
            namespace::create(&path, pid, sysctls).await?;
        }
        if !has_device(&device) {
            let shown = path.display();
            tool(
                "ip",
                &["-batch", "-"],
                &format!("link add {device} type veth peer name eth0 netns {shown}\nlink set dev {device} addrgenmode none\nlink set dev {device} up\n"),
            )
            .await?;
        }
        namespace::ip(
            &path,
            format!("link set lo up\naddr replace {ip}/32 dev eth0\nlink set eth0 up\nroute replace {node}/32 dev eth0 scope link\nroute replace default via {node} dev eth0\n"),
        )
        .await?;
        tool("ip", &["-batch", "-"], &format!("route replace {ip}/32 dev {device} src {node}\n")).await?;
        self.rules(|r| r.pods.insert(uid.to_owned(), PodPort { ip, device, environment: environment.to_owned() }));
        self.apply().await?;
        Ok(ip)
    }

    /// Removes all of a pod; the device goes with its namespace.
    pub(crate) async fn remove(&self, uid: &str) -> Result<(), AgentError> {
        let known = self.rules(|r| r.pods.remove(uid)).is_some();
        let device = device(uid);
        if has_device(&device) {
            tool("ip", &["link", "del", &device], "").await?;
        }
        namespace::remove(&self.namespace_path(uid))?;
        self.addresses(|a| a.release(uid))?;
        if known { self.apply().await } else { Ok(()) }
    }

    /// Replaces the services and the port of the API tunnel's listener.
    pub(crate) async fn set_services(&self, services: BTreeMap<String, Service>) -> Result<(), AgentError> {
        self.rules(|r| r.services = services);
        self.apply().await
    }

    /// Where connections to an API server are to arrive.
    pub(crate) fn set_tunnel_port(&self, port: u16) {
        self.rules(|r| r.tunnel_port = port);
    }

    /// Which environment a pod address belongs to.
    pub(crate) fn environment_of(&self, ip: IpAddr) -> Option<String> {
        self.rules(|r| r.pods.values().find(|p| IpAddr::V4(p.ip) == ip).map(|p| p.environment.clone()))
    }

    /// All pod addresses with their environments.
    pub(crate) fn clients(&self) -> HashMap<IpAddr, String> {
        self.rules(|r| r.pods.values().map(|p| (IpAddr::V4(p.ip), p.environment.clone())).collect())
    }

    /// Loads the rules: the whole table in one transaction, so that there is never a moment with half of it.
    pub(crate) async fn apply(&self) -> Result<(), AgentError> {
        let _one = self.applying.lock().await;
        let text = self.rules(|r| r.render());
        tool("nft", &["-f", "-"], &text).await
    }
}
