//! Controllers: one shared work queue over the store's feed, keyed by (tenant, controller, namespace, name).
//!
//! A controller here is a pure decision core (`plan`: objects in, actions out) under a thin shell that reads and writes through
//! [`Client`]. Nothing exists for an idle tenant: no task, timer, connection or cache. What the process keeps is one feed reader, a
//! handful of workers, the queue, and one heap of due times (back-off, delayed re-queue, event expiry).
//!
//! Guarantees:
//! * a key is never reconciled by two workers at once, and a change that arrives meanwhile leads to another reconcile;
//! * a failed reconcile is retried after 5 ms, doubling up to 1000 s, until it succeeds (as client-go does);
//! * after start, or when the feed lagged, every tenant is looked at as if all of it had changed;
//! * reads are consistent: a reconcile sees its own earlier writes, so upstream's expectations and caches are not needed.
//!
//! Controllers act as `system:serviceaccount:kube-system:<name>`, the scheduler as `system:kube-scheduler`.

mod api_services;
mod asleep;
mod certificates;
mod claim;
pub(crate) mod cluster_role;
mod context;
mod cron_job;
mod daemon_set;
mod definition;
mod deployment;
mod dispatch;
mod disruption;
mod endpoint_slice;
mod endpoint_slice_mirroring;
mod endpoints;
pub mod event;
mod event_expiry;
mod fan_out;
mod flow_control;
mod garbage;
mod hash;
mod hints;
mod history;
mod horizontal;
mod int_or_percent;
mod job;
mod lanes;
mod namespace;
mod object;
mod pod;
mod pod_control;
mod pod_gc;
mod queue;
mod recorder;
mod replica_set;
mod resource_quota;
pub(crate) mod root_ca;
mod scan;
mod scheduler;
mod service_account;
mod service_ports;
mod stateful_set;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod volumes;

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt;
use vctl_api::sleep;
use vctl_machinery::{catalog::Catalog, status::ApiError};
use vctl_runtime::{clock::Clock, pki::Validity, tasks::Tasks};
use vctl_store::{Store, StoreError, Tenant, WatchError};

use crate::{client::Client, limits::Rules};
use asleep::Asleep;
use context::{Context, Failure};
use hints::Hints;
use lanes::Lanes;
use queue::{Controller, Key, WorkQueue};
use recorder::Recorder;

/// How controllers get at virtual clusters.
#[async_trait::async_trait]
pub trait Clients: Send + Sync {
    /// Calls into one virtual cluster as `user`. Cheap: called for every reconcile. Of a tenant that does not exist, every call fails.
    fn client(&self, tenant: Tenant, user: &str) -> Arc<dyn Client>;

    /// The resources that the virtual cluster serves, custom ones included.
    async fn catalog(&self, tenant: Tenant) -> Arc<Catalog>;

    /// The certificates that pods must trust to reach their API server.
    ///
    /// # Errors
    /// When the tenant's certificates cannot be read; it is asked again later.
    async fn roots(&self, tenant: Tenant) -> Result<Roots, ApiError>;

    /// What the platform holds the virtual cluster to; none: to nothing.
    ///
    /// # Errors
    /// When it is not known at the moment; it is asked again later.
    async fn rules(&self, _: Tenant) -> Result<Option<Arc<Rules>>, ApiError> {
        Ok(None)
    }

    /// Asks the server of an APIService whether it is there; else says why it is not.
    async fn check_api_service(&self, tenant: Tenant, api_service: &serde_json::Value) -> Result<(), String>;

    /// Signs a certificate signing request (PEM) with the authority of the tenant's clients, as it is; who calls has checked it.
    ///
    /// # Errors
    /// 400 for a request that cannot be signed; others when the tenant's keys cannot be read.
    async fn sign_certificate(
        &self,
        tenant: Tenant,
        request_pem: &str,
        usages: &[&str],
        validity: Validity,
    ) -> Result<String, ApiError>;
}

/// What pods must trust to reach their API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// The certificates (PEM): what `kube-root-ca.crt` holds.
    pub pem: String,
    /// When there will be fewer.
    pub changes_at: Option<jiff::Timestamp>,
}

/// All controllers of all virtual clusters.
pub struct Controllers {
    shared: Arc<Shared>,
    tasks: Tasks,
}

/// What workers share.
struct Shared {
    store: Arc<dyn Store>,
    clients: Arc<dyn Clients>,
    clock: Clock,
    queue: WorkQueue,
    hints: Hints,
    recorder: Recorder,
    lanes: Lanes,
    asleep: Asleep,
}

/// How long a key of a tenant with too many slow reconciles is put aside.
const CROWDED: jiff::SignedDuration = jiff::SignedDuration::from_millis(250);

impl Controllers {
    /// Puts the controllers together; nothing happens before [`Controllers::run`].
    pub fn new(store: Arc<dyn Store>, clients: Arc<dyn Clients>, clock: Clock, tasks: Tasks) -> Self {
        let shared = Shared {
            queue: WorkQueue::new(clock.clone()),
            store,
            clients,
            clock,
            hints: Hints::default(),
            recorder: Recorder::default(),
            lanes: Lanes::default(),
            asleep: Asleep::default(),
        };
        Self { shared: Arc::new(shared), tasks }
    }

    /// Starts the feed reader and the workers; they stop with the tasks given to [`Controllers::new`].
    pub fn run(&self) {
        let feed = self.shared.store.feed();
        let shared = self.shared.clone();
        self.tasks.spawn_until_stopped("controllers-feed", async move { shared.follow(feed).await });
        let (shared, tasks) = (self.shared.clone(), self.tasks.clone());
        self.tasks.spawn_until_stopped("controllers-workers", async move {
            loop {
                let Some(slot) = shared.lanes.slot().await else { return };
                let key = shared.queue.next().await;
                if shared.lanes.is_crowded(key.tenant) {
                    let later = shared.clock.now().checked_add(CROWDED);
                    shared.queue.add_at(key.clone(), later.unwrap_or(jiff::Timestamp::MAX));
                    shared.queue.done(&key);
                    continue;
                }
                let (work, ending) = (shared.clone(), tasks.clone());
                tasks.spawn("controllers-worker", async move { work.run(key, slot, &ending).await });
            }
        });
    }

    /// Looks at the clock again: call it after advancing a fixed clock. The machine's clock needs no call.
    pub fn wake(&self) {
        self.shared.queue.wake();
    }

    /// On which nodes pods of a virtual cluster may be has changed ([`Clients::rules`]): those that wait for one are looked at again.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn placement_changed(&self, name: &str) -> Result<(), StoreError> {
        if let Some(info) = self.shared.store.tenant(name).await? {
            for controller in [Controller::Scheduler, Controller::DaemonSetNodes] {
                self.shared.queue.add(Key::tenant(info.tenant, controller));
            }
        }
        Ok(())
    }

    /// Writes the measurements of the work queue, of all virtual clusters together.
    pub fn measurements(&self, text: &mut vctl_runtime::metrics::Exposition) {
        self.shared.queue.measurements(text);
    }

    /// How many tenants sleep.
    pub fn sleeping(&self) -> usize {
        self.shared.asleep.len()
    }

    /// Whether nothing is being reconciled and nothing waits to be, except for its time to come.
    pub fn is_idle(&self) -> bool {
        self.shared.queue.is_idle()
    }
}

impl Shared {
    /// Turns commits into keys, for ever.
    async fn follow(&self, mut feed: Box<dyn vctl_store::Feed>) {
        self.scan_all().await;
        loop {
            match feed.next().await {
                Ok(committed) if committed.tenant == Tenant::SYSTEM => {}
                Ok(committed) if committed.events.is_empty() => self.tenant_changed(committed.tenant).await,
                Ok(committed) => {
                    for event in committed.events.iter() {
                        if &*event.key.resource == sleep::RESOURCE {
                            self.sleeps(committed.tenant, event.value.is_some());
                        } else {
                            self.wake_all(committed.tenant, dispatch::route(event));
                        }
                    }
                }
                Err(WatchError::Lagged | WatchError::Compacted) => {
                    tracing::warn!("the controllers fell behind the store; looking at everything anew");
                    self.scan_all().await;
                }
                Err(WatchError::Closed) => return,
            }
        }
    }

    /// A tenant was created or deleted.
    async fn tenant_changed(&self, tenant: Tenant) {
        match self.store.revision(tenant).await {
            Err(StoreError::NoTenant(_)) => self.forget(tenant),
            Ok(_) => self.look_at(tenant).await,
            Err(e) => tracing::warn!(error = %e, "cannot tell whether a tenant exists"),
        }
    }

    /// Looks at a tenant as if all of it had changed, unless it sleeps.
    async fn look_at(&self, tenant: Tenant) {
        let key = vctl_store::Key::new(sleep::RESOURCE, "", sleep::NAME);
        match self.store.get(tenant, &key).await {
            Ok((Some(_), _)) => {
                self.asleep.add(tenant, || None);
                self.forget_work(tenant);
            }
            Ok((None, _)) => {
                self.asleep.remove(tenant);
                self.queue.add(Key::tenant(tenant, Controller::Scan));
            }
            // It went in between.
            Err(StoreError::NoTenant(_)) => {}
            Err(e) => tracing::error!(error = %e, "cannot tell whether a tenant sleeps: nothing is done for it"),
        }
    }

    /// A tenant has gone to sleep, or is awake.
    fn sleeps(&self, tenant: Tenant, asleep: bool) {
        if asleep {
            let mut quiet = false;
            self.asleep.add(tenant, || {
                let left = self.queue.rest(tenant).filter(|_| !self.hints.is_about(tenant));
                quiet = left.is_some();
                left
            });
            if !quiet {
                self.forget_work(tenant);
            }
        } else if let Some(left) = self.asleep.remove(tenant) {
            for (at, key) in left {
                self.queue.add_at(key, at);
            }
        } else {
            self.queue.add(Key::tenant(tenant, Controller::Scan));
        }
    }

    fn forget(&self, tenant: Tenant) {
        self.asleep.remove(tenant);
        self.forget_work(tenant);
    }

    fn forget_work(&self, tenant: Tenant) {
        self.queue.forget_tenant(tenant);
        self.hints.forget_tenant(tenant);
    }

    /// Every tenant gets a scan of its own, so that they run on the workers and are retried.
    async fn scan_all(&self) {
        match self.store.tenants().await {
            Ok(tenants) => {
                for info in tenants {
                    self.look_at(info.tenant).await;
                }
            }
            Err(e) => tracing::error!(error = %e, "cannot list tenants: controllers only see what changes from now on"),
        }
    }

    /// Queues what an event touches.
    fn wake_all(&self, tenant: Tenant, wakes: Vec<dispatch::Wake>) {
        use dispatch::Wake;
        if wakes.is_empty() || self.asleep.disturb(tenant) {
            return;
        }
        for wake in wakes {
            match wake {
                Wake::Now(controller, namespace, name) => {
                    self.queue.add(Key { tenant, controller, namespace, name });
                }
                Wake::ServicesOf(namespace, labels) => {
                    if self.hints.services_of(tenant, &namespace, labels) {
                        self.queue.add(Key { tenant, controller: Controller::FanOut, namespace, name: "".into() });
                    }
                }
                Wake::BudgetsOf(namespace, labels) => {
                    if self.hints.budgets_of(tenant, &namespace, labels) {
                        self.queue.add(Key { tenant, controller: Controller::FanOut, namespace, name: "".into() });
                    }
                }
                Wake::AdoptersOf(namespace, labels) => {
                    if self.hints.adopters_of(tenant, &namespace, labels) {
                        self.queue.add(Key { tenant, controller: Controller::FanOut, namespace, name: "".into() });
                    }
                }
                Wake::PendingPods => {
                    if self.hints.has_pending_pods(tenant) {
                        self.queue.add(Key::tenant(tenant, Controller::Scheduler));
                    }
                }
                Wake::WaitingClaims => {
                    if self.hints.has_waiting_claims(tenant) {
                        self.queue.add(Key::tenant(tenant, Controller::Volumes));
                    }
                }
                Wake::TerminatingNamespace(namespace) => {
                    if self.hints.is_terminating(tenant, &namespace) {
                        self.queue.add(Key {
                            tenant,
                            controller: Controller::Namespace,
                            namespace: "".into(),
                            name: namespace,
                        });
                    }
                }
                Wake::ApiServices => {
                    if self.hints.has_api_services(tenant) {
                        self.queue.add(Key::tenant(tenant, Controller::ApiServices));
                    }
                }
                Wake::Quotas(namespace) => {
                    if self.hints.has_quotas(tenant, &namespace) {
                        self.queue.add(Key {
                            tenant,
                            controller: Controller::ResourceQuota,
                            namespace,
                            name: "".into(),
                        });
                    }
                }
                Wake::EventExpires => {
                    let at = event_expiry::expiry(self.clock.now());
                    self.queue.add_at(Key::tenant(tenant, Controller::EventExpiry), at);
                }
            }
        }
    }

    /// Processes one key; when that takes long, beside the others.
    async fn run(&self, key: Key, slot: tokio::sync::OwnedSemaphorePermit, tasks: &Tasks) {
        let tenant = key.tenant;
        let mut work = std::pin::pin!(self.process(key));
        tokio::select! {
            () = &mut work => return,
            () = tokio::time::sleep(lanes::PATIENCE) => {}
        }
        let _slow = self.lanes.slow(tenant);
        drop(slot);
        // A reconcile can be left at any point: it is repeated after the next start.
        tokio::select! {
            () = work => {}
            () = tasks.cancelled() => {}
        }
    }

    /// Reconciles one key and decides when it comes again.
    async fn process(&self, key: Key) {
        // What was under way when it went to sleep; when it wakes, all of it is looked at.
        if self.asleep.disturb(key.tenant) {
            self.queue.done(&key);
            return;
        }
        let context = Context::new(self, &key);
        let outcome = AssertUnwindSafe(self.reconcile(&context, &key)).catch_unwind().await;
        match outcome {
            Ok(Ok(again)) => {
                self.queue.forget(&key);
                if let Some(at) = again {
                    self.queue.add_at(key.clone(), at);
                }
            }
            Ok(Err(failure)) => {
                if matches!(self.store.revision(key.tenant).await, Err(StoreError::NoTenant(_) | StoreError::Closed)) {
                    self.forget(key.tenant);
                } else {
                    if failure.is_routine() {
                        tracing::debug!(?key, error = %failure, "reconcile will be repeated");
                    } else {
                        tracing::warn!(?key, error = %failure, "reconcile failed and will be repeated");
                    }
                    self.queue.add_rate_limited(key.clone());
                }
            }
            Err(_) => {
                tracing::error!(?key, "a controller panicked; this is a bug, please report it");
                self.queue.add_rate_limited(key.clone());
            }
        }
        self.queue.done(&key);
    }

    async fn reconcile(&self, cx: &Context<'_>, key: &Key) -> Result<Option<jiff::Timestamp>, Failure> {
        let (namespace, name) = (&*key.namespace, &*key.name);
        match key.controller {
            Controller::Scan => scan::reconcile(cx).await,
            Controller::FanOut => fan_out::reconcile(cx, namespace).await,
            Controller::Namespace => namespace::reconcile(cx, name).await,
            Controller::ServiceAccount => service_account::reconcile(cx, namespace).await,
            Controller::Definition => definition::reconcile(cx, name).await,
            Controller::RootCa => root_ca::reconcile(cx, namespace).await,
            Controller::GarbageScan => garbage::scan(cx).await,
            Controller::GarbageObject => garbage::object(cx, namespace, name).await,
            Controller::ReplicaSet => replica_set::reconcile(cx, &replica_set::REPLICA_SET, namespace, name).await,
            Controller::ReplicationController => {
                replica_set::reconcile(cx, &replica_set::REPLICATION_CONTROLLER, namespace, name).await
            }
            Controller::ClusterRole => cluster_role::reconcile(cx).await,
            Controller::FlowControl => flow_control::reconcile(cx).await,
            Controller::Disruption => disruption::reconcile(cx, namespace, name).await,
            Controller::CronJob => cron_job::reconcile(cx, namespace, name).await,
            Controller::DaemonSet => daemon_set::reconcile(cx, namespace, name).await,
            Controller::DaemonSetNodes => daemon_set::nodes_changed(cx).await,
            Controller::Job => job::reconcile(cx, namespace, name).await,
            Controller::StatefulSet => stateful_set::reconcile(cx, namespace, name).await,
            Controller::Deployment => deployment::reconcile(cx, namespace, name).await,
            Controller::Endpoints => endpoints::reconcile(cx, namespace, name).await,
            Controller::EndpointSlice => endpoint_slice::reconcile(cx, namespace, name).await,
            Controller::EndpointSliceMirroring => endpoint_slice_mirroring::reconcile(cx, namespace, name).await,
            Controller::HorizontalPodAutoscaler => horizontal::reconcile(cx, namespace, name).await,
            Controller::Scheduler => scheduler::reconcile(cx).await,
            Controller::Volumes => volumes::reconcile(cx).await,
            Controller::ApiServices => api_services::reconcile(cx, name).await,
            Controller::Certificates => certificates::reconcile(cx, name).await,
            Controller::ResourceQuota => resource_quota::reconcile(cx, namespace).await,
            Controller::PodGc => pod_gc::reconcile(cx).await,
            Controller::EventExpiry => event_expiry::reconcile(cx).await,
        }
    }
}
