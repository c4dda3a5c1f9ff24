//! Another authority for a cluster, in steps between which everything works, as in upstream's "Manual Rotation of CA Certificates":
//! announce the new one, so that everybody believes it beside the old one; let it sign; believe the old one no more.
//!
//! Each step is one write of the keys document. A step that was made already changes nothing, so each may be repeated.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vctl_machinery::status::ApiError;
use vctl_runtime::pki::{Authority, Validity};

use super::{CA_LIFETIME, CLIENT_AUTHORITY, FrontProxy, KeysDocument};

/// How far a rotation is.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "step")]
pub(crate) enum Rotation {
    /// The next authority is believed; the present one still signs.
    Announced {
        /// The next authority.
        certificate: String,
        key: String,
        front_proxy: FrontProxy,
    },
    /// The new authority signs; the one before is still believed.
    Overlapping {
        /// The authority before.
        certificate: String,
        /// From when it is believed no more.
        until: Timestamp,
    },
}

impl KeysDocument {
    /// Makes the next authority, and has it believed. Whether there was something to do: no, once one is announced.
    ///
    /// # Errors
    /// 409 while the authority before the present one is still believed.
    pub(crate) fn announce(&mut self, name: &str, now: Timestamp) -> Result<bool, ApiError> {
        self.expire(now);
        match &self.rotation {
            Some(Rotation::Announced { .. }) => return Ok(false),
            Some(Rotation::Overlapping { until, .. }) => return Err(under_way(name, *until)),
            None => {}
        }
        let authority = Authority::generate(&common_name(name), Validity::from_now(now, CA_LIFETIME))
            .map_err(ApiError::internal)?;
        let front_proxy = FrontProxy::generate(name, now)?;
        if let Some(present) = &mut self.front_proxy {
            present.believe(Some(&front_proxy));
        }
        self.rotation = Some(Rotation::Announced {
            certificate: authority.certificate_pem().to_owned(),
            key: authority.key_pem(),
            front_proxy,
        });
        Ok(true)
    }

    /// Lets the announced authority sign; the one before is believed until the moment given. Whether there was something to do.
    pub(crate) fn switch(&mut self, until: Timestamp) -> bool {
        let Some(Rotation::Announced { certificate, key, mut front_proxy }) =
            self.rotation.take_if(|r| r.is_announced())
        else {
            return false;
        };
        front_proxy.believe(self.front_proxy.as_ref());
        self.front_proxy = Some(front_proxy);
        let before = std::mem::replace(&mut self.client_ca_certificate, certificate);
        self.client_ca_key = key;
        self.serves = true;
        self.rotation = Some(Rotation::Overlapping { certificate: before, until });
        true
    }

    /// Believes the authority before the present one no more. Whether there was something to do.
    pub(crate) fn finish(&mut self) -> bool {
        let ended = self.rotation.take_if(|r| !r.is_announced()).is_some();
        if ended && let Some(proxy) = &mut self.front_proxy {
            proxy.believe(None);
        }
        ended
    }

    /// As [`KeysDocument::finish`], if it is time.
    pub(crate) fn expire(&mut self, now: Timestamp) -> bool {
        matches!(&self.rotation, Some(Rotation::Overlapping { until, .. }) if now >= *until) && self.finish()
    }

    /// When what is believed changes by itself.
    pub(crate) fn changes_at(&self) -> Option<Timestamp> {
        match &self.rotation {
            Some(Rotation::Overlapping { until, .. }) => Some(*until),
            _ => None,
        }
    }

    /// The other authority that is believed beside the present one, and until when.
    pub(crate) fn other_authority(&self) -> Option<(&str, Option<Timestamp>)> {
        match self.rotation.as_ref()? {
            Rotation::Announced { certificate, .. } => Some((certificate, None)),
            Rotation::Overlapping { certificate, until } => Some((certificate, Some(*until))),
        }
    }

    /// All authorities of client certificates (PEM), the one that signs first.
    pub(crate) fn authorities(&self) -> String {
        format!("{}{}", self.client_ca_certificate, self.other_authority().map_or("", |(pem, _)| pem))
    }

    /// What pods (and whoever else takes it from `kube-root-ca.crt`) must believe: the server's authority, which signs for the address
    /// outside, and the cluster's, which sign for the address in pods.
    pub(crate) fn roots(&self, server_ca_pem: &str) -> String {
        let own = if self.serves || self.rotation.is_some() { self.authorities() } else { String::new() };
        let line = if server_ca_pem.ends_with('\n') || own.is_empty() { "" } else { "\n" };
        format!("{server_ca_pem}{line}{own}")
    }
}

impl Rotation {
    fn is_announced(&self) -> bool {
        matches!(self, Self::Announced { .. })
    }
}

/// Names of old and new authority are the same, as with upstream's tools: the key tells them apart.
pub(super) fn common_name(cluster: &str) -> String {
    format!("{cluster}{CLIENT_AUTHORITY}")
}

fn under_way(name: &str, until: Timestamp) -> ApiError {
    let until = Timestamp::from_second(until.as_second()).unwrap_or(until);
    ApiError {
        code: 409,
        reason: "Conflict",
        message: format!(
            "the certificate authority of {name} was changed a short while ago: the one before is believed until {until}. Wait, or end that \
             at once with `vctl rotate-ca {name} --now`"
        ),
        details: serde_json::Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    #[test]
    fn every_step_is_made_once() {
        let config = Config::new("SERVER\n", "https://x");
        let mut keys = KeysDocument::generate("dev", Default::default(), now(), &config).unwrap();
        let first = keys.client_ca_certificate.clone();
        assert_eq!(keys.roots("SERVER\n"), format!("SERVER\n{first}"));
        assert!(!keys.switch(now()) && !keys.finish(), "nothing is announced");

        assert!(keys.announce("dev", now()).unwrap());
        assert!(!keys.announce("dev", now()).unwrap());
        let second = keys.other_authority().unwrap().0.to_owned();
        assert_eq!(keys.authorities(), format!("{first}{second}"));
        assert!(!keys.finish(), "it does not sign yet");

        let until = now().checked_add(Duration::from_mins(1)).unwrap();
        assert!(keys.switch(until));
        assert!(!keys.switch(until));
        assert_eq!(keys.authorities(), format!("{second}{first}"));
        assert_eq!(keys.announce("dev", now()).unwrap_err().code, 409);
        assert!(!keys.expire(now()));
        assert!(keys.expire(until));
        assert_eq!(keys.authorities(), second);
        assert!(keys.announce("dev", until).unwrap(), "and again");
    }
}
