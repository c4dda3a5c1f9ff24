//! What a virtual cluster signs with: the authority of its client certificates and the key of its service account tokens. Kept
//! as one document under a resource that is no Kubernetes resource and therefore never served.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vctl_machinery::status::ApiError;
use vctl_runtime::pki::{Authority, ClientTrust, Identity, TokenKey, Validity};
use vctl_store::Key;

use crate::{config::Config, document::Origin};

/// Where the document lives.
pub(crate) fn key() -> Key {
    Key::new("pki.vctl.dev", "", "keys")
}

/// The document.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeysDocument {
    /// UID of the virtual cluster.
    pub uid: String,
    /// When it was created.
    pub created: String,
    /// Issuer of its service account tokens.
    pub issuer: String,
    /// Authority of its client certificates.
    pub client_ca_certificate: String,
    client_ca_key: String,
    token_key: String,
    /// What it shows to aggregated APIs; clusters from before there were any have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front_proxy: Option<FrontProxy>,
}

/// After the cluster's name: the common name of the authority of its client certificates.
pub(crate) const CLIENT_AUTHORITY: &str = "-client-ca";
/// Name of the ConfigMap in kube-system that tells aggregated APIs whom to believe.
pub(crate) const AUTHENTICATION: &str = "extension-apiserver-authentication";
const FRONT_PROXY: &str = "front-proxy-client";

/// The front-proxy authority and the one certificate it has signed. Its key is not kept: it signs nothing else.
#[derive(Serialize, Deserialize)]
pub(crate) struct FrontProxy {
    ca_certificate: String,
    certificate: String,
    key: String,
}

impl FrontProxy {
    /// A new one.
    pub(crate) fn generate(name: &str, now: Timestamp) -> Result<Self, ApiError> {
        let validity = Validity::from_now(now, CA_LIFETIME);
        let authority = Authority::generate(&format!("{name}-front-proxy-ca"), validity).map_err(ApiError::internal)?;
        let identity = authority.client(FRONT_PROXY, None, validity).map_err(ApiError::internal)?;
        Ok(Self {
            ca_certificate: authority.certificate_pem().to_owned(),
            certificate: identity.certificate_pem,
            key: identity.key_pem,
        })
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity { certificate_pem: self.certificate.clone(), key_pem: self.key.clone() }
    }

    /// What aggregated APIs must know of it, in the data of the ConfigMap.
    pub(crate) fn describe(&self, data: &mut serde_json::Value) {
        data["requestheader-client-ca-file"] = self.ca_certificate.clone().into();
        for (field, value) in [
            ("allowed-names", FRONT_PROXY),
            ("username-headers", "X-Remote-User"),
            ("uid-headers", "X-Remote-Uid"),
            ("group-headers", "X-Remote-Group"),
            ("extra-headers-prefix", "X-Remote-Extra-"),
        ] {
            data[format!("requestheader-{field}")] = format!("[{value:?}]").into();
        }
    }
}

const CA_LIFETIME: std::time::Duration = std::time::Duration::from_hours(10 * 365 * 24);

impl KeysDocument {
    /// New keys.
    pub(crate) fn generate(name: &str, uid: String, now: Timestamp, config: &Config) -> Result<Self, ApiError> {
        let authority = Authority::generate(&format!("{name}{CLIENT_AUTHORITY}"), Validity::from_now(now, CA_LIFETIME))
            .map_err(ApiError::internal)?;
        let token = TokenKey::generate().map_err(ApiError::internal)?;
        Ok(Self {
            uid,
            created: seconds(now),
            issuer: format!("{}/clusters/{name}", config.issuer_base.trim_end_matches('/')),
            client_ca_certificate: authority.certificate_pem().to_owned(),
            client_ca_key: authority.key_pem(),
            token_key: token.pem(),
            front_proxy: Some(FrontProxy::generate(name, now)?),
        })
    }

    /// A client certificate of this cluster.
    pub(crate) fn client(&self, user: &str, group: &str, validity: Validity) -> Result<Identity, ApiError> {
        self.authority()?.client(user, Some(group), validity).map_err(ApiError::internal)
    }

    /// The authority of client certificates.
    pub(crate) fn authority(&self) -> Result<Authority, ApiError> {
        Authority::from_pem(&self.client_ca_certificate, &self.client_ca_key).map_err(ApiError::internal)
    }
}

/// RFC 3339 with whole seconds, as all times in objects.
pub(crate) fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// The keys, ready to use.
pub(crate) struct Keys {
    pub(crate) origin: Origin,
    pub(crate) issuer: String,
    pub(crate) trust: ClientTrust,
    pub(crate) token_id: String,
    pub(crate) token_jwk: serde_json::Value,
    pub(crate) sign: jsonwebtoken::EncodingKey,
    pub(crate) verify: jsonwebtoken::DecodingKey,
}

impl Keys {
    pub(crate) fn new(document: &KeysDocument) -> Result<Self, ApiError> {
        use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
        use sha2::{Digest, Sha256};

        let token = TokenKey::from_pem(&document.token_key).map_err(ApiError::internal)?;
        let token_id = URL_SAFE_NO_PAD.encode(Sha256::digest(token.public_der()));
        let (x, y) = token.public_point();
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        let token_jwk = serde_json::json!({ "use": "sig", "kty": "EC", "kid": token_id, "crv": "P-256", "alg": "ES256", "x": x, "y": y });
        Ok(Self {
            origin: Origin { uid: document.uid.clone(), created: document.created.clone() },
            issuer: document.issuer.clone(),
            trust: ClientTrust::new(&document.client_ca_certificate).map_err(ApiError::internal)?,
            token_id,
            token_jwk,
            sign: jsonwebtoken::EncodingKey::from_ec_pem(document.token_key.as_bytes()).map_err(ApiError::internal)?,
            verify: jsonwebtoken::DecodingKey::from_ec_components(&x, &y).map_err(ApiError::internal)?,
        })
    }
}
