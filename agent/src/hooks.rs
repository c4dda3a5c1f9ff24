//! What the binary joins the agent with.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use vctl_api::agent::ExpectedDns;
use vctl_runtime::tasks::Tasks;

/// The worker's resolver. The agent says where it listens, what it answers and who asks.
#[async_trait]
pub trait DnsService: Send + Sync + 'static {
    /// Starts to listen, UDP and TCP, until the tasks are stopped.
    ///
    /// # Errors
    /// Why the address cannot be used.
    async fn bind(&self, address: SocketAddr, tasks: &Tasks) -> Result<(), String>;
    /// Applies records; `full` replaces all.
    fn apply(&self, expected: ExpectedDns);
    /// Replaces the map from pod address to environment. Other clients get no answers.
    fn set_clients(&self, clients: HashMap<IpAddr, String>);
}

/// The services the agent drives.
#[derive(Clone)]
pub struct Hooks {
    /// The resolver.
    pub dns: Arc<dyn DnsService>,
}
