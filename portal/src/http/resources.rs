//! Named resources outside of the platform.

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use vctl_api::rest::{AddResource, ProbeResult, Resource};

use super::{
    body::JsonBody,
    listing::{Listing, Paged},
    openapi::answers::Created,
    requester::Requester,
};
use crate::{Portal, access::policy::Permit, error::Error};

pub(super) async fn list(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    listing: Listing<Resource>,
) -> Result<Paged<Resource>, Error> {
    // Whoever may create environments somewhere may see what these can be bound to.
    let all = portal.inner().environments.resources().await?;
    listing.page(portal.inner().access.resources(&permit, all).await?)
}

pub(super) async fn add(
    State(portal): State<Portal>,
    requester: Requester,
    JsonBody(request): JsonBody<AddResource>,
) -> Result<Created<Resource>, Error> {
    let resource = portal.inner().environments.add_resource(requester.caller(), request).await?;
    Ok(Created::new(resource))
}

pub(super) async fn remove(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
) -> Result<Json<Resource>, Error> {
    portal.inner().environments.remove_resource(requester.caller(), &name).await.map(Json)
}

pub(super) async fn probe(State(portal): State<Portal>, Path(name): Path<String>) -> Result<Json<ProbeResult>, Error> {
    portal.inner().environments.probe_resource(&name).await.map(Json)
}
