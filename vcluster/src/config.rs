//! Settings of the virtual control planes of this process.

use std::{net::IpAddr, sync::Arc, time::Duration};

use vctl_runtime::clock::Clock;

use crate::audit::{AuditBackend, AuditPolicy};

pub use crate::authentication::platform::{PlatformTokens, PlatformUser};

pub use crate::fairness::SeatLimits;

use crate::limits::PlatformLimits;

/// First three octets and prefix are fixed for now: 10.96.0.0/16, as a `kubeadm` cluster has (with /12).
pub const SERVICE_RANGE: &str = "10.96.0.0/16";
/// ClusterIP of the Service default/kubernetes: the first address of the range.
pub const KUBERNETES_IP: &str = "10.96.0.1";

/// Names by which pods reach their API server, besides [`KUBERNETES_IP`].
pub const IN_CLUSTER_NAMES: &[&str] = &[
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
];

/// Which addresses this process dials for tenants, for webhooks that are given by URL. (Those given as a Service are reached in the
/// tenant's own pods.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutboundAddresses {
    /// Those of the public Internet only: no loopback, private or link-local address.
    #[default]
    Public,
    /// All: for a server whose tenants are its operators.
    Any,
}

/// Settings of the virtual control planes of this process.
#[derive(Clone)]
pub struct Config {
    /// Authority of the serving certificate (PEM), which clients are told to trust.
    pub server_ca_pem: String,
    /// Where clusters are served: `https://HOST:PORT`. The service account issuer of a cluster is `<this>/clusters/NAME`, fixed when
    /// it is created.
    pub issuer_base: String,
    /// Address that the Endpoints of default/kubernetes show.
    pub advertise_address: IpAddr,
    /// Port that they show.
    pub advertise_port: u16,
    /// The time.
    pub clock: Clock,
    /// How long the client certificate in a kubeconfig is valid.
    pub client_certificate_lifetime: Duration,
    /// How long what is kept in memory of a virtual cluster outlives its last request.
    pub idle_after: Duration,
    /// Largest request body in bytes.
    pub max_body: usize,
    /// Which addresses are dialled for tenants.
    pub outbound: OutboundAddresses,
    /// How many requests are worked on at a time.
    pub seats: SeatLimits,
    /// Who has the tokens that the platform makes for its users; none: there are no such tokens.
    pub platform_tokens: Option<Arc<dyn PlatformTokens>>,
    /// What the platform holds clusters to; none: to nothing.
    pub limits: Option<Arc<dyn PlatformLimits>>,
    /// Where what is recorded of requests goes; none: nothing is recorded.
    pub audit: Option<Arc<dyn AuditBackend>>,
    /// What is recorded in clusters that have no policy of their own.
    pub audit_policy: Arc<AuditPolicy>,
}

impl Config {
    /// Settings with the defaults: client certificates of a year, memory released after a minute, bodies of 3 MiB.
    pub fn new(server_ca_pem: impl Into<String>, issuer_base: impl Into<String>) -> Self {
        Self {
            server_ca_pem: server_ca_pem.into(),
            issuer_base: issuer_base.into(),
            advertise_address: IpAddr::from([10, 96, 0, 1]),
            advertise_port: 443,
            clock: Clock::system(),
            client_certificate_lifetime: Duration::from_hours(365 * 24),
            idle_after: Duration::from_mins(1),
            max_body: 3 << 20,
            outbound: OutboundAddresses::default(),
            seats: SeatLimits::default(),
            platform_tokens: None,
            limits: None,
            audit: None,
            audit_policy: Arc::new(AuditPolicy::shipped()),
        }
    }
}
