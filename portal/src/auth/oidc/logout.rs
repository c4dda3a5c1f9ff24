//! Sign-out that the provider knows of: begun here (RP-Initiated Logout 1.0) or there (Back-Channel Logout 1.0).

use serde_json::json;
use vctl_store::{Expect, StoreError};

use super::provider::ProviderError;
use crate::{
    auth::{Auth, Identity, sign_ins::SignInDoc},
    documents::{audit, remove},
    error::Error,
};

impl Auth {
    /// Where a browser that signs out is sent, so that its session at the provider ends as well. None when it has none, or when the
    /// provider cannot say.
    pub(crate) async fn end_session_url(&self, identity: &Identity) -> Result<Option<String>, Error> {
        let Some(id) = self.sign_in_of(&identity.origin).await? else { return Ok(None) };
        let Some(stored) = self.documents.get::<SignInDoc>(&id).await? else { return Ok(None) };
        let Some(provider) = self.issuers.get(&stored.value.issuer) else { return Ok(None) };
        let back = format!("{}/login", self.public_url);
        Ok(provider.end_session_url(self.clock.now(), &stored.value.id_token, &back).await)
    }

    /// Ends what hangs on the sign-ins that a provider's logout token names.
    ///
    /// # Errors
    /// [`Error::BadRequest`] for a token that does not count.
    pub(crate) async fn back_channel_logout(&self, issuer: &str, token: &str, request_id: &str) -> Result<(), Error> {
        let provider = self.provider(issuer)?;
        let logout = provider.logout(self.clock.now(), token).await.map_err(|e| match e {
            ProviderError::Away(_) => Error::Unavailable(e.to_string()),
            other => Error::BadRequest(other.to_string()),
        })?;
        let user = logout.subject.as_ref().map(|subject| format!("{issuer}:{subject}"));
        let (all, _) = self.documents.list::<SignInDoc>().await?;
        let named = all.into_iter().filter(|s| {
            s.value.issuer == issuer
                && user.as_ref().is_none_or(|user| *user == s.value.user)
                && (logout.sid.is_none() || logout.sid == s.value.sid)
        });
        for sign_in in named {
            let writes = vec![
                remove::<SignInDoc>(&sign_in.value.id, Expect::Any),
                audit(
                    self.clock.now(),
                    &sign_in.value.user,
                    "sign-in.delete",
                    &sign_in.value.user,
                    request_id,
                    json!({"by": issuer}),
                )?,
            ];
            match self.documents.transact(writes).await {
                // It had ended already.
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}
