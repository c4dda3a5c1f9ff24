//! Which tokens of a provider count.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use jiff::Timestamp;
use openidconnect::{
    ClaimsVerificationError, ClientId, IssuerUrl, JsonWebKey as _, JsonWebKeySet, Nonce,
    core::{CoreIdToken, CoreIdTokenVerifier, CoreJsonWebKey, CoreJwsSigningAlgorithm},
};
use serde_json::Value;

use super::ProviderError;

/// Event of a logout token (OpenID Connect Back-Channel Logout 1.0, section 2.4).
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
/// How old a logout token may be, and how far the provider's clock may be ahead.
const LOGOUT_AGE: i64 = 300;

/// Asymmetric algorithms only: nobody who can read the provider's keys, or knows our secret, can sign.
fn algorithms() -> [CoreJwsSigningAlgorithm; 9] {
    use CoreJwsSigningAlgorithm as A;
    [
        A::RsaSsaPkcs1V15Sha256,
        A::RsaSsaPkcs1V15Sha384,
        A::RsaSsaPkcs1V15Sha512,
        A::RsaSsaPssSha256,
        A::RsaSsaPssSha384,
        A::RsaSsaPssSha512,
        A::EcdsaP256Sha256,
        A::EcdsaP384Sha384,
        A::EdDsa,
    ]
}

/// What a logout token names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Logout {
    pub(crate) subject: Option<String>,
    pub(crate) sid: Option<String>,
}

/// What is genuine of an ID token: signed by one of the keys with an asymmetric algorithm, of the issuer, for us alone, not expired, and
/// with the nonce that was sent.
pub(in crate::auth::oidc) fn check(
    now: Timestamp,
    client: &ClientId,
    issuer: IssuerUrl,
    keys: &JsonWebKeySet<CoreJsonWebKey>,
    token: &CoreIdToken,
    nonce: Option<&str>,
) -> Result<Value, ClaimsVerificationError> {
    let at = std::time::SystemTime::from(now);
    let verifier = CoreIdTokenVerifier::new_public_client(client.clone(), issuer, keys.clone())
        .set_allowed_algs(algorithms())
        .set_time_fn(move || at.into());
    token.claims(&verifier, |given: Option<&Nonce>| match nonce {
        None => Ok(()),
        Some(sent) if given.is_some_and(|given| crate::auth::digest(given.secret()) == crate::auth::digest(sent)) => {
            Ok(())
        }
        Some(_) => Err("it is not the one that was sent".to_owned()),
    })?;
    let claims = payload(&token.to_string())
        .ok_or_else(|| ClaimsVerificationError::Other("its claims are no JSON".to_owned()))?;
    // OpenID Connect Core 1.0, section 3.1.3.7: the authorized party, when there is one, is us.
    if claims["azp"].as_str().is_some_and(|azp| azp != client.as_str()) {
        return Err(ClaimsVerificationError::InvalidAudience("its authorized party is another client".to_owned()));
    }
    Ok(claims)
}

fn payload(token: &str) -> Option<Value> {
    serde_json::from_slice(&BASE64.decode(token.split('.').nth(1)?).ok()?).ok()
}

/// What userinfo adds. It must speak of the same person (OpenID Connect Core 1.0, section 5.3.2).
pub(super) fn merge(claims: Option<Value>, said: Value) -> Result<Value, ProviderError> {
    let wrong = |why: &str| ProviderError::Token(why.to_owned());
    let Value::Object(said) = said else { return Err(wrong("what its userinfo endpoint says is no JSON object")) };
    let Some(mut claims) = claims else { return Ok(Value::Object(said)) };
    if said.get("sub") != claims.get("sub") {
        return Err(wrong("its userinfo endpoint speaks of somebody else"));
    }
    for (name, value) in said {
        if claims.get(&name).is_none() {
            claims[&name] = value;
        }
    }
    Ok(claims)
}

/// Why a token does not count that a key made which is not known.
pub(super) const NO_KEY: &str = "no key of the issuer made its signature";

/// The claims of a token that a key of the provider has signed.
pub(in crate::auth::oidc) fn signed_claims(
    keys: &JsonWebKeySet<CoreJsonWebKey>,
    token: &str,
) -> Result<Value, &'static str> {
    let (signed, signature) = token.rsplit_once('.').ok_or("it is no JSON web token")?;
    let header = signed.split('.').next().and_then(|h| BASE64.decode(h).ok()).ok_or("it is no JSON web token")?;
    let header: Value = serde_json::from_slice(&header).map_err(|_| "its header does not parse")?;
    let algorithm: CoreJwsSigningAlgorithm =
        serde_json::from_value(header["alg"].clone()).map_err(|_| "it names no algorithm that is known")?;
    if !algorithms().contains(&algorithm) || !header["crit"].is_null() {
        return Err("it is signed with an algorithm that is not accepted");
    }
    if header["typ"].as_str().is_some_and(|t| !["jwt", "logout+jwt"].contains(&t.to_ascii_lowercase().as_str())) {
        return Err("it is a token for something else");
    }
    let signature = BASE64.decode(signature).map_err(|_| "it is no JSON web token")?;
    let wanted = header["kid"].as_str();
    let fitting =
        keys.keys().iter().filter(|key| wanted.is_none() || key.key_id().is_none_or(|id| Some(id.as_str()) == wanted));
    let genuine =
        fitting.into_iter().any(|key| key.verify_signature(&algorithm, signed.as_bytes(), &signature).is_ok());
    if !genuine {
        return Err(NO_KEY);
    }
    payload(token).ok_or("its claims are no JSON")
}

pub(in crate::auth::oidc) fn logout_claims(
    claims: &Value,
    issuer: &str,
    client: &str,
    now: Timestamp,
) -> Result<Logout, &'static str> {
    let now = now.as_second();
    let text = |name: &str| claims[name].as_str().map(str::to_owned);
    let meant = match &claims["aud"] {
        Value::String(one) => one == client,
        many => many.as_array().is_some_and(|all| all.iter().any(|one| one == client)),
    };
    if claims["iss"] != issuer || !meant {
        return Err("it is of another issuer, or for another client");
    }
    if claims["exp"].as_i64().is_some_and(|exp| exp <= now) {
        return Err("it has expired");
    }
    if claims["iat"].as_i64().is_none_or(|iat| iat > now + LOGOUT_AGE || iat < now - LOGOUT_AGE) {
        return Err("it was not issued just now");
    }
    if !claims["events"][LOGOUT_EVENT].is_object() {
        return Err("it is no logout token");
    }
    // So that an ID token is never taken for one.
    if !claims["nonce"].is_null() {
        return Err("a logout token has no nonce");
    }
    let logout = Logout { subject: text("sub"), sid: text("sid") };
    if logout.subject.is_none() && logout.sid.is_none() {
        return Err("it names neither a person nor a session");
    }
    Ok(logout)
}
