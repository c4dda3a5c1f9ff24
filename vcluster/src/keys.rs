//! What a virtual cluster signs with, and what it believes: the authority of its certificates, the keys of its service account tokens, the
//! issuers of other tokens. Kept as one document under a resource that is no Kubernetes resource and therefore never served.

mod edit;
mod front_proxy;
mod rotation;
mod tokens;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vctl_machinery::{status::ApiError, version::MinorVersion};
use vctl_runtime::pki::{self, Authority, ClientTrust, Identity, PkiError, Subject, Validity};
use vctl_store::Key;

use crate::{config::Config, document::Origin};

pub(crate) use edit::edit;
pub(crate) use front_proxy::{AUTHENTICATION, FrontProxy};
pub(crate) use rotation::Rotation;
pub(crate) use tokens::{Earlier, Verifier};

/// Resource of the document.
pub(crate) const RESOURCE: &str = "pki.vctl.dev";

/// Where the document lives.
pub(crate) fn key() -> Key {
    Key::new(RESOURCE, "", "keys")
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
    /// The Kubernetes that it is; clusters from before there was a choice are of the default version.
    #[serde(default)]
    pub kubernetes: MinorVersion,
    /// The cluster's authority: of client certificates, and of the serving certificate that pods see.
    pub client_ca_certificate: String,
    client_ca_key: String,
    /// Whether pods are served by the cluster's own authority; else (clusters from before that) by the server's.
    #[serde(default)]
    pub serves: bool,
    /// How far the change to another authority is, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rotation: Option<Rotation>,
    /// Whose tokens count besides its own: an AuthenticationConfiguration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<serde_json::Value>,
    /// What is recorded of requests: an audit Policy; none: the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_policy: Option<serde_json::Value>,
    token_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_key_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier_token_keys: Vec<Earlier>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    longest_token_seconds: Option<i64>,
    /// What it shows to aggregated APIs; clusters from before there were any have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front_proxy: Option<FrontProxy>,
}

/// After the cluster's name: the common name of its authority.
pub(crate) const CLIENT_AUTHORITY: &str = "-client-ca";
const CA_LIFETIME: std::time::Duration = std::time::Duration::from_hours(10 * 365 * 24);

impl KeysDocument {
    /// New keys.
    pub(crate) fn generate(
        name: &str,
        kubernetes: MinorVersion,
        now: Timestamp,
        config: &Config,
    ) -> Result<Self, ApiError> {
        let validity = Validity::from_now(now, CA_LIFETIME);
        let authority = Authority::generate(&rotation::common_name(name), validity).map_err(ApiError::internal)?;
        let token = pki::TokenKey::generate().map_err(ApiError::internal)?;
        Ok(Self {
            uid: uuid::Uuid::new_v4().to_string(),
            created: seconds(now),
            issuer: format!("{}/clusters/{name}", config.issuer_base.trim_end_matches('/')),
            kubernetes,
            client_ca_certificate: authority.certificate_pem().to_owned(),
            client_ca_key: authority.key_pem(),
            serves: true,
            rotation: None,
            authentication: None,
            audit_policy: None,
            token_key: token.pem(),
            token_key_since: None,
            earlier_token_keys: Vec::new(),
            longest_token_seconds: None,
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

    /// The data of the ConfigMap that tells servers in the cluster whom to believe.
    pub(crate) fn describe(&self) -> serde_json::Value {
        let mut data = serde_json::json!({ "client-ca-file": self.authorities() });
        if let Some(proxy) = &self.front_proxy {
            proxy.describe(&mut data);
        }
        data
    }
}

/// RFC 3339 with whole seconds, as all times in objects.
pub(crate) fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// Whose a client certificate is.
pub(crate) struct Known {
    pub(crate) subject: Subject,
    /// When it counts no longer: it has expired, or its authority is given up.
    pub(crate) until: Timestamp,
}

/// The keys, ready to use.
pub(crate) struct Keys {
    pub(crate) origin: Origin,
    pub(crate) kubernetes: MinorVersion,
    pub(crate) issuer: String,
    /// Whether pods are served by the cluster's own authority.
    pub(crate) serves: bool,
    trust: ClientTrust,
    other: Option<(ClientTrust, Option<Timestamp>)>,
    pub(crate) sign: jsonwebtoken::EncodingKey,
    /// The one of [`Keys::sign`] first.
    verifiers: Vec<Verifier>,
    token_key_due: Timestamp,
    longest_token: i64,
}

impl Keys {
    pub(crate) fn new(document: &KeysDocument) -> Result<Self, ApiError> {
        let trust = |pem: &str| ClientTrust::new(pem).map_err(ApiError::internal);
        let other = document.other_authority().map(|(pem, until)| Ok::<_, ApiError>((trust(pem)?, until)));
        Ok(Self {
            origin: Origin { uid: document.uid.clone(), created: document.created.clone() },
            kubernetes: document.kubernetes,
            issuer: document.issuer.clone(),
            serves: document.serves,
            trust: trust(&document.client_ca_certificate)?,
            other: other.transpose()?,
            sign: jsonwebtoken::EncodingKey::from_ec_pem(document.token_key.as_bytes()).map_err(ApiError::internal)?,
            verifiers: document.verifiers()?,
            token_key_due: document.token_key_due(),
            longest_token: document.longest_token(),
        })
    }

    /// Who the holder of a client certificate is: of the authority that signs, or of the other one while it is believed.
    ///
    /// # Errors
    /// [`PkiError::Untrusted`].
    pub(crate) fn subject(&self, chain: &[Vec<u8>], now: Timestamp) -> Result<Known, PkiError> {
        let ends = || chain.first().and_then(|leaf| pki::not_after(leaf)).unwrap_or(now);
        let first = match self.trust.verify(chain, now) {
            Ok(subject) => return Ok(Known { subject, until: ends() }),
            Err(first) => first,
        };
        match &self.other {
            Some((other, until)) if until.is_none_or(|until| now < until) => match other.verify(chain, now) {
                Ok(subject) => Ok(Known { subject, until: until.map_or_else(ends, |until| until.min(ends())) }),
                Err(_) => Err(first),
            },
            _ => Err(first),
        }
    }

    /// The key that signs tokens.
    pub(crate) fn token_id(&self) -> &str {
        self.verifiers.first().map_or("", |v| &v.id)
    }

    /// The public keys of tokens, for others to verify them with.
    pub(crate) fn token_jwks(&self, now: Timestamp) -> Vec<serde_json::Value> {
        self.verifiers.iter().filter(|v| v.counts(now)).map(|v| v.jwk.clone()).collect()
    }

    /// The key that a token says it is signed with.
    pub(crate) fn verifier(&self, id: &str, now: Timestamp) -> Option<&jsonwebtoken::DecodingKey> {
        self.verifiers.iter().find(|v| v.id == id && v.counts(now)).map(|v| &v.key)
    }

    /// Whether the keys document is to be changed before a token of this life (in seconds) is signed.
    pub(crate) fn must_change_before_token(&self, life: i64, now: Timestamp) -> bool {
        now >= self.token_key_due || life > self.longest_token
    }
}
