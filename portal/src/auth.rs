//! Who is asking.
//!
//! * [`identity`]: what the rest of the portal sees of it: a user with a stable id, and by what they are known.
//! * [`token`]: the local administrator's bearer token, a file that only its owner can read.
//! * [`users`]: the people whom issuers have signed in.
//! * [`sessions`]: browser sessions (a random cookie: HttpOnly, Secure, SameSite=Strict) and one-time sign-in links.
//! * [`oidc`]: sign-in at OpenID Connect providers; [`sign_ins`]: what is kept of it, and asked again.
//! * [`oauth`]: the portal as authorization server of its command line; [`clients`]: the logins that come of it.
//! * [`api_keys`]: keys for programs.
//! * [`environment_tokens`]: tokens for the Kubernetes API of one environment; [`may_use`]: who may use it.
//! * [`secrets`]: random secrets and signed tokens.
//!
//! Of every secret only its SHA-256 is kept. Everything is looked up for every request (the store answers from memory), so that what is
//! taken from somebody counts at the next one.

pub(crate) mod api_keys;
pub(crate) mod clients;
pub(crate) mod environment_tokens;
pub mod identity;
pub(crate) mod kubeconfig;
pub(crate) mod may_use;
pub(crate) mod oauth;
pub mod oidc;
pub(crate) mod secrets;
mod sessions;
pub(crate) mod sign_ins;
pub mod token;
pub(crate) mod users;

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::OnceCell;
use vctl_runtime::{clock::Clock, tasks::Tasks};
use vctl_store::{StoreError, Write};

pub(crate) use self::{
    identity::Origin,
    secrets::{digest, secret},
    users::UserDoc,
};
pub use self::{
    identity::{Credential, Identity, Session},
    sessions::{LINK_LIFE, SESSION_IDLE, SESSION_LIFE},
};
use self::{may_use::MayUse, oidc::Issuers, secrets::Signer, sign_ins::Turns};
use crate::{documents::Documents, error::Error};

/// Id and audit name of the local administrator.
pub const ADMIN: &str = "local-admin";

/// Checks and makes credentials.
pub(crate) struct Auth {
    documents: Documents,
    clock: Clock,
    token: token::AdminToken,
    public_url: String,
    tasks: Tasks,
    signer: OnceCell<Signer>,
    may_use: Arc<dyn MayUse>,
    pub(crate) issuers: Issuers,
    turns: Turns,
}

impl Auth {
    pub(crate) fn new(
        documents: Documents,
        clock: Clock,
        token: token::AdminToken,
        tasks: Tasks,
        public_url: String,
        issuers: Issuers,
        may_use: Arc<dyn MayUse>,
    ) -> Self {
        let (signer, turns) = (OnceCell::new(), Turns::default());
        Self { documents, clock, token, public_url, tasks, signer, may_use, issuers, turns }
    }

    /// What somebody may do inside of an environment. What the credential allows is not looked at.
    pub(crate) async fn use_of(
        &self,
        identity: &Identity,
        environment: &crate::documents::EnvironmentDoc,
    ) -> Result<may_use::EnvironmentUse, Error> {
        self.may_use.may_use(identity, environment).await
    }

    /// Who has this bearer token.
    pub(crate) async fn bearer(&self, token: &str) -> Result<Identity, Error> {
        if self.token.matches(token) {
            return Ok(Identity::local_admin(Credential::Administrator, None, Origin::Administrator));
        }
        if Self::is_access_token(token) {
            return self.by_access_token(token).await;
        }
        if Self::is_api_key(token) {
            return self.by_api_key(token).await;
        }
        Err(Error::Unauthorized(
            "the bearer token is not valid: sign in with `vctl login --server URL`, or use the one in admin.token in the data dir of the \
             running server"
                .to_owned(),
        ))
    }

    async fn signer(&self) -> Result<&Signer, Error> {
        self.signer.get_or_try_init(|| Signer::load_or_create(&self.documents)).await
    }

    /// Everything by which a user could come in.
    async fn removals_of(&self, user: &str) -> Result<Vec<Write>, Error> {
        let mut writes = self.sessions_of(user).await?;
        writes.extend(self.sign_ins_of(user).await?);
        writes.extend(self.client_logins(|login| login.user == user).await?);
        writes.extend(self.api_keys_of(user).await?);
        Ok(writes)
    }

    /// Removes what has run out.
    async fn clean_up(&self, now: Timestamp) -> Result<(), Error> {
        let mut writes = self.expired_sessions(now).await?;
        writes.extend(self.ended_client_logins(now).await?);
        writes.extend(self.forgotten_sign_ins(now).await?);
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
