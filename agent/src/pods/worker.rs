//! The life of one pod on this worker: an actor that plans, makes one change, and plans again.

mod act;
mod observe;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use vctl_api::agent::{Container, Pod, PodGone};
use vctl_runtime::tasks::Tasks;

use super::{
    env::Facts,
    handler, label,
    plan::{ImageState, Live, Plan, ProbeView, is_sidecar, plan},
    probe::{self, Kind},
    record::{Phase, PodRecord},
    status::{status, waiting},
    volumes::{Volumes, fingerprint},
};
use crate::{context::Context, error::AgentError};

/// Longest termination message, as in Kubernetes.
const MESSAGE_LIMIT: usize = 4096;

/// What a pod's actor is told.
#[derive(Debug)]
pub(crate) enum Message {
    Expected(Box<Pod>),
    /// Something happened to a container.
    Changed {
        id: String,
    },
    Image {
        container: String,
        image: String,
        result: Result<String, (String, String)>,
    },
    Hook {
        container: String,
        id: String,
        result: Result<(), String>,
    },
    Probe {
        container: String,
        id: String,
        kind: Kind,
        verdict: Option<bool>,
        failure: Option<String>,
    },
}

/// What others may know of a pod.
#[derive(Clone, Default)]
pub(crate) struct View {
    pub(crate) pod: Pod,
    pub(crate) record: PodRecord,
    /// Why a container has not started, by its name.
    pub(crate) waiting: BTreeMap<String, String>,
}

/// A pod's actor.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) inbox: mpsc::UnboundedSender<Message>,
    pub(crate) view: watch::Receiver<Arc<View>>,
}

/// Where the log of an attempt is.
pub(crate) fn log_path(pod_dir: &std::path::Path, container: &str, attempt: u32) -> PathBuf {
    pod_dir.join("logs").join(container).join(format!("{attempt}.log"))
}

struct Worker {
    ctx: Arc<Context>,
    dir: PathBuf,
    pod: Pod,
    record: PodRecord,
    saved: Option<PodRecord>,
    live: Live,
    inbox: mpsc::UnboundedReceiver<Message>,
    out: mpsc::UnboundedSender<Message>,
    view: watch::Sender<Arc<View>>,
    /// Failed pulls in a row.
    pull_failures: HashMap<String, u32>,
    /// Cancelled when the container of this name has ended.
    ended: BTreeMap<String, CancellationToken>,
    tasks: Tasks,
    gone: bool,
}

/// Starts the actor of a pod. `ended` hears the uid when nothing of the pod is left.
pub(crate) fn spawn(ctx: &Arc<Context>, pod: Pod, ended: mpsc::UnboundedSender<String>) -> Result<Handle, AgentError> {
    let dir = ctx.pod_dir(&pod.uid);
    let saved = PodRecord::load(&dir)?;
    let record = saved.clone().unwrap_or_else(|| PodRecord::new(&pod, ctx.now_ms()));
    let (out, inbox) = mpsc::unbounded_channel();
    let (view, seen) = watch::channel(Arc::new(View { pod: pod.clone(), record: record.clone(), ..View::default() }));
    let handle = Handle { inbox: out.clone(), view: seen };
    let uid = pod.uid.clone();
    let tasks = ctx.tasks.child();
    let worker = Worker {
        ctx: ctx.clone(),
        dir,
        pod,
        record,
        saved,
        live: Live::default(),
        inbox,
        out,
        view,
        pull_failures: HashMap::new(),
        ended: BTreeMap::new(),
        tasks: tasks.clone(),
        gone: false,
    };
    tasks.clone().spawn_until_stopped("pod", async move {
        worker.run().await;
        tasks.stop();
        // The reconciler is gone only when the agent stops.
        let _ = ended.send(uid);
    });
    Ok(handle)
}

fn milliseconds(text: &str) -> i64 {
    text.parse::<Timestamp>().map(|t| t.as_millisecond()).unwrap_or_default().max(0)
}

impl Worker {
    fn containers(&self) -> impl Iterator<Item = &Container> {
        self.pod.init_containers.iter().chain(&self.pod.containers)
    }

    fn spec(&self, name: &str) -> Option<Container> {
        self.containers().find(|c| c.name == name).cloned()
    }

    fn facts(&self) -> Facts {
        let node = self.ctx.network.node_ip();
        Facts {
            pod_ip: if self.pod.host_network { Some(node) } else { self.record.pod_ip },
            host_ip: node.to_string(),
            node_name: self.ctx.config.worker.clone(),
        }
    }

    fn reach(&self) -> handler::Reach {
        let own = !self.pod.host_network;
        let namespace = own.then(|| self.ctx.network.namespace_path(&self.pod.uid));
        handler::Reach { ip: self.facts().pod_ip, namespace }
    }

    fn event(&self, warning: bool, reason: &str, message: impl Into<String>, container: &str) {
        self.ctx.event(&self.pod, warning, reason, message, container);
    }

    async fn run(mut self) {
        while let Err(e) = self.adopt().await {
            tracing::warn!(pod = %self.pod.uid, error = %e, "looking for what is left of a pod");
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        while !self.gone {
            while let Ok(message) = self.inbox.try_recv() {
                self.receive(message).await;
            }
            let now = self.ctx.now_ms();
            if self.pod.deletion_grace_seconds.is_some() && self.record.stop_deadline_ms.is_none() {
                self.record.stop_deadline_ms = self.pod.deletion_grace_seconds.map(|g| now + g * 1000);
            }
            self.publish(now);
            match plan(&self.pod, fingerprint(&self.pod), &self.record, &self.live, now) {
                Plan::Do(action) => {
                    let ctx = self.ctx.clone();
                    let Ok(_permit) = ctx.permits.acquire().await else { return };
                    let span = tracing::debug_span!(
                        parent: None,
                        "pod action",
                        environment = self.pod.environment,
                        namespace = self.pod.namespace,
                        pod = self.pod.name,
                        uid = self.pod.uid,
                        action = action.name()
                    );
                    let (began, name) = (tokio::time::Instant::now(), action.name());
                    self.act(action).instrument(span).await;
                    ctx.measured.action(name, began.elapsed());
                }
                Plan::Wait(until) => {
                    // Some states change their name with time only: look again while something is failing.
                    let failing = self.live.images.values().any(|i| matches!(i, ImageState::Failed { .. }));
                    let wait =
                        until.map_or(i64::MAX, |at| (at - now).max(1)).min(if failing { 1600 } else { i64::MAX });
                    let wait = Duration::from_millis(wait.min(3_600_000).unsigned_abs());
                    if let Ok(Some(message)) = tokio::time::timeout(wait, self.inbox.recv()).await {
                        self.receive(message).await;
                    }
                }
            }
        }
    }

    /// Saves what changed, and reports it.
    fn publish(&mut self, now: i64) {
        if self.gone {
            return;
        }
        if self.saved.as_ref() != Some(&self.record) {
            match self.record.save(&self.dir) {
                Ok(()) => self.saved = Some(self.record.clone()),
                Err(e) => tracing::error!(pod = %self.pod.uid, error = %e, "the pod's record"),
            }
        }
        let host_ip = self.ctx.network.node_ip().to_string();
        let status = status(&self.pod, &self.record, &self.live, &host_ip, now);
        let waiting = waiting(&status);
        let _ = self.view.send(Arc::new(View { pod: self.pod.clone(), record: self.record.clone(), waiting }));
        self.ctx.outbox.status(status);
    }

    /// After a restart of the agent: finds the pod's containers and namespace as they are, and touches nothing that runs.
    async fn adopt(&mut self) -> Result<(), AgentError> {
        if self.saved.is_none() {
            return Ok(());
        }
        let mut pid = None;
        for found in self.ctx.podman.list(label::UID, &self.pod.uid).await? {
            let labels = found.labels.unwrap_or_default();
            let name = labels.get(label::CONTAINER).cloned().unwrap_or_default();
            let known = self.record.container(&name);
            if known.id != found.id || found.state == "created" || found.state == "configured" {
                self.ctx.podman.remove(&found.id).await?;
            } else if let Some(seen) = self.ctx.podman.inspect(&found.id).await?.filter(|s| s.state.running) {
                pid = Some(seen.state.pid);
                // What was reported stays: Podman's own time is a little later, perhaps in the next second.
                let started_ms = match known.phase {
                    Phase::Running { started_ms } => started_ms,
                    _ => milliseconds(&seen.state.started_at),
                };
                self.record.container_mut(&name).phase = Phase::Running { started_ms };
                self.running(&name, started_ms, true);
            }
        }
        if self.pod.host_network {
            self.live.sandbox_ready = !self.record.containers.is_empty();
        } else if self.ctx.network.is_ready(&self.pod.uid) || pid.is_some() {
            let ip = self.ctx.network.add(&self.pod.uid, &self.pod.environment, Vec::new(), pid).await?;
            self.record.pod_ip = Some(ip);
            self.live.sandbox_ready = true;
            self.ctx.dns.set_clients(self.ctx.network.clients());
        }
        let gone: Vec<String> = self
            .record
            .containers
            .iter()
            .filter(|(name, c)| matches!(c.phase, Phase::Running { .. }) && !self.ended.contains_key(*name))
            .map(|(_, c)| c.id.clone())
            .collect();
        for id in gone {
            self.observe(&id).await;
        }
        Ok(())
    }

    /// A container runs: its probes begin.
    fn running(&mut self, name: &str, started_ms: i64, adopted: bool) {
        let Some(container) = self.spec(name) else { return };
        self.ended.insert(name.to_owned(), CancellationToken::new());
        let started = container.startup.is_none() || adopted;
        self.live.probes.insert(
            name.to_owned(),
            ProbeView { started, ready: started && (container.readiness.is_none() || adopted) },
        );
        let init = self.pod.init_containers.iter().any(|c| c.name == name);
        if (init && !is_sidecar(&container))
            || (container.startup.is_none() && container.readiness.is_none() && container.liveness.is_none())
        {
            return;
        }
        let target = probe::Target {
            podman: self.ctx.podman.clone(),
            id: self.record.container(name).id,
            container,
            reach: self.reach(),
            started_ago: Duration::from_millis((self.ctx.now_ms() - started_ms).max(0).unsigned_abs()),
            out: self.out.clone(),
        };
        let ended = self.ended.get(name).cloned().unwrap_or_default();
        self.tasks.spawn_until_stopped("probes", async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = probe::run(target) => {}
            }
        });
    }

    async fn receive(&mut self, message: Message) {
        match message {
            Message::Expected(pod) => {
                if pod.deletion_grace_seconds != self.pod.deletion_grace_seconds {
                    // A shorter grace counts from now.
                    let asked = pod.deletion_grace_seconds.map(|g| self.ctx.now_ms() + g * 1000);
                    self.record.stop_deadline_ms = [self.record.stop_deadline_ms, asked].into_iter().flatten().min();
                    if self.record.stop_deadline_ms.is_some() {
                        self.live.stopping.clear();
                    }
                }
                self.pod = *pod;
                self.live.retry_at_ms = 0;
            }
            Message::Changed { id } => self.observe(&id).await,
            Message::Image { container, image, result } => self.image(&container, image, result),
            Message::Hook { container, id, result } => {
                if self.record.container(&container).id != id {
                    return;
                }
                self.live.hooks.remove(&container);
                if let Err(why) = result {
                    self.event(true, "FailedPostStartHook", format!("PostStartHook failed: {why}"), &container);
                    self.live.kill.insert(container.clone(), (format!("FailedPostStartHook: {why}"), None));
                }
            }
            Message::Probe { container, id, kind, verdict, failure } => {
                self.ctx.measured.probe(kind, failure.is_none());
                if self.record.container(&container).id != id || !self.ended.contains_key(&container) {
                    return;
                }
                if let Some(why) = failure {
                    self.event(true, "Unhealthy", format!("{} probe failed: {why}", kind.name()), &container);
                }
                let grace = self.spec(&container).and_then(|c| match kind {
                    Kind::Startup => c.startup,
                    _ => c.liveness,
                });
                let view = self.live.probes.entry(container.clone()).or_default();
                match (kind, verdict) {
                    (Kind::Readiness, Some(ok)) => view.ready = ok,
                    (Kind::Startup, Some(true)) => {
                        view.started = true;
                        view.ready = self
                            .pod
                            .containers
                            .iter()
                            .chain(&self.pod.init_containers)
                            .any(|c| c.name == container && c.readiness.is_none());
                    }
                    (Kind::Startup | Kind::Liveness, Some(false)) => {
                        let what = kind.name().to_lowercase();
                        let grace = grace.and_then(|p| p.termination_grace_seconds);
                        self.live.kill.insert(
                            container.clone(),
                            (format!("Container {container} failed {what} probe, will be restarted"), grace),
                        );
                    }
                    _ => {}
                }
            }
        }
    }

    fn volumes(&self) -> Volumes<'_> {
        Volumes { pod_dir: &self.dir, persistent: &self.ctx.volumes }
    }

    fn report_gone(&mut self) {
        self.gone = true;
        self.ctx.outbox.gone(PodGone {
            uid: self.pod.uid.clone(),
            environment: self.pod.environment.clone(),
            namespace: self.pod.namespace.clone(),
            name: self.pod.name.clone(),
        });
    }
}
