//! Environments shared with others.

use serde_json::json;
use vctl_api::rest::{Environment, ShareAccess};
use vctl_store::{Expect, Revision, StoreError};

use super::{CONFLICT_TRIES, Caller, Environments};
use crate::{
    audit::{Subject, entry},
    documents::{Stored, put, unchanged},
    error::Error,
};

/// Most people with whom an environment is shared.
const SHARES_LIMIT: usize = 100;

impl Environments {
    /// Shares an environment with a user, in another way than before, or (none) no more. Counts from the next request on.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an environment, or a share to end, that is not there; [`Error::Invalid`] for too many; [`Error::Changed`].
    pub(crate) async fn share(
        &self,
        caller: Caller<'_>,
        name: &str,
        user: &str,
        access: Option<ShareAccess>,
        if_revision: Option<Revision>,
    ) -> Result<Environment, Error> {
        for _ in 0..CONFLICT_TRIES {
            let Stored { value: mut environment, revision, created } = self.stored(name).await?;
            unchanged(revision, if_revision)?;
            let before = match access {
                Some(access) => environment.shares.insert(user.to_owned(), access),
                None => environment.shares.remove(user),
            };
            if access.is_none() && before.is_none() {
                let nearest = crate::error::nearest(user, environment.shares.keys().map(String::as_str));
                return Err(Error::NotFound { what: "share", name: user.to_owned(), nearest });
            }
            if environment.shares.len() > SHARES_LIMIT {
                let why =
                    format!("an environment is shared with at most {SHARES_LIMIT} users: use a team of the project");
                return Err(Error::invalid("too-many-shares", why));
            }
            let action = if access.is_some() { "environment.share" } else { "environment.unshare" };
            let detail =
                json!({ "changes": [{ "path": format!("/shares/{user}"), "before": before, "after": access }] });
            let writes = vec![
                put(&environment, Expect::Revision(revision))?,
                entry(self.now(), caller, action, Subject::environment(&environment), detail)?,
            ];
            match self.documents.transact(writes).await {
                Ok(revisions) => {
                    let revision = revisions.first().copied().unwrap_or_default();
                    let newest = self.registry.newest().await?;
                    return self.live(Stored { value: environment, revision, created }, &newest).await;
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::Unavailable(format!("environment {name:?} is changing all the time")))
    }
}
