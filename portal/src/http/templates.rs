//! Versions of templates.

use axum::{
    Extension,
    extract::{Path, State},
};
use http::HeaderMap;
use vctl_api::rest::{ChangeTemplateVersion, PublishTemplate, TemplateVersion};

use super::{
    body::{IfMatch, JsonBody, Tagged, or_current, tagged},
    listing::{Listing, Paged},
    openapi::answers::Created,
    requester::Requester,
};
use crate::{
    Portal,
    access::{permission::Permission, policy::Permit},
    error::Error,
};

/// Largest template that is published, as JSON, in bytes.
pub(super) const TEMPLATE_LIMIT: usize = 16 << 20;

pub(super) async fn publish(
    State(portal): State<Portal>,
    requester: Requester,
    body: Result<JsonBody<PublishTemplate>, Error>,
) -> Result<Created<TemplateVersion>, Error> {
    let JsonBody(request) = body.map_err(|e| match e {
        Error::TooLarge { .. } => Error::TooLarge { limit: TEMPLATE_LIMIT },
        other => other,
    })?;
    let environments = &portal.inner().environments;
    let version = environments.registry.publish(requester.caller(), request, environments.now()).await?;
    Ok(Created::new(version))
}

pub(super) async fn versions(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    listing: Listing<TemplateVersion>,
) -> Result<Paged<TemplateVersion>, Error> {
    if !portal.inner().access.templates(&permit, Permission::TemplatesGet).await?.contains(&name) {
        return Err(Error::NotFound { what: "template", name, nearest: Vec::new() });
    }
    let items = portal.inner().environments.registry.versions(&name).await?;
    listing.page(items)
}

pub(super) async fn version(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path((name, version)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Tagged<TemplateVersion>, Error> {
    if !portal.inner().access.templates(&permit, Permission::TemplatesGet).await?.contains(&name) {
        return Err(Error::NotFound { what: "template", name, nearest: Vec::new() });
    }
    let version = portal.inner().environments.registry.version(&name, &version).await?;
    tagged(&version, Some(version.revision), &headers)
}

pub(super) async fn change_version(
    State(portal): State<Portal>,
    requester: Requester,
    Path((name, version)): Path<(String, String)>,
    IfMatch(revision): IfMatch,
    JsonBody(request): JsonBody<ChangeTemplateVersion>,
) -> Result<Tagged<TemplateVersion>, Error> {
    let environments = &portal.inner().environments;
    let (registry, now) = (&environments.registry, environments.now());
    let changed = registry.change_version(requester.caller(), (&name, &version), request, revision, now).await;
    let version = or_current(changed, revision, registry.version(&name, &version)).await?;
    tagged(&version, Some(version.revision), &HeaderMap::new())
}
