//! All virtual control planes of this process.

mod backup;
mod credentials;
mod history;
mod limits;
mod rotation;
mod sleep;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::Body;
use http::{Request, Response};
use serde_json::Value;
use vctl_api::names::EnvironmentName;
use vctl_machinery::{catalog::Catalog, status::ApiError, version::MinorVersion};
use vctl_runtime::{
    metrics::{Exposition, Kind},
    pki::{PkiError, Validity},
    tasks::Tasks,
};
use vctl_store::{Committed, ListOptions, Scope, Store, StoreError, Tenant, WatchError};

use crate::{
    activity::Activity,
    aggregation::ApiService,
    api_metrics::AllMetrics,
    audit::Audited,
    authentication::oidc::Issuers,
    bootstrap,
    client::Client,
    config::Config,
    controllers::{Clients, Roots},
    fairness::Fairness,
    in_process::{Cluster, InProcess},
    keys::KeysDocument,
    limits::{Rules, counting::Counting},
    plane::{self, Plane, Shared},
    server::{self, openapi::Documents},
    storage,
    streams::PodStreams,
    user::{MASTERS, User},
    views::{Views, WatchCounters},
};

/// Where a request comes from, as the listener saw it.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// Client certificate chain (DER, leaf first); empty without one. The listener has proved that the client holds the leaf's key.
    pub certificates: Arc<Vec<Vec<u8>>>,
    /// Remote address, for people.
    pub address: String,
    /// It is one of the cluster's own pods.
    pub pod: bool,
}

/// The path that the listener took off a request, such as `/clusters/dev`: an extension of the request. Addresses that are relative to the server
/// begin with it.
#[derive(Debug, Clone)]
pub struct Prefix(pub String);

/// Who asks, when the process itself has found that out: an extension of the request, which nothing on the wire can set.
#[derive(Debug, Clone)]
pub(crate) struct Authenticated(pub(crate) Arc<User>);

/// What a new cluster is to be.
#[derive(Debug, Clone, Default)]
pub struct NewCluster {
    /// The Kubernetes that it is.
    pub kubernetes: MinorVersion,
    /// Whose tokens count besides the cluster's own: an AuthenticationConfiguration.
    pub authentication: Option<Value>,
    /// Nodes that are there from its first moment, so that the first pod finds one.
    pub nodes: Vec<Value>,
}

/// Checks an AuthenticationConfiguration (`apiserver.config.k8s.io/v1`).
///
/// # Errors
/// Everything that is wrong with it, for people.
pub fn check_authentication(configuration: &Value) -> Result<(), String> {
    Issuers::new(Some(configuration)).map(drop)
}

/// All virtual control planes of this process. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct ControlPlanes {
    shared: Arc<Shared>,
    planes: Arc<Mutex<HashMap<String, Arc<Plane>>>>,
    /// Names of tenants that have been asked for by number.
    names: Arc<Mutex<HashMap<Tenant, Arc<str>>>>,
}

/// How often what is kept of idle clusters is looked for.
const SWEEP: Duration = Duration::from_secs(15);

impl ControlPlanes {
    /// What is kept of all clusters' OpenAPI documents.
    #[cfg(test)]
    pub(crate) fn documents(&self) -> &Documents {
        &self.shared.documents
    }

    /// Serves the clusters in `store`. Two tasks for all of them belong to `tasks`: one follows the store's feed, one forgets idle
    /// clusters.
    pub fn new(store: Arc<dyn Store>, config: Config, streams: Arc<dyn PodStreams>, tasks: Tasks) -> Self {
        let mut feed = store.feed();
        let (metrics, views, fairness) = (AllMetrics::default(), Views::default(), Fairness::new(config.seats));
        let (activity, documents) = (Activity::default(), Documents::default());
        let (counting, audited) = (Counting::default(), Audited::default());
        let tasks_of = tasks.clone();
        let shared = Shared {
            store,
            config,
            streams,
            fairness,
            tasks: tasks_of,
            metrics,
            views,
            activity,
            documents,
            counting,
            audited,
        };
        let shared = Arc::new(shared);
        let this = Self { shared, planes: Arc::default(), names: Arc::default() };

        let follower = this.clone();
        tasks.spawn_until_stopped("control plane caches", async move {
            loop {
                match feed.next().await {
                    Ok(committed) if committed.events.is_empty() => follower.born_or_gone(committed.tenant).await,
                    Ok(committed) => follower.committed(&committed),
                    Err(WatchError::Lagged) => follower.lock().values().for_each(|p| p.changed_unknown()),
                    Err(WatchError::Compacted | WatchError::Closed) => return,
                }
            }
        });
        let sweeper = this.clone();
        tasks.spawn_until_stopped("control plane eviction", async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                sweeper.evict_idle();
            }
        });
        this
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Plane>>> {
        self.planes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn committed(&self, committed: &Committed) {
        // Most writes concern no cache: for those the planes need not be searched.
        let mut events = committed.events.iter().filter(|e| plane::is_cached(&e.key.resource)).peekable();
        if events.peek().is_some()
            && let Some(plane) = self.lock().values().find(|p| p.tenant == committed.tenant)
        {
            events.for_each(|e| plane.committed(&e.key.resource, e.revision));
        }
    }

    /// A tenant was created or deleted. Of one that is there nothing is thrown away: this may come after its first requests.
    async fn born_or_gone(&self, tenant: Tenant) {
        if matches!(self.shared.store.revision(tenant).await, Err(StoreError::NoTenant(_))) {
            self.shared.metrics.forget(tenant);
            self.shared.activity.forget(tenant);
            self.lock().retain(|_, p| p.tenant != tenant);
            self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(&tenant);
        }
    }

    /// Forgets what is kept in memory of clusters without a request for [`Config::idle_after`]. Happens by itself; for tests and
    /// when memory is short.
    pub fn evict_idle(&self) {
        let before = self.shared.config.clock.now().as_second() - self.shared.config.idle_after.as_secs() as i64;
        let mut planes = self.lock();
        planes.retain(|_, p| p.last_used() > before);
        self.shared.counting.forget_before(before);
        planes.shrink_to_fit();
        drop(planes);
        if self.shared.views.counters.open() == 0 {
            self.shared.views.clear();
        }
    }

    /// Forgets what is kept in memory of all clusters.
    pub fn evict_all(&self) {
        *self.lock() = HashMap::new();
    }

    /// Writes the measurements of the requests to all clusters together, also to those that are gone.
    pub fn measurements(&self, text: &mut Exposition) {
        self.shared.metrics.server.write(text);
        self.shared.audited.write(text);
        let watches = &self.shared.views.counters;
        for (name, kind, help, value) in [
            ("apiserver_watch_events_total", Kind::Counter, "Number of events sent in watch clients", watches.frames()),
            (
                "vctl_watch_encodings_total",
                Kind::Counter,
                "Number of changes that were encoded for watches: once for each form, however many watch.",
                watches.encodings(),
            ),
            (
                "vctl_watches_lagged_total",
                Kind::Counter,
                "Number of watches that were ended because their clients read too slowly.",
                watches.lagged(),
            ),
            ("vctl_watches_open", Kind::Gauge, "Number of watches that are open.", watches.open()),
        ] {
            text.family(name, kind, help);
            text.sample(name, &[], value);
        }
    }

    /// What the watches of all clusters have done: for metrics.
    pub fn watch_counters(&self) -> Arc<WatchCounters> {
        self.shared.views.counters.clone()
    }

    /// How many requests each cluster has answered since this process first had one for it, by name. Those without any are left out.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn answered(&self) -> Result<Vec<(String, u64)>, ApiError> {
        let mut answered = Vec::new();
        for (tenant, requests) in self.shared.metrics.answered() {
            if let Some(name) = self.name_of(tenant).await? {
                answered.push((name, requests));
            }
        }
        Ok(answered)
    }

    /// Requests of all clusters that wait for their turn.
    pub fn waiting_requests(&self) -> usize {
        self.shared.fairness.waiting()
    }

    /// How many clusters have something in memory.
    pub fn loaded(&self) -> usize {
        self.lock().len()
    }

    /// The cluster whose credentials a request carries: its issuer by the client certificate, or else by the service account token. Not verified:
    /// a hint where to send a request that names no cluster, which authenticates as any other.
    pub fn of_credentials(&self, headers: &http::HeaderMap, peer: &Peer) -> Option<EnvironmentName> {
        credentials::issuer(headers, &peer.certificates, &self.shared.config.issuer_base)
    }

    pub(crate) async fn plane(&self, name: &str) -> Result<Arc<Plane>, ApiError> {
        let loaded = self.lock().get(name).filter(|plane| !plane.is_outdated()).cloned();
        let plane = match loaded {
            Some(plane) => plane,
            None => {
                let plane = Plane::load(self.shared.clone(), name).await?;
                self.lock().insert(name.to_owned(), plane.clone());
                plane
            }
        };
        plane.touch();
        Ok(plane)
    }

    /// Creates a cluster of the default version with everything in it, as [`ControlPlanes::create_as`].
    ///
    /// # Errors
    /// 409 AlreadyExists when the name is taken.
    pub async fn create(&self, name: &EnvironmentName, nodes: Vec<Value>) -> Result<(), ApiError> {
        self.create_as(name, NewCluster { nodes, ..NewCluster::default() }).await
    }

    /// Creates a cluster with everything in it, in one transaction.
    ///
    /// # Errors
    /// 409 AlreadyExists when the name is taken.
    pub async fn create_as(&self, name: &EnvironmentName, cluster: NewCluster) -> Result<(), ApiError> {
        let config = &self.shared.config;
        let mut keys = KeysDocument::generate(name.as_str(), cluster.kubernetes, config.clock.now(), config)?;
        if let Some(authentication) = cluster.authentication {
            check_authentication(&authentication).map_err(ApiError::bad_request)?;
            keys.authentication = Some(authentication);
        }
        let documents = bootstrap::documents(&keys, config, cluster.nodes)?;
        match self.shared.store.create_tenant(name.as_str(), documents).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => {
                Err(ApiError::already_exists("vctl.dev", "virtualclusters", name.as_str()))
            }
            Err(e) => Err(storage::error(e)),
        }
    }

    /// Deletes a cluster with everything in it; deleting an absent one is no error.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delete(&self, name: &EnvironmentName) -> Result<(), ApiError> {
        let Some(info) = self.shared.store.tenant(name.as_str()).await.map_err(storage::error)? else { return Ok(()) };
        self.lock().remove(name.as_str());
        match self.shared.store.delete_tenant(info.tenant).await {
            Ok(()) | Err(StoreError::NoTenant(_)) => {}
            Err(e) => return Err(storage::error(e)),
        }
        // A request in between may have loaded it again.
        self.lock().retain(|_, p| p.tenant != info.tenant);
        Ok(())
    }

    /// The objects of a resource as they are stored, without loading the cluster into memory; none when there is no such cluster.
    ///
    /// # Errors
    /// When the store fails or holds something that is no object.
    pub async fn stored(&self, name: &EnvironmentName, resource: &str) -> Result<Vec<Value>, ApiError> {
        let store = &self.shared.store;
        let Some(info) = store.tenant(name.as_str()).await.map_err(storage::error)? else { return Ok(Vec::new()) };
        match store.list(info.tenant, ListOptions::newest(Scope::all(resource))).await {
            Ok(list) => {
                list.entries.iter().map(|e| serde_json::from_slice(&e.value).map_err(ApiError::internal)).collect()
            }
            Err(StoreError::NoTenant(_)) => Ok(Vec::new()),
            Err(e) => Err(storage::error(e)),
        }
    }

    /// Names of all clusters.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn names(&self) -> Result<Vec<String>, ApiError> {
        Ok(self.shared.store.tenants().await.map_err(storage::error)?.into_iter().map(|t| t.name).collect())
    }

    /// Name of a tenant of the store, as in its feed; none for one that is no cluster (any more).
    ///
    /// # Errors
    /// When the store fails.
    pub async fn name_of(&self, tenant: Tenant) -> Result<Option<String>, ApiError> {
        let known = |names: &HashMap<Tenant, Arc<str>>| names.get(&tenant).map(ToString::to_string);
        if let Some(name) = known(&self.names.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(Some(name));
        }
        let all = self.shared.store.tenants().await.map_err(storage::error)?;
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        *names = all.into_iter().map(|t| (t.tenant, t.name.into())).collect();
        Ok(known(&names))
    }

    /// What is in memory of a tenant, read if need be.
    pub(crate) async fn plane_of(&self, tenant: Tenant) -> Result<Arc<Plane>, ApiError> {
        let name = self.name_of(tenant).await?.ok_or_else(storage::gone)?;
        let plane = self.plane(&name).await?;
        // The name may belong to a younger cluster by now.
        if plane.tenant == tenant { Ok(plane) } else { Err(storage::gone()) }
    }

    /// Answers a request to a cluster. The path is already stripped of `/clusters/NAME`.
    pub async fn handle(&self, name: &str, request: Request<Body>, peer: Peer) -> Response<Body> {
        match self.plane(name).await {
            Ok(plane) => server::serve(plane, request, peer).await,
            Err(e) => server::respond::error(&e),
        }
    }

    /// As [`Self::handle`], for a request whose user the caller has authenticated; what it says of who asks is not looked at, except for
    /// impersonation.
    pub async fn handle_as(&self, name: &str, user: User, mut request: Request<Body>, peer: Peer) -> Response<Body> {
        request.extensions_mut().insert(Authenticated(Arc::new(user)));
        self.handle(name, request, peer).await
    }

    /// The version of Kubernetes that a cluster is.
    ///
    /// # Errors
    /// 404 when there is no such cluster.
    pub async fn kubernetes(&self, name: &EnvironmentName) -> Result<MinorVersion, ApiError> {
        Ok(self.plane(name.as_str()).await?.keys.kubernetes)
    }

    /// The resources that a cluster serves, custom ones included.
    ///
    /// # Errors
    /// 404 when there is no such cluster.
    pub async fn served(&self, name: &EnvironmentName) -> Result<Arc<Catalog>, ApiError> {
        self.plane(name.as_str()).await?.catalog().await
    }

    /// Calls into a cluster from inside the process. Nothing is read until the first call.
    pub fn client(&self, name: &EnvironmentName, user: User) -> Arc<dyn Client> {
        Arc::new(InProcess::new(self.clone(), Cluster::Name(name.as_str().to_owned()), user))
    }

    /// A kubeconfig (YAML) for the cluster's administrator, with a client certificate of its own. Its context is named `vctl_NAME`.
    ///
    /// # Errors
    /// 404 when there is no such cluster.
    pub async fn kubeconfig(&self, name: &EnvironmentName, server_url: &str) -> Result<String, ApiError> {
        use base64::{Engine, engine::general_purpose::STANDARD};

        let plane = self.plane(name.as_str()).await?;
        let config = &self.shared.config;
        let validity = Validity::from_now(plane.now(), config.client_certificate_lifetime);
        let identity = plane.keys_document().await?.client("kubernetes-admin", MASTERS, validity)?;
        // With a prefix, so that merging into an existing kubeconfig meets no other tool's context.
        let entry = format!("vctl_{name}");
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": entry,
            "clusters": [{ "name": entry, "cluster": {
                "server": server_url, "certificate-authority-data": STANDARD.encode(&config.server_ca_pem),
            } }],
            "users": [{ "name": entry, "user": {
                "client-certificate-data": STANDARD.encode(identity.certificate_pem),
                "client-key-data": STANDARD.encode(identity.key_pem),
            } }],
            "contexts": [{ "name": entry, "context": { "cluster": entry, "user": entry } }],
        });
        serde_yaml::to_string(&kubeconfig).map_err(ApiError::internal)
    }
}

#[async_trait::async_trait]
impl Clients for ControlPlanes {
    fn client(&self, tenant: Tenant, user: &str) -> Arc<dyn Client> {
        Arc::new(InProcess::new(self.clone(), Cluster::Tenant(tenant), User::internal(user)))
    }

    async fn catalog(&self, tenant: Tenant) -> Arc<Catalog> {
        let catalog = async { self.plane_of(tenant).await?.catalog().await };
        match catalog.await {
            Ok(catalog) => catalog,
            Err(error) => {
                tracing::warn!(%error, "the resources of a cluster cannot be read; only the built-in ones are known");
                plane::builtin(MinorVersion::DEFAULT)
            }
        }
    }

    async fn roots(&self, tenant: Tenant) -> Result<Roots, ApiError> {
        self.roots_of(tenant).await
    }

    async fn rules(&self, tenant: Tenant) -> Result<Option<Arc<Rules>>, ApiError> {
        let Some(limits) = &self.shared.config.limits else { return Ok(None) };
        let name = self.name_of(tenant).await?.ok_or_else(storage::gone)?;
        limits.rules(&name).await.map_err(ApiError::internal)
    }

    async fn check_api_service(&self, tenant: Tenant, api_service: &Value) -> Result<(), String> {
        let plane = self.plane_of(tenant).await.map_err(|e| e.to_string())?;
        match ApiService::new(api_service) {
            Some(service) => service.check(&plane).await,
            None => Ok(()),
        }
    }

    async fn sign_certificate(
        &self,
        tenant: Tenant,
        request_pem: &str,
        usages: &[&str],
        validity: Validity,
    ) -> Result<String, ApiError> {
        let authority = self.plane_of(tenant).await?.keys_document().await?.authority()?;
        authority.sign_as_requested(request_pem, usages, validity).map_err(|e| match e {
            PkiError::Request(_) => ApiError::bad_request(e.to_string()),
            e => ApiError::internal(e),
        })
    }
}
