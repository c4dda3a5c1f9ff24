//! Every namespace has a ServiceAccount `default`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    context::{Context, Failure, is_namespace_terminating},
    object::text,
};

/// Whether a namespace gets what every namespace has.
pub(super) fn is_active(namespace: &Value) -> bool {
    !super::object::is_deleting(namespace) && text(namespace, "/status/phase") != "Terminating"
}

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(live) = cx.find("namespaces", "", namespace).await? else { return Ok(None) };
    if !is_active(&live) || cx.find("serviceaccounts", namespace, "default").await?.is_some() {
        return Ok(None);
    }
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": namespace },
    });
    match cx.client.create("serviceaccounts", namespace, account).await {
        Err(e) if e.reason != "AlreadyExists" && !is_namespace_terminating(&e) => Err(e.into()),
        _ => Ok(None),
    }
}
