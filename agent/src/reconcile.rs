//! Takes the expected state in, keeps it on disk, and hands it on in order: DNS, pods, services.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::StreamExt as _;
use http_body_util::BodyDataStream;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use vctl_api::agent::{ExpectedDns, ExpectedPods, ExpectedServices, Pod, PodGone};

use crate::{
    context::Context,
    error::AgentError,
    expected::Expected,
    pods::{
        label,
        record::PodRecord,
        worker::{self, Handle, Message},
    },
    proto::AgentServiceClient,
};

/// How often all containers are listed, in case an event was missed.
const RELIST_PERIOD: Duration = Duration::from_secs(10);

/// The agent as a whole either has nothing to do or is at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Processing,
}

/// A client of the server as it is connected now.
pub(crate) type Client = AgentServiceClient<tonic::transport::Channel>;

/// Owner of the expected state and of the pods' actors.
pub(crate) struct Reconciler {
    ctx: Arc<Context>,
    expected: Mutex<Expected>,
    pods: Mutex<BTreeMap<String, Handle>>,
    ended: mpsc::UnboundedSender<String>,
    state: watch::Sender<State>,
    /// The connection to the server, while there is one.
    pub(crate) client: watch::Sender<Option<Client>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins from the state on disk, before the server is heard.
pub(crate) async fn start(ctx: &Arc<Context>, expected: Expected) -> Result<Arc<Reconciler>, AgentError> {
    let (ended, mut gone) = mpsc::unbounded_channel();
    let this = Arc::new(Reconciler {
        ctx: ctx.clone(),
        expected: Mutex::new(expected),
        pods: Mutex::default(),
        ended,
        state: watch::Sender::new(State::Idle),
        client: watch::Sender::new(None),
    });
    let dns = lock(&this.expected).dns.clone();
    ctx.dns.apply(ExpectedDns {
        generation: dns.generation,
        full: true,
        upsert: dns.members.into_values().collect(),
        removed: Vec::new(),
    });
    // All pods that are there are in the first table: what runs is not cut off while the agent starts.
    let records = this.records()?;
    ctx.network.preload(records.iter().map(|r| (r.uid.as_str(), r.environment.as_str())));
    ctx.dns.set_clients(ctx.network.clients());
    let services = lock(&this.expected).services.members.clone();
    ctx.network.set_services(services).await?;
    for record in records {
        if !lock(&this.expected).pods.members.contains_key(&record.uid) {
            this.dispatch(removed(&record))?;
        }
    }
    let pods: Vec<Pod> = lock(&this.expected).pods.members.values().cloned().collect();
    for pod in pods {
        this.dispatch(pod)?;
    }
    this.remove_strays().await?;
    let reaper = this.clone();
    ctx.tasks.spawn_until_stopped("ended pods", async move {
        while let Some(uid) = gone.recv().await {
            reaper.ended(&uid);
        }
    });
    let watcher = this.clone();
    ctx.tasks.spawn_until_stopped("container events", async move { watcher.watch_containers().await });
    Ok(this)
}

/// A pod of which only the record is known: it is to go.
fn removed(record: &PodRecord) -> Pod {
    Pod {
        uid: record.uid.clone(),
        environment: record.environment.clone(),
        namespace: record.namespace.clone(),
        name: record.name.clone(),
        deletion_grace_seconds: Some(0),
        ..Pod::default()
    }
}

/// Whether an actor is that of an earlier pod of the same name, and not at its end yet.
fn is_before(other: &Handle, pod: &Pod) -> bool {
    let view = other.view.borrow();
    view.pod.uid != pod.uid
        && !other.inbox.is_closed()
        && (&view.pod.environment, &view.pod.namespace, &view.pod.name) == (&pod.environment, &pod.namespace, &pod.name)
}

impl Reconciler {
    fn records(&self) -> Result<Vec<PodRecord>, AgentError> {
        let dir = self.ctx.pods_dir();
        std::fs::create_dir_all(&dir).map_err(crate::error::state("creating", &dir))?;
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&dir).map_err(crate::error::state("reading", &dir))?.flatten() {
            all.extend(PodRecord::load(&entry.path())?);
        }
        Ok(all)
    }

    /// Removes containers of ours that no record tells of.
    async fn remove_strays(&self) -> Result<(), AgentError> {
        for found in self.ctx.podman.list(label::WORKER, &self.ctx.config.worker).await? {
            let uid = found.labels.as_ref().and_then(|l| l.get(label::UID)).cloned().unwrap_or_default();
            if !lock(&self.pods).contains_key(&uid) {
                self.ctx.podman.remove(&found.id).await?;
            }
        }
        Ok(())
    }

    /// Nothing is left of a pod. What is expected and only waited for that, or was expected anew meanwhile, begins.
    fn ended(&self, uid: &str) {
        {
            let mut pods = lock(&self.pods);
            // A later actor of the same pod stays.
            if pods.get(uid).is_some_and(|handle| handle.inbox.is_closed()) {
                pods.remove(uid);
            }
        }
        let missing: Vec<Pod> = {
            let (expected, pods) = (lock(&self.expected), lock(&self.pods));
            let all = expected.pods.members.values();
            all.filter(|p| p.deletion_grace_seconds.is_none() && !pods.contains_key(&p.uid)).cloned().collect()
        };
        for pod in missing {
            let uid = pod.uid.clone();
            if let Err(error) = self.dispatch(pod) {
                tracing::error!(pod = %uid, %error, "a pod that is expected could not be begun");
            }
        }
    }

    /// Tells the actor of a pod what is expected; starts one for a new pod. A pod that has the name of one that is still ending waits
    /// for its end (see [`Self::ended`]): the two may have the same volumes.
    fn dispatch(&self, pod: Pod) -> Result<(), AgentError> {
        let mut pods = lock(&self.pods);
        let new = pods.get(&pod.uid).is_none_or(|handle| handle.inbox.is_closed());
        if new && pod.deletion_grace_seconds.is_none() && pods.values().any(|other| is_before(other, &pod)) {
            return Ok(());
        }
        if let Some(handle) = pods.get(&pod.uid)
            && handle.inbox.send(Message::Expected(Box::new(pod.clone()))).is_ok()
        {
            return Ok(());
        }
        let uid = pod.uid.clone();
        pods.insert(uid, worker::spawn(&self.ctx, pod, self.ended.clone())?);
        Ok(())
    }

    fn processing<T>(&self, class: &str, generation: u64, began: Instant, work: Result<T, AgentError>) {
        self.ctx.measured.applied(class, began.elapsed(), work.is_ok());
        let error = work.err().map(|e| e.to_string()).unwrap_or_default();
        if !error.is_empty() {
            tracing::error!(class, generation, error, "the expected state could not be applied");
        }
        self.ctx.outbox.applied(class, generation, error);
        self.enter(State::Idle);
    }

    fn begin(&self) -> Instant {
        self.enter(State::Processing);
        Instant::now()
    }

    fn enter(&self, state: State) {
        self.state.send_if_modified(|now| {
            let changed = *now != state;
            if changed {
                tracing::debug!(from = ?*now, to = ?state, "reconciler");
            }
            *now = state;
            changed
        });
    }

    pub(crate) fn dns(&self, expected: ExpectedDns) {
        let began = self.begin();
        let generation = expected.generation;
        let work = {
            let mut all = lock(&self.expected);
            let new = all.dns.update(generation, expected.full, expected.upsert.clone(), &expected.removed, |d| &d.id);
            if new { all.save_dns().map(|()| self.ctx.dns.apply(expected)) } else { Ok(()) }
        };
        self.processing("dns", generation, began, work);
    }

    pub(crate) fn pods(&self, expected: ExpectedPods) {
        let began = self.begin();
        let generation = expected.generation;
        self.processing("pods", generation, began, self.apply_pods(expected));
    }

    fn apply_pods(&self, expected: ExpectedPods) -> Result<(), AgentError> {
        let ExpectedPods { generation, full, upsert, mut removed } = expected;
        {
            let mut all = lock(&self.expected);
            if !all.pods.update(generation, full, upsert.clone(), &removed, |p| &p.uid) {
                return Ok(());
            }
            all.save_pods()?;
            if full {
                removed = lock(&self.pods).keys().filter(|uid| !all.pods.members.contains_key(*uid)).cloned().collect();
            }
        }
        for uid in removed {
            let handle = lock(&self.pods).get(&uid).cloned();
            if let Some(handle) = handle {
                let mut pod = handle.view.borrow().pod.clone();
                pod.deletion_grace_seconds = Some(0);
                self.dispatch(pod)?;
            } else {
                self.ctx.outbox.gone(PodGone { uid, ..PodGone::default() });
            }
        }
        for pod in upsert {
            self.dispatch(pod)?;
        }
        Ok(())
    }

    pub(crate) async fn services(&self, expected: ExpectedServices) {
        let began = self.begin();
        let generation = expected.generation;
        let all = {
            let mut all = lock(&self.expected);
            let new = all.services.update(generation, expected.full, expected.upsert, &expected.removed, |s| &s.id);
            all.save_services().map(|()| new.then(|| all.services.members.clone()))
        };
        let work = match all {
            Ok(Some(services)) => self.ctx.network.set_services(services).await,
            other => other.map(drop),
        };
        self.processing("services", generation, began, work);
    }

    /// Tells again which pods that are to go have gone: the connection may have been lost before the server heard it.
    pub(crate) fn repeat_gone(&self) {
        let expected = lock(&self.expected);
        let pods = lock(&self.pods);
        for pod in
            expected.pods.members.values().filter(|p| p.deletion_grace_seconds.is_some() && !pods.contains_key(&p.uid))
        {
            self.ctx.outbox.gone(PodGone {
                uid: pod.uid.clone(),
                environment: pod.environment.clone(),
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
            });
        }
    }

    pub(crate) fn generations(&self) -> Vec<(String, u64)> {
        lock(&self.expected).generations().collect()
    }

    /// The actor of a pod.
    pub(crate) fn handle(&self, uid: &str) -> Option<Handle> {
        lock(&self.pods).get(uid).cloned()
    }

    /// All actors.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        lock(&self.pods).values().cloned().collect()
    }

    fn changed(&self, uid: &str, id: &str) {
        if let Some(handle) = self.handle(uid) {
            // A closed inbox means that the pod is gone, and its containers with it.
            let _ = handle.inbox.send(Message::Changed { id: id.to_owned() });
        }
    }

    /// Podman's events tell at once that a container has ended; a list now and then tells what they missed.
    async fn watch_containers(&self) {
        loop {
            if let Ok(body) = self.ctx.podman.events().await {
                let mut stream = BodyDataStream::new(body);
                let mut buffer = Vec::new();
                let mut relist = tokio::time::interval(RELIST_PERIOD);
                loop {
                    tokio::select! {
                        _ = relist.tick() => self.relist().await,
                        part = stream.next() => {
                            let Some(Ok(part)) = part else { break };
                            buffer.extend_from_slice(&part);
                            while let Some(end) = buffer.iter().position(|b| *b == b'\n') {
                                let line: Vec<u8> = buffer.drain(..=end).collect();
                                self.container_event(&line);
                            }
                        }
                    }
                }
            }
            self.relist().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn container_event(&self, line: &[u8]) {
        let Ok(event) = serde_json::from_slice::<serde_json::Value>(line) else { return };
        if matches!(event["Action"].as_str(), Some("died" | "remove" | "die"))
            && let (Some(id), Some(uid)) =
                (event["Actor"]["ID"].as_str(), event["Actor"]["Attributes"][label::UID].as_str())
        {
            self.changed(uid, id);
        }
    }

    async fn relist(&self) {
        match self.ctx.podman.list(label::WORKER, &self.ctx.config.worker).await {
            Err(e) => tracing::warn!(error = %e, "listing containers"),
            Ok(all) => {
                let running: Vec<&str> = all.iter().filter(|c| c.state == "running").map(|c| c.id.as_str()).collect();
                for handle in self.handles() {
                    let view = handle.view.borrow().clone();
                    for known in view
                        .record
                        .containers
                        .values()
                        .filter(|c| !c.id.is_empty() && !running.contains(&c.id.as_str()))
                    {
                        self.changed(&view.pod.uid, &known.id);
                    }
                }
            }
        }
    }
}
