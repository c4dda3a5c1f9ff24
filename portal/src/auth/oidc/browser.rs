//! A browser's way to the provider and back.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use vctl_store::{Expect, StoreError, Write};

use super::{
    claims::Person,
    provider::{Binding, Provider, ProviderError, Tokens},
};
use crate::{
    auth::{Auth, digest, secret, secrets::id, sign_ins::SignInDoc, users::UserDoc},
    documents::{Document, audit, put, remove},
    error::Error,
};

/// How long somebody may take at the provider.
pub(crate) const AUTHORIZATION_LIFE: SignedDuration = SignedDuration::from_mins(10);
/// Sign-ins under way. Strangers can begin them: the oldest makes room.
const MAX_AUTHORIZATIONS: usize = 1000;

/// A sign-in under way: good for one answer of one issuer to one browser.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthorizationDoc {
    /// SHA-256 of the state.
    state: String,
    /// SHA-256 of the cookie of the browser that began.
    browser: String,
    issuer: String,
    nonce: String,
    verifier: String,
    next: String,
    expires_at: Timestamp,
}

impl Document for AuthorizationDoc {
    const RESOURCE: &'static str = "authorizations.vctl.dev";
    fn name(&self) -> &str {
        &self.state
    }
}

/// What a provider's redirect brings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct Callback {
    pub(crate) state: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) iss: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) error_description: Option<String>,
}

/// A browser that is signed in.
pub(crate) struct SignedIn {
    /// Cookie of its session.
    pub(crate) cookie: String,
    /// Where it wanted to go: a path of ours.
    pub(crate) next: String,
}

/// A path of this server, or `/`: never another site's address.
pub(crate) fn local_path(next: &str) -> &str {
    let plain = next.bytes().all(|b| (0x21..=0x7e).contains(&b) && b != b'\\');
    if plain && next.len() <= 2048 && next.starts_with('/') && !next.starts_with("//") { next } else { "/" }
}

impl Auth {
    /// Begins a sign-in: where the browser is sent, and the cookie that binds it.
    pub(crate) async fn begin_sign_in(&self, issuer: &str, next: &str) -> Result<(String, String), Error> {
        let provider = self.provider(issuer)?;
        let now = self.clock.now();
        let metadata = provider.metadata(now).await.map_err(|e| away(provider, &e))?;
        let (state, cookie, nonce, verifier) = (secret(), secret(), secret(), secret());
        let binding = Binding { state: &state, nonce: &nonce, verifier: &verifier };
        let address = provider.authorization_url(&metadata, &binding).map_err(|e| away(provider, &e))?;
        let document = AuthorizationDoc {
            state: digest(&state),
            browser: digest(&cookie),
            issuer: issuer.to_owned(),
            nonce,
            verifier,
            next: local_path(next).to_owned(),
            expires_at: now.checked_add(AUTHORIZATION_LIFE).map_err(|e| Error::Internal(e.to_string()))?,
        };
        self.make_room::<AuthorizationDoc>(now, MAX_AUTHORIZATIONS, |a| a.expires_at).await?;
        self.documents.transact(vec![put(&document, Expect::Absent)?]).await?;
        Ok((address, cookie))
    }

    /// Ends a sign-in with what the provider's redirect brought.
    pub(crate) async fn finish_sign_in(
        &self,
        answer: Callback,
        browser: Option<&str>,
        before: Option<&str>,
        request_id: &str,
    ) -> Result<SignedIn, Error> {
        let refused = |why: &str| Error::Unauthorized(format!("{why}: sign in again"));
        let unknown = || refused("this sign-in was used already, took too long, or began in another browser");
        let state = digest(answer.state.as_deref().unwrap_or_default());
        let stored = self.documents.get::<AuthorizationDoc>(&state).await?.ok_or_else(unknown)?;
        let begun = stored.value;
        // Before it is used up: whoever only knows the state cannot spoil another browser's sign-in.
        if browser.map(digest).as_deref() != Some(begun.browser.as_str()) {
            return Err(unknown());
        }
        match self.documents.transact(vec![remove::<AuthorizationDoc>(&state, Expect::Revision(stored.revision))]).await
        {
            Ok(_) => {}
            Err(StoreError::Conflict { .. }) => return Err(unknown()),
            Err(e) => return Err(e.into()),
        }
        let now = self.clock.now();
        if now >= begun.expires_at {
            return Err(unknown());
        }
        let provider = self.provider(&begun.issuer)?.clone();
        let metadata = provider.metadata(now).await.map_err(|e| away(&provider, &e))?;
        // RFC 9207: an answer of another issuer than the one that was asked is mixed up by somebody.
        let must_say = metadata.additional_metadata().authorization_response_iss_parameter_supported;
        if answer.iss.as_deref().map_or(must_say, |iss| iss != provider.url()) {
            return Err(refused("the answer came from another identity provider than the one that was asked"));
        }
        if let Some(error) = answer.error {
            let more = answer.error_description.map(|d| format!(" ({d})")).unwrap_or_default();
            let shown: String = format!("{error}{more}").chars().filter(|c| !c.is_control()).take(200).collect();
            return Err(refused(&format!("{} did not sign you in: {shown}", provider.title())));
        }
        let code = answer.code.ok_or_else(|| refused("the identity provider sent no code"))?;
        let tokens = provider.exchange(now, code, begun.verifier, &begun.nonce).await.map_err(|e| match e {
            ProviderError::Away(_) => away(&provider, &e),
            _ => {
                tracing::warn!(issuer = provider.name(), error = %e, "a sign-in was refused");
                refused(&e.to_string())
            }
        })?;
        let (user, sign_in, mut writes) = self.signed_in(&provider, tokens, now).await?;
        let (cookie, session) = self.new_session(&user.id, &user.actor, Some(sign_in), request_id)?;
        writes.extend(session);
        self.documents.transact(writes).await?;
        self.end_replaced(before).await?;
        Ok(SignedIn { cookie, next: begun.next })
    }

    /// The user whom a provider's answer names, a sign-in of theirs, and what makes both.
    async fn signed_in(
        &self,
        provider: &Provider,
        tokens: Tokens,
        now: Timestamp,
    ) -> Result<(UserDoc, String, Vec<Write>), Error> {
        let claims = tokens.claims.unwrap_or_default();
        let person = Person::read(&claims, provider.claims());
        let person =
            person.ok_or_else(|| Error::Unauthorized("the identity provider does not say who you are".to_owned()))?;
        let user_id = format!("{}:{}", provider.name(), person.subject);
        let known = self.documents.get::<UserDoc>(&user_id).await?;
        if known.as_ref().is_some_and(|u| u.value.disabled) {
            return Err(Error::Unauthorized("your account is disabled here: ask an administrator".to_owned()));
        }
        let user = UserDoc {
            actor: person.actor(&user_id),
            name: person.name.or(person.username).unwrap_or_else(|| person.subject.clone()),
            email: person.email,
            groups: person.groups.unwrap_or_default(),
            created_at: known.as_ref().map_or(now, |u| u.value.created_at),
            last_sign_in: now,
            disabled: false,
            issuer: provider.name().to_owned(),
            subject: person.subject,
            id: user_id,
        };
        let sign_in = SignInDoc {
            id: id(),
            user: user.id.clone(),
            issuer: provider.name().to_owned(),
            sid: person.sid,
            refresh_token: tokens.refresh_token,
            id_token: tokens.id_token.unwrap_or_default(),
            created_at: now,
            confirmed_at: now,
            asked_at: now,
            keep_until: None,
        };
        let sign_in_id = sign_in.id.clone();
        let expect = known.as_ref().map_or(Expect::Absent, |u| Expect::Revision(u.revision));
        let mut writes = vec![put(&user, expect)?, put(&sign_in, Expect::Absent)?];
        if known.is_none() {
            writes.push(audit(now, &user.actor, "user.create", &user.id, "", json!({"issuer": provider.name()}))?);
        }
        Ok((user, sign_in_id, writes))
    }

    /// The provider of this name.
    pub(super) fn provider(&self, name: &str) -> Result<&std::sync::Arc<Provider>, Error> {
        self.issuers.get(name).ok_or_else(|| {
            let offers = self.issuers.offers();
            let nearest = crate::error::nearest(name, offers.iter().map(|o| o.name.as_str()));
            Error::NotFound { what: "issuer", name: name.to_owned(), nearest }
        })
    }

    /// Removes documents of a kind that strangers can make: those that have run out, and the oldest beyond a number.
    pub(in crate::auth) async fn make_room<T: Document>(
        &self,
        now: Timestamp,
        most: usize,
        expires: impl Fn(&T) -> Timestamp,
    ) -> Result<(), Error> {
        let (mut all, _) = self.documents.list::<T>().await?;
        all.sort_by_key(|d| expires(&d.value));
        let beyond = (all.len() + 1).saturating_sub(most);
        let gone = all.iter().enumerate().filter(|(i, d)| *i < beyond || now >= expires(&d.value));
        for (_, document) in gone {
            match self
                .documents
                .transact(vec![remove::<T>(document.value.name(), Expect::Revision(document.revision))])
                .await
            {
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}

/// What somebody sees who cannot sign in now.
fn away(provider: &Provider, e: &ProviderError) -> Error {
    tracing::warn!(issuer = provider.name(), error = %e, "nobody can sign in at an identity provider");
    Error::Unavailable(format!(
        "{} cannot be reached, so nobody can sign in with it now; whoever is signed in goes on for a while",
        provider.title()
    ))
}
