//! Users as people name them.

use vctl_api::rest::{Member, MemberKind};

use super::{
    Access,
    decide::Subject,
    policy::{Limit, Permit},
};
use crate::{
    auth::{ADMIN, UserDoc},
    error::Error,
};

impl Access {
    /// The id of a user who is named by it, or by a verified email address that nobody else has. Rights hang on the id: another issuer could
    /// say the same address later.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address that nobody has, or several have.
    pub(crate) async fn user_id(&self, name: &str) -> Result<String, Error> {
        if !name.contains('@') {
            return Ok(name.to_owned());
        }
        let (users, _) = self.documents.list::<UserDoc>().await?;
        if users.iter().any(|u| u.value.id == name) {
            return Ok(name.to_owned());
        }
        let has = |u: &&UserDoc| u.email.as_deref().is_some_and(|email| email.eq_ignore_ascii_case(name));
        let mut having = users.iter().map(|u| &u.value).filter(has);
        match (having.next(), having.next()) {
            (Some(user), None) => Ok(user.id.clone()),
            (None, _) => Err(Error::invalid(
                "unknown-user",
                format!(
                    "nobody with the address {name:?} has signed in here yet: ask them to, or name a group instead"
                ),
            )),
            (Some(_), Some(_)) => Err(Error::invalid(
                "ambiguous-user",
                format!("several users have the address {name:?}: name the one you mean by id (ISSUER:SUBJECT)"),
            )),
        }
    }

    /// What a user may do at this moment, by the groups that their issuer said last; none for one who is gone or disabled.
    pub(crate) async fn permit_of(&self, user: &str) -> Result<Option<Permit>, Error> {
        let subject = if user == ADMIN {
            Subject { user: user.to_owned(), administrator: true, ..Subject::default() }
        } else {
            let Some(stored) = self.documents.get::<UserDoc>(user).await? else { return Ok(None) };
            if stored.value.disabled {
                return Ok(None);
            }
            let groups = stored.value.groups.into_iter().collect();
            Subject { user: user.to_owned(), groups, administrator: false }
        };
        self.permit(subject, Limit::NONE).await.map(Some)
    }

    /// Replaces addresses of users by their ids.
    pub(super) async fn name_by_id(&self, members: &mut [Member]) -> Result<(), Error> {
        for member in members.iter_mut().filter(|m| m.kind == MemberKind::User) {
            member.name = self.user_id(&member.name).await?;
        }
        Ok(())
    }
}
