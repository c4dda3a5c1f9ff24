//! The virtual control planes as the portal needs them.

mod readiness;

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::body::Body;
use jiff::Timestamp;
use serde_json::Value;
use vctl_api::{names::EnvironmentName, rest::PodCounts};
use vctl_machinery::{requests::Requests, status::ApiError, version::MinorVersion};
use vctl_portal::ports::{self, Applied, AuthorityStep, Consumption, ObjectRef, PortError, Readiness};
use vctl_runtime::serve::Peer;
use vctl_store::TenantBackup;
use vctl_syncer::hub::Hub;
use vctl_vcluster::{
    NewCluster,
    audit::AuditPolicy,
    client::Client,
    config::PlatformUser,
    control_planes::{ControlPlanes, Peer as ClusterPeer, Prefix, check_authentication},
    controllers::Controllers,
    user::{AUTHENTICATED, MASTERS, User},
};

use readiness::{WORKLOADS, is_ready, lacks_a_reason, told, unready, workload};

/// The field manager and identity of what templates bring.
const TEMPLATE_MANAGER: &str = "vctl-template";

/// What workers measured before counts no more: they are away, or the pod is gone.
const FRESH: Duration = Duration::from_mins(2);

/// Joins the virtual control planes and the workers' hub for the portal.
pub(crate) struct Planes {
    pub(crate) planes: ControlPlanes,
    pub(crate) controllers: Arc<Controllers>,
    pub(crate) hub: Hub,
    /// `https://HOST:PORT`.
    pub(crate) url: String,
    /// The same, as this machine reaches it.
    pub(crate) local: String,
}

impl Planes {
    fn client(&self, name: &EnvironmentName) -> Arc<dyn Client> {
        self.planes.client(name, User::internal(TEMPLATE_MANAGER))
    }
}

/// What may pass by itself is tried again; what the API server refuses is not.
fn port(error: ApiError) -> PortError {
    match error.code {
        409 | 429 | 500..=599 => PortError::Temporary(error.message),
        _ => PortError::Permanent(error.message),
    }
}

/// As [`port`]; but a conflict says that something else is under way, which lasts.
fn refused(error: ApiError) -> PortError {
    if error.code == 409 { PortError::Permanent(error.message) } else { port(error) }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[async_trait::async_trait]
impl ports::ControlPlanes for Planes {
    fn check_authentication(&self, configuration: &Value) -> Result<(), String> {
        check_authentication(configuration)
    }

    async fn set_authentication(&self, name: &EnvironmentName, configuration: Option<Value>) -> Result<(), PortError> {
        self.planes.set_authentication(name, configuration).await.map_err(port)
    }

    fn check_audit_policy(&self, policy: &Value) -> Result<(), String> {
        AuditPolicy::new(policy).map(drop).map_err(|e| e.to_string())
    }

    async fn set_audit_policy(&self, name: &EnvironmentName, policy: Option<Value>) -> Result<(), PortError> {
        self.planes.set_audit_policy(name, policy).await.map_err(port)
    }

    async fn create(
        &self,
        name: &EnvironmentName,
        kubernetes: MinorVersion,
        authentication: Option<Value>,
    ) -> Result<(), PortError> {
        match self.planes.create_as(name, NewCluster { kubernetes, authentication, nodes: self.hub.nodes() }).await {
            Err(e) if e.reason != "AlreadyExists" => Err(port(e)),
            _ => Ok(()),
        }
    }

    async fn exists(&self, name: &EnvironmentName) -> Result<bool, PortError> {
        match self.client(name).get("namespaces", "", "default").await {
            Ok(_) => Ok(true),
            Err(e) if e.code == 404 => Ok(false),
            Err(e) => Err(port(e)),
        }
    }

    async fn apply(&self, name: &EnvironmentName, document: &Value) -> Result<Applied, PortError> {
        let api_version = text(document, "/apiVersion");
        let kind = text(document, "/kind");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kubernetes = self.planes.kubernetes(name).await.map_err(port)?;
        let served = self.planes.served(name).await.map_err(port)?;
        let Some(descriptor) = served.kind(group, version, kind) else {
            let custom = group.contains('.') && !group.ends_with(".k8s.io");
            // Its definition may be on its way: the template may bring it.
            let kind_of: fn(String) -> PortError = if custom { PortError::Temporary } else { PortError::Permanent };
            return Err(kind_of(format!(
                "the template has a {kind} of {api_version}, which Kubernetes {kubernetes} does not know: correct apiVersion and kind"
            )));
        };
        let object_name = text(document, "/metadata/name");
        if object_name.is_empty() {
            return Err(PortError::Permanent(format!("the template has a {kind} without metadata.name")));
        }
        let namespace = match (descriptor.namespaced, text(document, "/metadata/namespace")) {
            (false, _) => "",
            (true, "") => "default",
            (true, given) => given,
        };
        let resource = descriptor.group_resource();
        let client = self.client(name);
        let before = match client.get(&resource, namespace, object_name).await {
            Ok(object) => Some(object),
            Err(e) if e.code == 404 => None,
            Err(e) => return Err(port(e)),
        };
        let mut document = document.clone();
        if descriptor.namespaced {
            document["metadata"]["namespace"] = namespace.into();
        }
        let after = client.apply(&resource, namespace, object_name, document).await.map_err(port)?;
        let revision = |object: &Value| text(object, "/metadata/resourceVersion").to_owned();
        Ok(match before {
            None => Applied::Created,
            Some(before) if revision(&before) == revision(&after) => Applied::Unchanged,
            Some(_) => Applied::Configured,
        })
    }

    async fn remove(&self, name: &EnvironmentName, object: &ObjectRef) -> Result<bool, PortError> {
        let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
        let served = self.planes.served(name).await.map_err(port)?;
        // Its definition is gone, and the object with it.
        let Some(descriptor) = served.kind(group, version, &object.kind) else { return Ok(false) };
        let namespace = match (descriptor.namespaced, object.namespace.as_str()) {
            (false, _) => "",
            (true, "") => "default",
            (true, given) => given,
        };
        let resource = descriptor.group_resource();
        let client = self.client(name);
        let found = match client.get(&resource, namespace, &object.name).await {
            Ok(found) => found,
            Err(e) if e.code == 404 => return Ok(false),
            Err(e) => return Err(port(e)),
        };
        let managers = found.pointer("/metadata/managedFields").and_then(Value::as_array);
        if !managers.is_some_and(|all| all.iter().any(|m| text(m, "/manager") == TEMPLATE_MANAGER)) {
            return Ok(false);
        }
        let options = serde_json::json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": { "uid": text(&found, "/metadata/uid") },
        });
        match client.delete(&resource, namespace, &object.name, options).await {
            Ok(_) => Ok(true),
            Err(e) if e.code == 404 => Ok(false),
            Err(e) => Err(port(e)),
        }
    }

    async fn readiness(&self, name: &EnvironmentName) -> Result<Readiness, PortError> {
        // Not through the API: that would load what a cluster that was only woken need not have in memory.
        let mut workloads = Vec::new();
        for (resource, kind) in WORKLOADS {
            for object in self.planes.stored(name, resource).await.map_err(port)? {
                workloads.extend(workload(kind, &object));
            }
        }
        if workloads.iter().any(lacks_a_reason) {
            let events = self.planes.stored(name, "events").await.map_err(port)?;
            for workload in workloads.iter_mut().filter(|w| lacks_a_reason(w)) {
                workload.why = told(workload, &events);
            }
        }
        let pods = self.planes.stored(name, "pods").await.map_err(port)?;
        Ok(Readiness { workloads, unready_pods: pods.iter().filter_map(unready).collect() })
    }

    async fn pods(&self, name: &EnvironmentName) -> Result<PodCounts, PortError> {
        // Not through the API: a list of all environments must not load every idle cluster.
        let pods = self.planes.stored(name, "pods").await.map_err(port)?;
        let active = pods.iter().filter(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"));
        let (mut ready, mut total) = (0, 0);
        for pod in active {
            total += 1;
            ready += u32::from(is_ready(pod));
        }
        Ok(PodCounts { ready, total })
    }

    async fn requested(&self, name: &EnvironmentName) -> Result<Requests, PortError> {
        self.planes.requested(name).await.map_err(port)
    }

    async fn requested_by(&self, backup: &TenantBackup) -> Requests {
        self.planes.requested_by(backup).await
    }

    async fn placement_changed(&self, name: &EnvironmentName) {
        if let Err(error) = self.controllers.placement_changed(name.as_str()).await {
            tracing::warn!(environment = name.as_str(), %error, "pods that wait for a worker are looked at only when something else changes");
        }
    }

    async fn drain(&self, name: &EnvironmentName) -> Result<Vec<String>, PortError> {
        Ok(self.hub.drain(name.as_str()))
    }

    async fn sleep(&self, name: &EnvironmentName) -> Result<(), PortError> {
        self.planes.sleep(name).await.map_err(port)
    }

    async fn running_asleep(&self, name: &EnvironmentName) -> Result<Vec<String>, PortError> {
        if !self.planes.is_asleep(name).await.map_err(port)? {
            return Ok(Vec::new());
        }
        Ok(self.hub.running_asleep(name.as_str()))
    }

    async fn wake(&self, name: &EnvironmentName) -> Result<(), PortError> {
        self.planes.wake(name).await.map_err(port)
    }

    async fn last_request(&self, name: &EnvironmentName) -> Result<Option<Timestamp>, PortError> {
        self.planes.last_request(name).await.map_err(port)
    }

    async fn consumption(&self) -> Result<Vec<Consumption>, PortError> {
        let oldest = Timestamp::now().as_millisecond() - FRESH.as_millis() as i64;
        let mut all: HashMap<String, Consumption> = HashMap::new();
        let named = |environment: &str| Consumption { environment: environment.to_owned(), ..Consumption::default() };
        for (environment, requests) in self.planes.answered().await.map_err(port)? {
            all.entry(environment.clone()).or_insert_with(|| named(&environment)).requests = requests;
        }
        for (environment, used) in self.hub.usage(oldest) {
            let one = all.entry(environment.to_string()).or_insert_with(|| named(&environment));
            one.cpu_nano_cores = used.cpu_nano_cores;
            one.memory_bytes = used.memory_bytes;
        }
        Ok(all.into_values().collect())
    }

    async fn wake_requested(&self) -> EnvironmentName {
        loop {
            // Clusters have no other names.
            if let Ok(name) = EnvironmentName::new(self.planes.wake_requested().await) {
                return name;
            }
        }
    }

    async fn delete(&self, name: &EnvironmentName) -> Result<(), PortError> {
        self.planes.delete(name).await.map_err(port)
    }

    async fn change_authority(&self, name: &EnvironmentName, step: AuthorityStep) -> Result<(), PortError> {
        match step {
            AuthorityStep::Announce { at_once } => self.planes.announce_authority(name, at_once).await,
            AuthorityStep::Publish => self.planes.publish_roots(name).await,
            AuthorityStep::Switch { overlap } => self.planes.switch_authority(name, overlap).await,
            AuthorityStep::Drop => self.planes.drop_authority(name).await,
        }
        .map_err(refused)
    }

    async fn snapshot(&self, name: &EnvironmentName) -> Result<TenantBackup, PortError> {
        self.planes.snapshot(name).await.map_err(port)
    }

    async fn restore(&self, name: &EnvironmentName, backup: &TenantBackup) -> Result<(), PortError> {
        self.planes.restore(name, backup, true).await.map_err(port)
    }

    async fn compact(&self, name: &EnvironmentName) -> Result<u64, PortError> {
        self.planes.compact(name).await.map_err(port)
    }

    async fn kubeconfig(&self, name: &EnvironmentName) -> Result<String, PortError> {
        self.planes.kubeconfig(name, &self.server(name)).await.map_err(port)
    }

    async fn local_kubeconfig(&self, name: &EnvironmentName) -> Result<String, PortError> {
        self.planes.kubeconfig(name, &format!("{}/clusters/{name}", self.local)).await.map_err(port)
    }

    async fn serve(
        &self,
        name: &EnvironmentName,
        user: ports::KubernetesUser,
        prefix: String,
        mut request: http::Request<Body>,
    ) -> http::Response<Body> {
        let groups = user.admin.then_some(MASTERS).into_iter().chain([AUTHENTICATED]).map(str::to_owned);
        let mut known = User::from(PlatformUser { name: user.name, uid: user.uid, admin: user.admin });
        known.groups.extend(groups);
        request.extensions_mut().insert(Prefix(prefix));
        let address = request.extensions().get::<Peer>().map(ToString::to_string).unwrap_or_default();
        self.planes.handle_as(name.as_str(), known, request, ClusterPeer { address, ..ClusterPeer::default() }).await
    }

    fn server(&self, name: &EnvironmentName) -> String {
        format!("{}/clusters/{name}", self.url)
    }
}
