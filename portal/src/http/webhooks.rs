//! The handlers of webhooks.

use axum::{
    Json,
    extract::{Path, State},
    response::NoContent,
};
use http::HeaderMap;
use vctl_api::rest::{Delivery, Webhook, WebhookSettings};

use super::{
    body::{IfMatch, JsonBody, Tagged, or_current, tagged},
    listing::{Listing, Paged},
    openapi::answers::Accepted,
    requester::Requester,
};
use crate::{Portal, error::Error};

pub(super) async fn list(State(portal): State<Portal>, listing: Listing<Webhook>) -> Result<Paged<Webhook>, Error> {
    listing.page(portal.inner().webhooks.list().await?)
}

pub(super) async fn get(
    State(portal): State<Portal>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Tagged<Webhook>, Error> {
    let webhook = portal.inner().webhooks.get(&name).await?;
    tagged(&webhook, Some(webhook.revision), &headers)
}

pub(super) async fn put(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
    JsonBody(settings): JsonBody<WebhookSettings>,
) -> Result<Json<Webhook>, Error> {
    let webhooks = &portal.inner().webhooks;
    let changed = webhooks.put(requester.caller(), &name, settings, revision).await;
    or_current(changed, revision, webhooks.get(&name)).await.map(Json)
}

pub(super) async fn delete(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
) -> Result<NoContent, Error> {
    let webhooks = &portal.inner().webhooks;
    let deleted = webhooks.delete(requester.caller(), &name, revision).await;
    or_current(deleted, revision, webhooks.get(&name)).await.map(|()| NoContent)
}

pub(super) async fn test(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
) -> Result<Accepted<Delivery>, Error> {
    portal.inner().webhooks.test(requester.caller(), &name).await.map(Accepted)
}
