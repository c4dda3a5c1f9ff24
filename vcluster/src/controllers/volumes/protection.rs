//! Lets claims and volumes go that nobody uses any more. Both get their finalizers from admission.

use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use super::{CLAIMS, VOLUMES, View, claims_of};
use crate::{
    admission::storage::{CLAIM_PROTECTION, VOLUME_PROTECTION},
    controllers::{
        context::{Context, Failure},
        object::{is_deleting, list, name, namespace, text},
    },
};

fn holds(object: &Value, finalizer: &str) -> bool {
    is_deleting(object) && list(object, "/metadata/finalizers").iter().any(|f| f == finalizer)
}

/// Whether a pod that has a node uses the claim, even one that has ended: its volumes may still be mounted.
fn is_used(claim: &Value, pods: &[Value]) -> bool {
    pods.iter()
        .filter(|p| namespace(p) == namespace(claim) && !text(p, "/spec/nodeName").is_empty())
        .any(|p| claims_of(p).any(|c| c == name(claim)))
}

/// Takes the finalizers off what is being deleted and not used.
pub(super) async fn release(cx: &Context<'_>, view: &View) -> Result<(), Failure> {
    for claim in view.claims.iter().filter(|c| holds(c, CLAIM_PROTECTION) && !is_used(c, &view.pods)) {
        remove(cx, CLAIMS, claim, CLAIM_PROTECTION).await?;
    }
    let free = |v: &&Value| holds(v, VOLUME_PROTECTION) && text(v, "/status/phase") != "Bound";
    for volume in view.volumes.iter().filter(free) {
        remove(cx, VOLUMES, volume, VOLUME_PROTECTION).await?;
    }
    Ok(())
}

async fn remove(cx: &Context<'_>, resource: &str, object: &Value, finalizer: &str) -> Result<(), Failure> {
    let left: Vec<&Value> = list(object, "/metadata/finalizers").iter().filter(|f| *f != finalizer).collect();
    let patch = json!({ "metadata": {
        "finalizers": left, "resourceVersion": text(object, "/metadata/resourceVersion"),
    } });
    match cx.client.merge_patch(resource, namespace(object), name(object), "", patch).await {
        Ok(_) | Err(ApiError { code: 404, .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
