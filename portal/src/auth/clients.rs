//! Logins of the command line: a short-lived access token, and a refresh token that is good for one use.
//!
//! The portal is the authorization server of its command line, so that a login works however somebody signed in, and ends as soon as they
//! are removed. A refresh token that is used twice was stolen: the login ends (RFC 9700, section 4.14.2).

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use vctl_api::rest::{ClientLogin, TokenResponse};
use vctl_store::{Expect, StoreError, Write};

use super::{Auth, Credential, Identity, Origin, digest, secret, secrets::id};
use crate::{
    documents::{Document, audit, put, remove},
    environments::Caller,
    error::Error,
};

/// How long an access token counts.
pub(crate) const ACCESS_LIFE: SignedDuration = SignedDuration::from_mins(10);
/// A login ends when it was not used for so long.
const LOGIN_IDLE: SignedDuration = SignedDuration::from_hours(24 * 7);
/// A login ends so long after it was made.
const LOGIN_LIFE: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Two commands that start together may both refresh: in this time the refresh token of before is no theft.
const TOGETHER: SignedDuration = SignedDuration::from_secs(30);
const ACCESS_PREFIX: &str = "vctl_at_";
const REFRESH_PREFIX: &str = "vctl_rt_";

/// A login of the command line on some machine.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientLoginDoc {
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) actor: String,
    pub(crate) sign_in: Option<String>,
    /// Name of the machine, as it says itself.
    pub(crate) client: String,
    /// SHA-256 of the refresh token that counts, and of the one before.
    refresh: String,
    previous: Option<String>,
    created_at: Timestamp,
    used_at: Timestamp,
}

impl Document for ClientLoginDoc {
    const RESOURCE: &'static str = "clientlogins.vctl.dev";
    fn name(&self) -> &str {
        &self.id
    }
}

impl ClientLoginDoc {
    fn view(self, asking: &Identity) -> ClientLogin {
        let expires_at = (self.created_at + LOGIN_LIFE).min(self.used_at + LOGIN_IDLE);
        let current = matches!(&asking.origin, Origin::ClientLogin(id) if *id == self.id);
        let Self { id, user, actor, client, created_at, used_at, .. } = self;
        ClientLogin { id, user, actor, client, created_at, used_at, expires_at, current }
    }

    fn ended(&self, now: Timestamp) -> bool {
        now.duration_since(self.created_at) >= LOGIN_LIFE || now.duration_since(self.used_at) >= LOGIN_IDLE
    }
}

#[derive(Serialize, Deserialize)]
struct AccessClaims {
    login: String,
    exp: i64,
}

/// Whose login is made, and for what machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Approval {
    pub(crate) user: String,
    pub(crate) actor: String,
    pub(crate) sign_in: Option<String>,
}

impl Auth {
    /// What somebody who is signed in hands on to a login of theirs.
    pub(super) async fn approval(&self, identity: &Identity) -> Result<Approval, Error> {
        let sign_in = self.sign_in_of(&identity.origin).await?;
        Ok(Approval { user: identity.user.clone(), actor: identity.actor.clone(), sign_in })
    }

    /// A new login: its tokens, its id, and what makes it.
    pub(super) async fn new_client_login(
        &self,
        approval: Approval,
        client: &str,
        request_id: &str,
    ) -> Result<(TokenResponse, String, Vec<Write>), Error> {
        let now = self.clock.now();
        self.clean_up(now).await?;
        let id = id();
        let refresh_token = format!("{REFRESH_PREFIX}{id}_{}", secret());
        let Approval { user, actor, sign_in } = approval;
        let login = ClientLoginDoc {
            id: id.clone(),
            user,
            actor,
            sign_in,
            client: client.to_owned(),
            refresh: digest(&refresh_token),
            previous: None,
            created_at: now,
            used_at: now,
        };
        let response = self.access_token(&login, Some(refresh_token), now).await?;
        let writes = vec![
            put(&login, Expect::Absent)?,
            audit(now, &login.actor, "login.create", &login.user, request_id, json!({"client": client}))?,
        ];
        Ok((response, id, writes))
    }

    async fn access_token(
        &self,
        login: &ClientLoginDoc,
        refresh_token: Option<String>,
        now: Timestamp,
    ) -> Result<TokenResponse, Error> {
        let claims = AccessClaims { login: login.id.clone(), exp: (now + ACCESS_LIFE).as_second() };
        Ok(TokenResponse {
            access_token: self.signer().await?.sign(ACCESS_PREFIX, &claims)?,
            token_type: "Bearer".to_owned(),
            expires_in: ACCESS_LIFE.as_secs().unsigned_abs(),
            refresh_token,
            actor: login.actor.clone(),
        })
    }

    /// Whether a bearer token says that it is an access token of ours.
    pub(super) fn is_access_token(token: &str) -> bool {
        token.starts_with(ACCESS_PREFIX)
    }

    /// Who has this access token.
    pub(super) async fn by_access_token(&self, token: &str) -> Result<Identity, Error> {
        let ended =
            || Error::Unauthorized("the access token has ended: sign in with `vctl login --server URL`".to_owned());
        let claims: AccessClaims = self.signer().await?.verify(ACCESS_PREFIX, token).ok_or_else(ended)?;
        if self.clock.now().as_second() >= claims.exp {
            return Err(ended());
        }
        self.by_client_login(&claims.login, Credential::AccessToken).await
    }

    /// Who has this login.
    pub(super) async fn by_client_login(&self, id: &str, credential: Credential) -> Result<Identity, Error> {
        let login = self.documents.get::<ClientLoginDoc>(id).await?.map(|l| l.value);
        let login = login.filter(|l| !l.ended(self.clock.now()));
        let login = login.ok_or_else(|| {
            Error::Unauthorized("this login has ended: sign in with `vctl login --server URL`".to_owned())
        })?;
        self.check_sign_in(login.sign_in.as_deref()).await?;
        self.identify(&login.user, credential, None, Origin::ClientLogin(login.id)).await
    }

    /// Exchanges a refresh token. None: it does not count.
    pub(crate) async fn refresh_client_login(
        &self,
        token: &str,
        request_id: &str,
    ) -> Result<Option<TokenResponse>, Error> {
        let Some((id, _)) = token.strip_prefix(REFRESH_PREFIX).and_then(|t| t.split_once('_')) else { return Ok(None) };
        let Some(stored) = self.documents.get::<ClientLoginDoc>(id).await? else { return Ok(None) };
        let (login, now, given) = (stored.value, self.clock.now(), digest(token));
        if login.ended(now) {
            return Ok(None);
        }
        if login.previous.as_ref() == Some(&given) {
            if now.duration_since(login.used_at) < TOGETHER {
                return self.access_token(&login, None, now).await.map(Some);
            }
            let writes = vec![
                remove::<ClientLoginDoc>(id, Expect::Any),
                audit(
                    now,
                    &login.actor,
                    "login.delete",
                    &login.user,
                    request_id,
                    json!({"why": "a refresh token was used twice"}),
                )?,
            ];
            tracing::warn!("a refresh token was used twice: its login was ended");
            self.settle(writes).await?;
            return Ok(None);
        }
        if login.refresh != given {
            return Ok(None);
        }
        // Nobody gets a token whose user was removed or whose issuer has ended the sign-in.
        match self.by_client_login(id, Credential::AccessToken).await {
            Ok(_) => {}
            Err(Error::Unauthorized(_)) => return Ok(None),
            Err(e) => return Err(e),
        }
        let next = format!("{REFRESH_PREFIX}{id}_{}", secret());
        let login = ClientLoginDoc { refresh: digest(&next), previous: Some(given), used_at: now, ..login };
        match self.documents.transact(vec![put(&login, Expect::Revision(stored.revision))?]).await {
            Ok(_) => self.access_token(&login, Some(next), now).await.map(Some),
            // The same token at the same moment: the other one has the next.
            Err(StoreError::Conflict { .. }) => self.access_token(&login, None, now).await.map(Some),
            Err(e) => Err(e.into()),
        }
    }

    /// Ends the login of a refresh token (RFC 7009). One that does not count is as good.
    pub(crate) async fn end_client_login(&self, token: &str, request_id: &str) -> Result<(), Error> {
        let Some((id, _)) = token.strip_prefix(REFRESH_PREFIX).and_then(|t| t.split_once('_')) else { return Ok(()) };
        let Some(stored) = self.documents.get::<ClientLoginDoc>(id).await? else { return Ok(()) };
        let given = digest(token);
        if stored.value.refresh != given && stored.value.previous.as_ref() != Some(&given) {
            return Ok(());
        }
        let ClientLoginDoc { actor, user, client, .. } = stored.value;
        let writes = vec![
            remove::<ClientLoginDoc>(id, Expect::Any),
            audit(self.clock.now(), &actor, "login.delete", &user, request_id, json!({"client": client}))?,
        ];
        self.settle(writes).await
    }

    /// The logins of a user that count; of all when none is named.
    pub(crate) async fn logins(&self, user: Option<&str>, asking: &Identity) -> Result<Vec<ClientLogin>, Error> {
        let now = self.clock.now();
        let (all, _) = self.documents.list::<ClientLoginDoc>().await?;
        let counting = all.into_iter().map(|l| l.value).filter(|l| !l.ended(now));
        let theirs = counting.filter(|l| user.is_none_or(|user| l.user == user));
        Ok(theirs.map(|l| l.view(asking)).collect())
    }

    /// Ends a login: one's own, or anybody's for the administrator. Counts from the next request on.
    ///
    /// # Errors
    /// [`Error::NotFound`], also for somebody else's.
    pub(crate) async fn delete_login(&self, caller: Caller<'_>, asking: &Identity, id: &str) -> Result<(), Error> {
        let none = || Error::NotFound { what: "login", name: id.to_owned(), nearest: Vec::new() };
        let found = self.documents.get::<ClientLoginDoc>(id).await?;
        let own = found.filter(|l| l.value.user == asking.user || asking.is_local_admin()).ok_or_else(none)?;
        let ClientLoginDoc { user, client, .. } = own.value;
        let detail = json!({"client": client, "id": id});
        let writes = vec![
            remove::<ClientLoginDoc>(id, Expect::Any),
            audit(self.clock.now(), caller.actor, "login.delete", &user, caller.request_id, detail)?,
        ];
        match self.documents.transact(writes).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => Err(none()),
            Err(e) => Err(e.into()),
        }
    }

    /// Ends a login that was made with a code that has come twice.
    pub(super) async fn end_login(&self, id: &str) -> Result<(), Error> {
        self.settle(vec![remove::<ClientLoginDoc>(id, Expect::Any)]).await
    }

    pub(super) async fn client_logins(&self, gone: impl Fn(&ClientLoginDoc) -> bool) -> Result<Vec<Write>, Error> {
        let (all, _) = self.documents.list::<ClientLoginDoc>().await?;
        let gone = all.iter().filter(|l| gone(&l.value));
        Ok(gone.map(|l| remove::<ClientLoginDoc>(&l.value.id, Expect::Revision(l.revision))).collect())
    }

    pub(super) async fn ended_client_logins(&self, now: Timestamp) -> Result<Vec<Write>, Error> {
        self.client_logins(|login| login.ended(now)).await
    }

    /// Writes; somebody else was faster is as good.
    pub(super) async fn settle(&self, writes: Vec<Write>) -> Result<(), Error> {
        match self.documents.transact(writes).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}
