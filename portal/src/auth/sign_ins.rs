//! Sign-ins at issuers: what sessions and logins of a user hang on.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vctl_store::{Expect, Write};

use super::{Auth, Origin};
use crate::{
    documents::{Document, SessionDoc, remove},
    error::Error,
};

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
    /// Whether what hangs on this sign-in still counts.
    pub(super) async fn check_sign_in(&self, id: Option<&str>) -> Result<(), Error> {
        let Some(id) = id else { return Ok(()) };
        if self.documents.get::<SignInDoc>(id).await?.is_none() {
            return Err(Error::Unauthorized("your sign-in has ended: sign in again".to_owned()));
        }
        Ok(())
    }

    /// The sign-in that something of this origin hangs on.
    pub(super) async fn sign_in_of(&self, origin: &Origin) -> Result<Option<String>, Error> {
        Ok(match origin {
            Origin::Session(digest) => self.documents.get::<SessionDoc>(digest).await?.and_then(|s| s.value.sign_in),
            Origin::SignIn(id) => Some(id.clone()),
            _ => None,
        })
    }

    pub(super) async fn sign_ins_of(&self, user: &str) -> Result<Vec<Write>, Error> {
        let (all, _) = self.documents.list::<SignInDoc>().await?;
        let own = all.iter().filter(|s| s.value.user == user);
        Ok(own.map(|s| remove::<SignInDoc>(&s.value.id, Expect::Revision(s.revision))).collect())
    }
}
