//! A worker behind an agent: its expected state, its control stream, and the streams that it opens on request.

mod stream;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use vctl_api::agent::{
    self, DnsRecord, ExpectedDns, ExpectedPods, ExpectedServices, OpenStream, RemoveVolumes, ServerMessage, Service,
    open_stream::Request, server_message::Message,
};
use vctl_machinery::status::ApiError;
use vctl_runtime::tasks::Tasks;

pub(crate) use stream::{Incoming, bridge};

use crate::{
    expected::{Delta, Expected},
    network::Network,
    ports::Duplex,
    streams::{ContainerTarget, ExecOptions, ExecSession, LogOptions, LogStream},
    target::{Observation, Target},
};

/// How long an agent may take to open a stream that it was asked for.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// One worker.
pub(crate) struct Remote {
    name: Arc<str>,
    tasks: Tasks,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    pods: Expected<agent::Pod>,
    services: Expected<Service>,
    dns: Expected<DnsRecord>,
    /// Ids of services and records, by environment.
    networks: HashMap<String, Network>,
    session: Option<Session>,
    sessions: u64,
    /// Pods that are no longer expected but have not been reported gone: uid to (environment, what they are, for people).
    leaving: BTreeMap<String, (String, String)>,
    streams: HashMap<String, oneshot::Sender<Incoming>>,
    stats: HashMap<String, agent::PodStats>,
    /// Volumes that are to be removed, as `RemoveVolumes` names them.
    unwanted_volumes: BTreeSet<String>,
    /// Those that the agent has removed, until that has been noted.
    removed_volumes: HashSet<String>,
    refused: BTreeMap<String, String>,
}

struct Session {
    number: u64,
    out: mpsc::Sender<Result<ServerMessage, Status>>,
    cancel: CancellationToken,
}

/// A control stream that is current until it is superseded.
pub(crate) struct Connected {
    pub(crate) number: u64,
    /// Cancelled when a newer stream of the worker takes over.
    pub(crate) superseded: CancellationToken,
}

impl Remote {
    /// `start`: see [`Expected::new`].
    pub(crate) fn new(name: Arc<str>, tasks: Tasks, start: u64) -> Self {
        let state = State {
            pods: Expected::new(start),
            services: Expected::new(start),
            dns: Expected::new(start),
            networks: HashMap::new(),
            session: None,
            sessions: 0,
            leaving: BTreeMap::new(),
            streams: HashMap::new(),
            stats: HashMap::new(),
            unwanted_volumes: BTreeSet::new(),
            removed_volumes: HashSet::new(),
            refused: BTreeMap::new(),
        };
        Self { name, tasks, state: Mutex::new(state), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new control stream takes over.
    pub(crate) fn connect(
        self: &Arc<Self>,
        applied: &HashMap<String, u64>,
        out: mpsc::Sender<Result<ServerMessage, Status>>,
    ) -> Connected {
        let cancel = CancellationToken::new();
        let number = {
            let mut state = self.lock();
            state.sessions += 1;
            let number = state.sessions;
            let old = state.session.replace(Session { number, out: out.clone(), cancel: cancel.clone() });
            if let Some(old) = old {
                old.cancel.cancel();
            }
            number
        };
        let of = |class: &str| applied.get(class).copied().unwrap_or_default();
        let sent = [of("pods"), of("services"), of("dns")];
        let (remote, stop) = (self.clone(), cancel.clone());
        self.tasks.spawn_until_stopped("agent push", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = remote.push(sent, &out) => {}
            }
        });
        Connected { number, superseded: cancel }
    }

    /// Sends what is expected whenever it changes, until the stream is closed. A slow agent gets the changes of the meantime
    /// as one.
    async fn push(&self, mut sent: [u64; 3], out: &mpsc::Sender<Result<ServerMessage, Status>>) {
        let mut asked = BTreeSet::new();
        loop {
            let changed = self.changed.notified();
            let (messages, volumes) = {
                let state = self.lock();
                // Services and names first: a pod that starts may ask for them at once.
                let messages = [
                    state.services.since(sent[1]).map(|d| (1, d.generation, services(&d))),
                    state.dns.since(sent[2]).map(|d| (2, d.generation, dns(&d))),
                    state.pods.since(sent[0]).map(|d| (0, d.generation, pods(&d))),
                ];
                // What is no longer to be removed may be asked for anew later.
                asked.retain(|id| state.unwanted_volumes.contains(id));
                let volumes: Vec<String> = state.unwanted_volumes.difference(&asked).cloned().collect();
                (messages, volumes)
            };
            let mut any = false;
            for (class, generation, message) in messages.into_iter().flatten() {
                any = true;
                if out.send(Ok(ServerMessage { message: Some(message) })).await.is_err() {
                    return;
                }
                if let Some(slot) = sent.get_mut(class) {
                    *slot = generation;
                }
            }
            if !volumes.is_empty() {
                any = true;
                asked.extend(volumes.iter().cloned());
                let message = Message::RemoveVolumes(RemoveVolumes { ids: volumes });
                if out.send(Ok(ServerMessage { message: Some(message) })).await.is_err() {
                    return;
                }
            }
            if !any {
                changed.await;
            }
        }
    }

    /// Has the data of volumes removed for good; `id` as in `RemoveVolumes`.
    pub(crate) fn remove_volumes(&self, id: String) {
        self.lock().unwanted_volumes.insert(id);
        self.changed.notify_one();
    }

    /// The agent has removed them.
    pub(crate) fn volume_gone(&self, id: &str) {
        let mut state = self.lock();
        // Of those that belonged to no environment nobody waits to hear.
        let awaited = id.contains('/') || !id.contains('.');
        if state.unwanted_volumes.remove(id) && awaited {
            state.removed_volumes.insert(id.to_owned());
        }
    }

    /// Whether the agent has removed them since it was asked to.
    pub(crate) fn has_removed_volumes(&self, id: &str) -> bool {
        self.lock().removed_volumes.contains(id)
    }

    /// The same, and forgets it.
    pub(crate) fn volumes_removed(&self, id: &str) -> bool {
        self.lock().removed_volumes.remove(id)
    }

    /// The stream has ended; true when it was the current one.
    pub(crate) fn disconnect(&self, number: u64) -> bool {
        let mut state = self.lock();
        let current = state.session.as_ref().is_some_and(|s| s.number == number);
        if current && let Some(session) = state.session.take() {
            session.cancel.cancel();
            state.streams.clear();
        }
        current
    }

    /// Ends the control stream, whichever it is.
    pub(crate) fn hang_up(&self) {
        let mut state = self.lock();
        if let Some(session) = state.session.take() {
            session.cancel.cancel();
        }
        state.streams.clear();
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.lock().session.is_some()
    }

    /// An ACK (empty error) or NACK.
    pub(crate) fn applied(&self, class: &str, generation: u64, error: &str) {
        let mut state = self.lock();
        if error.is_empty() {
            state.refused.remove(class);
        } else {
            tracing::warn!(worker = %self.name, class, generation, error, "the agent refused an expected state");
            state.refused.insert(class.to_owned(), error.to_owned());
        }
    }

    pub(crate) fn keep_stats(&self, stats: agent::PodStats) {
        let mut state = self.lock();
        if state.pods.get(&stats.uid).is_some() {
            state.stats.insert(stats.uid.clone(), stats);
        }
    }

    /// Replaces what the worker knows of the network of an environment; none removes it.
    pub(crate) fn set_network(&self, environment: &str, network: Option<Network>) {
        {
            let mut state = self.lock();
            let state = &mut *state;
            let new = network.unwrap_or_default();
            if let Some(old) = state.networks.remove(environment) {
                for id in old.services.keys().filter(|id| !new.services.contains_key(*id)) {
                    state.services.remove(id);
                }
                for id in old.dns.keys().filter(|id| !new.dns.contains_key(*id)) {
                    state.dns.remove(id);
                }
            }
            for (id, service) in &new.services {
                state.services.set(id, Arc::new(service.clone()));
            }
            for (id, record) in &new.dns {
                state.dns.set(id, Arc::new(record.clone()));
            }
            if !new.services.is_empty() || !new.dns.is_empty() {
                state.networks.insert(environment.to_owned(), new);
            }
        }
        self.changed.notify_one();
    }

    /// A pod that the agent has but that is not expected: it will be removed, and until then something is left of it.
    pub(crate) fn unexpected(&self, status: &agent::PodStatus) {
        let mut state = self.lock();
        if state.pods.get(&status.uid).is_none() {
            let what = describe(&status.namespace, &status.name, &self.name);
            state.leaving.insert(status.uid.clone(), (status.environment.clone(), what));
        }
    }

    /// The agent has reported that nothing of the pod is left. True when it was told to delete it; a pod that is still wanted
    /// stays expected, and the agent makes it anew.
    pub(crate) fn gone(&self, uid: &str) -> bool {
        let mut state = self.lock();
        state.leaving.remove(uid);
        state.stats.remove(uid);
        let deleting = state.pods.get(uid).is_some_and(|p| p.deletion_grace_seconds.is_some());
        let removed = deleting && state.pods.remove(uid);
        drop(state);
        if removed {
            self.changed.notify_one();
        }
        removed
    }

    /// What is left of an environment, for people.
    pub(crate) fn left(&self, environment: &str) -> Vec<String> {
        self.lock().leaving.values().filter(|(e, _)| e == environment).map(|(_, what)| what.clone()).collect()
    }

    /// Hands an opened stream to whoever asked for it; gives it back when nobody did.
    pub(crate) fn opened(&self, id: &str, incoming: Incoming) -> Option<Incoming> {
        match self.lock().streams.remove(id) {
            Some(waiting) => waiting.send(incoming).err(),
            None => Some(incoming),
        }
    }

    async fn open(&self, request: Request) -> Result<Incoming, ApiError> {
        let id = uuid::Uuid::new_v4().to_string();
        let (tx, rx) = oneshot::channel();
        let out = {
            let mut state = self.lock();
            let Some(session) = &state.session else {
                return Err(unavailable(format!(
                    "worker {} is not connected to the server; check that its agent runs (vctl status shows the workers)",
                    self.name
                )));
            };
            let out = session.out.clone();
            state.streams.insert(id.clone(), tx);
            out
        };
        let message = ServerMessage {
            message: Some(Message::OpenStream(OpenStream { stream_id: id.clone(), request: Some(request) })),
        };
        let opened = tokio::time::timeout(OPEN_LIMIT, async {
            out.send(Ok(message)).await.map_err(|_| ())?;
            rx.await.map_err(|_| ())
        })
        .await;
        self.lock().streams.remove(&id);
        match opened {
            Ok(Ok(incoming)) => Ok(incoming),
            Ok(Err(())) => Err(unavailable(format!("the connection to worker {} was lost; try again", self.name))),
            Err(_) => Err(unavailable(format!(
                "worker {} did not answer within {} seconds; try again",
                self.name,
                OPEN_LIMIT.as_secs()
            ))),
        }
    }
}

fn describe(namespace: &str, name: &str, worker: &str) -> String {
    format!("pod {namespace}/{name} on worker {worker}")
}

fn unavailable(message: String) -> ApiError {
    ApiError { code: 503, reason: "ServiceUnavailable", message, details: Value::Null }
}

fn copies<T: Clone>(items: &[Arc<T>]) -> Vec<T> {
    items.iter().map(|item| (**item).clone()).collect()
}

fn pods(delta: &Delta<agent::Pod>) -> Message {
    Message::Pods(ExpectedPods {
        generation: delta.generation,
        full: delta.full,
        upsert: copies(&delta.upsert),
        removed: delta.removed.clone(),
    })
}

fn services(delta: &Delta<Service>) -> Message {
    Message::Services(ExpectedServices {
        generation: delta.generation,
        full: delta.full,
        upsert: copies(&delta.upsert),
        removed: delta.removed.clone(),
    })
}

fn dns(delta: &Delta<DnsRecord>) -> Message {
    Message::Dns(ExpectedDns {
        generation: delta.generation,
        full: delta.full,
        upsert: copies(&delta.upsert),
        removed: delta.removed.clone(),
    })
}

fn target(target: ContainerTarget) -> Option<agent::PodTarget> {
    Some(agent::PodTarget {
        environment: target.environment,
        namespace: target.namespace,
        name: target.pod,
        uid: target.uid,
        container: target.container,
    })
}

#[async_trait::async_trait]
impl Target for Remote {
    fn kind(&self) -> &'static str {
        "podman"
    }

    fn needs_context(&self) -> bool {
        true
    }

    fn expect(&self, _: &Value, expected: agent::Pod, _: i64) -> Observation {
        let uid = expected.uid.clone();
        {
            let mut state = self.lock();
            state.leaving.remove(&uid);
            state.pods.set(&uid, Arc::new(expected));
        }
        self.changed.notify_one();
        Observation::Later
    }

    fn forget(&self, uid: &str) {
        {
            let mut state = self.lock();
            let Some(pod) = state.pods.get(uid).cloned() else { return };
            state.pods.remove(uid);
            state.stats.remove(uid);
            let what = describe(&pod.namespace, &pod.name, &self.name);
            state.leaving.insert(uid.to_owned(), (pod.environment.clone(), what));
        }
        self.changed.notify_one();
    }

    fn stats(&self, uid: &str, _: i64) -> Option<agent::PodStats> {
        self.lock().stats.get(uid).cloned()
    }

    async fn logs(&self, of: ContainerTarget, options: LogOptions) -> Result<LogStream, ApiError> {
        let request = agent::LogRequest {
            target: target(of),
            follow: options.follow,
            previous: options.previous,
            timestamps: options.timestamps,
            tail_lines: options.tail_lines,
            since_seconds: options.since_seconds,
            since_time_ms: options.since_time_ms,
            limit_bytes: options.limit_bytes,
        };
        stream::logs(self.open(Request::Logs(request)).await?).await
    }

    async fn exec(&self, of: ContainerTarget, options: ExecOptions) -> Result<ExecSession, ApiError> {
        let request = agent::ExecRequest {
            target: target(of),
            command: options.command,
            stdin: options.stdin,
            stdout: options.stdout,
            stderr: options.stderr,
            tty: options.tty,
            attach: options.attach,
        };
        Ok(stream::exec(self.open(Request::Exec(request)).await?, &self.tasks))
    }

    async fn port_forward(&self, of: ContainerTarget, port: u16) -> Result<Box<dyn Duplex>, ApiError> {
        let request = agent::PortForwardRequest { target: target(of), port: u32::from(port) };
        Ok(Box::new(bridge(self.open(Request::PortForward(request)).await?)))
    }
}
