//! Git repositories that templates come from.

use axum::{
    Json,
    extract::{Path, State},
};
use vctl_api::rest::{AddTemplateSource, TemplateSource};

use super::{
    body::JsonBody,
    listing::{Listing, Paged},
    openapi::answers::Created,
    requester::Requester,
};
use crate::{Portal, error::Error};

pub(super) async fn list(
    State(portal): State<Portal>,
    listing: Listing<TemplateSource>,
) -> Result<Paged<TemplateSource>, Error> {
    listing.page(portal.inner().sources.list().await?)
}

pub(super) async fn add(
    State(portal): State<Portal>,
    requester: Requester,
    JsonBody(request): JsonBody<AddTemplateSource>,
) -> Result<Created<TemplateSource>, Error> {
    portal.inner().sources.add(requester.caller(), request).await.map(Created::new)
}

pub(super) async fn remove(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
) -> Result<Json<TemplateSource>, Error> {
    portal.inner().sources.remove(requester.caller(), &name).await.map(Json)
}

pub(super) async fn sync(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
) -> Result<Json<TemplateSource>, Error> {
    portal.inner().sources.sync(requester.caller(), &name).await.map(Json)
}
