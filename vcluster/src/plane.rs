//! One virtual control plane in use: what is kept in memory of it between requests. Everything here can be thrown away at any time
//! and is read again from the store.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use jiff::Timestamp;
use vctl_machinery::{
    catalog::{Catalog, Descriptor},
    flow_control::FlowControl,
    status::ApiError,
};
use vctl_runtime::{pki::Identity, tasks::Tasks};
use vctl_store::{Entry, Expect, Key, ListOptions, Scope, Store, StoreError, Tenant, Write};

use crate::{
    admission::Hooks,
    aggregation::{API_SERVICES, ApiServices, Discovered},
    authorization::{self, Decision, RBAC, Rbac, rules::Attributes},
    cached::Cached,
    config::Config,
    custom::{
        self,
        conversion::{Converter, Converters},
    },
    document,
    fairness::{self, Fairness},
    keys::{AUTHENTICATION, FrontProxy, Keys, KeysDocument},
    resource_metrics, storage,
    streams::PodStreams,
    user::User,
    views::Views,
};

/// The group of what configures webhooks and policies.
const WEBHOOKS: &str = "admissionregistration.k8s.io";

/// What all control planes of the process share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: Config,
    pub(crate) streams: Arc<dyn PodStreams>,
    pub(crate) fairness: Fairness,
    pub(crate) tasks: Tasks,
    pub(crate) views: Views,
}

/// One virtual control plane.
pub(crate) struct Plane {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tenant: Tenant,
    pub(crate) name: String,
    pub(crate) keys: Keys,
    rbac: Rbac,
    webhooks: Cached<Hooks>,
    api_services: Cached<ApiServices>,
    pub(crate) flow_control: Cached<FlowControl>,
    pub(crate) discovered: Discovered,
    catalog: Mutex<Option<(u64, Served)>>,
    catalog_generation: AtomicU64,
    /// Seconds since 1970 of the last request.
    used: AtomicI64,
}

/// What comes of a cluster's definitions.
#[derive(Clone)]
struct Served {
    catalog: Arc<Catalog>,
    converters: Arc<Converters>,
}

/// The built-in resources, shared by all clusters without custom ones.
pub(crate) fn builtin() -> Arc<Catalog> {
    static BUILTIN: OnceLock<Arc<Catalog>> = OnceLock::new();
    BUILTIN.get_or_init(|| Arc::new(Catalog::builtin().with(resource_metrics::rows()))).clone()
}

impl Plane {
    /// Reads what is needed to serve a cluster.
    pub(crate) async fn load(shared: Arc<Shared>, name: &str) -> Result<Arc<Self>, ApiError> {
        let info = shared.store.tenant(name).await.map_err(storage::error)?.ok_or_else(storage::gone)?;
        let (entry, _) = shared.store.get(info.tenant, &crate::keys::key()).await.map_err(storage::error)?;
        let entry = entry.ok_or_else(|| {
            ApiError::internal(format!("virtual cluster {name} has no keys; restore the data file from a backup"))
        })?;
        let document: KeysDocument = serde_json::from_slice(&entry.value).map_err(ApiError::internal)?;
        let keys = Keys::new(&document)?;
        Ok(Arc::new(Self {
            shared,
            tenant: info.tenant,
            name: name.to_owned(),
            keys,
            rbac: Rbac::default(),
            webhooks: Cached::default(),
            api_services: Cached::default(),
            flow_control: Cached::default(),
            discovered: Discovered::default(),
            catalog: Mutex::new(None),
            catalog_generation: AtomicU64::new(0),
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
        let entry = self.entry(&crate::keys::key()).await?.ok_or_else(storage::gone)?;
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
        let rows = custom::rows(&definitions);
        let catalog = if rows.is_empty() { builtin() } else { Arc::new(builtin().with(rows)) };
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
        } else if resource == custom::DEFINITIONS {
            // What is there is kept until it is replaced: most of its rows are taken over.
            self.catalog_generation.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Tells the caches that anything may have changed.
    pub(crate) fn changed_unknown(&self) {
        self.changed(RBAC);
        self.changed(WEBHOOKS);
        self.changed(fairness::GROUP);
        self.changed(API_SERVICES);
        self.changed(custom::DEFINITIONS);
    }

    /// The admission webhooks.
    pub(crate) async fn webhooks(&self) -> Result<Arc<Hooks>, ApiError> {
        let generation = match self.webhooks.get() {
            Ok(hooks) => return Ok(hooks),
            Err(generation) => generation,
        };
        let of = async |plural: &str| self.objects(&format!("{plural}.{WEBHOOKS}"), None).await;
        let hooks = Hooks::new(
            &of("mutatingwebhookconfigurations").await?,
            &of("validatingwebhookconfigurations").await?,
            &of("validatingadmissionpolicies").await?,
            &of("validatingadmissionpolicybindings").await?,
        );
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

    /// The certificate that this cluster shows to aggregated APIs; a cluster from before there were any gets one.
    pub(crate) async fn front_proxy(&self) -> Result<Identity, ApiError> {
        for _ in 0..8 {
            let entry = self.entry(&crate::keys::key()).await?.ok_or_else(storage::gone)?;
            let mut document: KeysDocument = serde_json::from_slice(&entry.value).map_err(ApiError::internal)?;
            if let Some(proxy) = document.front_proxy {
                return Ok(proxy.identity());
            }
            let proxy = FrontProxy::generate(&self.name, self.now())?;
            let map = self.entry(&Key::new("configmaps", "kube-system", AUTHENTICATION)).await?;
            let mut writes = Vec::new();
            if let Some(map) = map {
                let mut object: serde_json::Value = serde_json::from_slice(&map.value).map_err(ApiError::internal)?;
                proxy.describe(&mut object["data"]);
                let expect = Expect::Revision(map.revision);
                writes.push(Write { key: map.key, expect, value: Some(document::encode(&object)?) });
            }
            let identity = proxy.identity();
            document.front_proxy = Some(proxy);
            let value = Some(serde_json::to_vec(&document).map_err(ApiError::internal)?.into());
            writes.push(Write { key: entry.key, expect: Expect::Revision(entry.revision), value });
            match self.store().transact(self.tenant, writes).await {
                Ok(_) => return Ok(identity),
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(storage::error(e)),
            }
        }
        Err(storage::unavailable("the certificate for aggregated APIs is being made; try again"))
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
