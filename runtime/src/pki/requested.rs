//! Signing requests whose subject, names and usages are kept: CertificateSigningRequests, whose signer has checked what they ask for.

use std::net::IpAddr;

use rcgen::{
    CertificateSigningRequestParams, ExtendedKeyUsagePurpose as Extended, IsCa, KeyUsagePurpose as Plain, SanType,
};
use x509_parser::{
    extensions::{GeneralName, ParsedExtension},
    prelude::FromDer,
};

use super::{Authority, PkiError, Subject, Validity, issue, subject};

/// The key usages that a request may name (`certificates.k8s.io` KeyUsage), sorted.
pub const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Whether a usage is one of [`USAGES`].
pub fn is_usage(usage: &str) -> bool {
    USAGES.contains(&usage)
}

/// What a request asks its certificate to say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requested {
    /// Subject.
    pub subject: Subject,
    /// DNS names.
    pub dns: Vec<String>,
    /// Addresses.
    pub ips: Vec<IpAddr>,
    /// E-mail addresses.
    pub emails: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
}

/// Reads a signing request (PEM), after checking that it is signed by its own key.
///
/// # Errors
/// [`PkiError::Request`].
pub fn requested(request_pem: &str) -> Result<Requested, PkiError> {
    let bad = |e: &dyn std::fmt::Display| PkiError::Request(e.to_string());
    let (_, pem) = x509_parser::pem::parse_x509_pem(request_pem.as_bytes()).map_err(|e| bad(&e))?;
    let (_, request) =
        x509_parser::certification_request::X509CertificationRequest::from_der(&pem.contents).map_err(|e| bad(&e))?;
    request.verify_signature().map_err(|e| bad(&e))?;
    let mut found = Requested { subject: subject(&request.certification_request_info.subject), ..Requested::default() };
    for extension in request.requested_extensions().into_iter().flatten() {
        let ParsedExtension::SubjectAlternativeName(names) = extension else { continue };
        for name in &names.general_names {
            match name {
                GeneralName::DNSName(name) => found.dns.push((*name).to_owned()),
                GeneralName::RFC822Name(name) => found.emails.push((*name).to_owned()),
                GeneralName::URI(name) => found.uris.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => found.ips.extend(address(bytes)),
                _ => {
                    return Err(PkiError::Request("it has an alternative name of a kind that is not supported".into()));
                }
            }
        }
    }
    Ok(found)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn plain(usage: &str) -> Option<Plain> {
    Some(match usage {
        "signing" | "digital signature" => Plain::DigitalSignature,
        "content commitment" => Plain::ContentCommitment,
        "key encipherment" => Plain::KeyEncipherment,
        "data encipherment" => Plain::DataEncipherment,
        "key agreement" => Plain::KeyAgreement,
        "cert sign" => Plain::KeyCertSign,
        "crl sign" => Plain::CrlSign,
        "encipher only" => Plain::EncipherOnly,
        "decipher only" => Plain::DecipherOnly,
        _ => return None,
    })
}

fn extended(usage: &str) -> Option<Extended> {
    Some(match usage {
        "any" => Extended::Any,
        "server auth" => Extended::ServerAuth,
        "client auth" => Extended::ClientAuth,
        "code signing" => Extended::CodeSigning,
        "email protection" | "s/mime" => Extended::EmailProtection,
        "timestamping" => Extended::TimeStamping,
        "ocsp signing" => Extended::OcspSigning,
        _ => return None,
    })
}

impl Authority {
    /// Signs a request as it is: its subject and names, with these usages ([`USAGES`]). Never an authority. Who calls this has checked
    /// that the request may have what it asks for.
    ///
    /// # Errors
    /// [`PkiError::Request`] for a request that does not parse or is not signed by its own key, or for a usage that is not supported.
    pub fn sign_as_requested(
        &self,
        request_pem: &str,
        usages: &[&str],
        validity: Validity,
    ) -> Result<String, PkiError> {
        let asked = requested(request_pem)?;
        let mut request =
            CertificateSigningRequestParams::from_pem(request_pem).map_err(|e| PkiError::Request(e.to_string()))?;
        let (mut key_usages, mut extended_usages) = (Vec::new(), Vec::new());
        for usage in usages {
            match (plain(usage), extended(usage)) {
                (Some(usage), _) => key_usages.push(usage),
                (None, Some(usage)) => extended_usages.push(usage),
                (None, None) => return Err(PkiError::Request(format!("usage {usage:?} is not supported"))),
            }
        }
        key_usages.dedup();
        let text = |t: &str| t.try_into().map_err(|e: rcgen::Error| PkiError::Request(e.to_string()));
        let mut names = Vec::new();
        for name in &asked.dns {
            names.push(SanType::DnsName(text(name)?));
        }
        for name in &asked.emails {
            names.push(SanType::Rfc822Name(text(name)?));
        }
        for name in &asked.uris {
            names.push(SanType::URI(text(name)?));
        }
        names.extend(asked.ips.iter().copied().map(SanType::IpAddress));
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = request.params.distinguished_name.clone();
        params.subject_alt_names = names;
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = key_usages;
        params.extended_key_usages = extended_usages;
        validity.apply(&mut params);
        request.params = params;
        Ok(request.signed_by(&self.issuer).map_err(issue)?.pem())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_request_keeps_what_it_asks_for() {
        let now = jiff::Timestamp::now();
        let validity = Validity::from_now(now, Duration::from_hours(1));
        let authority = Authority::generate("a", validity).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let names = vec!["node.example".to_owned(), "10.0.0.1".to_owned()];
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.distinguished_name = super::super::name("system:node:a", Some("system:nodes"));
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let asked = requested(&pem).unwrap();
        assert_eq!(asked.subject.common_name, "system:node:a");
        assert_eq!((asked.dns, asked.ips), (vec!["node.example".to_owned()], vec!["10.0.0.1".parse().unwrap()]));
        let signed = authority.sign_as_requested(&pem, &["client auth", "digital signature"], validity).unwrap();
        let chain = super::super::chain_from_pem(&signed).unwrap();
        let trust = super::super::ClientTrust::new(authority.certificate_pem()).unwrap();
        let subject = trust.verify(&chain, now).unwrap();
        assert_eq!(subject.organizations, ["system:nodes"]);
        let serving = authority.sign_as_requested(&pem, &["server auth"], validity).unwrap();
        assert!(trust.verify(&super::super::chain_from_pem(&serving).unwrap(), now).is_err(), "not for clients");
        assert!(requested("nonsense").is_err());
        assert!(authority.sign_as_requested(&pem, &["fishing"], validity).is_err());
    }
}
