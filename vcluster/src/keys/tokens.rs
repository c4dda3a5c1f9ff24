//! Keys of service account tokens: one signs, and those before it are believed for as long as there may be tokens of theirs.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use vctl_machinery::status::ApiError;
use vctl_runtime::pki::TokenKey;

use super::KeysDocument;

/// How long a key signs.
const SIGNS_FOR: Duration = Duration::from_hours(90 * 24);
/// Life of a token that is always possible; a longer one is written down when it is asked for.
const USUAL_LIFE: i64 = 365 * 24 * 3600;

/// A key that signs no more.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Earlier {
    /// Coordinates of its public point, base64.
    x: String,
    y: String,
    id: String,
    /// No token of it lives longer.
    until: Timestamp,
}

/// A public key, ready to use.
pub(crate) struct Verifier {
    pub(crate) id: String,
    pub(crate) jwk: Value,
    pub(crate) key: jsonwebtoken::DecodingKey,
    until: Option<Timestamp>,
}

impl Verifier {
    fn new(x: &str, y: &str, id: &str, until: Option<Timestamp>) -> Result<Self, ApiError> {
        Ok(Self {
            id: id.to_owned(),
            jwk: json!({ "use": "sig", "kty": "EC", "kid": id, "crv": "P-256", "alg": "ES256", "x": x, "y": y }),
            key: jsonwebtoken::DecodingKey::from_ec_components(x, y).map_err(ApiError::internal)?,
            until,
        })
    }

    /// Whether tokens of it may still be good.
    pub(crate) fn counts(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

fn public(key: &TokenKey) -> (String, String, String) {
    let id = URL_SAFE_NO_PAD.encode(Sha256::digest(key.public_der()));
    let (x, y) = key.public_point();
    (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y), id)
}

impl KeysDocument {
    /// The keys of tokens, the one that signs first.
    pub(super) fn verifiers(&self) -> Result<Vec<Verifier>, ApiError> {
        let (x, y, id) = public(&TokenKey::from_pem(&self.token_key).map_err(ApiError::internal)?);
        let mut all = vec![Verifier::new(&x, &y, &id, None)?];
        for earlier in &self.earlier_token_keys {
            all.push(Verifier::new(&earlier.x, &earlier.y, &earlier.id, Some(earlier.until))?);
        }
        Ok(all)
    }

    /// When another key is to sign. A cluster from before keys were changed is as old as it says.
    pub(super) fn token_key_due(&self) -> Timestamp {
        let since = self.token_key_since.or_else(|| self.created.parse().ok()).unwrap_or_default();
        since.checked_add(SIGNS_FOR).unwrap_or(Timestamp::MAX)
    }

    /// Whether a token of this life needs [`KeysDocument::before_token`].
    pub(super) fn longest_token(&self) -> i64 {
        self.longest_token_seconds.unwrap_or(USUAL_LIFE)
    }

    /// What must be written before a token of this life (in seconds) is signed: another key when it is time, the life when it is long.
    /// Whether anything changed.
    pub(crate) fn before_token(&mut self, life: i64, now: Timestamp) -> Result<bool, ApiError> {
        let mut changed = false;
        if life > self.longest_token() {
            self.longest_token_seconds = Some(life);
            changed = true;
        }
        if now >= self.token_key_due() {
            let (x, y, id) = public(&TokenKey::from_pem(&self.token_key).map_err(ApiError::internal)?);
            let until = now.checked_add(Duration::from_secs(self.longest_token().unsigned_abs()));
            self.earlier_token_keys.retain(|k| now < k.until);
            self.earlier_token_keys.insert(0, Earlier { x, y, id, until: until.unwrap_or(Timestamp::MAX) });
            self.token_key = TokenKey::generate().map_err(ApiError::internal)?.pem();
            self.token_key_since = Some(now);
            changed = true;
        }
        Ok(changed)
    }
}
