//! Logins of the command line.

use axum::{
    extract::{Path, Query, State, rejection::QueryRejection},
    response::NoContent,
};
use vctl_api::rest::ClientLogin;

use super::{
    api_keys::ListQuery,
    listing::{Listing, Paged},
    requester::Requester,
};
use crate::{Portal, error::Error};

pub(super) async fn list(
    State(portal): State<Portal>,
    requester: Requester,
    query: Result<Query<ListQuery>, QueryRejection>,
    listing: Listing<ClientLogin>,
) -> Result<Paged<ClientLogin>, Error> {
    let Query(query) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    let asking = &requester.identity;
    if query.all() && !asking.is_local_admin() {
        return Err(Error::Forbidden("only the administrator of the server sees everybody's logins".to_owned()));
    }
    let user = Some(asking.user.as_str()).filter(|_| !query.all());
    listing.page(portal.inner().auth.logins(user, asking).await?)
}

pub(super) async fn remove(
    State(portal): State<Portal>,
    requester: Requester,
    Path(id): Path<String>,
) -> Result<NoContent, Error> {
    portal.inner().auth.delete_login(requester.caller(), &requester.identity, &id).await?;
    Ok(NoContent)
}
