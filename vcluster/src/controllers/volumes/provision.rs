//! Makes volumes for claims.

use serde_json::{Value, json};

use super::{CLAIMS, RECLAIM_FINALIZER, Told, VOLUMES, or_gone, reference, tell};
use crate::{
    controllers::{
        context::{Context, Failure},
        object::{labels, name, namespace, set_annotation, text, uid},
    },
    limits::counting::volumes::made_for,
};

/// The provisioner of the workers' own disks, and the CSI driver that its volumes name.
pub(in crate::controllers) const PROVISIONER: &str = crate::bootstrap::PROVISIONER;
/// Who made a volume.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const STORAGE_PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// Says in the claim whose business it is.
pub(super) async fn announce(cx: &Context<'_>, claim: &Value, provisioner: &str) -> Result<Value, Failure> {
    let mut changed = claim.clone();
    for key in STORAGE_PROVISIONER {
        set_annotation(&mut changed, key, provisioner);
    }
    if changed == *claim {
        return Ok(changed);
    }
    or_gone(cx.client.update(CLAIMS, namespace(claim), name(claim), "", changed.clone()).await, changed)
}

/// Makes the volume of a claim; the claim is bound to it in the next round.
pub(super) async fn provision(cx: &Context<'_>, claim: &Value, class: &Value, node: &Value) -> Result<(), Failure> {
    let claim = announce(cx, claim, PROVISIONER).await?;
    let shown = format!("{}/{}", namespace(&claim), name(&claim));
    let message = format!("External provisioner is provisioning volume for claim {shown:?}");
    tell(cx, "PersistentVolumeClaim", &claim, Told::normal("Provisioning", message)).await;
    let volume = volume(&claim, class, node);
    match cx.client.create(VOLUMES, "", volume.clone()).await {
        Ok(_) => {
            let message = format!("Successfully provisioned volume {}", name(&volume));
            tell(cx, "PersistentVolumeClaim", &claim, Told::normal("ProvisioningSucceeded", message)).await;
            Ok(())
        }
        Err(e) if e.reason == "AlreadyExists" => Ok(()),
        Err(e) => {
            let message = format!("failed to provision volume with StorageClass {:?}: {e}", name(class));
            tell(cx, "PersistentVolumeClaim", &claim, Told::warning("ProvisioningFailed", message)).await;
            Err(e.into())
        }
    }
}

/// The volume for a claim: a directory on a node.
fn volume(claim: &Value, class: &Value, node: &Value) -> Value {
    let volume_name = made_for(uid(claim));
    let host = labels(node).get("kubernetes.io/hostname").and_then(Value::as_str).unwrap_or_else(|| name(node));
    let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": volume_name, "annotations": { PROVISIONED_BY: PROVISIONER }, "finalizers": [RECLAIM_FINALIZER],
        },
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": { "storage": claim["spec"]["resources"]["requests"]["storage"] },
            "claimRef": reference(claim),
            "csi": { "driver": PROVISIONER, "volumeHandle": volume_name },
            "persistentVolumeReclaimPolicy": or(text(class, "/reclaimPolicy"), "Delete"),
            "storageClassName": name(class),
            "volumeMode": or(text(claim, "/spec/volumeMode"), "Filesystem"),
            "nodeAffinity": { "required": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": [host] }] },
            ] } },
        },
    })
}
