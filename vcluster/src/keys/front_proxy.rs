//! What a cluster shows to aggregated APIs, so that they believe whom it says a request is from.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vctl_machinery::status::ApiError;
use vctl_runtime::pki::{Authority, Identity, Validity, renew_at};

use super::CA_LIFETIME;

/// Name of the ConfigMap in kube-system that tells aggregated APIs whom to believe.
pub(crate) const AUTHENTICATION: &str = "extension-apiserver-authentication";
const FRONT_PROXY: &str = "front-proxy-client";

/// The front-proxy authority and the one certificate it has signed. Its key is not kept: it signs nothing else.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct FrontProxy {
    ca_certificate: String,
    certificate: String,
    key: String,
    /// Another authority that aggregated APIs are told to believe: the next one, or the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other_ca: Option<String>,
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
            other_ca: None,
        })
    }

    /// The certificate that is shown.
    pub(crate) fn identity(&self) -> Identity {
        Identity { certificate_pem: self.certificate.clone(), key_pem: self.key.clone() }
    }

    /// Whether it is time for another one.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        renew_at(&self.certificate).is_ok_and(|due| now >= due)
    }

    /// Has another authority believed, too, or (none) only its own.
    pub(crate) fn believe(&mut self, other: Option<&Self>) {
        self.other_ca = other.map(|o| o.ca_certificate.clone());
    }

    /// What aggregated APIs must know of it, in the data of the ConfigMap.
    pub(crate) fn describe(&self, data: &mut serde_json::Value) {
        let bundle = format!("{}{}", self.ca_certificate, self.other_ca.as_deref().unwrap_or_default());
        data["requestheader-client-ca-file"] = bundle.into();
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
