//! Certificates: authorities, serving and client certificates, signing requests, and the check of a client's chain.
//!
//! Keys are ECDSA P-256. Certificates are valid from [`BACKDATE`] before they are issued, so that clocks that differ a little
//! do no harm.

mod requested;

use std::{net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use x509_parser::prelude::FromDer;

pub use requested::{Requested, USAGES, is_usage, requested};

/// How long before its issue a certificate becomes valid.
pub const BACKDATE: Duration = Duration::from_mins(5);

/// A certificate could not be made, read or trusted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PkiError {
    /// PEM, DER or a key that does not parse.
    #[error("{what} does not parse: {why}; restore it from a backup or create it anew")]
    Unreadable {
        /// What was read.
        what: &'static str,
        /// The parser's message.
        why: String,
    },
    /// A signing request that is malformed, whose signature does not match its key, or that asks for something unsupported.
    #[error(
        "the certificate signing request cannot be used: {0}; create it with an ECDSA, Ed25519 or RSA key and sign it with that key"
    )]
    Request(String),
    /// Making a key or a signature failed.
    #[error("the certificate could not be made: {0}")]
    Issue(String),
    /// The chain does not lead to the authority, is not valid now, or is not meant for clients.
    #[error("the client certificate is not trusted: {0}")]
    Untrusted(String),
}

fn issue(e: impl std::fmt::Display) -> PkiError {
    PkiError::Issue(e.to_string())
}

/// From when until when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// First moment.
    pub from: Timestamp,
    /// Last moment.
    pub until: Timestamp,
}

impl Validity {
    /// From [`BACKDATE`] before `now` until `lifetime` after it.
    pub fn from_now(now: Timestamp, lifetime: Duration) -> Self {
        let from = now.checked_sub(BACKDATE).unwrap_or(now);
        let until = now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        Self { from, until }
    }

    fn apply(self, params: &mut CertificateParams) {
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let at = |t: Timestamp| epoch + Duration::from_secs(t.as_second().max(0).unsigned_abs());
        params.not_before = at(self.from);
        params.not_after = at(self.until);
    }
}

/// A certificate with its private key, both as PEM. The certificate may be followed by its issuers.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate.
    pub certificate_pem: String,
    /// The key (PKCS#8).
    pub key_pem: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Who a client certificate names. In Kubernetes the common name is the user and the organizations are the groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Common name.
    pub common_name: String,
    /// Organizations.
    pub organizations: Vec<String>,
}

/// What a certificate may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// By a TLS server.
    Server,
    /// By a TLS client.
    Client,
    /// By both ends (nodes that serve and dial).
    Both,
}

/// A certificate authority: its self-signed certificate and its key.
pub struct Authority {
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority. It signs end-entity certificates only.
    ///
    /// # Errors
    /// [`PkiError::Issue`] when the system gives no randomness.
    pub fn generate(common_name: &str, validity: Validity) -> Result<Self, PkiError> {
        let key = KeyPair::generate().map_err(issue)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(common_name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        validity.apply(&mut params);
        let certificate_pem = params.self_signed(&key).map_err(issue)?.pem();
        Ok(Self { certificate_pem, issuer: Issuer::new(params, key) })
    }

    /// An authority that was stored as PEM.
    ///
    /// # Errors
    /// [`PkiError::Unreadable`] naming the part that does not parse.
    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, PkiError> {
        let key = KeyPair::from_pem(key_pem)
            .map_err(|e| PkiError::Unreadable { what: "the key of the certificate authority", why: e.to_string() })?;
        let issuer = Issuer::from_ca_cert_pem(certificate_pem, key).map_err(|e| PkiError::Unreadable {
            what: "the certificate of the certificate authority",
            why: e.to_string(),
        })?;
        Ok(Self { certificate_pem: certificate_pem.to_owned(), issuer })
    }

    /// Its certificate, for those who are to trust it.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Its private key (PKCS#8). Keep it secret.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A new key with a certificate for a server of these names: IP addresses and DNS names (`*.example.org` too).
    ///
    /// # Errors
    /// [`PkiError::Issue`] for a name that is none.
    pub fn server(&self, names: &[String], validity: Validity) -> Result<Identity, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(names.first().map_or("server", |n| n.as_str()), None);
        params.subject_alt_names = alternative_names(names)?;
        self.sign(params, Usage::Server, validity)
    }

    /// A new key with a certificate for a client: user and at most one group (a distinguished name of rcgen has one organization).
    ///
    /// # Errors
    /// [`PkiError::Issue`] when signing fails.
    pub fn client(&self, user: &str, group: Option<&str>, validity: Validity) -> Result<Identity, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, group);
        self.sign(params, Usage::Client, validity)
    }

    /// A new key with a certificate for a machine that both dials and serves.
    ///
    /// # Errors
    /// [`PkiError::Issue`] for a name that is none.
    pub fn machine(
        &self,
        user: &str,
        group: Option<&str>,
        names: &[String],
        validity: Validity,
    ) -> Result<Identity, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, group);
        params.subject_alt_names = alternative_names(names)?;
        self.sign(params, Usage::Both, validity)
    }

    fn sign(&self, mut params: CertificateParams, usage: Usage, validity: Validity) -> Result<Identity, PkiError> {
        let key = KeyPair::generate().map_err(issue)?;
        end_entity(&mut params, usage, validity);
        let certificate_pem = params.signed_by(&key, &self.issuer).map_err(issue)?.pem();
        Ok(Identity { certificate_pem, key_pem: key.serialize_pem() })
    }

    /// Signs the key of a request (PEM). The certificate says of its holder only what the caller says here, never what the
    /// request asks for; `names` become its alternative names.
    ///
    /// # Errors
    /// [`PkiError::Request`] for a request that does not parse or is not signed by its own key.
    pub fn sign_request(
        &self,
        request_pem: &str,
        user: &str,
        group: Option<&str>,
        names: &[String],
        usage: Usage,
        validity: Validity,
    ) -> Result<String, PkiError> {
        let mut request =
            CertificateSigningRequestParams::from_pem(request_pem).map_err(|e| PkiError::Request(e.to_string()))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, group);
        params.subject_alt_names = alternative_names(names)?;
        end_entity(&mut params, usage, validity);
        request.params = params;
        Ok(request.signed_by(&self.issuer).map_err(issue)?.pem())
    }
}

fn name(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common_name);
    name
}

fn alternative_names(names: &[String]) -> Result<Vec<SanType>, PkiError> {
    names
        .iter()
        .map(|n| match n.parse::<IpAddr>() {
            Ok(ip) => Ok(SanType::IpAddress(ip)),
            Err(_) => Ok(SanType::DnsName(n.as_str().try_into().map_err(issue)?)),
        })
        .collect()
}

fn end_entity(params: &mut CertificateParams, usage: Usage, validity: Validity) {
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = match usage {
        Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
        Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Usage::Both => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
    };
    validity.apply(params);
}

/// A new key with a request for a certificate (PEM) that names this user and group.
///
/// # Errors
/// [`PkiError::Issue`] when the system gives no randomness.
pub fn request(user: &str, group: Option<&str>) -> Result<(String, KeyPair), PkiError> {
    let key = KeyPair::generate().map_err(issue)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = name(user, group);
    let pem = params.serialize_request(&key).and_then(|r| r.pem()).map_err(issue)?;
    Ok((pem, key))
}

/// Subject of a signing request (PEM), after checking that it is signed by its own key.
///
/// # Errors
/// [`PkiError::Request`].
pub fn request_subject(request_pem: &str) -> Result<Subject, PkiError> {
    let bad = |e: &dyn std::fmt::Display| PkiError::Request(e.to_string());
    let (_, pem) = x509_parser::pem::parse_x509_pem(request_pem.as_bytes()).map_err(|e| bad(&e))?;
    let (_, request) =
        x509_parser::certification_request::X509CertificationRequest::from_der(&pem.contents).map_err(|e| bad(&e))?;
    request.verify_signature().map_err(|e| bad(&e))?;
    Ok(subject(&request.certification_request_info.subject))
}

/// When a certificate (DER) ends; none when it is no certificate.
pub fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

/// Common name of the issuer of a certificate (DER), unverified; none when there is none, or no certificate.
pub fn issuer_common_name(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(subject(certificate.issuer()).common_name).filter(|name| !name.is_empty())
}

fn subject(name: &x509_parser::x509::X509Name<'_>) -> Subject {
    let text = |a: &x509_parser::x509::AttributeTypeAndValue<'_>| a.as_str().ok().map(ToOwned::to_owned);
    Subject {
        common_name: name.iter_common_name().find_map(text).unwrap_or_default(),
        organizations: name.iter_organization().filter_map(text).collect(),
    }
}

/// A key that signs tokens with ES256.
pub struct TokenKey {
    key: KeyPair,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").finish_non_exhaustive()
    }
}

impl TokenKey {
    /// A new key.
    ///
    /// # Errors
    /// [`PkiError::Issue`] when the system gives no randomness.
    pub fn generate() -> Result<Self, PkiError> {
        Ok(Self { key: KeyPair::generate().map_err(issue)? })
    }

    /// A key that was stored as PEM.
    ///
    /// # Errors
    /// [`PkiError::Unreadable`].
    pub fn from_pem(pem: &str) -> Result<Self, PkiError> {
        let key = KeyPair::from_pem(pem)
            .map_err(|e| PkiError::Unreadable { what: "the token signing key", why: e.to_string() })?;
        Ok(Self { key })
    }

    /// The private key (PKCS#8 PEM). Keep it secret.
    pub fn pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// The public key as `SubjectPublicKeyInfo` (DER).
    pub fn public_der(&self) -> Vec<u8> {
        self.key.subject_public_key_info()
    }

    /// The coordinates x and y of the public point, 32 bytes each.
    pub fn public_point(&self) -> (&[u8], &[u8]) {
        // 0x04, x, y: the uncompressed form, which is the only one that ring makes.
        let raw = self.key.public_key_raw().get(1..65).unwrap_or_default();
        raw.split_at(raw.len() / 2)
    }
}

/// Decides on the client certificates of one authority. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClientTrust {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientTrust {
    /// Trusts the authorities in a PEM bundle.
    ///
    /// # Errors
    /// [`PkiError::Unreadable`] when there is none in it.
    pub fn new(authorities_pem: &str) -> Result<Self, PkiError> {
        let unreadable =
            |why: String| PkiError::Unreadable { what: "the certificate of the certificate authority", why };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authorities_pem.as_bytes()) {
            roots.add(certificate.map_err(|e| unreadable(e.to_string()))?).map_err(|e| unreadable(e.to_string()))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), crate::serve::crypto_provider())
            .build()
            .map_err(|e| unreadable(e.to_string()))?;
        Ok(Self { verifier })
    }

    /// Who the holder of this chain (DER, leaf first) is. That the client holds the leaf's key is the TLS layer's to prove.
    ///
    /// # Errors
    /// [`PkiError::Untrusted`] when it does not lead to the authority, is not valid at `now`, or is not for clients.
    pub fn verify(&self, chain: &[Vec<u8>], now: Timestamp) -> Result<Subject, PkiError> {
        let Some((leaf, issuers)) = chain.split_first() else {
            return Err(PkiError::Untrusted("there is none".into()));
        };
        let issuers: Vec<CertificateDer<'_>> = issuers.iter().map(|c| CertificateDer::from(c.as_slice())).collect();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().max(0).unsigned_abs()));
        self.verifier
            .verify_client_cert(&CertificateDer::from(leaf.as_slice()), &issuers, at)
            .map_err(|e| PkiError::Untrusted(e.to_string()))?;
        let (_, leaf) = x509_parser::certificate::X509Certificate::from_der(leaf)
            .map_err(|e| PkiError::Untrusted(e.to_string()))?;
        Ok(subject(leaf.subject()))
    }
}

/// The certificates of a PEM text as DER, in order.
///
/// # Errors
/// [`PkiError::Unreadable`].
pub fn chain_from_pem(pem: &str) -> Result<Vec<Vec<u8>>, PkiError> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .map(|c| c.map(|c| c.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|e| PkiError::Unreadable { what: "the certificate", why: e.to_string() })
}

/// When the first certificate of a PEM text ends.
///
/// # Errors
/// [`PkiError::Unreadable`].
pub fn expires_at(pem: &str) -> Result<Timestamp, PkiError> {
    let unreadable = |why: String| PkiError::Unreadable { what: "the certificate", why };
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|e| unreadable(e.to_string()))?;
    let certificate = pem.parse_x509().map_err(|e| unreadable(e.to_string()))?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).map_err(|e| unreadable(e.to_string()))
}

/// When the first certificate of a PEM text is to be renewed: after two thirds of its life.
///
/// # Errors
/// [`PkiError::Unreadable`].
pub fn renew_at(pem: &str) -> Result<Timestamp, PkiError> {
    let unreadable = |why: String| PkiError::Unreadable { what: "the certificate", why };
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|e| unreadable(e.to_string()))?;
    let certificate = pem.parse_x509().map_err(|e| unreadable(e.to_string()))?;
    let (from, until) = (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp());
    Timestamp::from_second(from + (until - from).max(0) / 3 * 2).map_err(|e| unreadable(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Duration = Duration::from_hours(365 * 24);

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    #[test]
    fn a_client_of_the_authority_is_known_by_name_and_group() {
        let authority = Authority::generate("ca", Validity::from_now(now(), YEAR)).unwrap();
        let stored = Authority::from_pem(authority.certificate_pem(), &authority.key_pem()).unwrap();
        let client = stored.client("admin", Some("system:masters"), Validity::from_now(now(), YEAR)).unwrap();
        let chain = chain_from_pem(&client.certificate_pem).unwrap();
        let trust = ClientTrust::new(authority.certificate_pem()).unwrap();
        let subject = trust.verify(&chain, now()).unwrap();
        assert_eq!(subject, Subject { common_name: "admin".into(), organizations: vec!["system:masters".into()] });
    }

    #[test]
    fn another_authority_an_expired_or_a_server_certificate_is_refused() {
        let validity = Validity::from_now(now(), YEAR);
        let ours = Authority::generate("ca", validity).unwrap();
        // The same name, so that only the key tells them apart.
        let theirs = Authority::generate("ca", validity).unwrap();
        let trust = ClientTrust::new(ours.certificate_pem()).unwrap();
        let der = |i: &Identity| chain_from_pem(&i.certificate_pem).unwrap();

        let foreign = theirs.client("admin", None, validity).unwrap();
        assert!(trust.verify(&der(&foreign), now()).is_err());
        let good = ours.client("admin", None, validity).unwrap();
        let later = now().checked_add(YEAR + Duration::from_secs(1)).unwrap();
        assert!(trust.verify(&der(&good), later).is_err());
        let server = ours.server(&["localhost".into(), "127.0.0.1".into()], validity).unwrap();
        assert!(trust.verify(&der(&server), now()).is_err());
        assert!(trust.verify(&[], now()).is_err());
    }

    #[test]
    fn a_signed_request_says_what_the_signer_says() {
        let validity = Validity::from_now(now(), YEAR);
        let authority = Authority::generate("ca", validity).unwrap();
        let (pem, _key) = request("system:node:evil", Some("system:masters")).unwrap();
        assert_eq!(request_subject(&pem).unwrap().common_name, "system:node:evil");
        let signed =
            authority.sign_request(&pem, "worker-1", Some("vctl:workers"), &[], Usage::Client, validity).unwrap();
        let subject = ClientTrust::new(authority.certificate_pem())
            .unwrap()
            .verify(&chain_from_pem(&signed).unwrap(), now())
            .unwrap();
        assert_eq!(subject, Subject { common_name: "worker-1".into(), organizations: vec!["vctl:workers".into()] });
        assert_eq!(expires_at(&signed).unwrap(), now().checked_add(YEAR).unwrap());
        assert!(authority.sign_request("nonsense", "u", None, &[], Usage::Client, validity).is_err());
    }
}
