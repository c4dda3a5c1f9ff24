//! The users, and who asks.

use axum::{
    Json,
    extract::{Path, State},
};
use http::{HeaderMap, StatusCode};
use vctl_api::rest::{ChangeUser, IdentityView, Page, User};

use super::{
    api::Answer,
    body::{JsonBody, tagged},
    requester::Requester,
};
use crate::{
    Portal,
    auth::{Credential, Identity},
    error::Error,
};

pub(super) async fn whoami(requester: Requester) -> Json<IdentityView> {
    let Identity { user, actor, name, email, groups, credential, .. } = requester.identity;
    let (credential, scopes) = match credential {
        Credential::Administrator => ("administrator", None),
        Credential::Session => ("session", None),
        Credential::AccessToken => ("access-token", None),
        Credential::ApiKey { scopes, .. } => ("api-key", Some(scopes)),
    };
    Json(IdentityView { user, actor, name, email, groups, credential: credential.to_owned(), scopes })
}

pub(super) async fn list(State(portal): State<Portal>, headers: HeaderMap) -> Answer {
    let items: Vec<User> = portal.inner().auth.users().await?;
    tagged(&Page { items, next: None }, None, &headers)
}

pub(super) async fn get(State(portal): State<Portal>, Path(id): Path<String>) -> Result<Json<User>, Error> {
    portal.inner().auth.user(&id).await.map(Json)
}

pub(super) async fn change(
    State(portal): State<Portal>,
    requester: Requester,
    Path(user): Path<String>,
    JsonBody(request): JsonBody<ChangeUser>,
) -> Result<Json<User>, Error> {
    portal.inner().auth.set_disabled(requester.caller(), &user, request.disabled).await.map(Json)
}

pub(super) async fn remove(
    State(portal): State<Portal>,
    requester: Requester,
    Path(user): Path<String>,
) -> Result<StatusCode, Error> {
    portal.inner().auth.remove_user(requester.caller(), &user).await?;
    Ok(StatusCode::NO_CONTENT)
}
