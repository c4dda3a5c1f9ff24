//! Directories of volumes on workers: removed when their PersistentVolume or their environment goes.
//!
//! A volume that our provisioner made has a finalizer. When the volume is being deleted and nothing else holds it, its worker is asked to
//! remove the directory; the finalizer goes when the worker has answered. With the reclaim policy Retain the data stays, until the
//! environment goes. What belongs to no environment any more is removed when the worker connects.

use std::sync::Arc;

use vctl_store::Tenant;

use super::{
    Inner,
    engine::{Work, WorkError},
};
use crate::{json::Json, ports::Caller, remote::Remote, translate::volume::DRIVER};

/// What the provisioner holds its volumes with.
const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
const PROVISIONED_BY: &str = "/metadata/annotations/pv.kubernetes.io~1provisioned-by";
/// Where the node affinity that the provisioner writes names the worker.
const WORKER: &str = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";

/// Whether a stored document can be one that is being deleted, without parsing it.
pub(super) fn may_be_deleting(document: &[u8]) -> bool {
    const FIELD: &[u8] = b"deletionTimestamp";
    document.windows(FIELD.len()).any(|w| w == FIELD)
}

impl Inner {
    /// Under which name workers keep the volumes of an environment: its own, and something that no other of this name has.
    pub(super) async fn volumes_key(&self, tenant: Tenant, environment: &str) -> Result<String, WorkError> {
        let namespace = self.read(tenant, "namespaces", "", "kube-system").await?;
        let uid = namespace.as_ref().map(|n| n.text("/metadata/uid")).unwrap_or_default();
        match uid.get(..8) {
            Some(key) => Ok(format!("{environment}.{key}")),
            None => Err(WorkError::Other(format!("environment {environment} has no namespace kube-system"))),
        }
    }

    /// Sees to the directory of a volume that is being deleted, and then lets the volume go.
    pub(super) async fn reconcile_volume(&self, tenant: Tenant, name: &Arc<str>) -> Result<(), WorkError> {
        let Some(environment) = self.lock().tenants.get(&tenant).cloned() else { return Ok(()) };
        let Some(mut volume) = self.read(tenant, "persistentvolumes", "", name).await? else { return Ok(()) };
        let finalizers = volume.texts("/metadata/finalizers");
        if volume.there("/metadata/deletionTimestamp").is_none()
            || finalizers != [FINALIZER]
            || volume.text(PROVISIONED_BY) != DRIVER
        {
            return Ok(());
        }
        let worker = volume.text(WORKER).to_owned();
        let id = format!("{}/{}", self.volumes_key(tenant, &environment).await?, volume.text("/spec/csi/volumeHandle"));
        // A simulated worker has no directories, and one that is not known any more none that could be removed.
        if volume.text("/spec/persistentVolumeReclaimPolicy") == "Delete"
            && let Some(remote) = self.remote(&worker)
            && !remote.volumes_removed(&id)
        {
            self.lock().reclaimed.insert(id.clone(), (tenant, name.clone()));
            remote.remove_volumes(id);
            return Ok(());
        }
        if let Some(metadata) = volume["metadata"].as_object_mut() {
            metadata.remove("finalizers");
        }
        let caller = Caller { environment: &environment, node: &worker };
        match self.api()?.update(caller, "persistentvolumes", "", name, volume).await {
            Err(e) if e.code != 404 => return Err(e.into()),
            _ => {}
        }
        self.lock().reclaimed.remove(&id);
        Ok(())
    }

    fn remote(&self, worker: &str) -> Option<Arc<Remote>> {
        self.lock().remote(worker)
    }

    /// A worker has removed what it was asked to.
    pub(super) fn volume_gone(&self, worker: &str, id: &str) {
        let Some(remote) = self.remote(worker) else { return };
        remote.volume_gone(id);
        let volume = self.lock().reclaimed.get(id).cloned();
        if let Some((tenant, name)) = volume {
            self.queue.add(Work::Volume(tenant, name));
        }
    }

    /// Has the directories of an environment removed that is being deleted; what is left of them, for people. A worker that is not
    /// connected does that when it comes back.
    pub(super) fn drain_volumes(&self, environment: &str) -> Vec<String> {
        let state = self.lock();
        let mut left = Vec::new();
        for (name, worker) in state.workers.iter().filter(|(_, worker)| worker.is_connected()) {
            let Some(remote) = &worker.remote else { continue };
            if !remote.has_removed_volumes(environment) {
                remote.remove_volumes(environment.to_owned());
                left.push(format!("volumes on worker {name}"));
            }
        }
        left
    }

    /// Has the directories of environments removed that are no longer there. `kept` is what a worker that connects has.
    pub(super) async fn remove_orphaned_volumes(&self, remote: &Remote, kept: Vec<String>) {
        for key in kept {
            let name = key.split_once('.').map_or(key.as_str(), |(name, _)| name);
            let tenant = self.lock().by_name.get(name).copied();
            let theirs = match tenant {
                None => None,
                Some(tenant) => match self.volumes_key(tenant, name).await {
                    Ok(theirs) => Some(theirs),
                    Err(error) => {
                        tracing::warn!(%error, "it is not known whether volumes of an environment are still needed");
                        continue;
                    }
                },
            };
            if theirs.as_ref() != Some(&key) {
                remote.remove_volumes(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_being_deleted_is_looked_at() {
        let volume = serde_json::json!({ "metadata": { "name": "v", "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        assert!(may_be_deleting(volume.to_string().as_bytes()));
        assert!(!may_be_deleting(br#"{"metadata":{"name":"v"}}"#));
    }
}
