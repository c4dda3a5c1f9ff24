//! Sign-ins at issuers: what sessions and logins of a user hang on.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{Mutex, oneshot};
use vctl_store::{Expect, StoreError, Write};

use super::{
    Auth, Origin,
    clients::ClientLoginDoc,
    oidc::{
        claims::Person,
        provider::{Provider, ProviderError},
    },
    users::UserDoc,
};
use crate::{
    documents::{Document, Documents, SessionDoc, Stored, audit, put, remove},
    error::Error,
};

/// An issuer that cannot be reached is asked at most so often about one sign-in.
const PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// Held while an issuer is asked about a sign-in: its refresh token may be good for one use. Shared by a few sign-ins each.
pub(super) struct Turns([Arc<Mutex<()>>; 64]);

impl Default for Turns {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Arc::default()))
    }
}

impl Turns {
    fn of(&self, id: &str) -> Arc<Mutex<()>> {
        let index = id.bytes().fold(0usize, |sum, b| sum.wrapping_mul(31).wrapping_add(usize::from(b)));
        self.0[index % self.0.len()].clone()
    }
}

/// A sign-in at an issuer. Several sessions and logins may hang on one; they end with it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignInDoc {
    pub(crate) id: String,
    /// Whose.
    pub(crate) user: String,
    /// Name of the issuer in the server's configuration.
    pub(crate) issuer: String,
    /// The issuer's session (`sid`), which a back-channel logout names.
    pub(crate) sid: Option<String>,
    /// The issuer's refresh token. Values of the store are sealed at rest with the platform's key.
    pub(crate) refresh_token: Option<String>,
    /// What the issuer is shown at sign-out.
    pub(crate) id_token: String,
    pub(crate) created_at: Timestamp,
    /// When the issuer last said who this is.
    pub(crate) confirmed_at: Timestamp,
    /// When it was last asked.
    pub(crate) asked_at: Timestamp,
    /// Kept until then although nothing of it is open: tokens with a fixed life hang on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep_until: Option<Timestamp>,
}

impl Document for SignInDoc {
    const RESOURCE: &'static str = "signins.vctl.dev";
    fn name(&self) -> &str {
        &self.id
    }
}

impl Auth {
    /// Whether what hangs on this sign-in still counts. The issuer is asked when it has not been for a while; what it says of the
    /// user counts from then on.
    ///
    /// # Errors
    /// [`Error::Unauthorized`] when it has ended; [`Error::Unavailable`] when the issuer has not been heard of for too long.
    pub(crate) async fn check_sign_in(&self, id: Option<&str>) -> Result<(), Error> {
        let Some(id) = id else { return Ok(()) };
        let Some(stored) = self.documents.get::<SignInDoc>(id).await? else { return Err(ended()) };
        if self.still_fresh(&stored.value)? {
            return Ok(());
        }
        let turn = self.turns.of(id).lock_owned().await;
        // Somebody else may have asked in the meantime.
        let Some(stored) = self.documents.get::<SignInDoc>(id).await? else { return Err(ended()) };
        if self.still_fresh(&stored.value)? {
            return Ok(());
        }
        let Some(provider) = self.issuers.get(&stored.value.issuer).cloned() else { return Err(ended()) };
        let (documents, now) = (self.documents.clone(), self.clock.now());
        // A task of its own: a client that goes away must not lose the issuer's next refresh token.
        let (tell, told) = oneshot::channel();
        self.tasks.spawn("sign-in-refresh", async move {
            let done = ask(&documents, &provider, stored, now).await;
            drop(turn);
            // Nobody waits any more when the client has gone.
            let _ = tell.send(done);
        });
        let answered = told.await.map_err(|_| Error::Unavailable("the server is shutting down".to_owned()))??;
        match answered {
            Answer::Confirmed => Ok(()),
            Answer::Ended => Err(ended()),
            Answer::Away(confirmed_at) => self.within_grace(confirmed_at),
        }
    }

    fn still_fresh(&self, sign_in: &SignInDoc) -> Result<bool, Error> {
        if self.issuers.get(&sign_in.issuer).is_none() {
            return Err(Error::Unauthorized(format!(
                "the issuer {:?} that signed you in is not configured any more: sign in again",
                sign_in.issuer
            )));
        }
        let now = self.clock.now();
        let age = now.duration_since(sign_in.confirmed_at);
        if age < self.issuers.refresh_interval {
            return Ok(true);
        }
        if sign_in.refresh_token.is_none() {
            // What cannot be refreshed counts for a while.
            return if age < self.issuers.without_refresh { Ok(true) } else { Err(ended()) };
        }
        if sign_in.asked_at > sign_in.confirmed_at && now.duration_since(sign_in.asked_at) < PAUSE {
            return self.within_grace(sign_in.confirmed_at).map(|()| true);
        }
        Ok(false)
    }

    fn within_grace(&self, confirmed_at: Timestamp) -> Result<(), Error> {
        if self.clock.now().duration_since(confirmed_at) < self.issuers.grace {
            return Ok(());
        }
        Err(Error::Unavailable(
            "your identity provider cannot be reached, and it was last heard of too long ago for you to go on"
                .to_owned(),
        ))
    }

    /// The sign-in that something of this origin hangs on.
    pub(super) async fn sign_in_of(&self, origin: &Origin) -> Result<Option<String>, Error> {
        Ok(match origin {
            Origin::Session(digest) => self.documents.get::<SessionDoc>(digest).await?.and_then(|s| s.value.sign_in),
            Origin::ClientLogin(id) => self.documents.get::<ClientLoginDoc>(id).await?.and_then(|l| l.value.sign_in),
            Origin::SignIn(id) => Some(id.clone()),
            Origin::Administrator | Origin::ApiKey(_) | Origin::User => None,
        })
    }

    pub(super) async fn sign_ins_of(&self, user: &str) -> Result<Vec<Write>, Error> {
        let (all, _) = self.documents.list::<SignInDoc>().await?;
        let own = all.iter().filter(|s| s.value.user == user);
        Ok(own.map(|s| remove::<SignInDoc>(&s.value.id, Expect::Revision(s.revision))).collect())
    }

    /// Sign-ins on which nothing hangs any more.
    pub(super) async fn forgotten_sign_ins(&self, now: Timestamp) -> Result<Vec<Write>, Error> {
        let (sign_ins, _) = self.documents.list::<SignInDoc>().await?;
        let (sessions, _) = self.documents.list::<SessionDoc>().await?;
        let (logins, _) = self.documents.list::<ClientLoginDoc>().await?;
        let used: std::collections::HashSet<&str> = sessions
            .iter()
            .filter_map(|s| s.value.sign_in.as_deref())
            .chain(logins.iter().filter_map(|l| l.value.sign_in.as_deref()))
            .collect();
        let forgotten = sign_ins.iter().filter(|s| {
            !used.contains(s.value.id.as_str())
                && s.value.keep_until.is_none_or(|until| now >= until)
                // What is being signed in at this moment has no session yet.
                && now.duration_since(s.value.created_at) >= super::LINK_LIFE
        });
        Ok(forgotten.map(|s| remove::<SignInDoc>(&s.value.id, Expect::Revision(s.revision))).collect())
    }
}

fn ended() -> Error {
    Error::Unauthorized("your sign-in has ended: sign in again".to_owned())
}

enum Answer {
    Confirmed,
    Ended,
    /// When the issuer last said who this is.
    Away(Timestamp),
}

/// Asks the issuer, and keeps what it says.
async fn ask(
    documents: &Documents,
    provider: &Arc<Provider>,
    stored: Stored<SignInDoc>,
    now: Timestamp,
) -> Result<Answer, Error> {
    let Stored { value: sign_in, revision, .. } = stored;
    let refresh_token = sign_in.refresh_token.clone().unwrap_or_default();
    let refused = |why: String| {
        tracing::info!(issuer = provider.name(), why, "an issuer has ended a sign-in");
    };
    let tokens = match provider.refresh(now, refresh_token).await {
        Ok(tokens) => tokens,
        Err(ProviderError::Away(why)) => {
            tracing::warn!(issuer = provider.name(), why, "an issuer cannot be asked about a sign-in");
            let confirmed_at = sign_in.confirmed_at;
            let asked = SignInDoc { asked_at: now, ..sign_in };
            settle(documents, vec![put(&asked, Expect::Revision(revision))?]).await?;
            return Ok(Answer::Away(confirmed_at));
        }
        Err(ProviderError::Refused(why) | ProviderError::Token(why)) => {
            refused(why);
            return end(documents, provider, &sign_in, now).await;
        }
    };
    let user = documents.get::<UserDoc>(&sign_in.user).await?;
    let mut writes = Vec::new();
    if let (Some(claims), Some(user)) = (&tokens.claims, user) {
        let person = Person::read(claims, provider.claims());
        let Some(person) = person.filter(|p| p.subject == user.value.subject) else {
            refused("it speaks of somebody else now".to_owned());
            return end(documents, provider, &sign_in, now).await;
        };
        let before = user.value.clone();
        let email = person.email.clone();
        let groups = person.groups.clone().unwrap_or_default();
        let after = UserDoc { actor: person.actor(&before.id), email, groups, ..user.value };
        if after != before {
            writes.push(put(&after, Expect::Revision(user.revision))?);
        }
    }
    let confirmed_at = sign_in.confirmed_at;
    let next = SignInDoc {
        refresh_token: tokens.refresh_token.or(sign_in.refresh_token),
        id_token: tokens.id_token.unwrap_or(sign_in.id_token),
        confirmed_at: now,
        asked_at: now,
        ..sign_in
    };
    writes.push(put(&next, Expect::Revision(revision))?);
    match documents.transact(writes).await {
        Ok(_) => Ok(Answer::Confirmed),
        Err(StoreError::Conflict { .. }) => {
            // The user or the sign-in was changed at the same moment. The next refresh token must not be lost when the sign-in is
            // still there; the groups are asked for again at the next request.
            let Some(current) = documents.get::<SignInDoc>(&next.id).await? else { return Ok(Answer::Ended) };
            let again = SignInDoc { confirmed_at, asked_at: confirmed_at, ..next };
            settle(documents, vec![put(&again, Expect::Revision(current.revision))?]).await?;
            Err(Error::Unavailable("your account was changed at this moment".to_owned()))
        }
        Err(e) => Err(e.into()),
    }
}

async fn end(documents: &Documents, provider: &Provider, sign_in: &SignInDoc, now: Timestamp) -> Result<Answer, Error> {
    let detail = json!({"by": provider.name()});
    let writes = vec![
        remove::<SignInDoc>(&sign_in.id, Expect::Any),
        audit(now, &sign_in.user, "sign-in.delete", &sign_in.user, "", detail)?,
    ];
    settle(documents, writes).await?;
    Ok(Answer::Ended)
}

/// Writes; somebody else was faster is as good.
async fn settle(documents: &Documents, writes: Vec<Write>) -> Result<(), Error> {
    match documents.transact(writes).await {
        Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
