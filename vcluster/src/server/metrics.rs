//! `/metrics` of one cluster: what was measured of its own requests, and how much it stores.

use std::collections::BTreeSet;

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use vctl_machinery::status::ApiError;
use vctl_runtime::metrics::{Exposition, Kind, MEDIA_TYPE};
use vctl_store::{ListOptions, Scope};

use super::{Context, respond};
use crate::storage;

/// Answers who may read it.
pub(super) async fn serve(context: &Context) -> Result<Response<Body>, ApiError> {
    let plane = &context.plane;
    let mut text = Exposition::default();
    plane.metrics.write(&mut text);
    text.family(
        "apiserver_storage_objects",
        Kind::Gauge,
        "[STABLE] Number of stored objects at the time of last check split by kind.",
    );
    let catalog = plane.catalog().await?;
    let stored = catalog.rows().iter().filter(|r| r.verbs.iter().any(|v| v == "watch")).map(|r| r.group_resource());
    for resource in stored.collect::<BTreeSet<_>>() {
        let options = ListOptions { scope: Scope::all(resource.as_str()), at: None, after: None, limit: 1 };
        let page = plane.store().list(plane.tenant, options).await.map_err(storage::error)?;
        text.sample("apiserver_storage_objects", &[("resource", &resource)], page.entries.len() + page.remaining);
    }
    let mut response = respond::text(StatusCode::OK, &text.into_text());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    Ok(response)
}
