//! Whom to believe to be the server.

use std::sync::{Arc, OnceLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::CryptoProvider,
    server::ParsedCertificate,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject};
use tokio_rustls::{TlsConnector, client::TlsStream};
use vctl_runtime::{pki::Identity, serve::crypto_provider};

use super::OutboundError;
use crate::streams::Duplex;

/// Which servers are believed, and who we say we are.
#[derive(Clone)]
pub(crate) struct Trust {
    verifier: Arc<dyn ServerCertVerifier>,
}

fn unreadable(why: impl std::fmt::Display) -> OutboundError {
    OutboundError::Trust(format!("unable to load root certificates: {why}"))
}

impl Trust {
    /// A `caBundle`: base64 of PEM; empty for the authorities that the machine trusts.
    pub(crate) fn bundle(text: &str) -> Result<Self, OutboundError> {
        if text.is_empty() {
            return Ok(Self { verifier: system()?.clone() });
        }
        Self::of(&STANDARD.decode(text).map_err(unreadable)?, "caBundle")
    }

    /// Authorities as PEM; nothing for those that the machine trusts.
    pub(crate) fn pem(text: &str) -> Result<Self, OutboundError> {
        if text.trim().is_empty() {
            return Ok(Self { verifier: system()?.clone() });
        }
        Self::of(text.as_bytes(), "certificateAuthority")
    }

    fn of(pem: &[u8], field: &str) -> Result<Self, OutboundError> {
        let certificates: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(unreadable)?;
        if certificates.is_empty() {
            return Err(unreadable(format!("there is no certificate in {field}")));
        }
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(unreadable)?;
        }
        Ok(Self { verifier: Arc::new(Bundle { chain: chain(roots)?, certificates }) })
    }

    /// Believes everyone: `insecureSkipTLSVerify` of an APIService.
    pub(crate) fn anyone() -> Self {
        Self { verifier: Arc::new(Anyone(crypto_provider())) }
    }

    /// Shakes hands with a server of this name, with a client certificate if there is one.
    pub(crate) async fn connect(
        &self,
        io: Box<dyn Duplex>,
        name: &str,
        identity: Option<&Identity>,
    ) -> Result<TlsStream<Box<dyn Duplex>>, OutboundError> {
        let failed = |e: &dyn std::fmt::Display| OutboundError::Tls(e.to_string());
        let builder = ClientConfig::builder_with_provider(crypto_provider())
            .with_safe_default_protocol_versions()
            .map_err(|e| failed(&e))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier.clone());
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = CertificateDer::pem_slice_iter(identity.certificate_pem.as_bytes())
                    .collect::<Result<_, _>>()
                    .map_err(|e| failed(&e))?;
                let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).map_err(|e| failed(&e))?;
                builder.with_client_auth_cert(chain, key).map_err(|e| failed(&e))?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from(name.to_owned()).map_err(|e| failed(&e))?;
        TlsConnector::from(Arc::new(config)).connect(name, io).await.map_err(|e| OutboundError::Tls(words(&e)))
    }
}

/// Go's words for what clients of webhooks look for.
fn words(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "failed to verify certificate: x509: certificate signed by unknown authority".into()
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "failed to verify certificate: x509: certificate has expired or is not yet valid".into(),
        Some(rustls::Error::InvalidCertificate(why)) => format!("failed to verify certificate: x509: {why}"),
        _ => error.to_string(),
    }
}

fn chain(roots: RootCertStore) -> Result<Arc<WebPkiServerVerifier>, OutboundError> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto_provider()).build().map_err(unreadable)
}

/// What the machine trusts; read once.
fn system() -> Result<&'static Arc<WebPkiServerVerifier>, OutboundError> {
    static SYSTEM: OnceLock<Arc<WebPkiServerVerifier>> = OnceLock::new();
    if let Some(known) = SYSTEM.get() {
        return Ok(known);
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(unreadable("this machine trusts no certificate authority: set caBundle"));
    }
    let chain = chain(roots)?;
    Ok(SYSTEM.get_or_init(|| chain))
}

/// A bundle of authorities. As in Go, a server may also present a certificate that is itself in the bundle, even one that says it is
/// an authority: what many tools make for a webhook.
#[derive(Debug)]
struct Bundle {
    chain: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Bundle {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let failed = match self.chain.verify_server_cert(leaf, intermediates, name, ocsp, now) {
            Ok(verified) => return Ok(verified),
            Err(e) => e,
        };
        let listed = self.certificates.iter().any(|c| c.as_ref() == leaf.as_ref());
        let Ok((_, parsed)) = x509_parser::parse_x509_certificate(leaf) else { return Err(failed) };
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let validity = parsed.validity();
        let current = (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&seconds);
        if !listed || !current {
            return Err(failed);
        }
        verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// Believes any certificate, but still that its holder has the key.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
