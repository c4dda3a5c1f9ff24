//! Random secrets, their digests, and tokens that the server signs itself.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use ring::hmac;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use vctl_store::{Expect, StoreError};

use crate::{
    documents::{Document, Documents, put},
    error::Error,
};

/// 32 random bytes as URL-safe text.
pub(crate) fn secret() -> String {
    BASE64.encode(rand::random::<[u8; 32]>())
}

/// 16 random bytes in hex: an id that nobody guesses, but that is no secret.
pub(crate) fn id() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

/// SHA-256 in hex. Looking up and comparing digests tells nothing about the secret through timing.
pub(crate) fn digest(secret: &str) -> String {
    hex::encode(Sha256::digest(secret.as_bytes()))
}

/// The key that signs tokens, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct SigningKeyDoc {
    name: String,
    key: String,
}

impl Document for SigningKeyDoc {
    const RESOURCE: &'static str = "signingkeys.vctl.dev";
    fn name(&self) -> &str {
        &self.name
    }
}

/// Signs and verifies tokens (HMAC with SHA-256). They are kept nowhere: everything that may end before they do is looked up when they
/// are used.
pub(crate) struct Signer(hmac::Key);

impl Signer {
    /// The signer of this platform; its key is made when there is none.
    pub(crate) async fn load_or_create(documents: &Documents) -> Result<Self, Error> {
        const NAME: &str = "tokens";
        loop {
            if let Some(stored) = documents.get::<SigningKeyDoc>(NAME).await? {
                let key = BASE64.decode(&stored.value.key).map_err(|e| Error::Internal(e.to_string()))?;
                return Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &key)));
            }
            let made = SigningKeyDoc { name: NAME.to_owned(), key: secret() };
            match documents.transact(vec![put(&made, Expect::Absent)?]).await {
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// `PREFIX` and claims, signed.
    pub(crate) fn sign<T: Serialize>(&self, prefix: &str, claims: &T) -> Result<String, Error> {
        let claims = serde_json::to_vec(claims).map_err(|e| Error::Internal(e.to_string()))?;
        let signed = format!("{prefix}{}", BASE64.encode(claims));
        let tag = hmac::sign(&self.0, signed.as_bytes());
        Ok(format!("{signed}.{}", BASE64.encode(tag)))
    }

    /// The claims of a token with this prefix that we have signed; whether they still count is for the caller.
    pub(crate) fn verify<T: DeserializeOwned>(&self, prefix: &str, token: &str) -> Option<T> {
        let (signed, tag) = token.rsplit_once('.')?;
        let claims = signed.strip_prefix(prefix)?;
        hmac::verify(&self.0, signed.as_bytes(), &BASE64.decode(tag).ok()?).ok()?;
        serde_json::from_slice(&BASE64.decode(claims).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use vctl_store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn only_what_was_signed_with_this_prefix_counts() {
        let documents = Documents::new(Arc::new(MemoryStore::new()));
        let signer = Signer::load_or_create(&documents).await.expect("made");
        let again = Signer::load_or_create(&documents).await.expect("read");
        let other = Signer::load_or_create(&Documents::new(Arc::new(MemoryStore::new()))).await.expect("other");
        let token = signer.sign("vctl_a_", &json!({"x": 1})).expect("token");
        assert_eq!(again.verify::<Value>("vctl_a_", &token), Some(json!({"x": 1})));
        assert_eq!(other.verify::<Value>("vctl_a_", &token), None, "of another platform");
        assert_eq!(signer.verify::<Value>("vctl_b_", &token), None, "of another kind");
        assert_eq!(signer.verify::<Value>("vctl_b_", &token.replace("vctl_a_", "vctl_b_")), None, "made another kind");
        let (signed, tag) = token.rsplit_once('.').expect("parts");
        let forged = format!("vctl_a_{}.{tag}", BASE64.encode(r#"{"x":2}"#));
        for wrong in [forged.as_str(), signed, "", ".", "vctl_a_.", &token[..token.len() - 2]] {
            assert_eq!(signer.verify::<Value>("vctl_a_", wrong), None, "{wrong}");
        }
    }
}
