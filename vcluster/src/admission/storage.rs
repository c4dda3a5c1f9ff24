//! Claims and volumes: what keeps them while they are used, and which of them may grow (upstream's admission plugins
//! StorageObjectInUseProtection and PersistentVolumeClaimResize).

use serde_json::{Value, json};
use vctl_machinery::{amounts::Quantity, status::ApiError};

use crate::{
    document::{finalizers, set_meta},
    objects::{Call, Target},
};

/// Keeps a claim while pods use it.
pub(crate) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Keeps a volume while a claim has it.
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// Gives a new object a finalizer.
pub(super) fn protect(object: &mut Value, finalizer: &str) {
    let mut all: Vec<String> = finalizers(object).into_iter().map(str::to_owned).collect();
    if !all.iter().any(|f| f == finalizer) {
        all.push(finalizer.to_owned());
        set_meta(object, "finalizers", Some(json!(all)));
    }
}

/// 403 for a claim that asks for more than before although its class does not let volumes grow.
pub(super) async fn may_grow(call: &Call, target: &Target, old: &Value, new: &Value) -> Result<(), ApiError> {
    let size = |claim: &Value| claim.pointer("/spec/resources/requests/storage").and_then(Quantity::of);
    let (Some(before), Some(after)) = (size(old), size(new)) else { return Ok(()) };
    if after.as_f64() <= before.as_f64() {
        return Ok(());
    }
    let refuse = |why: &str| Err(target.forbidden(&target.name, why));
    if old["status"]["phase"] != "Bound" {
        return refuse("Only bound persistent volume claims can be expanded");
    }
    let class = old["spec"]["storageClassName"].as_str().unwrap_or_default();
    let class = call.plane.object("storageclasses.storage.k8s.io", "", class).await?;
    if class.is_some_and(|c| c["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    refuse(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    )
}
