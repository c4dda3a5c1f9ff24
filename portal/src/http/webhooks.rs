//! The handlers of webhooks.

use axum::{
    Json,
    extract::{Path, State},
    response::IntoResponse,
};
use http::{HeaderMap, StatusCode};
use vctl_api::rest::{Page, Webhook, WebhookSettings};

use super::{
    api::Answer,
    body::{JsonBody, if_match, tagged},
    requester::Requester,
};
use crate::{Portal, error::Error};

pub(super) async fn list(State(portal): State<Portal>, headers: HeaderMap) -> Answer {
    tagged(&Page { items: portal.inner().webhooks.list().await?, next: None }, None, &headers)
}

pub(super) async fn get(State(portal): State<Portal>, Path(name): Path<String>, headers: HeaderMap) -> Answer {
    let webhook = portal.inner().webhooks.get(&name).await?;
    tagged(&webhook, Some(webhook.revision), &headers)
}

pub(super) async fn put(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<WebhookSettings>,
) -> Result<Json<Webhook>, Error> {
    portal.inner().webhooks.put(requester.caller(), &name, settings, if_match(&headers)?).await.map(Json)
}

pub(super) async fn delete(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
) -> Result<StatusCode, Error> {
    portal.inner().webhooks.delete(requester.caller(), &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn test(State(portal): State<Portal>, requester: Requester, Path(name): Path<String>) -> Answer {
    let delivery = portal.inner().webhooks.test(requester.caller(), &name).await?;
    Ok((StatusCode::ACCEPTED, Json(delivery)).into_response())
}
