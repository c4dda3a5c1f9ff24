//! One-time join tokens and the agents' certificates.

use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tonic::Status;
use vctl_api::agent::JoinResponse;
use vctl_runtime::pki::{Usage, Validity};
use vctl_store::{Expect, Key, StoreError, Tenant, Write};

use super::{HubError, Inner};
use crate::json::{Json, millis};

/// Where tokens are kept, by the hash of the token.
const RESOURCE: &str = "jointokens.vctl.dev";
/// Prefix of the common name of an agent's certificate.
const PREFIX: &str = "worker:";
/// Group of agents.
const GROUP: &str = "vctl:workers";

fn is_label(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 63 && edge(name.chars().next()) && edge(name.chars().last()) && name.chars().all(inner)
}

fn key(token: &str) -> Key {
    Key::new(RESOURCE, "", &hex::encode(Sha256::digest(token.as_bytes())))
}

impl Inner {
    pub(super) async fn issue_token(&self, worker: &str, lifetime: Duration) -> Result<String, HubError> {
        if !is_label(worker) {
            return Err(HubError::Name(worker.to_owned()));
        }
        // 244 random bits; only the hash is kept.
        let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let expires = self.clock.now().checked_add(lifetime).unwrap_or(jiff::Timestamp::MAX);
        let value = json!({ "worker": worker, "expires": expires.to_string() }).to_string();
        let write = Write { key: key(&token), expect: Expect::Absent, value: Some(value.into()) };
        self.store.transact(Tenant::SYSTEM, vec![write]).await?;
        Ok(token)
    }

    /// Takes a token: from now on it is worth nothing.
    pub(super) async fn take_token(&self, token: &str, worker: &str) -> Result<(), Status> {
        let refused = || {
            Status::unauthenticated(
                "the join token is not valid: it may have been used, have expired, or be for another worker; get a new one from \
                 the server",
            )
        };
        let failed = |e: StoreError| Status::unavailable(e.to_string());
        let key = key(token);
        let (entry, _) = self.store.get(Tenant::SYSTEM, &key).await.map_err(failed)?;
        let Some(entry) = entry else { return Err(refused()) };
        let document: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        let expires = millis(document.text("/expires")).unwrap_or_default();
        if document.text("/worker") != worker || !is_label(worker) || expires <= self.now_ms() {
            return Err(refused());
        }
        let write = Write { key, expect: Expect::Revision(entry.revision), value: None };
        match self.store.transact(Tenant::SYSTEM, vec![write]).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => Err(refused()),
            Err(e) => Err(failed(e)),
        }
    }

    /// Signs a worker's key.
    pub(super) fn certify(&self, worker: &str, csr_der: &[u8]) -> Result<JoinResponse, Status> {
        let base64 = base64::engine::general_purpose::STANDARD.encode(csr_der);
        let mut pem = String::from("-----BEGIN CERTIFICATE REQUEST-----\n");
        for line in base64.as_bytes().chunks(64) {
            pem.push_str(&String::from_utf8_lossy(line));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE REQUEST-----\n");
        let validity = Validity::from_now(self.clock.now(), self.config.certificate_lifetime);
        let authority = &self.config.authority;
        let certificate = authority
            .sign_request(&pem, &format!("{PREFIX}{worker}"), Some(GROUP), &[], Usage::Client, validity)
            .map_err(|e| Status::invalid_argument(e.to_string()))?;
        Ok(JoinResponse {
            certificate_pem: certificate.into_bytes().into(),
            ca_pem: authority.certificate_pem().as_bytes().to_vec().into(),
        })
    }

    /// The worker that holds a certificate chain.
    pub(super) fn worker_of(&self, chain: &[Vec<u8>]) -> Result<String, Status> {
        let subject = self.trust.verify(chain, self.clock.now()).map_err(|e| Status::unauthenticated(e.to_string()))?;
        match subject.common_name.strip_prefix(PREFIX) {
            Some(worker) if is_label(worker) => Ok(worker.to_owned()),
            _ => Err(Status::permission_denied("this certificate is not that of a worker")),
        }
    }
}
