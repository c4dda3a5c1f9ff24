//! Who is asking.
//!
//! * [`token`]: the local administrator's bearer token, a file that only its owner can read.
//! * Sign-in links: one-time tokens that a signed-in command line mints; opening one makes a browser session.
//! * Browser sessions: a random cookie (HttpOnly, Secure, SameSite=Strict); the server keeps its SHA-256 only.

pub mod token;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use vctl_api::rest::LoginLink;
use vctl_runtime::clock::Clock;
use vctl_store::{Expect, StoreError};

use crate::{
    documents::{Documents, LinkDoc, SessionDoc, audit, put, remove},
    error::Error,
};

/// Name of the local administrator in the audit trail.
pub const ADMIN: &str = "local-admin";
/// How long a sign-in link works.
pub const LINK_LIFE: SignedDuration = SignedDuration::from_mins(10);
/// A session ends when nothing was asked with it for so long.
pub const SESSION_IDLE: SignedDuration = SignedDuration::from_hours(8);
/// A session ends so long after signing in, whatever happens.
pub const SESSION_LIFE: SignedDuration = SignedDuration::from_hours(24 * 7);
/// `seen_at` is written at most so often.
const SEEN_STEP: SignedDuration = SignedDuration::from_mins(5);

/// Somebody who is signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Who, as the audit trail says it.
    pub actor: String,
    /// The browser session it came by; none for a bearer token.
    pub session: Option<Session>,
}

/// What a request needs to know of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// SHA-256 of the cookie, in hex.
    pub digest: String,
    /// Must come with every change, in `X-CSRF-Token`.
    pub csrf: String,
}

/// Checks and makes credentials.
pub(crate) struct Auth {
    documents: Documents,
    clock: Clock,
    token: token::AdminToken,
    public_url: String,
}

impl Auth {
    pub(crate) fn new(documents: Documents, clock: Clock, token: token::AdminToken, public_url: String) -> Self {
        Self { documents, clock, token, public_url }
    }

    /// Who has this bearer token.
    pub(crate) fn bearer(&self, token: &str) -> Result<Identity, Error> {
        if self.token.matches(token) {
            return Ok(Identity { actor: ADMIN.to_owned(), session: None });
        }
        Err(Error::Unauthorized(
            "the bearer token is not valid: use the one in admin.token in the data dir of the running server"
                .to_owned(),
        ))
    }

    /// Who has this session cookie.
    pub(crate) async fn session(&self, cookie: &str) -> Result<Identity, Error> {
        let gone =
            || Error::Unauthorized("the session has ended: run `vctl login-link` and open the new link".to_owned());
        let digest = digest(cookie);
        let stored = self.documents.get::<SessionDoc>(&digest).await?.ok_or_else(gone)?;
        let now = self.clock.now();
        if ended(&stored.value, now) {
            return Err(gone());
        }
        let Session { csrf, .. } = Session { digest: digest.clone(), csrf: stored.value.csrf.clone() };
        let actor = stored.value.actor.clone();
        if now.duration_since(stored.value.seen_at) >= SEEN_STEP {
            let seen = SessionDoc { seen_at: now, ..stored.value };
            match self.documents.transact(vec![put(&seen, Expect::Revision(stored.revision))?]).await {
                // Another request of the same session has just done it.
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Identity { actor, session: Some(Session { digest, csrf }) })
    }

    /// Makes a sign-in link for somebody. What has run out is cleaned up on the way.
    pub(crate) async fn mint_link(&self, actor: &str, request_id: &str) -> Result<LoginLink, Error> {
        let now = self.clock.now();
        self.clean_up(now).await?;
        let token = secret();
        let expires_at = now.checked_add(LINK_LIFE).map_err(|e| Error::Internal(e.to_string()))?;
        let link = LinkDoc { digest: digest(&token), actor: actor.to_owned(), expires_at };
        let writes = vec![
            put(&link, Expect::Absent)?,
            audit(now, actor, "login-link.create", actor, request_id, serde_json::Value::Null)?,
        ];
        self.documents.transact(writes).await?;
        Ok(LoginLink { url: format!("{}/login?token={token}", self.public_url), expires_at })
    }

    /// Uses a sign-in link up; returns the cookie of the new session.
    pub(crate) async fn sign_in(&self, token: &str, request_id: &str) -> Result<String, Error> {
        let refused = || {
            Error::Unauthorized(
                "this sign-in link was used already or has run out: run `vctl login-link` for a new one".to_owned(),
            )
        };
        let link = self.documents.get::<LinkDoc>(&digest(token)).await?.ok_or_else(refused)?;
        let now = self.clock.now();
        if now >= link.value.expires_at {
            return Err(refused());
        }
        let cookie = secret();
        let session = SessionDoc {
            digest: digest(&cookie),
            actor: link.value.actor.clone(),
            csrf: secret(),
            created_at: now,
            seen_at: now,
        };
        let writes = vec![
            remove::<LinkDoc>(&link.value.digest, Expect::Revision(link.revision)),
            put(&session, Expect::Absent)?,
            audit(now, &session.actor, "session.create", &session.actor, request_id, serde_json::Value::Null)?,
        ];
        match self.documents.transact(writes).await {
            Ok(_) => Ok(cookie),
            Err(StoreError::Conflict { .. }) => Err(refused()),
            Err(e) => Err(e.into()),
        }
    }

    /// Ends a session.
    pub(crate) async fn sign_out(&self, identity: &Identity, request_id: &str) -> Result<(), Error> {
        let Some(session) = &identity.session else { return Ok(()) };
        let writes = vec![
            remove::<SessionDoc>(&session.digest, Expect::Any),
            audit(
                self.clock.now(),
                &identity.actor,
                "session.delete",
                &identity.actor,
                request_id,
                serde_json::Value::Null,
            )?,
        ];
        match self.documents.transact(writes).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    async fn clean_up(&self, now: Timestamp) -> Result<(), Error> {
        let (links, _) = self.documents.list::<LinkDoc>().await?;
        let (sessions, _) = self.documents.list::<SessionDoc>().await?;
        let links = links.iter().filter(|l| now >= l.value.expires_at);
        let sessions = sessions.iter().filter(|s| ended(&s.value, now));
        let writes: Vec<_> = links
            .map(|l| remove::<LinkDoc>(&l.value.digest, Expect::Revision(l.revision)))
            .chain(sessions.map(|s| remove::<SessionDoc>(&s.value.digest, Expect::Revision(s.revision))))
            .collect();
        if writes.is_empty() {
            return Ok(());
        }
        match self.documents.transact(writes).await {
            // Somebody else cleans up at the same moment.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

fn ended(session: &SessionDoc, now: Timestamp) -> bool {
    now.duration_since(session.created_at) >= SESSION_LIFE || now.duration_since(session.seen_at) >= SESSION_IDLE
}

/// 32 random bytes as URL-safe text.
pub(crate) fn secret() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

/// SHA-256 in hex. Looking up and comparing digests tells nothing about the secret through timing.
pub(crate) fn digest(secret: &str) -> String {
    hex::encode(Sha256::digest(secret.as_bytes()))
}
