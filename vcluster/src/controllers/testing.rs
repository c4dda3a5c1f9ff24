//! A small API over the memory store for tests of the controllers' shells: storage, UIDs, generations, finalizers, graceful deletion;
//! no admission, defaulting or validation. The real pipeline has tests of its own.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use vctl_machinery::{
    catalog::{Catalog, Descriptor},
    selector::LabelSelector,
    status::ApiError,
};
use vctl_runtime::{clock::Clock, pki::Validity};
use vctl_store::{Expect, Key, ListOptions, MemoryStore, Scope, Store, StoreError, Tenant, Write};

use super::{
    Clients,
    dispatch::{FOREGROUND, ORPHAN},
    object::{is_deleting, list, name, rfc3339, text, uid},
};
use crate::client::{Client, Listed};

/// Resources that the fake serves: (group, version, kind, plural, namespaced).
const RESOURCES: [(&str, &str, &str, &str, bool); 12] = [
    ("", "v1", "Namespace", "namespaces", false),
    ("", "v1", "Node", "nodes", false),
    ("", "v1", "Pod", "pods", true),
    ("", "v1", "Service", "services", true),
    ("", "v1", "Endpoints", "endpoints", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "Event", "events", true),
    ("apps", "v1", "Deployment", "deployments", true),
    ("apps", "v1", "ReplicaSet", "replicasets", true),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true),
];

pub(super) struct FakeClients {
    pub(super) store: Arc<MemoryStore>,
    pub(super) clock: Clock,
}

#[async_trait::async_trait]
impl Clients for FakeClients {
    fn client(&self, tenant: Tenant, _user: &str) -> Arc<dyn Client> {
        Arc::new(FakeClient { store: self.store.clone(), clock: self.clock.clone(), tenant })
    }

    async fn catalog(&self, _tenant: Tenant) -> Arc<Catalog> {
        let rows = RESOURCES.map(|(group, version, kind, plural, namespaced)| {
            Arc::new(Descriptor {
                group: group.into(),
                version: version.into(),
                kind: kind.into(),
                list_kind: format!("{kind}List"),
                plural: plural.into(),
                singular: kind.to_lowercase(),
                namespaced,
                verbs: ["create", "delete", "get", "list", "patch", "update", "watch"].map(str::to_owned).into(),
                short_names: Vec::new(),
                categories: Vec::new(),
                subresources: Vec::new(),
                storage_version: version.into(),
                custom: false,
                has_generation: true,
                kubernetes: vctl_machinery::version::MinorVersion::DEFAULT,
                definition: None,
            })
        });
        Arc::new(Catalog::default().with(rows))
    }

    async fn roots(&self, _tenant: Tenant) -> Result<crate::controllers::Roots, ApiError> {
        Ok(crate::controllers::Roots { pem: "PEM".into(), changes_at: None })
    }

    async fn check_api_service(&self, _: Tenant, _: &Value) -> Result<(), String> {
        Err("the fake asks nobody".into())
    }

    async fn sign_certificate(&self, _: Tenant, _: &str, _: &[&str], _: Validity) -> Result<String, ApiError> {
        Err(ApiError::internal("the fake signs nothing"))
    }
}

pub(super) struct FakeClient {
    store: Arc<MemoryStore>,
    clock: Clock,
    tenant: Tenant,
}

fn failed(e: StoreError) -> ApiError {
    ApiError::internal(e)
}

fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

impl FakeClient {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn read(&self, key: &Key) -> Result<(Value, u64), ApiError> {
        let (entry, _) = self.store.get(self.tenant, key).await.map_err(failed)?;
        let entry = entry.ok_or_else(|| ApiError::not_found("", &key.resource, &key.name))?;
        Ok((serde_json::from_slice(&entry.value).unwrap(), entry.revision))
    }

    async fn write(&self, key: Key, expect: Expect, object: Option<&Value>) -> Result<u64, ApiError> {
        let value = object.map(|o| {
            let mut o = o.clone();
            o["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            o.to_string().into()
        });
        let (resource, name) = (key.resource.clone(), key.name.clone());
        match self.store.transact(self.tenant, vec![Write { key, expect, value }]).await {
            Ok(revisions) => Ok(revisions[0]),
            Err(StoreError::Conflict { .. }) if expect == Expect::Absent => {
                Err(ApiError::already_exists("", &resource, &name))
            }
            Err(StoreError::Conflict { .. }) => Err(ApiError::modified("", &resource, &name)),
            Err(e) => Err(failed(e)),
        }
    }

    /// Stores a changed object, or removes it when it was only waiting for its finalizers.
    async fn commit(&self, key: Key, before: &Value, revision: u64, mut after: Value) -> Result<Value, ApiError> {
        if before["spec"] != after["spec"] {
            let generation = before["metadata"]["generation"].as_u64().unwrap_or(0);
            after["metadata"]["generation"] = (generation + 1).into();
        }
        if *before == after {
            return Ok(versioned(after, revision));
        }
        let scheduled = &*key.resource == "pods" && !text(&after, "/spec/nodeName").is_empty();
        let holds = !list(&after, "/metadata/finalizers").is_empty()
            || !list(&after, "/spec/finalizers").is_empty()
            || scheduled;
        let gone = is_deleting(&after) && !holds;
        let written = self.write(key, Expect::Revision(revision), (!gone).then_some(&after)).await?;
        Ok(versioned(after, written))
    }
}

fn versioned(mut object: Value, revision: u64) -> Value {
    object["metadata"]["resourceVersion"] = revision.to_string().into();
    object
}

#[async_trait::async_trait]
impl Client for FakeClient {
    async fn get(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let (object, revision) = self.read(&Key::new(resource, namespace, name)).await?;
        Ok(versioned(object, revision))
    }

    async fn list(&self, resource: &str, namespace: &str, selector: &LabelSelector) -> Result<Listed, ApiError> {
        let namespace = (!namespace.is_empty()).then(|| namespace.into());
        let scope = Scope { resource: resource.into(), namespace };
        let listed = self
            .store
            .list(self.tenant, ListOptions { scope, at: None, after: None, limit: 0 })
            .await
            .map_err(failed)?;
        let items = listed
            .entries
            .iter()
            .map(|e| versioned(serde_json::from_slice(&e.value).unwrap(), e.revision))
            .filter(|o: &Value| selector.matches(&o["metadata"]["labels"]))
            .collect();
        Ok(Listed { items, revision: listed.revision })
    }

    async fn create(&self, resource: &str, namespace: &str, mut object: Value) -> Result<Value, ApiError> {
        if !namespace.is_empty() {
            let (owner, _) = self.read(&Key::new("namespaces", "", namespace)).await?;
            if is_deleting(&owner) {
                let mut error = ApiError::forbidden("", resource, "", "the namespace is being terminated");
                error.details["causes"] = json!([{ "reason": "NamespaceTerminating" }]);
                return Err(error);
            }
            object["metadata"]["namespace"] = namespace.into();
        }
        let id = uuid::Uuid::new_v4().to_string();
        if text(&object, "/metadata/name").is_empty() {
            object["metadata"]["name"] = format!("{}{}", text(&object, "/metadata/generateName"), &id[..5]).into();
        }
        object["metadata"]["uid"] = id.into();
        object["metadata"]["creationTimestamp"] = rfc3339(self.now()).into();
        object["metadata"]["generation"] = 1.into();
        if resource == "namespaces" {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
        }
        let name = text(&object, "/metadata/name").to_owned();
        let revision = self.write(Key::new(resource, namespace, &name), Expect::Absent, Some(&object)).await?;
        Ok(versioned(object, revision))
    }

    async fn update(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        let key = Key::new(resource, namespace, name);
        let (before, revision) = self.read(&key).await?;
        let version = text(&object, "/metadata/resourceVersion");
        if !version.is_empty() && version != revision.to_string() {
            return Err(ApiError::modified("", resource, name));
        }
        let mut after = before.clone();
        match subresource {
            "" => {
                after = object;
                after["metadata"].as_object_mut().unwrap().remove("resourceVersion");
                if let Some(status) = before.get("status") {
                    after["status"] = status.clone();
                }
            }
            "status" => after["status"] = object["status"].clone(),
            "finalize" => after["spec"]["finalizers"] = object["spec"]["finalizers"].clone(),
            "binding" => after["spec"]["nodeName"] = object["target"]["name"].clone(),
            other => panic!("no subresource {other}"),
        }
        self.commit(key, &before, revision, after).await
    }

    async fn scale(&self, _: &str, _: &str, _: &str) -> Result<Value, ApiError> {
        Err(ApiError::internal("the fake scales nothing"))
    }

    async fn merge_patch(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        mut patch: Value,
    ) -> Result<Value, ApiError> {
        assert_eq!(subresource, "", "controllers patch whole objects only");
        let key = Key::new(resource, namespace, name);
        let (before, revision) = self.read(&key).await?;
        if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
            let version = metadata.remove("resourceVersion");
            if version.is_some_and(|v| v.as_str() != Some(&revision.to_string()))
                || metadata.get("uid").is_some_and(|u| u != uid(&before))
            {
                return Err(ApiError::modified("", resource, name));
            }
        }
        let mut after = before.clone();
        merge(&mut after, &patch);
        self.commit(key, &before, revision, after).await
    }

    async fn apply(&self, _: &str, _: &str, _: &str, _: Value) -> Result<Value, ApiError> {
        Err(ApiError::internal("controllers do not apply"))
    }

    async fn delete(&self, resource: &str, namespace: &str, name: &str, options: Value) -> Result<Value, ApiError> {
        let key = Key::new(resource, namespace, name);
        let (before, revision) = self.read(&key).await?;
        if options["preconditions"]["uid"].as_str().is_some_and(|u| u != uid(&before)) {
            return Err(ApiError::conflict("", resource, name, "Precondition failed: UID"));
        }
        let mut after = before.clone();
        let policy = match text(&options, "/propagationPolicy") {
            "Foreground" => Some(FOREGROUND),
            "Orphan" => Some(ORPHAN),
            _ => None,
        };
        if let Some(finalizer) = policy {
            let mut finalizers = list(&after, "/metadata/finalizers").to_vec();
            if !finalizers.iter().any(|f| f == finalizer) {
                finalizers.push(finalizer.into());
            }
            after["metadata"]["finalizers"] = finalizers.into();
        }
        let graceful =
            resource == "pods" && !text(&after, "/spec/nodeName").is_empty() && options["gracePeriodSeconds"] != 0;
        let holds = !list(&after, "/metadata/finalizers").is_empty() || !list(&after, "/spec/finalizers").is_empty();
        if graceful || holds {
            if !is_deleting(&after) {
                after["metadata"]["deletionTimestamp"] = rfc3339(self.now()).into();
                self.write(key, Expect::Revision(revision), Some(&after)).await?;
            }
        } else {
            self.write(key, Expect::Revision(revision), None).await?;
        }
        Ok(after)
    }
}

/// The objects after a plan was carried out. What is created gets a name, as the API server gives one.
pub(super) fn stored(mut before: Vec<Value>, create: Vec<Value>, update: Vec<Value>, delete: &[Value]) -> Vec<Value> {
    before.retain(|object| !delete.contains(object));
    for object in update {
        before.retain(|old| name(old) != name(&object));
        before.push(object);
    }
    for (n, mut object) in create.into_iter().enumerate() {
        let prefix = text(&object, "/metadata/generateName").to_owned();
        object["metadata"]["name"] = format!("{prefix}{n}-{}", before.len()).into();
        before.push(object);
    }
    before
}
