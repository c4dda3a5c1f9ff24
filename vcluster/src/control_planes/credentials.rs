//! Whose credentials a request carries, for requests that name no cluster in their path.
//!
//! A client whose server address has a path (`https://HOST:PORT/clusters/NAME`) loses it where it sets the whole path itself: `kubectl get --raw`,
//! `kubectl proxy`, and many a script. Its certificate or service account token still says which cluster it means.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, header};
use serde_json::Value;
use vctl_api::names::EnvironmentName;
use vctl_runtime::pki;

use crate::keys::CLIENT_AUTHORITY;

/// The cluster that issued the client certificate or else the bearer token; none for other credentials. Only a hint where to go:
/// nothing is verified here, the cluster itself authenticates.
pub(super) fn issuer(headers: &HeaderMap, certificates: &[Vec<u8>], issuer_base: &str) -> Option<EnvironmentName> {
    let name = match certificates.first() {
        Some(leaf) => pki::issuer_common_name(leaf).and_then(|name| {
            let (cluster, _) = name.split_once(CLIENT_AUTHORITY)?;
            Some(cluster.to_owned())
        }),
        None => token_issuer(headers, issuer_base),
    };
    name?.parse().ok()
}

fn token_issuer(headers: &HeaderMap, issuer_base: &str) -> Option<String> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let mut parts = token.trim().split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let name = claims["iss"].as_str()?.strip_prefix(issuer_base.trim_end_matches('/'))?.strip_prefix("/clusters/")?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use vctl_runtime::pki::{Authority, Validity};

    use super::*;

    const BASE: &str = "https://127.0.0.1:8443";

    fn leaf(authority: &str) -> Vec<u8> {
        let validity = Validity::from_now(Timestamp::UNIX_EPOCH, std::time::Duration::from_mins(1));
        let authority = Authority::generate(authority, validity).expect("an authority");
        let identity = authority.client("dev-client-ca", None, validity).expect("a certificate");
        pki::chain_from_pem(&identity.certificate_pem).expect("PEM").remove(0)
    }

    fn of_token(claims: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().expect("a header"));
        issuer(&headers, &[], BASE).map(|n| n.to_string())
    }

    #[test]
    fn certificates_and_tokens_name_their_cluster() {
        let none = HeaderMap::new();
        let of = |authority: &str| issuer(&none, &[leaf(authority)], BASE).map(|n| n.to_string());
        assert_eq!(of("my-env-client-ca").as_deref(), Some("my-env"));
        assert_eq!(of("my-env-front-proxy-ca"), None);
        assert_eq!(of("../x-client-ca"), None, "no name of an environment");
        assert_eq!(issuer(&none, &[b"garbage".to_vec()], BASE), None);
        assert_eq!(issuer(&none, &[], BASE), None);
        assert_eq!(of_token(r#"{"iss":"https://127.0.0.1:8443/clusters/dev"}"#).as_deref(), Some("dev"));
        assert_eq!(of_token(r#"{"iss":"https://elsewhere.example/clusters/dev"}"#), None, "another server's");
        assert_eq!(of_token("no JSON"), None);
    }
}
