//! Browser sessions and one-time sign-in links.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use vctl_api::rest::LoginLink;
use vctl_store::{Expect, StoreError, Write};

use super::{Auth, Credential, Identity, Origin, Session, digest, secret};
use crate::{
    documents::{LinkDoc, SessionDoc, Stored, audit, put, remove},
    error::Error,
};

/// How long a sign-in link works.
pub const LINK_LIFE: SignedDuration = SignedDuration::from_mins(10);
/// A session ends when nothing was asked with it for so long.
pub const SESSION_IDLE: SignedDuration = SignedDuration::from_hours(8);
/// A session ends so long after signing in, whatever happens.
pub const SESSION_LIFE: SignedDuration = SignedDuration::from_hours(24 * 7);
/// `seen_at` is written at most so often.
const SEEN_STEP: SignedDuration = SignedDuration::from_mins(5);

impl Auth {
    /// Who has this session cookie, and uses it.
    pub(crate) async fn session(&self, cookie: &str) -> Result<Identity, Error> {
        let (identity, stored) = self.session_now(cookie).await?;
        let now = self.clock.now();
        if now.duration_since(stored.value.seen_at) >= SEEN_STEP {
            let seen = SessionDoc { seen_at: now, ..stored.value };
            match self.documents.transact(vec![put(&seen, Expect::Revision(stored.revision))?]).await {
                // Another request of the same session has just done it.
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(identity)
    }

    /// Who has this session cookie at this moment; that it was looked at is no use of it.
    pub(crate) async fn session_now(&self, cookie: &str) -> Result<(Identity, Stored<SessionDoc>), Error> {
        let gone = || Error::Unauthorized("the session has ended: sign in again".to_owned());
        let digest = digest(cookie);
        let stored = self.documents.get::<SessionDoc>(&digest).await?.ok_or_else(gone)?;
        let now = self.clock.now();
        if stored.value.ended(now) {
            return Err(gone());
        }
        self.check_sign_in(stored.value.sign_in.as_deref()).await?;
        let session = Session { digest: digest.clone(), csrf: stored.value.csrf.clone() };
        let origin = Origin::Session(digest);
        let identity = self.identify(stored.value.user(), Credential::Session, Some(session), origin).await?;
        Ok((identity, stored))
    }

    /// Makes a sign-in link for somebody. What has run out is cleaned up on the way.
    pub(crate) async fn mint_link(&self, identity: &Identity, request_id: &str) -> Result<LoginLink, Error> {
        let now = self.clock.now();
        self.clean_up(now).await?;
        let token = secret();
        let expires_at = now.checked_add(LINK_LIFE).map_err(|e| Error::Internal(e.to_string()))?;
        let link = LinkDoc {
            digest: digest(&token),
            actor: identity.actor.clone(),
            user: identity.user.clone(),
            sign_in: self.sign_in_of(&identity.origin).await?,
            expires_at,
        };
        let writes = vec![
            put(&link, Expect::Absent)?,
            audit(now, &identity.actor, "login-link.create", &identity.user, request_id, Value::Null)?,
        ];
        self.documents.transact(writes).await?;
        Ok(LoginLink { url: format!("{}/login?token={token}", self.public_url), expires_at })
    }

    /// Uses a sign-in link up; returns the cookie of the new session. The session that the browser had ends.
    pub(crate) async fn sign_in(&self, token: &str, before: Option<&str>, request_id: &str) -> Result<String, Error> {
        let refused = || {
            Error::Unauthorized(
                "this sign-in link was used already or has run out: run `vctl login-link` for a new one".to_owned(),
            )
        };
        let link = self.documents.get::<LinkDoc>(&digest(token)).await?.ok_or_else(refused)?;
        if self.clock.now() >= link.value.expires_at {
            return Err(refused());
        }
        let LinkDoc { digest, actor, user, sign_in, .. } = link.value;
        let user = if user.is_empty() { actor.clone() } else { user };
        let (cookie, mut writes) = self.new_session(&user, &actor, sign_in, request_id)?;
        writes.push(remove::<LinkDoc>(&digest, Expect::Revision(link.revision)));
        match self.documents.transact(writes).await {
            Ok(_) => {}
            Err(StoreError::Conflict { .. }) => return Err(refused()),
            Err(e) => return Err(e.into()),
        }
        self.end_replaced(before).await?;
        Ok(cookie)
    }

    /// Ends the session that a browser had when it got a new one.
    pub(super) async fn end_replaced(&self, before: Option<&str>) -> Result<(), Error> {
        let Some(before) = before else { return Ok(()) };
        match self.documents.transact(vec![remove::<SessionDoc>(&digest(before), Expect::Any)]).await {
            // It had ended already.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// The cookie of a new session, and what makes it.
    pub(super) fn new_session(
        &self,
        user: &str,
        actor: &str,
        sign_in: Option<String>,
        request_id: &str,
    ) -> Result<(String, Vec<Write>), Error> {
        let now = self.clock.now();
        let cookie = secret();
        let session = SessionDoc {
            digest: digest(&cookie),
            actor: actor.to_owned(),
            user: user.to_owned(),
            sign_in,
            csrf: secret(),
            created_at: now,
            seen_at: now,
        };
        let writes =
            vec![put(&session, Expect::Absent)?, audit(now, actor, "session.create", user, request_id, Value::Null)?];
        Ok((cookie, writes))
    }

    /// Ends a session.
    pub(crate) async fn sign_out(&self, identity: &Identity, request_id: &str) -> Result<(), Error> {
        let Some(session) = &identity.session else { return Ok(()) };
        let writes = vec![
            remove::<SessionDoc>(&session.digest, Expect::Any),
            audit(self.clock.now(), &identity.actor, "session.delete", &identity.user, request_id, Value::Null)?,
        ];
        match self.documents.transact(writes).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    pub(super) async fn expired_sessions(&self, now: Timestamp) -> Result<Vec<Write>, Error> {
        let (links, _) = self.documents.list::<LinkDoc>().await?;
        let (sessions, _) = self.documents.list::<SessionDoc>().await?;
        let links = links.iter().filter(|l| now >= l.value.expires_at);
        let sessions = sessions.iter().filter(|s| s.value.ended(now));
        Ok(links
            .map(|l| remove::<LinkDoc>(&l.value.digest, Expect::Revision(l.revision)))
            .chain(sessions.map(|s| remove::<SessionDoc>(&s.value.digest, Expect::Revision(s.revision))))
            .collect())
    }

    pub(super) async fn sessions_of(&self, user: &str) -> Result<Vec<Write>, Error> {
        let (links, _) = self.documents.list::<LinkDoc>().await?;
        let (sessions, _) = self.documents.list::<SessionDoc>().await?;
        let links = links.iter().filter(|l| l.value.user == user);
        let sessions = sessions.iter().filter(|s| s.value.user() == user);
        Ok(links
            .map(|l| remove::<LinkDoc>(&l.value.digest, Expect::Revision(l.revision)))
            .chain(sessions.map(|s| remove::<SessionDoc>(&s.value.digest, Expect::Revision(s.revision))))
            .collect())
    }
}

impl SessionDoc {
    /// Whose it is. Sessions from before there were users are the local administrator's, by their actor.
    pub(super) fn user(&self) -> &str {
        if self.user.is_empty() { &self.actor } else { &self.user }
    }

    pub(super) fn ended(&self, now: Timestamp) -> bool {
        now.duration_since(self.created_at) >= SESSION_LIFE || now.duration_since(self.seen_at) >= SESSION_IDLE
    }
}
