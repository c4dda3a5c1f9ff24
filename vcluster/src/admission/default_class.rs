//! Claims get the default storage class, ingresses the default ingress class.

use serde_json::Value;
use vctl_machinery::status::ApiError;

use crate::{document::meta, objects::Call};

/// Classes of a resource that are annotated as default, the youngest first.
async fn defaults(call: &Call, resource: &str, annotations: &[&str]) -> Result<Vec<String>, ApiError> {
    let mut classes = call.plane.objects(resource, None).await?;
    classes.retain(|c| annotations.iter().any(|a| c["metadata"]["annotations"][*a] == "true"));
    classes.sort_by(|a, b| {
        let created = |c| meta(c, "creationTimestamp");
        created(b).cmp(created(a)).then_with(|| meta(a, "name").cmp(meta(b, "name")))
    });
    Ok(classes.iter().map(|c| meta(c, "name").to_owned()).collect())
}

/// A claim that names no class gets the youngest default one; the empty class means none.
pub(super) async fn storage(call: &Call, claim: &mut Value) -> Result<(), ApiError> {
    let annotated = claim.pointer("/metadata/annotations/volume.beta.kubernetes.io~1storage-class").is_some();
    if annotated || !claim["spec"]["storageClassName"].is_null() {
        return Ok(());
    }
    let annotations =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    if let Some(class) = defaults(call, "storageclasses.storage.k8s.io", &annotations).await?.into_iter().next() {
        claim["spec"]["storageClassName"] = class.into();
    }
    Ok(())
}

/// An ingress that names no class gets the default one.
pub(super) async fn ingress(call: &Call, ingress: &mut Value) -> Result<(), ApiError> {
    let annotated = ingress.pointer("/metadata/annotations/kubernetes.io~1ingress.class").is_some();
    if annotated || !ingress["spec"]["ingressClassName"].is_null() {
        return Ok(());
    }
    let annotations = ["ingressclass.kubernetes.io/is-default-class"];
    let classes = defaults(call, "ingressclasses.networking.k8s.io", &annotations).await?;
    if let Some(class) = classes.into_iter().next() {
        ingress["spec"]["ingressClassName"] = class.into();
    }
    Ok(())
}
