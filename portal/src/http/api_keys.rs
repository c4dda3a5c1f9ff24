//! API keys, and tokens for environments.

use axum::{
    extract::{Path, Query, State, rejection::QueryRejection},
    response::NoContent,
};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;
use vctl_api::rest::{ApiKey, CreateApiKey, CreateEnvironmentToken, EnvironmentToken, NewApiKey};

use super::{
    body::JsonBody,
    listing::{Listing, Paged},
    openapi::answers::ShownOnce,
    requester::Requester,
};
use crate::{Portal, error::Error};

/// Query of the list: the administrator may see everybody's.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ListQuery {
    /// Those of everybody: `?all` or `?all=true`.
    all: Option<String>,
}

impl ListQuery {
    /// Whether everybody's are asked for.
    pub(super) fn all(&self) -> bool {
        self.all.as_deref().is_some_and(|all| all != "false")
    }
}

pub(super) async fn list(
    State(portal): State<Portal>,
    requester: Requester,
    query: Result<Query<ListQuery>, QueryRejection>,
    listing: Listing<ApiKey>,
) -> Result<Paged<ApiKey>, Error> {
    let Query(query) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    let all = query.all();
    if all && !requester.identity.is_local_admin() {
        return Err(Error::Forbidden("only the administrator of the server sees everybody's keys".to_owned()));
    }
    let user = Some(requester.identity.user.as_str()).filter(|_| !all);
    listing.page(portal.inner().auth.api_keys(user).await?)
}

pub(super) async fn create(
    State(portal): State<Portal>,
    requester: Requester,
    JsonBody(request): JsonBody<CreateApiKey>,
) -> Result<ShownOnce<NewApiKey>, Error> {
    let key = portal.inner().auth.create_api_key(requester.caller(), request).await?;
    Ok(ShownOnce(key))
}

pub(super) async fn remove(
    State(portal): State<Portal>,
    requester: Requester,
    Path(key): Path<String>,
) -> Result<NoContent, Error> {
    portal.inner().auth.delete_api_key(requester.caller(), &requester.identity, &key).await?;
    Ok(NoContent)
}

pub(super) async fn environment_token(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<CreateEnvironmentToken>,
) -> Result<ShownOnce<EnvironmentToken>, Error> {
    let inner = portal.inner();
    let environment = inner.environments.stored(&name).await?.value;
    let seconds = request.ttl_seconds.map(|s| SignedDuration::from_secs(i64::try_from(s).unwrap_or(i64::MAX / 4)));
    let token =
        inner.auth.mint_environment_token(requester.caller(), &requester.identity, &environment, seconds).await?;
    Ok(ShownOnce(token))
}
