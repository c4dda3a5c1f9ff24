//! The keys of a provider: fetched when they are first needed, when a token names one that is not known, and when they are old.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{JwkSet, KeyAlgorithm, PublicKeyUse},
};
use serde_json::Value;
use tokio::time::Instant;

use super::config::Issuer;
use crate::{
    outbound::{self, OutboundError},
    plane::Plane,
};

/// How long a provider has for one answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Keys are fetched anew after this time, so that those that a provider has taken back do not count for ever.
const FRESH: Duration = Duration::from_hours(1);
/// So often at most: tokens that name keys nobody knows cost the provider no more than that.
const PAUSE: Duration = Duration::from_secs(1);
/// Largest document in bytes.
const MAX_DOCUMENT: usize = 1 << 20;

/// A public key of a provider.
pub(super) struct Key {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    pub(super) key: DecodingKey,
}

impl Key {
    /// Whether a token with this header may be signed by it.
    pub(super) fn fits(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        let same_id = id.is_none() || self.id.is_none() || id == self.id.as_deref();
        same_id && self.algorithm.is_none_or(|own| own == algorithm)
    }
}

/// What is kept of a provider's keys.
#[derive(Default)]
pub(super) struct Provider {
    kept: Mutex<Option<Kept>>,
    /// Held while keys are fetched, so that this happens once for all who wait for them.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Kept {
    keys: Arc<Vec<Key>>,
    /// When they were fetched; none when they never were.
    fetched: Option<Instant>,
    tried: Instant,
    error: String,
}

impl Kept {
    /// Whether these will do for a token that names this key.
    fn will_do(&self, id: Option<&str>) -> bool {
        let known = id.is_none_or(|id| self.keys.iter().any(|k| k.id.is_none() || k.id.as_deref() == Some(id)));
        let fresh = self.fetched.is_some_and(|at| at.elapsed() < FRESH);
        (known && fresh) || self.tried.elapsed() < PAUSE
    }
}

impl Provider {
    /// The keys, fetched if need be for a token that names this one.
    pub(super) async fn keys(
        &self,
        plane: &Arc<Plane>,
        issuer: &Issuer,
        id: Option<&str>,
    ) -> Result<Arc<Vec<Key>>, String> {
        if let Some(kept) = self.kept().filter(|kept| kept.will_do(id)) {
            return kept.result();
        }
        let _one_at_a_time = self.fetching.lock().await;
        let kept = self.kept();
        if let Some(kept) = kept.clone().filter(|kept| kept.will_do(id)) {
            return kept.result();
        }
        let fetched = fetch(plane, issuer).await;
        let now = Instant::now();
        let next = match fetched {
            Ok(keys) => Kept { keys: Arc::new(keys), fetched: Some(now), tried: now, error: String::new() },
            Err(error) => {
                tracing::warn!(issuer = issuer.url, error, "the keys of an issuer of tokens cannot be fetched");
                // Those from before go on: the provider may be away for a while.
                let (keys, fetched) = kept.map(|k| (k.keys, k.fetched)).unwrap_or_default();
                Kept { keys, fetched, tried: now, error }
            }
        };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(next.clone());
        next.result()
    }

    fn kept(&self) -> Option<Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Kept {
    fn result(self) -> Result<Arc<Vec<Key>>, String> {
        if self.fetched.is_some() { Ok(self.keys) } else { Err(self.error) }
    }
}

async fn fetch(plane: &Arc<Plane>, issuer: &Issuer) -> Result<Vec<Key>, String> {
    let document = get(plane, issuer, &issuer.discovery).await?;
    if document["issuer"] != issuer.url.as_str() {
        return Err(format!(
            "issuer did not match the issuer returned by provider, expected {:?} got {}",
            issuer.url, document["issuer"]
        ));
    }
    let address = document["jwks_uri"].as_str().ok_or("the discovery document names no jwks_uri")?;
    let keys = get(plane, issuer, address).await?;
    let set: JwkSet = tolerant(&keys);
    Ok(set.keys.iter().filter_map(key).collect())
}

/// Keys of kinds that are not known are left out, as RFC 7517 section 5 says.
fn tolerant(document: &Value) -> JwkSet {
    let all = document["keys"].as_array().into_iter().flatten();
    JwkSet { keys: all.filter_map(|key| serde_json::from_value(key.clone()).ok()).collect() }
}

fn key(jwk: &jsonwebtoken::jwk::Jwk) -> Option<Key> {
    let common = &jwk.common;
    if common.public_key_use.as_ref().is_some_and(|u| *u != PublicKeyUse::Signature) {
        return None;
    }
    let algorithm = match common.key_algorithm {
        None => None,
        Some(KeyAlgorithm::RS256) => Some(Algorithm::RS256),
        Some(KeyAlgorithm::RS384) => Some(Algorithm::RS384),
        Some(KeyAlgorithm::RS512) => Some(Algorithm::RS512),
        Some(KeyAlgorithm::ES256) => Some(Algorithm::ES256),
        Some(KeyAlgorithm::ES384) => Some(Algorithm::ES384),
        Some(KeyAlgorithm::PS256) => Some(Algorithm::PS256),
        Some(KeyAlgorithm::PS384) => Some(Algorithm::PS384),
        Some(KeyAlgorithm::PS512) => Some(Algorithm::PS512),
        Some(_) => return None,
    };
    // A symmetric key is no public one.
    if matches!(jwk.algorithm, jsonwebtoken::jwk::AlgorithmParameters::OctetKey(_)) {
        return None;
    }
    Some(Key { id: common.key_id.clone(), algorithm, key: DecodingKey::from_jwk(jwk).ok()? })
}

async fn get(plane: &Arc<Plane>, issuer: &Issuer, url: &str) -> Result<Value, String> {
    let fetched = tokio::time::timeout(TIMEOUT, outbound::fetch(plane, url, &issuer.trust, MAX_DOCUMENT)).await;
    let bytes = fetched.unwrap_or(Err(OutboundError::Timeout)).map_err(|e| format!("Get {url:?}: {e}"))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("Get {url:?}: the answer does not parse: {e}"))
}
