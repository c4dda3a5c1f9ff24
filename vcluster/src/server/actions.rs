//! Requests that do something instead of storing an object: binding, eviction, tokens.

use std::sync::Arc;

use serde_json::Value;
use vctl_machinery::{catalog::Catalog, status::ApiError};

use super::token;
use crate::{
    admission,
    document::meta,
    in_process::success,
    objects::{Call, Target},
    subresource,
};

/// POST to a subresource (or to `bindings`).
pub(crate) async fn create(
    call: &Call,
    catalog: &Arc<Catalog>,
    target: Target,
    object: Value,
) -> Result<Value, ApiError> {
    let object = admission::admit_action(call, &target, admission::Operation::Create, object).await?;
    match (&*target.descriptor.plural, &*target.subresource) {
        ("pods", "binding") => bind(call, &target, &object).await,
        ("bindings", "") => {
            let pods = catalog.stored("pods").ok_or_else(|| ApiError::internal("there is no resource pods"))?;
            bind(call, &Target::new(pods.clone(), &target.namespace, meta(&object, "name")), &object).await
        }
        ("pods", "eviction") => {
            let pod = Target::new(target.descriptor.clone(), &target.namespace, &target.name);
            admission::evict(call, &pod, &object, catalog).await?;
            Ok(success())
        }
        ("serviceaccounts", "token") => token::request(call, &target, object).await,
        (plural, subresource) => {
            Err(ApiError::method_not_allowed(&target.descriptor.group, plural, &format!("create of {subresource}")))
        }
    }
}

/// The same from inside the process, where they come as updates: `None` for ordinary subresources.
pub(crate) async fn by_document(call: &Call, target: &Target, object: &Value) -> Result<Option<Value>, ApiError> {
    match (&*target.descriptor.plural, &*target.subresource) {
        ("pods", "binding" | "eviction") | ("serviceaccounts", "token") => {
            let catalog = call.plane.catalog().await?;
            create(call, &catalog, target.clone(), object.clone()).await.map(Some)
        }
        _ => Ok(None),
    }
}

async fn bind(call: &Call, target: &Target, binding: &Value) -> Result<Value, ApiError> {
    let pod = Target::new(target.descriptor.clone(), &target.namespace, &target.name).through("binding");
    let now = call.now();
    call.modify(&pod, false, |current| subresource::bind(&pod, current, binding, &now)).await?;
    Ok(success())
}
