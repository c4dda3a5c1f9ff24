//! The people whom issuers have signed in. The local administrator is not among them: they are always there.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use vctl_api::rest::User;
use vctl_store::{Expect, Revision, StoreError};

use super::{ADMIN, Auth, Credential, Identity, Origin, Session};
use crate::{
    documents::{Document, Stored, audit, put, remove, unchanged},
    environments::Caller,
    error::{Error, nearest},
};

/// Somebody whom an issuer has signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserDoc {
    /// `ISSUER-NAME:SUB`.
    pub(crate) id: String,
    /// Name of the issuer in the server's configuration.
    pub(crate) issuer: String,
    /// The issuer's `sub`.
    pub(crate) subject: String,
    /// As the audit trail says it.
    pub(crate) actor: String,
    /// Name for people.
    pub(crate) name: String,
    /// Verified email address.
    pub(crate) email: Option<String>,
    /// Groups that the issuer said last.
    pub(crate) groups: Vec<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) last_sign_in: Timestamp,
    /// Nothing of theirs counts.
    pub(crate) disabled: bool,
}

impl Document for UserDoc {
    const RESOURCE: &'static str = "users.vctl.dev";
    #[expect(clippy::misnamed_getters, reason = "a document is named by its id; `name` is for people")]
    fn name(&self) -> &str {
        &self.id
    }
}

impl UserDoc {
    pub(crate) fn identity(self, credential: Credential, session: Option<Session>, origin: Origin) -> Identity {
        let Self { id: user, actor, name, email, groups, .. } = self;
        Identity { user, actor, name, email, groups, session, credential, origin }
    }

    /// What people see of them.
    pub(crate) fn view(stored: Stored<Self>) -> User {
        let Self { id, issuer, name, email, groups, created_at, last_sign_in, disabled, .. } = stored.value;
        User { id, issuer, name, email, groups, created_at, last_sign_in, disabled }
    }
}

impl Auth {
    /// The identity of a user who is there and enabled.
    pub(super) async fn identify(
        &self,
        user: &str,
        credential: Credential,
        session: Option<Session>,
        origin: Origin,
    ) -> Result<Identity, Error> {
        if user == ADMIN {
            return Ok(Identity::local_admin(credential, session, origin));
        }
        let stored = self.documents.get::<UserDoc>(user).await?;
        match stored {
            Some(stored) if !stored.value.disabled => Ok(stored.value.identity(credential, session, origin)),
            Some(_) => Err(Error::Unauthorized("your account is disabled here: ask an administrator".to_owned())),
            None => Err(Error::Unauthorized(
                "your account was removed here: sign in again, or ask an administrator".to_owned(),
            )),
        }
    }

    /// All users by id.
    pub(crate) async fn users(&self) -> Result<Vec<User>, Error> {
        Ok(self.documents.list::<UserDoc>().await?.0.into_iter().map(UserDoc::view).collect())
    }

    /// One user.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub(crate) async fn stored_user(&self, id: &str) -> Result<Stored<UserDoc>, Error> {
        if let Some(stored) = self.documents.get::<UserDoc>(id).await? {
            return Ok(stored);
        }
        let (all, _) = self.documents.list::<UserDoc>().await?;
        let nearest = nearest(id, all.iter().map(|u| u.value.id.as_str()));
        Err(Error::NotFound { what: "user", name: id.to_owned(), nearest })
    }

    /// Disables a user, or enables them again. What a disabled user has counts no more from the next request on.
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Changed`] when `if_revision` is another one.
    pub(crate) async fn set_disabled(
        &self,
        caller: Caller<'_>,
        id: &str,
        disabled: bool,
        if_revision: Option<Revision>,
    ) -> Result<Stored<UserDoc>, Error> {
        loop {
            let Stored { value, revision, created } = self.stored_user(id).await?;
            unchanged(revision, if_revision)?;
            let value = UserDoc { disabled, ..value };
            let action = if disabled { "user.disable" } else { "user.enable" };
            let writes = vec![
                put(&value, Expect::Revision(revision))?,
                audit(self.clock.now(), caller.actor, action, id, caller.request_id, json!({"actor": value.actor}))?,
            ];
            match self.documents.transact(writes).await {
                Ok(revisions) => {
                    let revision = revisions.first().copied().unwrap_or(revision);
                    return Ok(Stored { value, revision, created });
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Removes a user with everything by which they could come in. Whoever the issuer still signs in is made anew, without rights.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Changed`] when `if_revision` is another one.
    pub(crate) async fn remove_user(
        &self,
        caller: Caller<'_>,
        id: &str,
        if_revision: Option<Revision>,
    ) -> Result<(), Error> {
        let stored = self.stored_user(id).await?;
        unchanged(stored.revision, if_revision)?;
        let as_seen = if if_revision.is_some() { Expect::Revision(stored.revision) } else { Expect::Any };
        let mut writes = vec![
            remove::<UserDoc>(id, as_seen),
            audit(
                self.clock.now(),
                caller.actor,
                "user.delete",
                id,
                caller.request_id,
                json!({"actor": stored.value.actor}),
            )?,
        ];
        writes.extend(self.removals_of(id).await?);
        match self.documents.transact(writes).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) if if_revision.is_some() => Err(Error::Raced),
            // Somebody else has removed them at the same moment.
            Err(StoreError::Conflict { .. }) => Err(Error::Unavailable("the user is changing".to_owned())),
            Err(e) => Err(e.into()),
        }
    }
}
