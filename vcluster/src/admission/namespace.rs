//! Objects live in namespaces that are there and are not going away.

use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use crate::{
    document::{is_terminating, meta},
    objects::{Call, Target},
};

/// 404 for a namespace that is not there, 403 for one that is being deleted.
pub(super) async fn exists(call: &Call, target: &Target, object: &Value) -> Result<(), ApiError> {
    let name = &target.namespace;
    let Some(namespace) = call.plane.object("namespaces", "", name).await? else {
        return Err(ApiError::not_found("", "namespaces", name));
    };
    if !is_terminating(&namespace) {
        return Ok(());
    }
    let own = match meta(object, "name") {
        "" => meta(object, "generateName"),
        own => own,
    };
    let mut error = target
        .forbidden(own, &format!("unable to create new content in namespace {name} because it is being terminated"));
    error.details["causes"] = json!([{
        "reason": "NamespaceTerminating", "message": format!("namespace {name} is being terminated"), "field": "metadata.namespace",
    }]);
    Err(error)
}

/// The namespaces that the cluster itself needs stay.
pub(super) fn may_be_deleted(target: &Target) -> Result<(), ApiError> {
    if matches!(&*target.name, "default" | "kube-system" | "kube-public") {
        return Err(target.forbidden(&target.name, "this namespace may not be deleted"));
    }
    Ok(())
}
