//! Who sends a request, for handlers: one extractor for what the guards have found out.

use axum::{
    RequestPartsExt,
    extract::{Extension, FromRequestParts},
};
use http::request::Parts;

use super::guard::RequestId;
use crate::{auth::Identity, environments::Caller, error::Error};

/// Who asks, and in which request. Only behind a guard that lets nobody through who is not signed in.
pub(super) struct Requester {
    /// Who is signed in.
    pub(super) identity: Identity,
    id: RequestId,
}

impl Requester {
    /// As what is asked for sees it.
    pub(super) fn caller(&self) -> Caller<'_> {
        Caller { actor: &self.identity.actor, user: &self.identity.user, request_id: &self.id.0 }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Requester {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        // An endpoint without a guard is wired wrongly, and answers nobody.
        let wired = |what: &str| Error::Internal(format!("an endpoint asks for {what} before a guard has"));
        let Extension(identity) = parts.extract().await.map_err(|_| wired("who is signed in"))?;
        let Extension(id) = parts.extract().await.map_err(|_| wired("the id of the request"))?;
        Ok(Self { identity, id })
    }
}
