//! The worker's client certificate: got by the one-time token, kept in the state directory, renewed at two thirds of its life.

use std::{fs, path::PathBuf};

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer, pem::PemObject as _};
use vctl_api::agent::{JoinRequest, JoinResponse, RenewRequest};
use vctl_runtime::pki;

use crate::{
    config::Config,
    error::{AgentError, state},
    files,
    proto::AgentServiceClient,
    transport::{self, ClientIdentity},
};

/// Where certificate and key are.
pub(crate) struct IdentityStore {
    certificate: PathBuf,
    key: PathBuf,
}

fn unusable(e: impl std::fmt::Display) -> AgentError {
    AgentError::Identity(format!(
        "{e}; remove the directory identity/ of the state directory and join again with a new token"
    ))
}

impl IdentityStore {
    pub(crate) fn new(config: &Config) -> Result<Self, AgentError> {
        let dir = config.state_dir.join("identity");
        fs::create_dir_all(&dir).map_err(state("creating", &dir))?;
        Ok(Self { certificate: dir.join("client.crt"), key: dir.join("client.key") })
    }

    /// The present certificate, when there is one that is still valid.
    pub(crate) fn load(&self, now: Timestamp) -> Result<Option<ClientIdentity>, AgentError> {
        let certificate = files::read_if_present(&self.certificate).map_err(state("reading", &self.certificate))?;
        let key = files::read_if_present(&self.key).map_err(state("reading", &self.key))?;
        let (Some(certificate), Some(key)) = (certificate, key) else { return Ok(None) };
        let identity = parse(&certificate, &key)?;
        Ok((identity.expires > now).then_some(identity))
    }

    fn save(&self, response: &JoinResponse, key_pem: &str) -> Result<ClientIdentity, AgentError> {
        let identity = parse(&response.certificate_pem, key_pem.as_bytes())?;
        files::replace(&self.key, key_pem.as_bytes(), 0o600).map_err(state("writing", &self.key))?;
        files::replace(&self.certificate, &response.certificate_pem, 0o600)
            .map_err(state("writing", &self.certificate))?;
        Ok(identity)
    }

    /// Exchanges the join token for a certificate.
    pub(crate) async fn join(&self, config: &Config) -> Result<ClientIdentity, AgentError> {
        let token = config.join_token.clone().ok_or_else(|| {
            AgentError::Identity(
                "this worker has no valid certificate and no join token: start it with --join-token-file and a file that holds one of the server's".into(),
            )
        })?;
        let (csr_der, key_pem) = request(&config.worker)?;
        let channel = transport::connect(config, None).await?;
        let response = AgentServiceClient::new(channel)
            .join(JoinRequest { token, worker: config.worker.clone(), csr_der: csr_der.into() })
            .await
            .map_err(|e| AgentError::Identity(format!("the server refused to let this worker join: {}", e.message())))?
            .into_inner();
        self.save(&response, &key_pem)
    }

    /// Asks for a new certificate with the present one.
    pub(crate) async fn renew(&self, config: &Config, present: &ClientIdentity) -> Result<ClientIdentity, AgentError> {
        let (csr_der, key_pem) = request(&config.worker)?;
        let channel = transport::connect(config, Some(present)).await?;
        let response = AgentServiceClient::new(channel)
            .renew(RenewRequest { csr_der: csr_der.into() })
            .await
            .map_err(|e| AgentError::Identity(format!("the server did not renew the certificate: {}", e.message())))?
            .into_inner();
        self.save(&response, &key_pem)
    }
}

fn request(worker: &str) -> Result<(Vec<u8>, String), AgentError> {
    let (pem, key) = pki::request(worker, None).map_err(unusable)?;
    let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).map_err(unusable)?;
    Ok((der.as_ref().to_vec(), key.serialize_pem()))
}

fn parse(certificate: &[u8], key: &[u8]) -> Result<ClientIdentity, AgentError> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().map_err(unusable)?;
    let text = std::str::from_utf8(certificate).map_err(unusable)?;
    let expires = pki::expires_at(text).map_err(unusable)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(unusable)?;
    Ok(ClientIdentity { chain, key: key.into(), expires })
}
