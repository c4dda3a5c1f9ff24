//! API keys, and tokens for environments.

use axum::{
    Json,
    extract::{Path, Query, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode};
use jiff::SignedDuration;
use serde::Deserialize;
use vctl_api::rest::{CreateApiKey, CreateEnvironmentToken, Page};

use super::{
    api::Answer,
    body::{JsonBody, tagged},
    requester::Requester,
};
use crate::{Portal, error::Error};

/// Query of the list: the administrator may see everybody's.
#[derive(Deserialize)]
pub(super) struct ListQuery {
    all: Option<String>,
}

pub(super) async fn list(
    State(portal): State<Portal>,
    requester: Requester,
    Query(query): Query<ListQuery>,
    headers: HeaderMap,
) -> Answer {
    let all = query.all.is_some_and(|all| all != "false");
    if all && !requester.identity.is_local_admin() {
        return Err(Error::Forbidden("only the administrator of the server sees everybody's keys".to_owned()));
    }
    let user = Some(requester.identity.user.as_str()).filter(|_| !all);
    let items = portal.inner().auth.api_keys(user).await?;
    tagged(&Page { items, next: None }, None, &headers)
}

pub(super) async fn create(
    State(portal): State<Portal>,
    requester: Requester,
    JsonBody(request): JsonBody<CreateApiKey>,
) -> Result<Response, Error> {
    let key = portal.inner().auth.create_api_key(requester.caller(), request).await?;
    Ok((StatusCode::CREATED, Json(key)).into_response())
}

pub(super) async fn remove(
    State(portal): State<Portal>,
    requester: Requester,
    Path(key): Path<String>,
) -> Result<StatusCode, Error> {
    portal.inner().auth.delete_api_key(requester.caller(), &requester.identity, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn environment_token(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<CreateEnvironmentToken>,
) -> Result<Response, Error> {
    let inner = portal.inner();
    let environment = inner.environments.stored(&name).await?.value;
    let seconds = request.ttl_seconds.map(|s| SignedDuration::from_secs(i64::try_from(s).unwrap_or(i64::MAX / 4)));
    let token =
        inner.auth.mint_environment_token(requester.caller(), &requester.identity, &environment, seconds).await?;
    Ok((StatusCode::CREATED, Json(token)).into_response())
}
