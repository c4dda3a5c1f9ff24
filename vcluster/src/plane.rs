//! One virtual control plane in use: what is kept in memory of it between requests. Everything here can be thrown away at any time
//! and is read again from the store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use vctl_machinery::{
    catalog::{Catalog, Descriptor},
    flow_control::FlowControl,
    status::ApiError,
    version::MinorVersion,
};
use vctl_runtime::{
    heavy,
    pki::{Identity, Validity},
    renewal::Renewing,
    serve::Tls,
    tasks::Tasks,
};
use vctl_store::{Entry, Key, ListOptions, Revision, Scope, Store, Tenant};

use crate::{
    activity::Activity,
    admission::{Configurations, Hooks},
    aggregation::{API_SERVICES, ApiServices, Discovered},
    api_metrics::{AllMetrics, ApiMetrics},
    audit::{AuditPolicy, Audited},
    authentication::{Verified, oidc::Issuers},
    authorization::{self, Decision, RBAC, Rbac, rules::Attributes},
    cached::Cached,
    config::{Config, IN_CLUSTER_NAMES, KUBERNETES_IP},
    custom::{
        self,
        conversion::{Converter, Converters},
    },
    document,
    fairness::{self, Fairness},
    keys::{self, FrontProxy, Keys, KeysDocument},
    limits::counting::Counting,
    resource_metrics,
    server::openapi::Documents,
    storage,
    streams::PodStreams,
    user::User,
    views::Views,
};

/// The group of what configures webhooks and policies.
const WEBHOOKS: &str = "admissionregistration.k8s.io";

/// Life of the certificate that pods are served with.
const SERVING_LIFETIME: std::time::Duration = std::time::Duration::from_hours(90 * 24);

/// What all control planes of the process share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: Config,
    pub(crate) streams: Arc<dyn PodStreams>,
    pub(crate) fairness: Fairness,
    pub(crate) tasks: Tasks,
    pub(crate) metrics: AllMetrics,
    pub(crate) views: Views,
    pub(crate) activity: Activity,
    pub(crate) documents: Documents,
    pub(crate) counting: Counting,
    pub(crate) audited: Audited,
}

/// One virtual control plane.
pub(crate) struct Plane {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tenant: Tenant,
    pub(crate) name: String,
    pub(crate) keys: Keys,
    /// Of the document of the keys.
    keys_revision: Revision,
    /// It sleeps: a write wakes it.
    pub(crate) asleep: bool,
    /// Whose tokens count besides the cluster's own.
    pub(crate) issuers: Issuers,
    /// What is recorded of requests.
    pub(crate) audit_policy: Arc<AuditPolicy>,
    pub(crate) verified: Verified,
    rbac: Rbac,
    webhooks: Cached<Hooks>,
    api_services: Cached<ApiServices>,
    pub(crate) flow_control: Cached<FlowControl>,
    pub(crate) discovered: Discovered,
    pub(crate) metrics: Arc<ApiMetrics>,
    in_cluster_tls: Mutex<Option<Tls>>,
    catalog: Mutex<Option<(u64, Served)>>,
    catalog_generation: AtomicU64,
    /// Its keys are not those that are stored any more.
    outdated: AtomicBool,
    /// Seconds since 1970 of the last request.
    used: AtomicI64,
    /// The same of those that count as use of the cluster.
    pub(crate) requested: Arc<AtomicI64>,
}

/// What comes of a cluster's definitions.
#[derive(Clone)]
struct Served {
    catalog: Arc<Catalog>,
    converters: Arc<Converters>,
}

/// The built-in resources of a version, shared by all clusters of it without custom ones.
pub(crate) fn builtin(kubernetes: MinorVersion) -> Arc<Catalog> {
    static BUILTIN: Mutex<BTreeMap<MinorVersion, Arc<Catalog>>> = Mutex::new(BTreeMap::new());
    let mut all = BUILTIN.lock().unwrap_or_else(PoisonError::into_inner);
    all.entry(kubernetes).or_insert_with(|| Arc::new(Catalog::of(kubernetes).with(resource_metrics::rows()))).clone()
}

/// Whether something is kept in memory that is derived from objects of this resource.
pub(crate) fn is_cached(resource: &str) -> bool {
    resource.ends_with(RBAC)
        || resource.ends_with(WEBHOOKS)
        || resource.ends_with(fairness::GROUP)
        || resource == API_SERVICES
        || resource == keys::RESOURCE
        || resource == vctl_api::sleep::RESOURCE
        || resource == custom::DEFINITIONS
}

impl Plane {
    /// Reads what is needed to serve a cluster.
    pub(crate) async fn load(shared: Arc<Shared>, name: &str) -> Result<Arc<Self>, ApiError> {
        let info = shared.store.tenant(name).await.map_err(storage::error)?.ok_or_else(storage::gone)?;
        let (entry, _) = shared.store.get(info.tenant, &keys::key()).await.map_err(storage::error)?;
        let entry = entry.ok_or_else(|| {
            ApiError::internal(format!("virtual cluster {name} has no keys; restore the data file from a backup"))
        })?;
        let document: KeysDocument = serde_json::from_slice(&entry.value).map_err(ApiError::internal)?;
        let keys = Keys::new(&document)?;
        let sleep = Key::new(vctl_api::sleep::RESOURCE, "", vctl_api::sleep::NAME);
        let asleep = shared.store.get(info.tenant, &sleep).await.map_err(storage::error)?.0.is_some();
        let issuers = Issuers::new(document.authentication.as_ref()).unwrap_or_else(|error| {
            // It was checked when it was stored: a server of another version, or the machine's authorities cannot be read.
            tracing::error!(
                environment = name,
                error,
                "tokens of other issuers are refused: their configuration cannot be used"
            );
            Issuers::default()
        });
        let audit_policy = match document.audit_policy.as_ref().map(AuditPolicy::new).transpose() {
            Ok(policy) => policy.map_or_else(|| shared.config.audit_policy.clone(), Arc::new),
            Err(error) => {
                // It was checked when it was stored: a server of another version.
                tracing::error!(environment = name, %error, "its audit policy cannot be used: the server's counts");
                shared.config.audit_policy.clone()
            }
        };
        Ok(Arc::new(Self {
            audit_policy,
            metrics: shared.metrics.of(info.tenant),
            requested: shared.activity.of(info.tenant),
            shared,
            tenant: info.tenant,
            name: name.to_owned(),
            keys,
            keys_revision: entry.revision,
            asleep,
            issuers,
            verified: Verified::default(),
            rbac: Rbac::default(),
            webhooks: Cached::default(),
            api_services: Cached::default(),
            flow_control: Cached::default(),
            discovered: Discovered::default(),
            in_cluster_tls: Mutex::new(None),
            catalog: Mutex::new(None),
            catalog_generation: AtomicU64::new(0),
            outdated: AtomicBool::new(false),
            used: AtomicI64::new(0),
        }))
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.shared.store
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.config.clock.now()
    }

    pub(crate) fn touch(&self) {
        self.used.store(self.now().as_second(), Ordering::Relaxed);
    }

    pub(crate) fn last_used(&self) -> i64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The keys as stored, with the private parts.
    pub(crate) async fn keys_document(&self) -> Result<KeysDocument, ApiError> {
        let entry = self.entry(&keys::key()).await?.ok_or_else(storage::gone)?;
        serde_json::from_slice(&entry.value).map_err(ApiError::internal)
    }

    /// One document.
    pub(crate) async fn entry(&self, key: &Key) -> Result<Option<Entry>, ApiError> {
        Ok(self.store().get(self.tenant, key).await.map_err(storage::error)?.0)
    }

    /// One object in its storage version, for admission and authentication.
    pub(crate) async fn object(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<serde_json::Value>, ApiError> {
        let Some(entry) = self.entry(&Key::new(resource, namespace, name)).await? else { return Ok(None) };
        document::decode(&self.keys.origin, &entry.key, &entry.value, entry.revision).map(Some)
    }

    /// All objects of a resource in their storage version.
    pub(crate) async fn objects(
        &self,
        resource: &str,
        namespace: Option<&str>,
    ) -> Result<Vec<serde_json::Value>, ApiError> {
        let scope = Scope { resource: resource.into(), namespace: namespace.map(Into::into) };
        let list = self
            .store()
            .list(self.tenant, ListOptions { scope, at: None, after: None, limit: 0 })
            .await
            .map_err(storage::error)?;
        list.entries.iter().map(|e| document::decode(&self.keys.origin, &e.key, &e.value, e.revision)).collect()
    }

    /// The resources this cluster serves.
    pub(crate) async fn catalog(&self) -> Result<Arc<Catalog>, ApiError> {
        Ok(self.served().await?.catalog)
    }

    /// The webhook that converts the objects of a resource; none where versions differ in their name only.
    pub(crate) async fn converter(&self, descriptor: &Descriptor) -> Result<Option<Arc<Converter>>, ApiError> {
        if !descriptor.custom {
            return Ok(None);
        }
        Ok(self.served().await?.converters.get(&descriptor.group_resource()))
    }

    async fn served(&self) -> Result<Served, ApiError> {
        let generation = self.catalog_generation.load(Ordering::SeqCst);
        let before = match &*self.catalog.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((of, served)) if *of == generation => return Ok(served.clone()),
            before => before.as_ref().map(|(_, served)| served.converters.clone()),
        };
        let definitions = self.objects(custom::DEFINITIONS, None).await?;
        let builtin = builtin(self.keys.kubernetes);
        let catalog = if definitions.is_empty() {
            builtin
        } else {
            // To compile them may take its time.
            let rows = heavy::run(|| custom::rows(&definitions)).await;
            if rows.is_empty() { builtin } else { Arc::new(builtin.with(rows)) }
        };
        let served = Served { catalog, converters: Arc::new(Converters::new(&definitions, before.as_deref())) };
        *self.catalog.lock().unwrap_or_else(PoisonError::into_inner) = Some((generation, served.clone()));
        Ok(served)
    }

    /// Tells the caches that an object of this resource has changed.
    pub(crate) fn changed(&self, resource: &str) {
        if resource.ends_with(RBAC) {
            self.rbac.invalidate();
        } else if resource.ends_with(WEBHOOKS) {
            self.webhooks.invalidate();
        } else if resource.ends_with(fairness::GROUP) {
            self.flow_control.invalidate();
        } else if resource == API_SERVICES {
            self.api_services.invalidate();
        } else if resource == keys::RESOURCE || resource == vctl_api::sleep::RESOURCE {
            self.keys_changed();
        } else if resource == custom::DEFINITIONS {
            // What is there is kept until it is replaced: most of its rows are taken over.
            self.catalog_generation.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Tells the caches of a commit. This may come late: keys that were read since are no news.
    pub(crate) fn committed(&self, resource: &str, revision: Revision) {
        if resource != keys::RESOURCE || revision > self.keys_revision {
            self.changed(resource);
        }
    }

    /// The keys that are stored are others: the next request is served by a plane that has read them.
    pub(crate) fn keys_changed(&self) {
        self.outdated.store(true, Ordering::SeqCst);
    }

    /// Whether another plane is to take its place.
    pub(crate) fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::SeqCst)
    }

    /// Tells the caches that anything may have changed.
    pub(crate) fn changed_unknown(&self) {
        self.changed(RBAC);
        self.changed(WEBHOOKS);
        self.changed(fairness::GROUP);
        self.changed(API_SERVICES);
        self.changed(custom::DEFINITIONS);
        self.keys_changed();
    }

    /// The admission webhooks.
    pub(crate) async fn webhooks(&self) -> Result<Arc<Hooks>, ApiError> {
        let generation = match self.webhooks.get() {
            Ok(hooks) => return Ok(hooks),
            Err(generation) => generation,
        };
        let of = async |plural: &str| self.objects(&format!("{plural}.{WEBHOOKS}"), None).await;
        let hooks = Hooks::new(&Configurations {
            webhooks: [of("mutatingwebhookconfigurations").await?, of("validatingwebhookconfigurations").await?],
            policies: [of("mutatingadmissionpolicies").await?, of("validatingadmissionpolicies").await?],
            bindings: [of("mutatingadmissionpolicybindings").await?, of("validatingadmissionpolicybindings").await?],
        });
        Ok(self.webhooks.put(generation, hooks))
    }

    /// The aggregated APIs.
    pub(crate) async fn api_services(&self) -> Result<Arc<ApiServices>, ApiError> {
        let generation = match self.api_services.get() {
            Ok(services) => return Ok(services),
            Err(generation) => generation,
        };
        let services = ApiServices::new(&self.objects(API_SERVICES, None).await?);
        Ok(self.api_services.put(generation, services))
    }

    /// The certificate that this cluster shows to aggregated APIs, renewed when it is time; a cluster from before there were any gets
    /// one.
    pub(crate) async fn front_proxy(&self) -> Result<Identity, ApiError> {
        let now = self.now();
        let document = self.keys_document().await?;
        if let Some(proxy) = document.front_proxy.filter(|proxy| !proxy.is_due(now)) {
            return Ok(proxy.identity());
        }
        let document = keys::edit(self.store(), self.tenant, |document| {
            if document.front_proxy.as_ref().is_some_and(|proxy| !proxy.is_due(now)) {
                return Ok(false);
            }
            let mut proxy = FrontProxy::generate(&self.name, now)?;
            proxy.believe(document.front_proxy.as_ref());
            document.front_proxy = Some(proxy);
            Ok(true)
        });
        let proxy = document.await?.front_proxy;
        self.keys_changed();
        proxy.map(|p| p.identity()).ok_or_else(|| ApiError::internal("there is no certificate for aggregated APIs"))
    }

    /// What serves pods over TLS; none for a cluster that the server's own certificate serves.
    pub(crate) async fn in_cluster_tls(&self) -> Result<Option<Tls>, ApiError> {
        if !self.keys.serves {
            return Ok(None);
        }
        let made = self.in_cluster_tls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if made.is_some() {
            return Ok(made);
        }
        let authority = self.keys_document().await?.authority()?;
        let names: Vec<String> = IN_CLUSTER_NAMES.iter().chain(&[KUBERNETES_IP]).map(|&n| n.to_owned()).collect();
        let issue = move |now| authority.server(&names, Validity::from_now(now, SERVING_LIFETIME));
        let renewing = Renewing::new(self.shared.config.clock.clone(), issue).map_err(ApiError::internal)?;
        let tls = Tls::with_resolver(Arc::new(renewing)).map_err(ApiError::internal)?;
        *self.in_cluster_tls.lock().unwrap_or_else(PoisonError::into_inner) = Some(tls.clone());
        Ok(Some(tls))
    }

    /// Whether the user may do this.
    pub(crate) async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, ApiError> {
        authorization::decide(&self.rbac, self.store(), self.tenant, user, attributes).await
    }

    /// 403 unless the user may do this.
    pub(crate) async fn require(&self, user: &User, attributes: &Attributes) -> Result<(), ApiError> {
        let decision = self.decide(user, attributes).await?;
        if decision.allowed { Ok(()) } else { Err(authorization::forbidden(user, attributes, &decision.reason)) }
    }

    /// The roles and bindings.
    pub(crate) async fn rbac(&self) -> Result<Arc<authorization::Index>, ApiError> {
        self.rbac.index(self.store(), self.tenant).await
    }
}
