//! The hub: agents connect to it, and it keeps workers and virtual clusters in step.

mod engine;
mod events;
mod join;
mod names;
mod networks;
mod nodes;
mod passes;
mod pods;
mod service;
mod sleep;
mod state;
mod volumes;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use tokio::sync::watch;
use vctl_api::{agent, rest};
use vctl_machinery::status::ApiError;
use vctl_runtime::{
    clock::Clock,
    metrics::Exposition,
    pki::{Authority, ClientTrust, PkiError},
    tasks::Tasks,
};
use vctl_store::{Store, StoreError, Tenant};

pub use service::AgentService;

use crate::{
    event::Correlator,
    grpc::agent_service_server::AgentServiceServer,
    ports::{Duplex, VirtualApi},
    queue::Queue,
    streams::{ContainerTarget, ExecOptions, ExecSession, LogOptions, LogStream},
    target::Target,
};
use engine::Work;
use passes::Passes;
use state::{Pod, PodKey, State};

/// How long an agent may be away until its nodes say so.
pub const AWAY_AFTER: Duration = Duration::from_secs(40);

/// Settings of the hub.
#[derive(Clone)]
pub struct Config {
    /// How long an agent may be away until its nodes say so; [`AWAY_AFTER`] unless there is a reason.
    pub away_after: Duration,
    /// Version of the server, told to agents.
    pub server_version: String,
    /// Signs the agents' certificates and, as their root, the server's.
    pub authority: Arc<Authority>,
    /// How long an agent's certificate is valid. Agents renew before it ends.
    pub certificate_lifetime: Duration,
    /// Whether pods may have what is their worker's: directories, its network, privileged containers. Only where all environments
    /// trust each other.
    pub allow_host_access: bool,
    /// Names of simulated workers.
    pub simulated: Vec<String>,
    /// Reconciles at the same time.
    pub parallel: usize,
}

/// The hub could not be started or a token not be issued.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The store failed.
    #[error("the workers cannot be kept: {0}")]
    Store(#[from] StoreError),
    /// The authority cannot be used.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// A worker's name that is no DNS-1123 label.
    #[error(
        "{0:?} is not a valid worker name: use at most 63 lower-case letters, digits and '-', starting and ending with a letter or digit"
    )]
    Name(String),
}

/// The hub. Clones are handles to the same one.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    trust: ClientTrust,
    store: Arc<dyn Store>,
    clock: Clock,
    tasks: Tasks,
    api: OnceLock<Arc<dyn VirtualApi>>,
    state: Mutex<State>,
    queue: Queue<Work>,
    /// True once everything in the store has been looked at: before, agents are told nothing, so that a pod that has not been
    /// read yet is not taken for one that is to go.
    synced: watch::Sender<bool>,
    events: Mutex<VecDeque<(Tenant, Arc<str>, agent::PodEvent)>>,
    correlator: Mutex<Correlator>,
    passes: Passes,
}

/// What pods use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Use {
    /// Processors, in billionths.
    pub cpu_nano_cores: u64,
    /// Working set in bytes.
    pub memory_bytes: u64,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> i64 {
        self.clock.now().as_millisecond()
    }
}

impl Hub {
    /// A hub that knows its workers but does not work yet.
    ///
    /// # Errors
    /// [`HubError`] when the store cannot be read or the authority cannot be used.
    pub async fn new(config: Config, store: Arc<dyn Store>, clock: Clock, tasks: Tasks) -> Result<Self, HubError> {
        let trust = ClientTrust::new(config.authority.certificate_pem())?;
        let hub = Self {
            inner: Arc::new(Inner {
                config,
                trust,
                store,
                clock,
                tasks,
                api: OnceLock::new(),
                state: Mutex::new(State::default()),
                queue: Queue::new(),
                synced: watch::Sender::new(false),
                events: Mutex::default(),
                correlator: Mutex::default(),
                passes: Passes::default(),
            }),
        };
        hub.inner.load_workers().await?;
        Ok(hub)
    }

    /// Starts to work, with access to the virtual API servers. A second call does nothing.
    pub fn start(&self, api: Arc<dyn VirtualApi>) {
        if self.inner.api.set(api).is_ok() {
            self.inner.clone().run();
        }
    }

    /// The gRPC service for agents. It answers under `/vctl.agent.v1.AgentService/` and needs the request extension
    /// [`vctl_runtime::serve::PeerCertificates`].
    pub fn service(&self) -> AgentServiceServer<AgentService> {
        AgentServiceServer::new(AgentService::new(self.inner.clone())).max_decoding_message_size(16 << 20)
    }

    /// Issues a token with which a worker of this name can join once. Issue it to nobody else: whoever has it becomes the worker.
    ///
    /// # Errors
    /// [`HubError::Name`] for a name that a Node cannot have; [`HubError::Store`].
    pub async fn join_token(&self, worker: &str, lifetime: Duration) -> Result<String, HubError> {
        self.inner.issue_token(worker, lifetime).await
    }

    /// All workers, by name.
    pub fn workers(&self) -> Vec<rest::Worker> {
        let state = self.inner.lock();
        let mut pods: BTreeMap<&str, u32> = BTreeMap::new();
        for pod in state.pods.values() {
            *pods.entry(&pod.node).or_default() += 1;
        }
        state
            .workers
            .iter()
            .map(|(name, worker)| {
                let report = worker.report.clone().unwrap_or_default();
                rest::Worker {
                    name: name.to_string(),
                    kind: worker.target.kind().to_owned(),
                    connected: worker.is_connected(),
                    last_seen: worker.last_seen,
                    pods: pods.get(&**name).copied().unwrap_or_default(),
                    cpu_millis: report.cpu_millis,
                    memory_bytes: report.memory_bytes,
                    runtime: report.container_runtime_version,
                }
            })
            .collect()
    }

    /// The Nodes of a new environment: one per worker that is there.
    pub fn nodes(&self) -> Vec<serde_json::Value> {
        self.inner.first_nodes()
    }

    /// Stops everything that runs for an environment, for good: also what is created later. Returns what is left on workers, for
    /// people (`pod default/web-1 on worker local`). Call it again until nothing is left.
    pub fn drain(&self, environment: &str) -> Vec<String> {
        self.inner.drain(environment)
    }

    /// What still runs of an environment that goes to sleep, for people. Empty when nothing does.
    pub fn running_asleep(&self, environment: &str) -> Vec<String> {
        self.inner.running_asleep(environment)
    }

    /// Use of resources by the pods of an environment, as far as it is known.
    pub fn stats(&self, environment: &str) -> Vec<agent::PodStats> {
        let now = self.inner.now_ms();
        let state = self.inner.lock();
        let Some(tenant) = state.by_name.get(environment) else { return Vec::new() };
        state
            .pods
            .iter()
            .filter(|(key, _)| key.tenant == *tenant)
            .filter_map(|(_, pod)| {
                let stats = state.workers.get(&*pod.node)?.target.stats(&pod.on_worker, now)?;
                Some(agent::PodStats { uid: pod.uid.clone(), ..stats })
            })
            .collect()
    }

    /// What the pods of all environments use together, by the environment's name, as far as it was measured after `oldest_ms` (Unix time
    /// in milliseconds). Environments of which nothing is known are left out.
    pub fn usage(&self, oldest_ms: i64) -> HashMap<Arc<str>, Use> {
        let now = self.inner.now_ms();
        // Workers have locks of their own: they are asked when the hub can go on.
        let pods: Vec<_> = {
            let state = self.inner.lock();
            let of_pod = |(key, pod): (&PodKey, &Pod)| {
                let worker = state.workers.get(&*pod.node)?;
                Some((state.tenants.get(&key.tenant)?.clone(), worker.target.clone(), pod.on_worker.clone()))
            };
            state.pods.iter().filter(|(_, pod)| !pod.gone && !pod.finished).filter_map(of_pod).collect()
        };
        let mut all: HashMap<Arc<str>, Use> = HashMap::new();
        for (environment, target, uid) in pods {
            let Some(stats) = target.stats(&uid, now).filter(|s| s.time_ms >= oldest_ms) else { continue };
            let sum = all.entry(environment).or_default();
            for container in stats.containers {
                sum.cpu_nano_cores += u64::try_from(container.cpu_nano_cores).unwrap_or_default();
                sum.memory_bytes += u64::try_from(container.memory_working_set_bytes).unwrap_or_default();
            }
        }
        all
    }

    /// Writes the measurements of the syncer and of its workers.
    pub fn measurements(&self, text: &mut Exposition) {
        passes::workers(&self.workers(), text);
        self.inner.passes.write(text);
    }

    /// Waits until everything in the store has been looked at once.
    pub async fn wait_until_synced(&self) {
        let mut synced = self.inner.synced.subscribe();
        // The sender lives in `inner`, so that waiting cannot fail.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// The worker of a container, and the container as workers know it.
    fn target(&self, of: ContainerTarget) -> Result<(Arc<dyn Target>, ContainerTarget), ApiError> {
        let state = self.inner.lock();
        let Some(worker) = state.workers.get(of.node.as_str()) else {
            return Err(ApiError {
                code: 503,
                reason: "ServiceUnavailable",
                message: format!("node {} has no worker; vctl status shows the workers", of.node),
                details: serde_json::Value::Null,
            });
        };
        let Some(tenant) = state.by_name.get(of.environment.as_str()) else {
            return Err(ApiError {
                code: 404,
                reason: "NotFound",
                message: format!("there is no virtual cluster {}: it has been deleted meanwhile", of.environment),
                details: serde_json::Value::Null,
            });
        };
        let uid = names::on_worker(*tenant, &of.uid);
        Ok((worker.target.clone(), ContainerTarget { uid, ..of }))
    }

    /// Opens the log of a container.
    ///
    /// # Errors
    /// What the worker answers, or 503 when it is away.
    pub async fn logs(&self, of: ContainerTarget, options: LogOptions) -> Result<LogStream, ApiError> {
        let (target, of) = self.target(of)?;
        target.logs(of, options).await
    }

    /// Starts (or attaches to) a command in a container.
    ///
    /// # Errors
    /// What the worker answers, or 503 when it is away.
    pub async fn exec(&self, of: ContainerTarget, options: ExecOptions) -> Result<ExecSession, ApiError> {
        let (target, of) = self.target(of)?;
        target.exec(of, options).await
    }

    /// Connects to a TCP port inside a pod's network namespace.
    ///
    /// # Errors
    /// 503 when the worker is away. A refused connection is an error of the first read.
    pub async fn port_forward(&self, of: ContainerTarget, port: u16) -> Result<Box<dyn Duplex>, ApiError> {
        let (target, of) = self.target(of)?;
        target.port_forward(of, port).await
    }
}
