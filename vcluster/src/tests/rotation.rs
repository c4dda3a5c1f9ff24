//! Another certificate authority for a cluster, and what renews itself.

use std::time::Duration;

use vctl_runtime::pki::ClientTrust;

use super::*;

const NAMESPACES: &str = "/api/v1/namespaces";

fn name() -> EnvironmentName {
    EnvironmentName::new(NAME).unwrap()
}

async fn status(f: &Fixture, peer: &Peer) -> StatusCode {
    f.send_as(peer, &[], "GET", NAMESPACES, Value::Null).await.0
}

async fn roots(f: &Fixture, namespace: &str) -> String {
    let map = f.ok("GET", &format!("{NAMESPACES}/{namespace}/configmaps/kube-root-ca.crt"), Value::Null).await;
    map["data"]["ca.crt"].as_str().unwrap().to_owned()
}

fn certificates(pem: &str) -> usize {
    pem.matches("BEGIN CERTIFICATE").count()
}

/// Who is asked as the administrator of the fixture is of the present authority.
async fn renewed(f: &mut Fixture) -> Peer {
    std::mem::replace(&mut f.admin, peer(&f.planes, &name()).await)
}

#[tokio::test]
async fn old_and_new_certificates_work_until_the_overlap_ends() {
    let mut f = Fixture::new().await;
    let before = roots(&f, "default").await;
    f.planes.announce_authority(&name(), false).await.unwrap();
    f.planes.announce_authority(&name(), false).await.unwrap();
    f.planes.publish_roots(&name()).await.unwrap();
    let both = roots(&f, "default").await;
    assert_eq!((certificates(&both), roots(&f, "kube-system").await), (2, both.clone()));
    assert!(both.starts_with(&before));
    let old = renewed(&mut f).await;
    assert_eq!(status(&f, &old).await, StatusCode::OK, "the old authority signs until the switch");

    f.planes.switch_authority(&name(), Duration::from_hours(1)).await.unwrap();
    f.planes.switch_authority(&name(), Duration::from_hours(1)).await.unwrap();
    let old = renewed(&mut f).await;
    assert_eq!((status(&f, &old).await, status(&f, &f.admin).await), (StatusCode::OK, StatusCode::OK));
    let uri = format!("{NAMESPACES}/kube-system/configmaps/extension-apiserver-authentication");
    let authentication = f.ok("GET", &uri, Value::Null).await;
    for bundle in ["client-ca-file", "requestheader-client-ca-file"] {
        assert_eq!(certificates(authentication["data"][bundle].as_str().unwrap()), 2, "{bundle}");
    }
    let again = f.planes.announce_authority(&name(), false).await.unwrap_err();
    assert!(again.code == 409 && again.message.contains("vctl rotate-ca dev --now"), "{again}");

    f.clock.advance(3599);
    assert_eq!(status(&f, &old).await, StatusCode::OK);
    f.clock.advance(1);
    assert_eq!(status(&f, &old).await, StatusCode::UNAUTHORIZED, "nobody had to do anything");
    assert_eq!(status(&f, &f.admin).await, StatusCode::OK);
    f.planes.publish_roots(&name()).await.unwrap();
    assert_eq!(certificates(&roots(&f, "default").await), 1);
    assert_ne!(roots(&f, "default").await, before);
    let authentication = f.ok("GET", &uri, Value::Null).await;
    assert_eq!(certificates(authentication["data"]["requestheader-client-ca-file"].as_str().unwrap()), 1);
}

#[tokio::test]
async fn at_once_the_old_certificates_are_worth_nothing() {
    let mut f = Fixture::new().await;
    f.planes.announce_authority(&name(), true).await.unwrap();
    f.planes.publish_roots(&name()).await.unwrap();
    f.planes.switch_authority(&name(), Duration::ZERO).await.unwrap();
    f.planes.drop_authority(&name()).await.unwrap();
    let old = renewed(&mut f).await;
    assert_eq!((status(&f, &old).await, status(&f, &f.admin).await), (StatusCode::UNAUTHORIZED, StatusCode::OK));

    // An overlap that is under way is ended, with no third authority.
    f.planes.announce_authority(&name(), false).await.unwrap();
    f.planes.switch_authority(&name(), Duration::from_hours(24)).await.unwrap();
    let old = renewed(&mut f).await;
    f.planes.announce_authority(&name(), true).await.unwrap();
    f.planes.switch_authority(&name(), Duration::ZERO).await.unwrap();
    assert_eq!(status(&f, &old).await, StatusCode::OK);
    f.planes.drop_authority(&name()).await.unwrap();
    assert_eq!((status(&f, &old).await, status(&f, &f.admin).await), (StatusCode::UNAUTHORIZED, StatusCode::OK));
}

/// Which certificate pods are served with, as the connection of one would see it.
async fn in_cluster(f: &Fixture) -> Vec<u8> {
    use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
    use vctl_runtime::serve::{Peer as From, Server};

    let tls = f.planes.in_cluster_tls(NAME).await.unwrap().unwrap();
    let tasks = Tasks::new();
    let server = Server::new(tls, axum::Router::new(), tasks.clone());
    let (near, far) = tokio::io::duplex(1 << 16);
    tasks.spawn("pod", async move { server.serve(far, From::Unix).await });
    let mut store = rustls::RootCertStore::empty();
    let pem = roots(f, "default").await;
    for certificate in CertificateDer::pem_slice_iter(pem.trim_start_matches("CA\n").as_bytes()) {
        store.add(certificate.unwrap()).unwrap();
    }
    let provider = vctl_runtime::serve::crypto_provider();
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(At(verifier.build().unwrap(), f.clock.now())))
        .with_no_client_auth();
    let name = ServerName::try_from("kubernetes.default.svc").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, near).await.unwrap();
    let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    drop(stream);
    tasks.shutdown(Duration::from_secs(10)).await;
    certificate
}

/// Verifies by the clock of the test.
#[derive(Debug)]
struct At(Arc<rustls::client::WebPkiServerVerifier>, jiff::Timestamp);

impl rustls::client::danger::ServerCertVerifier for At {
    fn verify_server_cert(
        &self,
        leaf: &rustls::pki_types::CertificateDer<'_>,
        issuers: &[rustls::pki_types::CertificateDer<'_>],
        name: &rustls::pki_types::ServerName<'_>,
        ocsp: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        let at = Duration::from_secs(self.1.as_second().unsigned_abs());
        self.0.verify_server_cert(leaf, issuers, name, ocsp, rustls::pki_types::UnixTime::since_unix_epoch(at))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[tokio::test]
async fn pods_see_a_certificate_that_their_roots_lead_to_at_any_time() {
    let mut f = Fixture::new().await;
    let first = in_cluster(&f).await;
    assert_eq!(in_cluster(&f).await, first);
    // Renewed after two thirds of 90 days, while the cluster is in memory and after it was forgotten.
    f.clock.advance(61 * 24 * 3600);
    let second = in_cluster(&f).await;
    assert_ne!(second, first);

    f.planes.announce_authority(&name(), false).await.unwrap();
    f.planes.publish_roots(&name()).await.unwrap();
    // The roots of before and after lead to what is served in between.
    in_cluster(&f).await;
    f.planes.switch_authority(&name(), Duration::from_hours(1)).await.unwrap();
    renewed(&mut f).await;
    let third = in_cluster(&f).await;
    assert_ne!(third, second);
    f.planes.drop_authority(&name()).await.unwrap();
    f.planes.publish_roots(&name()).await.unwrap();
    in_cluster(&f).await;
}

async fn token(f: &Fixture, seconds: i64) -> String {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": seconds },
    });
    let answer = f.ok("POST", &format!("{NAMESPACES}/default/serviceaccounts/default/token"), request).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

async fn counts(f: &Fixture, token: &str) -> bool {
    let headers = [("authorization", &*format!("Bearer {token}"))];
    let (status, _) = f.send_as(&Peer::default(), &headers, "GET", "/api", Value::Null).await;
    assert!(status == StatusCode::OK || status == StatusCode::UNAUTHORIZED);
    status == StatusCode::OK
}

async fn keys(f: &Fixture) -> Vec<Value> {
    let keys = f.ok("GET", "/openid/v1/jwks", Value::Null).await;
    keys["keys"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_key_of_tokens_is_renewed_and_old_tokens_go_on() {
    let mut f = Fixture::new().await;
    let long = token(&f, 200 * 24 * 3600).await;
    let first = keys(&f).await;
    assert_eq!(first.len(), 1);
    f.clock.advance(89 * 24 * 3600);
    token(&f, 3600).await;
    assert_eq!(keys(&f).await, first, "not before 90 days");
    f.clock.advance(2 * 24 * 3600);
    // The token that finds the key old still has it; those after it do not.
    let last = token(&f, 3600).await;
    let next = token(&f, 3600).await;
    let now = keys(&f).await;
    assert_eq!((now.len(), &now[1]), (2, &first[0]));
    for token in [&long, &last, &next] {
        assert!(counts(&f, token).await);
    }
    // Long after its last token is over, the old key is forgotten.
    f.clock.advance(366 * 24 * 3600);
    renewed(&mut f).await;
    assert!(!counts(&f, &long).await);
    let now = keys(&f).await;
    assert!(now.len() == 1 && now[0] != first[0], "{now:?}");
}

#[tokio::test]
async fn a_key_is_believed_as_long_as_its_longest_token_lives() {
    let mut f = Fixture::new().await;
    let decade = 10 * 365 * 24 * 3600;
    let long = token(&f, decade).await;
    f.clock.advance(91 * 24 * 3600);
    token(&f, 3600).await;
    f.clock.advance(9 * 365 * 24 * 3600);
    renewed(&mut f).await;
    assert!(counts(&f, &long).await);
    assert_eq!(keys(&f).await.len(), 2);
}

#[tokio::test]
async fn what_aggregated_apis_see_is_renewed() {
    let f = Fixture::new().await;
    let plane = f.planes.plane(NAME).await.unwrap();
    let first = plane.front_proxy().await.unwrap();
    assert_eq!(plane.front_proxy().await.unwrap(), first);
    f.clock.advance(7 * 365 * 24 * 3600);
    let second = plane.front_proxy().await.unwrap();
    assert_ne!(second, first);
    let uri = format!("{NAMESPACES}/kube-system/configmaps/extension-apiserver-authentication");
    let f = Fixture { admin: peer(&f.planes, &name()).await, ..f };
    let map = f.ok("GET", &uri, Value::Null).await;
    let believed = ClientTrust::new(map["data"]["requestheader-client-ca-file"].as_str().unwrap()).unwrap();
    for identity in [first, second] {
        believed.verify(&chain_from_pem(&identity.certificate_pem).unwrap(), f.clock.now()).unwrap();
    }
}
