//! Objects live in namespaces that are there and are not going away.

use memchr::memmem;
use serde_json::{Value, json};
use vctl_machinery::status::ApiError;
use vctl_store::Key;

use crate::{
    document::{self, is_terminating, meta},
    objects::{Call, Target},
};

/// 404 for a namespace that is not there, 403 for one that is being deleted.
pub(super) async fn exists(call: &Call, target: &Target, object: &Value) -> Result<(), ApiError> {
    let name = &target.namespace;
    let Some(entry) = call.plane.entry(&Key::new("namespaces", "", name)).await? else {
        return Err(ApiError::not_found("", "namespaces", name));
    };
    // Most namespaces do not have the word in them anywhere: those need no parsing, and this is asked at every create.
    if memmem::find(&entry.value, b"deletionTimestamp").is_none()
        || !is_terminating(&document::decode(&call.plane.keys.origin, &entry.key, &entry.value, entry.revision)?)
    {
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
