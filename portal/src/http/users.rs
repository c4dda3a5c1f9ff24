//! The users, and who asks.

use axum::{
    Json,
    extract::{Path, State},
    response::NoContent,
};
use http::HeaderMap;
use vctl_api::rest::{ChangeUser, IdentityView, User};

use super::{
    body::{IfMatch, JsonBody, Tagged, or_current, tagged},
    listing::{Listing, Paged},
    requester::Requester,
};
use crate::{
    Portal,
    auth::{Credential, Identity, UserDoc},
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

pub(super) async fn list(State(portal): State<Portal>, listing: Listing<User>) -> Result<Paged<User>, Error> {
    listing.page(portal.inner().auth.users().await?)
}

pub(super) async fn get(
    State(portal): State<Portal>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Tagged<User>, Error> {
    let stored = portal.inner().auth.stored_user(&id).await?;
    let revision = stored.revision;
    tagged(&UserDoc::view(stored), Some(revision), &headers)
}

pub(super) async fn change(
    State(portal): State<Portal>,
    requester: Requester,
    Path(user): Path<String>,
    IfMatch(revision): IfMatch,
    JsonBody(request): JsonBody<ChangeUser>,
) -> Result<Tagged<User>, Error> {
    let auth = &portal.inner().auth;
    let changed = auth.set_disabled(requester.caller(), &user, request.disabled, revision).await;
    let stored = or_current(changed, revision, async { auth.stored_user(&user).await.map(UserDoc::view) }).await?;
    let revision = stored.revision;
    tagged(&UserDoc::view(stored), Some(revision), &HeaderMap::new())
}

pub(super) async fn remove(
    State(portal): State<Portal>,
    requester: Requester,
    Path(user): Path<String>,
    IfMatch(revision): IfMatch,
) -> Result<NoContent, Error> {
    let auth = &portal.inner().auth;
    let removed = auth.remove_user(requester.caller(), &user, revision).await;
    let now = async { auth.stored_user(&user).await.map(UserDoc::view) };
    or_current(removed, revision, now).await.map(|()| NoContent)
}
