//! The work queue: keys that are to be reconciled, each at most once at a time, and keys that are due later.

mod numbers;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use vctl_runtime::{clock::Clock, metrics::Exposition};
use vctl_store::Tenant;

use numbers::Numbers;

/// Who reconciles a key.
#[expect(clippy::enum_variant_names, reason = "the kind is called ReplicationController")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Controller {
    Scan,
    FanOut,
    Namespace,
    Definition,
    ServiceAccount,
    RootCa,
    GarbageScan,
    GarbageObject,
    ReplicaSet,
    ReplicationController,
    Deployment,
    StatefulSet,
    DaemonSet,
    DaemonSetNodes,
    Job,
    CronJob,
    Disruption,
    ClusterRole,
    Endpoints,
    EndpointSlice,
    EndpointSliceMirroring,
    HorizontalPodAutoscaler,
    Scheduler,
    Volumes,
    PodGc,
    EventExpiry,
    ResourceQuota,
    Certificates,
    ApiServices,
    FlowControl,
}

impl Controller {
    /// The first in their order.
    const FIRST: Self = Self::Scan;

    /// The user it acts as.
    pub(super) fn user(self) -> &'static str {
        match self {
            Self::Scan | Self::FanOut | Self::EventExpiry | Self::Definition | Self::FlowControl => "system:apiserver",
            Self::Namespace => "system:serviceaccount:kube-system:namespace-controller",
            Self::ServiceAccount => "system:serviceaccount:kube-system:service-account-controller",
            Self::RootCa => "system:serviceaccount:kube-system:root-ca-cert-publisher",
            Self::GarbageScan | Self::GarbageObject => "system:serviceaccount:kube-system:generic-garbage-collector",
            Self::ReplicaSet => "system:serviceaccount:kube-system:replicaset-controller",
            Self::ReplicationController => "system:serviceaccount:kube-system:replication-controller",
            Self::Deployment => "system:serviceaccount:kube-system:deployment-controller",
            Self::StatefulSet => "system:serviceaccount:kube-system:statefulset-controller",
            Self::Job => "system:serviceaccount:kube-system:job-controller",
            Self::CronJob => "system:serviceaccount:kube-system:cronjob-controller",
            Self::Disruption => "system:serviceaccount:kube-system:disruption-controller",
            Self::ClusterRole => "system:serviceaccount:kube-system:clusterrole-aggregation-controller",
            Self::DaemonSet | Self::DaemonSetNodes => "system:serviceaccount:kube-system:daemon-set-controller",
            Self::Endpoints => "system:serviceaccount:kube-system:endpoint-controller",
            Self::EndpointSlice => "system:serviceaccount:kube-system:endpointslice-controller",
            Self::EndpointSliceMirroring => "system:serviceaccount:kube-system:endpointslicemirroring-controller",
            Self::HorizontalPodAutoscaler => "system:serviceaccount:kube-system:horizontal-pod-autoscaler",
            Self::Scheduler => "system:kube-scheduler",
            Self::Volumes => "system:serviceaccount:kube-system:persistent-volume-binder",
            Self::ApiServices => "system:kube-aggregator",
            Self::Certificates => "system:serviceaccount:kube-system:certificate-controller",
            Self::ResourceQuota => "system:serviceaccount:kube-system:resourcequota-controller",
            Self::PodGc => "system:serviceaccount:kube-system:pod-garbage-collector",
        }
    }

    /// `source.component` of the events it records.
    pub(super) fn component(self) -> &'static str {
        match self {
            Self::Scheduler => "default-scheduler",
            Self::DaemonSet => "daemonset-controller",
            Self::Disruption => "controllermanager",
            Self::EndpointSliceMirroring => "endpoint-slice-mirroring-controller",
            Self::Volumes => "persistentvolume-controller",
            Self::PodGc => "pod-garbage-collector-controller",
            other => other.user().rsplit(':').next().unwrap_or_default(),
        }
    }
}

/// What is to be reconciled. Keys about a whole tenant have empty namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) tenant: Tenant,
    pub(super) controller: Controller,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

impl Key {
    /// A key about the whole tenant.
    pub(super) fn tenant(tenant: Tenant, controller: Controller) -> Self {
        Self { tenant, controller, namespace: "".into(), name: "".into() }
    }
}

/// First and longest delay after a failure, as client-go's default rate limiter.
const FIRST_DELAY: SignedDuration = SignedDuration::from_millis(5);
const LONGEST_DELAY: SignedDuration = SignedDuration::from_secs(1000);
/// How long a worker sleeps at most before it looks at the clock again, which may have been set.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Delay before attempt `failures + 1`.
fn back_off(failures: u32) -> SignedDuration {
    FIRST_DELAY
        .checked_mul(1_i32.checked_shl(failures.min(30)).unwrap_or(i32::MAX))
        .map_or(LONGEST_DELAY, |d| d.min(LONGEST_DELAY))
}

/// The queue's state.
#[derive(Default)]
struct State {
    /// In order of arrival; each key at most once, and none that is being processed.
    ready: VecDeque<Key>,
    /// Keys that are ready, or will be as soon as their current run is done, and since when.
    dirty: BTreeMap<Key, Instant>,
    /// And since when.
    processing: HashMap<Key, Instant>,
    failures: BTreeMap<Key, u32>,
    /// Keys that come at a time; each at most once, the earliest time wins.
    due: BTreeSet<(Timestamp, Key)>,
    /// By tenant, as keys are ordered: of many tenants one is found at once.
    due_at: BTreeMap<Key, Timestamp>,
    numbers: Numbers,
}

impl State {
    fn add(&mut self, key: Key) {
        if self.dirty.contains_key(&key) {
            return;
        }
        self.numbers.of(key.controller).adds.add_one();
        self.dirty.insert(key.clone(), Instant::now());
        if !self.processing.contains_key(&key) {
            self.ready.push_back(key);
        }
    }

    fn add_at(&mut self, key: Key, at: Timestamp) {
        if let Some(before) = self.due_at.get(&key).copied() {
            if before <= at {
                return;
            }
            self.due.remove(&(before, key.clone()));
        }
        self.due_at.insert(key.clone(), at);
        self.due.insert((at, key));
    }

    fn add_rate_limited(&mut self, key: Key, now: Timestamp) {
        self.numbers.of(key.controller).retries.add_one();
        let failures = self.failures.entry(key.clone()).or_default();
        let delay = back_off(*failures);
        *failures = failures.saturating_add(1);
        self.add_at(key, now.checked_add(delay).unwrap_or(now));
    }

    fn pop(&mut self, now: Timestamp) -> Option<Key> {
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.due.pop_first() {
                self.due_at.remove(&key);
                self.add(key);
            }
        }
        let key = self.ready.pop_front()?;
        let now = Instant::now();
        if let Some(since) = self.dirty.remove(&key) {
            self.numbers.of(key.controller).waited.observe(now.duration_since(since));
        }
        self.processing.insert(key.clone(), now);
        Some(key)
    }

    fn done(&mut self, key: &Key) {
        if let Some(since) = self.processing.remove(key) {
            self.numbers.of(key.controller).worked.observe(since.elapsed());
        }
        if self.dirty.contains_key(key) {
            self.ready.push_back(key.clone());
        }
    }

    fn forget_tenant(&mut self, tenant: Tenant) {
        let waited = take(&mut self.dirty, tenant);
        if !waited.is_empty() {
            self.ready.retain(|k| k.tenant != tenant);
        }
        take(&mut self.failures, tenant);
        for (key, at) in take(&mut self.due_at, tenant) {
            self.due.remove(&(at, key));
        }
    }

    /// Takes what is due later of a tenant, if that is all there is of it.
    fn rest(&mut self, tenant: Tenant) -> Option<Vec<(Timestamp, Key)>> {
        let busy = of(&self.dirty, tenant).is_some()
            || of(&self.failures, tenant).is_some()
            || self.processing.keys().any(|key| key.tenant == tenant);
        if busy {
            return None;
        }
        let rest: Vec<_> = take(&mut self.due_at, tenant).into_iter().map(|(key, at)| (at, key)).collect();
        for due in &rest {
            self.due.remove(due);
        }
        Some(rest)
    }
}

/// The first key of a tenant, in the order of keys.
fn of<T>(map: &BTreeMap<Key, T>, tenant: Tenant) -> Option<&Key> {
    map.range(Key::tenant(tenant, Controller::FIRST)..).next().map(|(key, _)| key).filter(|key| key.tenant == tenant)
}

/// Takes everything about a tenant.
fn take<T>(map: &mut BTreeMap<Key, T>, tenant: Tenant) -> Vec<(Key, T)> {
    let mut taken = Vec::new();
    while let Some(key) = of(map, tenant).cloned() {
        taken.extend(map.remove_entry(&key));
    }
    taken
}

/// The queue that workers wait on.
pub(super) struct WorkQueue {
    state: Mutex<State>,
    notify: Notify,
    clock: Clock,
}

impl WorkQueue {
    pub(super) fn new(clock: Clock) -> Self {
        Self { state: Mutex::default(), notify: Notify::new(), clock }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a key; no effect if it waits already.
    pub(super) fn add(&self, key: Key) {
        self.lock().add(key);
        self.notify.notify_one();
    }

    /// Queues a key at a time; of several times the earliest counts.
    pub(super) fn add_at(&self, key: Key, at: Timestamp) {
        self.lock().add_at(key, at);
        self.notify.notify_one();
    }

    /// Queues a key after its back-off, which grows with every call.
    pub(super) fn add_rate_limited(&self, key: Key) {
        self.lock().add_rate_limited(key, self.clock.now());
        self.notify.notify_one();
    }

    /// Resets a key's back-off.
    pub(super) fn forget(&self, key: &Key) {
        self.lock().failures.remove(key);
    }

    /// Drops everything about a tenant that is gone.
    pub(super) fn forget_tenant(&self, tenant: Tenant) {
        self.lock().forget_tenant(tenant);
    }

    /// Takes what is due later of a tenant; none, and nothing is taken, when there is something to do for it now.
    pub(super) fn rest(&self, tenant: Tenant) -> Option<Vec<(Timestamp, Key)>> {
        self.lock().rest(tenant)
    }

    /// The key has been processed: it may be handed out again.
    pub(super) fn done(&self, key: &Key) {
        self.lock().done(key);
        self.notify.notify_one();
    }

    /// Something that is queued, due or failing of a tenant.
    #[cfg(test)]
    pub(super) fn is_about(&self, tenant: Tenant) -> Option<Key> {
        let state = self.lock();
        state.dirty.keys().chain(state.failures.keys()).chain(state.due_at.keys()).find(|k| k.tenant == tenant).cloned()
    }

    /// How often keys of a controller were queued.
    #[cfg(test)]
    pub(super) fn queued(&self, controller: Controller) -> u64 {
        self.lock().numbers.of(controller).adds.get()
    }

    /// Whether a key comes at a later time.
    #[cfg(test)]
    pub(super) fn is_due(&self, key: &Key) -> bool {
        self.lock().due_at.contains_key(key)
    }

    /// Writes the measurements of all controllers.
    pub(super) fn measurements(&self, text: &mut Exposition) {
        let state = self.lock();
        let mut depths: HashMap<Controller, usize> = HashMap::new();
        for key in &state.ready {
            *depths.entry(key.controller).or_default() += 1;
        }
        state.numbers.write(text, |controller| depths.get(&controller).copied().unwrap_or_default());
    }

    pub(super) fn wake(&self) {
        self.notify.notify_waiters();
        self.notify.notify_one();
    }

    pub(super) fn is_idle(&self) -> bool {
        let now = self.clock.now();
        let state = self.lock();
        state.ready.is_empty() && state.processing.is_empty() && state.due.first().is_none_or(|(at, _)| *at > now)
    }

    /// Waits for a key. It must be given back with [`WorkQueue::done`]. Cancel-safe.
    pub(super) async fn next(&self) -> Key {
        loop {
            let notified = self.notify.notified();
            let sleep = {
                let mut state = self.lock();
                let now = self.clock.now();
                if let Some(key) = state.pop(now) {
                    if !state.ready.is_empty() {
                        self.notify.notify_one();
                    }
                    return key;
                }
                state
                    .due
                    .first()
                    .map(|(at, _)| Duration::try_from(at.duration_since(now)).unwrap_or_default().min(LONGEST_SLEEP))
            };
            match sleep {
                None => notified.await,
                Some(sleep) => {
                    tokio::select! {
                        () = notified => {}
                        () = tokio::time::sleep(sleep) => {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key { tenant: Tenant(1), controller: Controller::ReplicaSet, namespace: "ns".into(), name: name.into() }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    #[test]
    fn a_key_added_while_processed_comes_once_more_after_it_is_done() {
        let mut q = State::default();
        q.add(key("a"));
        q.add(key("a"));
        assert_eq!(q.pop(at(0)), Some(key("a")));
        q.add(key("a"));
        q.add(key("a"));
        assert_eq!(q.pop(at(0)), None, "it is being processed");
        q.done(&key("a"));
        assert_eq!(q.pop(at(0)), Some(key("a")));
        q.done(&key("a"));
        assert_eq!(q.pop(at(0)), None);
    }

    #[test]
    fn delays_double_from_5_ms_to_1000_s_and_start_over_after_forget() {
        let delays: Vec<i128> = (0..20).map(|n| back_off(n).as_millis()).collect();
        assert_eq!(&delays[..4], &[5, 10, 20, 40]);
        assert_eq!(delays[17], 655_360);
        assert_eq!(delays[18], 1_000_000);
        assert_eq!(back_off(u32::MAX).as_secs(), 1000);
        let mut q = State::default();
        q.add_rate_limited(key("a"), at(0));
        assert_eq!(q.pop(at(4)), None);
        assert_eq!(q.pop(at(5)), Some(key("a")));
        q.add_rate_limited(key("a"), at(5));
        q.done(&key("a"));
        assert_eq!(q.pop(at(14)), None);
        assert_eq!(q.pop(at(15)), Some(key("a")));
    }

    #[test]
    fn the_earliest_of_several_due_times_counts() {
        let mut q = State::default();
        q.add_at(key("a"), at(100));
        q.add_at(key("a"), at(50));
        q.add_at(key("a"), at(70));
        assert_eq!(q.pop(at(49)), None);
        assert_eq!(q.pop(at(50)), Some(key("a")));
        q.done(&key("a"));
        assert_eq!(q.pop(at(1000)), None, "the later times were absorbed");
    }

    #[test]
    fn nothing_is_left_of_a_forgotten_tenant() {
        let mut q = State::default();
        q.add(key("a"));
        q.add_at(key("b"), at(9));
        q.add_rate_limited(key("c"), at(0));
        q.forget_tenant(Tenant(1));
        assert!(q.pop(at(10_000)).is_none());
        assert!(q.failures.is_empty() && q.due_at.is_empty() && q.dirty.is_empty());
    }

    #[tokio::test]
    async fn several_waiters_each_get_a_key() {
        let q = Arc::new(WorkQueue::new(Clock::system()));
        let tasks = vctl_runtime::tasks::Tasks::new();
        let (send, mut receive) = tokio::sync::mpsc::channel(8);
        for _ in 0..4 {
            let (q, send) = (q.clone(), send.clone());
            tasks.spawn("waiter", async move {
                let key = q.next().await;
                send.send(key.name.to_string()).await.unwrap();
            });
        }
        for name in ["a", "b", "c", "d"] {
            q.add(key(name));
        }
        let mut got = Vec::new();
        for _ in 0..4 {
            got.push(tokio::time::timeout(Duration::from_secs(5), receive.recv()).await.unwrap().unwrap());
        }
        got.sort();
        assert_eq!(got, ["a", "b", "c", "d"]);
    }
}
