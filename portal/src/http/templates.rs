//! Versions of templates.

use axum::{
    Extension,
    extract::{Path, State},
};
use vctl_api::rest::{PublishTemplate, TemplateVersion};

use super::{
    body::JsonBody,
    listing::{Listing, Paged},
    openapi::answers::Created,
    requester::Requester,
};
use crate::{
    Portal,
    access::{permission::Permission, policy::Permit},
    error::Error,
};

pub(super) async fn publish(
    State(portal): State<Portal>,
    requester: Requester,
    JsonBody(request): JsonBody<PublishTemplate>,
) -> Result<Created<TemplateVersion>, Error> {
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
