//! What is asked of a provider.

mod http;
pub(super) mod tokens;

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use openidconnect::{
    AdditionalProviderMetadata, AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret,
    CsrfToken, EndpointMaybeSet, EndpointNotSet, EndpointSet, IssuerUrl, JsonWebKeySet, Nonce,
    OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier, ProviderMetadata, RedirectUrl, RefreshToken,
    RequestTokenError, Scope, SignatureVerificationError, TokenResponse as _,
    core::{
        CoreAuthDisplay, CoreAuthenticationFlow, CoreClaimName, CoreClaimType, CoreClient, CoreClientAuthMethod,
        CoreErrorResponseType, CoreGrantType, CoreIdToken, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm,
        CoreJweKeyManagementAlgorithm, CoreResponseMode, CoreResponseType, CoreSubjectIdentifierType,
        CoreTokenResponse,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::{
    http::{Http, HttpError, receive},
    tokens::{Logout, NO_KEY, check, logout_claims, merge, signed_claims},
};
use super::config::{ClaimNames, IssuerConfig};

/// How long a provider has for one answer.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);
/// Metadata and keys are fetched anew after this time, so that keys that a provider has taken back do not count for ever.
const FRESH: SignedDuration = SignedDuration::from_hours(1);
/// Tokens that name keys nobody knows cost the provider no more than one fetch in this time.
const PAUSE: SignedDuration = SignedDuration::from_secs(5);

/// Metadata beyond discovery: RP-initiated logout, and RFC 9207.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Further {
    #[serde(default)]
    pub(crate) end_session_endpoint: Option<url::Url>,
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
}

impl AdditionalProviderMetadata for Further {}

pub(crate) type Metadata = ProviderMetadata<
    Further,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

type Client =
    CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

/// Why a provider did not answer as wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProviderError {
    /// It cannot be reached, or is not itself: may pass.
    #[error("the identity provider cannot be reached ({0})")]
    Away(String),
    /// It says that a code or refresh token counts no more.
    #[error("the identity provider refused: {0}")]
    Refused(String),
    /// A token of it does not count.
    #[error("the identity provider's token is not accepted: {0}")]
    Token(String),
}

/// A provider's answer, verified.
pub(crate) struct Tokens {
    /// Of the ID token, with what the userinfo endpoint adds. None when a refresh brought neither.
    pub(crate) claims: Option<Value>,
    pub(crate) id_token: Option<String>,
    pub(crate) refresh_token: Option<String>,
}

/// What an authorization request is bound to.
pub(crate) struct Binding<'a> {
    pub(crate) state: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) verifier: &'a str,
}

/// One provider, with what is kept of it.
pub(crate) struct Provider {
    name: String,
    config: IssuerConfig,
    redirect: String,
    http: Result<reqwest::Client, String>,
    known: Mutex<Option<Known>>,
    /// When metadata could not be fetched although none were known, and why: whoever asks right after that is told the same.
    failed: Mutex<Option<(Timestamp, String)>>,
    /// Held while metadata are fetched, so that this happens once for all who wait for them.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Known {
    metadata: Arc<Metadata>,
    fetched: Timestamp,
    tried: Timestamp,
}

impl Provider {
    pub(crate) fn new(name: &str, config: IssuerConfig, public_url: &str) -> Self {
        let builder = reqwest::Client::builder()
            .https_only(true)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(TIMEOUT)
            .timeout(TIMEOUT)
            .user_agent(concat!("vctl/", env!("CARGO_PKG_VERSION")));
        let http = match &config.authorities {
            None => builder.build(),
            Some(pem) => reqwest::Certificate::from_pem_bundle(pem).and_then(|all| builder.tls_certs_only(all).build()),
        };
        Self {
            name: name.to_owned(),
            config,
            redirect: format!("{public_url}/auth/callback"),
            http: http.map_err(|e| innermost(&e)),
            known: Mutex::new(None),
            failed: Mutex::new(None),
            fetching: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn title(&self) -> &str {
        &self.config.title
    }

    pub(crate) fn url(&self) -> &str {
        &self.config.url
    }

    pub(crate) fn claims(&self) -> &ClaimNames {
        &self.config.claims
    }

    /// Metadata and keys: those that are kept, while they are fresh.
    pub(crate) async fn metadata(&self, now: Timestamp) -> Result<Arc<Metadata>, ProviderError> {
        let since = |at: Timestamp| now.duration_since(at);
        self.fetched_since(now, |known| since(known.fetched) < FRESH || since(known.tried) < PAUSE).await
    }

    /// Metadata and keys for a token that names a key that is not among those kept.
    async fn rotated(&self, now: Timestamp) -> Result<Arc<Metadata>, ProviderError> {
        self.fetched_since(now, |known| now.duration_since(known.tried) < PAUSE).await
    }

    async fn fetched_since(
        &self,
        now: Timestamp,
        will_do: impl Fn(&Known) -> bool,
    ) -> Result<Arc<Metadata>, ProviderError> {
        if let Some(known) = self.known().filter(&will_do) {
            return Ok(known.metadata);
        }
        let _one_at_a_time = self.fetching.lock().await;
        let before = self.known();
        if let Some(known) = before.clone().filter(&will_do) {
            return Ok(known.metadata);
        }
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, why)) = failed.filter(|(at, _)| now.duration_since(*at) < PAUSE) {
            return Err(ProviderError::Away(why));
        }
        let issuer = IssuerUrl::new(self.config.url.clone()).map_err(|e| ProviderError::Away(e.to_string()))?;
        let http = self.http()?;
        let fetched = Metadata::discover_async(issuer, &http).await;
        let known = match (fetched, before) {
            (Ok(metadata), _) => Known { metadata: Arc::new(metadata), fetched: now, tried: now },
            // Those from before go on: the provider may be away for a while.
            (Err(e), Some(before)) if now.duration_since(before.fetched) < FRESH * 24 => {
                tracing::warn!(
                    issuer = self.name,
                    error = innermost(&e),
                    "the metadata of an identity provider cannot be fetched"
                );
                Known { tried: now, ..before }
            }
            (Err(e), _) => {
                let why = innermost(&e);
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, why.clone()));
                return Err(ProviderError::Away(why));
            }
        };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known.clone());
        Ok(known.metadata)
    }

    fn known(&self) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn client(&self, metadata: &Metadata) -> Result<Client, ProviderError> {
        let redirect = RedirectUrl::new(self.redirect.clone()).map_err(|e| ProviderError::Away(e.to_string()))?;
        let secret = self.config.client_secret.clone().map(ClientSecret::new);
        let client =
            CoreClient::from_provider_metadata(metadata.clone(), ClientId::new(self.config.client_id.clone()), secret);
        let methods = metadata.token_endpoint_auth_methods_supported();
        let only_post = methods.is_some_and(|all| {
            !all.contains(&CoreClientAuthMethod::ClientSecretBasic)
                && all.contains(&CoreClientAuthMethod::ClientSecretPost)
        });
        let client = client.set_redirect_uri(redirect);
        Ok(if only_post { client.set_auth_type(AuthType::RequestBody) } else { client })
    }

    /// Where a browser is sent to sign in.
    pub(crate) fn authorization_url(
        &self,
        metadata: &Metadata,
        binding: &Binding<'_>,
    ) -> Result<String, ProviderError> {
        let client = self.client(metadata)?;
        let challenge =
            PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(binding.verifier.to_owned()));
        let (state, nonce) = (binding.state.to_owned(), binding.nonce.to_owned());
        let mut request = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, || CsrfToken::new(state), || Nonce::new(nonce))
            .set_pkce_challenge(challenge);
        for scope in self.scopes(metadata) {
            if scope == "offline_access" && !self.config.parameters.contains_key("prompt") {
                // OpenID Connect Core 1.0, section 11: without it the scope is ignored.
                request = request.add_extra_param("prompt", "consent");
            }
            request = request.add_scope(Scope::new(scope));
        }
        for (name, value) in &self.config.parameters {
            request = request.add_extra_param(name, value);
        }
        Ok(request.url().0.to_string())
    }

    /// Without `openid`, which is always asked for.
    fn scopes(&self, metadata: &Metadata) -> Vec<String> {
        if let Some(scopes) = &self.config.scopes {
            return scopes.iter().filter(|s| *s != "openid").cloned().collect();
        }
        let mut scopes = vec!["email".to_owned(), "profile".to_owned()];
        for optional in ["groups", "offline_access"] {
            let supported = metadata.scopes_supported().is_some_and(|all| all.iter().any(|s| s.as_str() == optional));
            if supported {
                scopes.push(optional.to_owned());
            }
        }
        scopes
    }

    /// Exchanges a code. The ID token must carry the nonce.
    pub(crate) async fn exchange(
        &self,
        now: Timestamp,
        code: String,
        verifier: String,
        nonce: &str,
    ) -> Result<Tokens, ProviderError> {
        let metadata = self.metadata(now).await?;
        let client = self.client(&metadata)?;
        let request =
            client.exchange_code(AuthorizationCode::new(code)).map_err(|e| ProviderError::Away(e.to_string()))?;
        let request = request.set_pkce_verifier(PkceCodeVerifier::new(verifier));
        let answer = request.request_async(&self.http()?).await.map_err(|e| token_error(&e))?;
        self.tokens(now, &metadata, answer, Some(nonce)).await
    }

    /// Asks anew who somebody is.
    pub(crate) async fn refresh(&self, now: Timestamp, refresh_token: String) -> Result<Tokens, ProviderError> {
        let metadata = self.metadata(now).await?;
        let client = self.client(&metadata)?;
        let token = RefreshToken::new(refresh_token);
        let request = client.exchange_refresh_token(&token).map_err(|e| ProviderError::Away(e.to_string()))?;
        let answer = request.request_async(&self.http()?).await.map_err(|e| token_error(&e))?;
        self.tokens(now, &metadata, answer, None).await
    }

    async fn tokens(
        &self,
        now: Timestamp,
        metadata: &Metadata,
        answer: CoreTokenResponse,
        nonce: Option<&str>,
    ) -> Result<Tokens, ProviderError> {
        let mut claims = None;
        if let Some(id_token) = answer.id_token() {
            claims = Some(self.verify(now, id_token, nonce).await?);
        } else if nonce.is_some() {
            return Err(ProviderError::Token("there is no ID token in its answer".to_owned()));
        }
        let has_groups = claims.as_ref().is_some_and(|c| c.get(&self.config.claims.groups).is_some());
        if !has_groups && let Some(address) = metadata.userinfo_endpoint() {
            let said = self.userinfo(address.url().as_str(), answer.access_token().secret()).await?;
            claims = Some(merge(claims, said)?);
        }
        Ok(Tokens {
            claims,
            id_token: answer.id_token().map(ToString::to_string),
            refresh_token: answer.refresh_token().map(|t| t.secret().clone()),
        })
    }

    /// The claims of a genuine, current ID token that is meant for us.
    async fn verify(&self, now: Timestamp, token: &CoreIdToken, nonce: Option<&str>) -> Result<Value, ProviderError> {
        let metadata = self.metadata(now).await?;
        let mut checked = self.check(now, metadata.jwks(), token, nonce);
        if matches!(
            &checked,
            Err(ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey))
        ) {
            checked = self.check(now, self.rotated(now).await?.jwks(), token, nonce);
        }
        checked.map_err(|e| ProviderError::Token(innermost(&e)))
    }

    fn check(
        &self,
        now: Timestamp,
        keys: &JsonWebKeySet<CoreJsonWebKey>,
        token: &CoreIdToken,
        nonce: Option<&str>,
    ) -> Result<Value, ClaimsVerificationError> {
        let issuer =
            IssuerUrl::new(self.config.url.clone()).map_err(|e| ClaimsVerificationError::Other(e.to_string()))?;
        check(now, &ClientId::new(self.config.client_id.clone()), issuer, keys, token, nonce)
    }

    async fn userinfo(&self, address: &str, access_token: &str) -> Result<Value, ProviderError> {
        let away = |e: String| ProviderError::Away(e);
        let http = self.http.as_ref().map_err(|e| away(e.clone()))?;
        let request = http.get(address).bearer_auth(access_token).build().map_err(|e| away(innermost(&e)))?;
        let answer = receive(http, request).await.map_err(|e| away(e.to_string()))?;
        if !answer.status().is_success() {
            return Err(away(format!("its userinfo endpoint answers {}", answer.status())));
        }
        serde_json::from_slice(answer.body())
            .map_err(|e| ProviderError::Token(format!("what its userinfo endpoint says is no JSON object: {e}")))
    }

    /// What a genuine, current logout token names (OpenID Connect Back-Channel Logout 1.0, section 2.6).
    pub(crate) async fn logout(&self, now: Timestamp, token: &str) -> Result<Logout, ProviderError> {
        let metadata = self.metadata(now).await?;
        let mut claims = signed_claims(metadata.jwks(), token);
        if claims == Err(NO_KEY) {
            claims = signed_claims(self.rotated(now).await?.jwks(), token);
        }
        claims
            .and_then(|claims| logout_claims(&claims, &self.config.url, &self.config.client_id, now))
            .map_err(|e| ProviderError::Token(e.to_owned()))
    }

    /// Where a browser is sent so that the provider's session ends, too.
    pub(crate) async fn end_session_url(&self, now: Timestamp, id_token: &str, back: &str) -> Option<String> {
        let metadata = self.metadata(now).await.ok()?;
        let mut address = metadata.additional_metadata().end_session_endpoint.clone()?;
        address
            .query_pairs_mut()
            .append_pair("id_token_hint", id_token)
            .append_pair("client_id", &self.config.client_id)
            .append_pair("post_logout_redirect_uri", back);
        Some(address.to_string())
    }

    fn http(&self) -> Result<Http<'_>, ProviderError> {
        self.http.as_ref().map(Http).map_err(|e| ProviderError::Away(e.clone()))
    }
}

/// The innermost cause is the one that helps: `Connection refused`. It never holds what was sent.
fn innermost(e: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = e;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn token_error(
    e: &RequestTokenError<HttpError, openidconnect::StandardErrorResponse<CoreErrorResponseType>>,
) -> ProviderError {
    match e {
        RequestTokenError::ServerResponse(answer) if *answer.error() == CoreErrorResponseType::InvalidGrant => {
            ProviderError::Refused(answer.error_description().cloned().unwrap_or_else(|| "invalid_grant".to_owned()))
        }
        RequestTokenError::ServerResponse(answer) => {
            ProviderError::Away(format!("it answers {}", answer.error().as_ref()))
        }
        RequestTokenError::Request(e) => ProviderError::Away(e.to_string()),
        // The answer may hold tokens: it is not shown.
        RequestTokenError::Parse(..) => ProviderError::Away("its answer is not what OpenID Connect says".to_owned()),
        RequestTokenError::Other(e) => ProviderError::Away(e.clone()),
    }
}
