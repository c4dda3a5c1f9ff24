//! What an agent is told at its start. Everything is checked before anything binds or is created.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

/// Longest path of a state directory, in bytes: sockets live below it and the kernel limits their paths to 107.
const STATE_DIR_LIMIT: usize = 80;

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The worker's name is not a DNS label.
    #[error(
        "worker name {0:?} is not a DNS-1123 label: use at most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit"
    )]
    Worker(String),
    /// The address range of the pods does not parse or is too small.
    #[error("pod CIDR {0:?} cannot be used: write it as A.B.C.D/N with N from 8 to 29, for example 10.200.1.0/24")]
    PodCidr(String),
    /// The state directory is relative or too long.
    #[error(
        "state directory {path} cannot be used: it must be an absolute path of at most {STATE_DIR_LIMIT} bytes, because sockets are kept in it"
    )]
    StateDir {
        /// The directory as given.
        path: String,
    },
    /// No pod could ever be worked on.
    #[error("--parallel must be at least 1")]
    Parallel,
    /// The server's address has no port.
    #[error("server address {0:?} cannot be used: write HOST:PORT, or the path of a unix socket")]
    Server(String),
}

/// Where the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// `host:port`.
    Tcp(String),
    /// A unix socket; TLS is spoken over it as over TCP.
    Unix(PathBuf),
}

impl FromStr for Endpoint {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path.trim_start_matches("//"))));
        }
        if text.starts_with('/') {
            return Ok(Self::Unix(PathBuf::from(text)));
        }
        let address = text.strip_prefix("https://").unwrap_or(text).trim_end_matches('/');
        match address.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Self::Tcp(address.to_owned())),
            _ => Err(ConfigError::Server(text.to_owned())),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The range pod addresses come from. The first address is the worker's own: gateway, resolver and API tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodCidr {
    base: u32,
    prefix: u8,
}

impl PodCidr {
    /// The worker's own address: the first of the range.
    pub fn node_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1)
    }

    /// Whether an address lies in the range.
    pub fn contains(&self, ip: Ipv4Addr) -> bool {
        u32::from(ip) >> (32 - self.prefix) == self.base >> (32 - self.prefix)
    }

    /// Addresses pods may have: all but the network's, the worker's and the broadcast address.
    pub fn pod_addresses(&self) -> impl Iterator<Item = Ipv4Addr> + use<> {
        let last = self.base + ((1u32 << (32 - self.prefix)) - 1);
        (self.base + 2..last).map(Ipv4Addr::from)
    }

    /// How many pods have room.
    pub fn capacity(&self) -> u32 {
        (1u32 << (32 - self.prefix)) - 3
    }
}

impl FromStr for PodCidr {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let bad = || ConfigError::PodCidr(text.to_owned());
        let (ip, prefix) = text.split_once('/').ok_or_else(bad)?;
        let ip: Ipv4Addr = ip.parse().map_err(|_| bad())?;
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        if !(8..=29).contains(&prefix) {
            return Err(bad());
        }
        let mask = u32::MAX << (32 - prefix);
        Ok(Self { base: u32::from(ip) & mask, prefix })
    }
}

impl fmt::Display for PodCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.prefix)
    }
}

/// Which Podman runs the containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodmanSource {
    /// One of the agent's own: storage below the state directory, and a service the agent starts and restarts.
    Managed,
    /// A running service's socket. Its settings (runtime, cgroup manager) are its owner's.
    Socket(PathBuf),
}

/// All settings of an agent.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the worker and of its Node.
    pub worker: String,
    /// Where the server is.
    pub server: Endpoint,
    /// The name the server's certificate must carry.
    pub server_name: String,
    /// The authority (PEM) that signs the server's certificate.
    pub server_ca_pem: String,
    /// Exchanged once for a client certificate; not needed when the state directory holds one.
    pub join_token: Option<String>,
    /// Certificate, expected state, records of pods, their volumes and logs.
    pub state_dir: PathBuf,
    /// Where pod addresses come from.
    pub pod_cidr: PodCidr,
    /// Which Podman.
    pub podman: PodmanSource,
    /// DNS suffix of the clusters.
    pub cluster_domain: String,
    /// How many pods are worked on at a time.
    pub parallel: usize,
    /// Version of the binary, shown on the Node.
    pub version: String,
    /// Where `GET /metrics` is answered, without sign-in; none: nowhere.
    pub metrics_listen: Option<SocketAddr>,
}

impl Config {
    /// Settings with the defaults: pods in 10.200.1.0/24, four at a time, a Podman of its own, `cluster.local`, a server certificate for `localhost`.
    pub fn new(
        worker: impl Into<String>,
        server: Endpoint,
        server_ca_pem: impl Into<String>,
        state_dir: impl Into<PathBuf>,
    ) -> Self {
        let server_name = match &server {
            Endpoint::Tcp(address) => {
                address.rsplit_once(':').map_or("localhost", |(host, _)| host).trim_matches(['[', ']']).to_owned()
            }
            Endpoint::Unix(_) => "localhost".to_owned(),
        };
        Self {
            worker: worker.into(),
            server,
            server_name,
            server_ca_pem: server_ca_pem.into(),
            join_token: None,
            state_dir: state_dir.into(),
            pod_cidr: PodCidr { base: u32::from(Ipv4Addr::new(10, 200, 1, 0)), prefix: 24 },
            podman: PodmanSource::Managed,
            cluster_domain: "cluster.local".to_owned(),
            parallel: 4,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            metrics_listen: None,
        }
    }

    /// Checks the settings and returns them as lines to report. Touches nothing.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn check(&self) -> Result<Vec<String>, ConfigError> {
        let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let name = &self.worker;
        if name.is_empty()
            || name.len() > 63
            || !name.chars().all(|c| label(c) || c == '-')
            || !name.starts_with(label)
            || !name.ends_with(label)
        {
            return Err(ConfigError::Worker(name.clone()));
        }
        if !self.state_dir.is_absolute() || self.state_dir.as_os_str().len() > STATE_DIR_LIMIT {
            return Err(ConfigError::StateDir { path: self.state_dir.display().to_string() });
        }
        if self.parallel == 0 {
            return Err(ConfigError::Parallel);
        }
        Ok(vec![
            format!("worker       {name}"),
            format!("server       {} as {}", self.server, self.server_name),
            format!("state        {}", self.state_dir.display()),
            format!(
                "pods         {} ({} addresses, {} in parallel)",
                self.pod_cidr,
                self.pod_cidr.capacity(),
                self.parallel
            ),
            match &self.podman {
                PodmanSource::Managed => "podman       started by the agent, storage in the state directory".to_owned(),
                PodmanSource::Socket(path) => format!("podman       {}", path.display()),
            },
            format!("domain       {}", self.cluster_domain),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_is_the_workers_and_the_rest_are_the_pods() {
        let cidr: PodCidr = "10.200.3.77/28".parse().unwrap();
        assert_eq!(cidr.to_string(), "10.200.3.64/28");
        assert_eq!(cidr.node_ip(), Ipv4Addr::new(10, 200, 3, 65));
        let all: Vec<_> = cidr.pod_addresses().collect();
        assert_eq!((all.len() as u32, all[0]), (cidr.capacity(), Ipv4Addr::new(10, 200, 3, 66)));
        assert_eq!(*all.last().unwrap(), Ipv4Addr::new(10, 200, 3, 78));
        assert!(cidr.contains(all[3]) && !cidr.contains(Ipv4Addr::new(10, 200, 3, 80)));
    }

    #[test]
    fn unusable_settings_say_what_to_write_instead() {
        for text in ["10.200.1.0", "10.200.1.0/30", "10.200.1/24", "x/24", "10.0.0.0/7"] {
            assert_eq!(text.parse::<PodCidr>(), Err(ConfigError::PodCidr(text.into())));
        }
        assert!("nohost".parse::<Endpoint>().is_err());
        assert_eq!("unix:///run/s".parse::<Endpoint>(), Ok(Endpoint::Unix("/run/s".into())));
        let mut config = Config::new("Bad_Name", Endpoint::Unix("/s".into()), "", "/var/lib/x");
        assert!(matches!(config.check(), Err(ConfigError::Worker(_))));
        config.worker = "w1".into();
        config.parallel = 0;
        assert_eq!(config.check(), Err(ConfigError::Parallel));
        config.parallel = 4;
        config.state_dir = "relative".into();
        assert!(matches!(config.check(), Err(ConfigError::StateDir { .. })));
    }
}
