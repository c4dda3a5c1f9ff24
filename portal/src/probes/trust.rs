//! Whom a resource's certificate must come from: the authorities of this machine, or those of a bundle that it was registered with.

use ring::digest::{SHA256, digest};
use rustls::{
    CertificateError, RootCertStore,
    pki_types::pem::{PemObject as _, SectionKind},
};

/// Largest bundle in bytes.
pub(crate) const BUNDLE_LIMIT: usize = 64 * 1024;

/// The authorities that count: those of a bundle (PEM), and of this machine only when it is empty.
///
/// # Errors
/// What is wrong with the bundle: too large, no certificate in it, something else than certificates, or one that cannot be read.
pub(crate) fn roots(bundle: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if bundle.is_empty() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    }
    if bundle.len() > BUNDLE_LIMIT {
        return Err(format!("it has {} bytes; at most {BUNDLE_LIMIT} are allowed", bundle.len()));
    }
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(bundle.as_bytes()) {
        let number = roots.len() + 1;
        let (kind, der) = section.map_err(|e| format!("it is not PEM: {e}"))?;
        if kind != SectionKind::Certificate {
            // Above all a private key, which must not be kept where everybody may read it.
            return Err(
                "it has something else than certificates (a private key?): give certificates of authorities only"
                    .to_owned(),
            );
        }
        roots.add(der.into()).map_err(|e| format!("certificate {number} in it cannot be read: {e}"))?;
    }
    if roots.is_empty() {
        return Err("there is no certificate in it: give PEM, which begins with -----BEGIN CERTIFICATE-----".to_owned());
    }
    Ok(roots)
}

/// The SHA-256 of a bundle, by which the audit trail tells one from another; none of no bundle.
pub(crate) fn fingerprint(bundle: &str) -> Option<String> {
    (!bundle.is_empty()).then(|| format!("sha256:{}", hex::encode(digest(&SHA256, bundle.as_bytes()))))
}

/// Why a certificate is not believed, for people.
pub(super) fn why(error: &CertificateError) -> String {
    match error {
        // The last two: there is one of that name, whose key is another.
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "no authority that is trusted has signed it".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "it is not valid yet".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another host name".to_owned()
        }
        other => match format!("{other:?}") {
            // An error of the library that checks certificates, which has no type here.
            text if text.contains("CaUsedAsEndEntity") => {
                "it is the certificate of an authority itself: let that sign one for the server".to_owned()
            }
            text => text,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{
        client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
        pki_types::UnixTime,
    };

    use super::*;

    /// A server that is its own authority, as `openssl req -x509` makes one.
    #[test]
    fn a_server_with_the_certificate_of_an_authority_is_told_what_it_needs() {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("names");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("key");
        let own = params.self_signed(&key).expect("certificate");
        let roots = Arc::new(roots(&own.pem()).expect("it is an authority"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build().expect("a verifier");
        let name = "localhost".try_into().expect("a name");
        let believed = verifier.verify_server_cert(own.der(), &[], &name, &[], UnixTime::now());
        let Err(rustls::Error::InvalidCertificate(error)) = believed else { panic!("{believed:?}") };
        assert_eq!(why(&error), "it is the certificate of an authority itself: let that sign one for the server");
    }

    #[test]
    fn a_bundle_is_certificates_and_nothing_else() {
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("certificate");
        let other = rcgen::generate_simple_self_signed(vec!["db".to_owned()]).expect("certificate");
        assert_eq!(roots(&own.cert.pem()).expect("one").len(), 1);
        assert_eq!(roots(&format!("# ours\n{}\n{}", own.cert.pem(), other.cert.pem())).expect("two").len(), 2);
        let with_key = format!("{}{}", own.cert.pem(), own.signing_key.serialize_pem());
        let garbled = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let cut = own.cert.pem().replace("-----END CERTIFICATE-----", "");
        for (text, expected) in [
            ("nothing", "no certificate"),
            (with_key.as_str(), "a private key?"),
            (garbled, "certificate 1 in it cannot be read"),
            (cut.as_str(), "it is not PEM"),
            (&own.cert.pem().repeat(200), "at most 65536"),
        ] {
            let said = roots(text).expect_err(expected);
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}
