//! Tokens for the Kubernetes API of one environment.
//!
//! A token says who, which environment and what it hangs on; for every request it is looked up whether all of that still is, and what the
//! user may do now.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use vctl_api::rest::{EnvironmentToken, KeyVerb};
use vctl_store::{Expect, StoreError};

use super::{Auth, Credential, Identity, Origin, may_use::EnvironmentUse, sign_ins::SignInDoc};
use crate::{
    documents::{EnvironmentDoc, SessionDoc, audit, put},
    environments::Caller,
    error::Error,
};

/// How long a token counts.
const LIFE: SignedDuration = SignedDuration::from_mins(10);
/// Longest life of a token that outlives the login it was made with.
const MAX_LIFE: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Marks our tokens.
pub(crate) const PREFIX: &str = "vctl_env_";

#[derive(Serialize, Deserialize)]
struct EnvironmentClaims {
    user: String,
    environment: String,
    uid: String,
    exp: i64,
    #[serde(flatten)]
    origin: Origin,
}

/// A user as an environment sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentUser {
    /// Email address, else the id.
    pub name: String,
    /// The id.
    pub uid: String,
    /// Whether they may do everything, or only see.
    pub admin: bool,
}

impl Auth {
    /// Makes a token for an environment. With a life of its own it outlives the login it was made with, but neither the user nor what
    /// the issuer says of them.
    ///
    /// # Errors
    /// [`Error::Forbidden`] when the user may not use the environment.
    pub(crate) async fn mint_environment_token(
        &self,
        caller: Caller<'_>,
        identity: &Identity,
        environment: &EnvironmentDoc,
        life: Option<SignedDuration>,
    ) -> Result<EnvironmentToken, Error> {
        let name = environment.name.as_str();
        if self.environment_use(identity, environment).await? == EnvironmentUse::None {
            return Err(Error::Forbidden(format!(
                "you may not use environment {name:?}: ask its owner to share it with you"
            )));
        }
        let now = self.clock.now();
        let origin = match life {
            None => identity.origin.clone(),
            Some(life) => {
                if life < SignedDuration::from_secs(60) || life > MAX_LIFE {
                    return Err(Error::invalid(
                        "invalid-ttl",
                        "ttlSeconds must be from 60 (a minute) to 2592000 (30 days)",
                    ));
                }
                match (&identity.origin, self.sign_in_of(&identity.origin).await?) {
                    // A key is what programs have: what is made with it ends with it.
                    (Origin::ApiKey(id), _) => Origin::ApiKey(id.clone()),
                    (_, Some(id)) => {
                        self.keep_sign_in(&id, now + life).await?;
                        Origin::SignIn(id)
                    }
                    _ => Origin::User,
                }
            }
        };
        let expires_at = now + life.unwrap_or(LIFE);
        let claims = EnvironmentClaims {
            user: identity.user.clone(),
            environment: name.to_owned(),
            uid: environment.uid.clone(),
            exp: expires_at.as_second(),
            origin,
        };
        let token = self.signer().await?.sign(PREFIX, &claims)?;
        let detail = json!({"expiresAt": expires_at, "static": life.is_some()});
        let entry = audit(now, caller.actor, "environment.token", name, caller.request_id, detail)?;
        // The short ones are made every few minutes by whoever works: their requests are what the environment's audit is for.
        if life.is_some() {
            self.documents.transact(vec![entry]).await?;
        }
        Ok(EnvironmentToken { token, expires_at })
    }

    /// Who has this token, in the environment of this name.
    ///
    /// # Errors
    /// [`Error::Unauthorized`] with the reason.
    pub(crate) async fn by_environment_token(&self, environment: &str, token: &str) -> Result<EnvironmentUser, Error> {
        let refused = |why: &str| Error::Unauthorized(why.to_owned());
        let claims: EnvironmentClaims =
            self.signer().await?.verify(PREFIX, token).ok_or_else(|| refused("it is not of this server"))?;
        if claims.environment != environment {
            return Err(refused("it is for another environment"));
        }
        if self.clock.now().as_second() >= claims.exp {
            return Err(refused("it has expired"));
        }
        let document = self.documents.get::<EnvironmentDoc>(environment).await?.map(|d| d.value);
        let document = document.filter(|d| d.uid == claims.uid);
        let document = document.ok_or_else(|| refused("it is for an environment of that name that is gone"))?;
        let identity = self.by_origin(claims.origin, &claims.user).await?;
        match self.environment_use(&identity, &document).await? {
            EnvironmentUse::None => Err(refused("its user may not use the environment any more")),
            allowed => Ok(EnvironmentUser {
                name: identity.user_name().to_owned(),
                uid: identity.user.clone(),
                admin: allowed == EnvironmentUse::Admin,
            }),
        }
    }

    /// Refuses whoever may do nothing inside of an environment.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub(crate) async fn check_environment_use(
        &self,
        identity: &Identity,
        environment: &EnvironmentDoc,
    ) -> Result<(), Error> {
        if self.environment_use(identity, environment).await? == EnvironmentUse::None {
            let name = environment.name.as_str();
            return Err(Error::Forbidden(format!(
                "you may not use environment {name:?}: ask its owner to share it with you"
            )));
        }
        Ok(())
    }

    /// What a user may do inside of an environment with their credential.
    pub(crate) async fn environment_use(
        &self,
        identity: &Identity,
        environment: &EnvironmentDoc,
    ) -> Result<EnvironmentUse, Error> {
        let allowed = self.may_use.may_use(identity, environment).await?;
        let Credential::ApiKey { scopes, .. } = &identity.credential else { return Ok(allowed) };
        if !identity.credential.covers(environment) {
            return Ok(EnvironmentUse::None);
        }
        let most = match (scopes.verbs.contains(&KeyVerb::Write), scopes.verbs.contains(&KeyVerb::Read)) {
            (true, _) => EnvironmentUse::Admin,
            (false, true) => EnvironmentUse::Viewer,
            (false, false) => EnvironmentUse::None,
        };
        Ok(allowed.min(most))
    }

    /// The user of something, when what it hangs on still is.
    async fn by_origin(&self, origin: Origin, user: &str) -> Result<Identity, Error> {
        let ended = || Error::Unauthorized("what it was made with has ended".to_owned());
        let identity = match origin {
            Origin::Administrator if user == super::ADMIN => {
                Identity::local_admin(Credential::Administrator, None, origin)
            }
            Origin::Administrator => return Err(ended()),
            Origin::Session(digest) => {
                let session = self.documents.get::<SessionDoc>(&digest).await?.map(|s| s.value);
                let session = session.filter(|s| !s.ended(self.clock.now())).ok_or_else(ended)?;
                self.check_sign_in(session.sign_in.as_deref()).await?;
                self.identify(session.user(), Credential::Session, None, Origin::Session(digest)).await?
            }
            Origin::ClientLogin(id) => self.by_client_login(&id, Credential::AccessToken).await?,
            Origin::ApiKey(id) => self.by_api_key_id(&id).await?,
            Origin::SignIn(id) => {
                self.check_sign_in(Some(&id)).await?;
                self.identify(user, Credential::AccessToken, None, Origin::SignIn(id)).await?
            }
            Origin::User => self.identify(user, Credential::AccessToken, None, Origin::User).await?,
        };
        if identity.user == user { Ok(identity) } else { Err(ended()) }
    }

    /// Keeps a sign-in although no session hangs on it.
    async fn keep_sign_in(&self, id: &str, until: Timestamp) -> Result<(), Error> {
        loop {
            let Some(stored) = self.documents.get::<SignInDoc>(id).await? else {
                return Err(Error::Unauthorized("your sign-in has ended: sign in again".to_owned()));
            };
            if stored.value.keep_until.is_some_and(|kept| kept >= until) {
                return Ok(());
            }
            let kept = SignInDoc { keep_until: Some(until), ..stored.value };
            match self.documents.transact(vec![put(&kept, Expect::Revision(stored.revision))?]).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}
