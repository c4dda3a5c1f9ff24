//! Tokens of other issuers: JWTs of OpenID Connect providers, as the cluster's AuthenticationConfiguration says
//! (`apiserver.config.k8s.io/v1`). Source of the rules: apiserver `pkg/apis/apiserver/validation` and
//! `plugin/pkg/authenticator/token/oidc`.
//!
//! * [`config`]: the document, checked and compiled.
//! * [`provider`]: its keys, fetched through [`crate::outbound`] and kept.
//! * [`claims`]: what a token says, and the user it makes.

mod claims;
pub(crate) mod config;
mod provider;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, Validation};
use serde_json::Value;

use self::{config::Issuer, provider::Provider};
use crate::{plane::Plane, user::User};

/// What a provider may sign with: asymmetric algorithms only, so that nobody who can read its keys can sign. (Upstream also has ES512.)
const ALGORITHMS: [Algorithm; 8] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];
/// How far the clock of a provider may be ahead, in seconds; as go-oidc.
const NOT_BEFORE_LEEWAY: i64 = 300;

/// The issuers of a cluster, with what is kept of their keys.
#[derive(Default)]
pub(crate) struct Issuers(Vec<(Issuer, Provider)>);

impl Issuers {
    /// Those of a configuration that was checked when it was stored.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(configuration: Option<&Value>) -> Result<Self, String> {
        let Some(configuration) = configuration else { return Ok(Self::default()) };
        let issuers = config::compile(configuration).map_err(|errors| errors.join("; "))?;
        Ok(Self(issuers.into_iter().map(|issuer| (issuer, Provider::default())).collect()))
    }

    /// The user of a token, or why there is none.
    pub(crate) async fn authenticate(&self, plane: &Arc<Plane>, token: &str) -> Result<User, String> {
        // Only to find out whom to ask: nothing of it is believed.
        let said = unverified(token).ok_or("not a JSON web token")?;
        let issuer = said["iss"].as_str().unwrap_or_default();
        let of = self.0.iter().find(|(known, _)| known.url == issuer);
        let (issuer, provider) = of.ok_or("of an issuer that is not configured")?;

        let header = jsonwebtoken::decode_header(token).map_err(|e| format!("its header does not parse: {e}"))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(format!("signed with an algorithm that is not accepted: {:?}", header.alg));
        }
        let keys = provider.keys(plane, issuer, header.kid.as_deref()).await?;
        let mut validation = Validation::new(header.alg);
        // Times and audiences are checked below, by the cluster's clock.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let verified = keys.iter().filter(|key| key.fits(header.kid.as_deref(), header.alg));
        let claims = verified
            .filter_map(|key| jsonwebtoken::decode::<Value>(token, &key.key, &validation).ok())
            .map(|decoded| decoded.claims)
            .next()
            .ok_or("failed to verify signature: no key of the issuer made it")?;
        check_times(&claims, plane.now().as_second())?;
        let meant: Vec<&str> = match &claims["aud"] {
            Value::String(one) => vec![one],
            many => many.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
        };
        if !issuer.audiences.iter().any(|wanted| meant.contains(&wanted.as_str())) {
            return Err(format!("expected audience in {:?} got {meant:?}", issuer.audiences));
        }
        claims::user(issuer, claims)
    }
}

fn unverified(token: &str) -> Option<Value> {
    let payload = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?).ok()
}

fn check_times(claims: &Value, now: i64) -> Result<(), String> {
    let seconds = |claim: &str| claims[claim].as_i64().or_else(|| claims[claim].as_f64().map(|s| s as i64));
    match seconds("exp") {
        None => return Err("it does not say when it expires".to_owned()),
        Some(expires) if expires <= now => return Err(format!("token is expired (Token Expiry: {expires})")),
        Some(_) => {}
    }
    match seconds("nbf") {
        Some(from) if from > now + NOT_BEFORE_LEEWAY => {
            Err(format!("current time {now} before the nbf (not before) time: {from}"))
        }
        None if !claims["nbf"].is_null() => Err("its nbf is no time".to_owned()),
        _ => Ok(()),
    }
}
