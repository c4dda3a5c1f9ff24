//! A cluster taken out of the store, and put back.

use vctl_api::names::EnvironmentName;
use vctl_machinery::status::ApiError;
use vctl_store::{Key, StoreError, TenantBackup};

use super::ControlPlanes;
use crate::{
    bootstrap,
    keys::{self, KeysDocument},
    storage,
};

/// Documents that say where and by whom the cluster is served: those of the server that restores it, not those of the backup.
fn is_of_the_server(key: &Key) -> bool {
    let (resource, namespace, name) = (&*key.resource, &*key.namespace, &*key.name);
    match resource {
        "configmaps" => {
            name == "kube-root-ca.crt" || (namespace, name) == ("kube-system", "extension-apiserver-authentication")
        }
        "endpoints" | "endpointslices.discovery.k8s.io" => (namespace, name) == ("default", "kubernetes"),
        _ => false,
    }
}

impl ControlPlanes {
    /// Everything in a cluster as it is at one revision, its keys included, while it goes on.
    ///
    /// # Errors
    /// 404 when there is no such cluster.
    pub async fn snapshot(&self, name: &EnvironmentName) -> Result<TenantBackup, ApiError> {
        let store = &self.shared.store;
        let info = store.tenant(name.as_str()).await.map_err(storage::error)?.ok_or_else(storage::gone)?;
        let export = store.export(info.tenant).await.map_err(storage::error)?;
        Ok(TenantBackup { name: name.as_str().to_owned(), export })
    }

    /// Puts a cluster back, whole or not at all: under the name it had, with its keys, so that its kubeconfigs and tokens work; under
    /// another name with keys of its own. With `replace` a cluster of that name is gone in the same moment. Its resourceVersions
    /// are higher than any that were seen before: clients list again.
    ///
    /// # Errors
    /// 409 AlreadyExists when the name is taken and `replace` was not said; 400 when the backup is not one of a cluster.
    pub async fn restore(&self, name: &EnvironmentName, backup: &TenantBackup, replace: bool) -> Result<(), ApiError> {
        let config = &self.shared.config;
        let kept = backup.export.entries.iter().find(|e| e.key == keys::key());
        let kept = kept.and_then(|e| serde_json::from_slice::<KeysDocument>(&e.value).ok());
        let kept = kept.ok_or_else(|| {
            ApiError::bad_request(format!(
                "the backup of {:?} has no keys of a virtual cluster: take another one",
                backup.name
            ))
        })?;
        let keys = if backup.name == name.as_str() {
            kept
        } else {
            let mut own = KeysDocument::generate(name.as_str(), kept.kubernetes, config.clock.now(), config)?;
            own.authentication = kept.authentication;
            own.audit_policy = kept.audit_policy;
            own
        };
        let own = bootstrap::documents(&keys, config, Vec::new())?;
        let own = own.into_iter().filter(|w| w.key == keys::key() || is_of_the_server(&w.key));
        let mut own: std::collections::HashMap<_, _> = own.map(|w| (w.key, w.value)).collect();
        let mut writes = backup.writes();
        // What is restored is awake.
        writes.retain(|w| &*w.key.resource != vctl_api::sleep::RESOURCE);
        for write in &mut writes {
            // What the tenant has deleted stays deleted.
            if let Some(value) = own.remove(&write.key) {
                write.value = value;
            }
        }
        let restored = self.shared.store.restore_tenant(name.as_str(), writes, backup.export.revision, replace).await;
        match restored {
            Ok(_) => {}
            Err(StoreError::Conflict { index: 0, .. }) if !replace => {
                return Err(ApiError::already_exists("vctl.dev", "virtualclusters", name.as_str()));
            }
            Err(e) => return Err(storage::error(e)),
        }
        // The feed says so too, but a request that comes before that must not meet the old one.
        self.lock().remove(name.as_str());
        Ok(())
    }
}
