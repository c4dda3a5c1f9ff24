//! Tokens that must not count.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use axum::{Json, Router, routing::get};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use jiff::Timestamp;
use openidconnect::{
    ClientId, IssuerUrl, JsonWebKeySet,
    core::{CoreIdToken, CoreJsonWebKey},
};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use vctl_runtime::{
    pki::{Authority, Validity},
    serve::{Server, Tls, install_crypto_provider},
    tasks::Tasks,
};

use super::{
    config::{ClaimNames, IssuerConfig},
    local_path,
    provider::{
        Provider, ProviderError,
        tokens::{check, logout_claims, signed_claims},
    },
};

const ISSUER: &str = "https://id.example.com";
const CLIENT: &str = "vctl";
const NOW: i64 = 1_800_000_000;

struct Signer(Ed25519KeyPair);

impl Signer {
    fn new() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("key");
        Self(Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("key"))
    }

    fn keys(&self) -> JsonWebKeySet<CoreJsonWebKey> {
        serde_json::from_value(self.keys_as("1")).expect("keys")
    }

    /// Its public key, by an id, as a provider shows it.
    fn keys_as(&self, id: &str) -> Value {
        let x = BASE64.encode(self.0.public_key().as_ref());
        json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": id, "use": "sig", "alg": "EdDSA", "x": x }] })
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = self.0.sign(signed.as_bytes());
        format!("{signed}.{}", BASE64.encode(signature.as_ref()))
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(NOW).expect("time")
}

fn header() -> Value {
    json!({ "alg": "EdDSA", "kid": "1" })
}

fn id_claims() -> Value {
    json!({ "iss": ISSUER, "aud": CLIENT, "sub": "1", "exp": NOW + 60, "iat": NOW, "nonce": "n" })
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

fn verify(keys: &JsonWebKeySet<CoreJsonWebKey>, token: &str) -> Result<Value, String> {
    let token: CoreIdToken = token.parse().map_err(|e: serde_json::Error| e.to_string())?;
    let issuer = IssuerUrl::new(ISSUER.to_owned()).expect("issuer");
    check(now(), &ClientId::new(CLIENT.to_owned()), issuer, keys, &token, Some("n")).map_err(|e| format!("{e}: {e:?}"))
}

#[test]
fn only_a_genuine_current_id_token_for_us_counts() {
    let signer = Signer::new();
    let keys = signer.keys();
    let good = signer.sign(&header(), &id_claims());
    assert_eq!(verify(&keys, &good).expect("genuine")["sub"], "1");
    let wrong = [
        ("expired", with(id_claims(), "exp", json!(NOW)), "Expired"),
        ("without an end", with(id_claims(), "exp", Value::Null), ""),
        ("for another client", with(id_claims(), "aud", json!("other")), "audience"),
        ("also for another client", with(id_claims(), "aud", json!([CLIENT, "other"])), "audience"),
        ("authorized for another client", with(id_claims(), "azp", json!("other")), "another client"),
        ("of another issuer", with(id_claims(), "iss", json!("https://evil.example.com")), "InvalidIssuer"),
        ("of nearly the issuer", with(id_claims(), "iss", json!("https://id.example.com/")), "InvalidIssuer"),
        ("with another nonce", with(id_claims(), "nonce", json!("m")), "nonce"),
        ("without a nonce", with(id_claims(), "nonce", Value::Null), "nonce"),
    ];
    for (what, claims, why) in wrong {
        let refused = verify(&keys, &signer.sign(&header(), &claims)).expect_err(what);
        assert!(refused.contains(why), "{what}: {refused}");
    }
    verify(&keys, &Signer::new().sign(&header(), &id_claims())).expect_err("of another key");
    verify(&Signer::new().keys(), &good).expect_err("of a key that was taken back");
    let (signed, signature) = good.rsplit_once('.').expect("parts");
    let changed = with(id_claims(), "sub", json!("2"));
    let changed = format!("{}.{}.{signature}", BASE64.encode(header().to_string()), BASE64.encode(changed.to_string()));
    verify(&keys, &changed).expect_err("changed");
    verify(&keys, &format!("{signed}.")).expect_err("without a signature");
}

#[test]
fn neither_none_nor_a_shared_secret_is_an_algorithm() {
    let signer = Signer::new();
    let keys = signer.keys();
    for alg in ["none", "None", "NONE"] {
        let head = BASE64.encode(json!({ "alg": alg }).to_string());
        let token = format!("{head}.{}.", BASE64.encode(id_claims().to_string()));
        verify(&keys, &token).expect_err(alg);
        assert!(signed_claims(&keys, &token).is_err(), "{alg}");
    }
    // What everybody can read as a secret: the public key, and the client's id.
    let secrets = [signer.0.public_key().as_ref().to_vec(), CLIENT.as_bytes().to_vec()];
    for secret in secrets {
        let head = BASE64.encode(json!({ "alg": "HS256", "kid": "1" }).to_string());
        let signed = format!("{head}.{}", BASE64.encode(id_claims().to_string()));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), signed.as_bytes());
        let token = format!("{signed}.{}", BASE64.encode(tag));
        verify(&keys, &token).expect_err("a shared secret");
        assert!(signed_claims(&keys, &token).is_err());
    }
}

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

#[test]
fn only_a_genuine_logout_token_ends_sessions() {
    let signer = Signer::new();
    let keys = signer.keys();
    let claims = || json!({ "iss": ISSUER, "aud": CLIENT, "iat": NOW, "exp": NOW + 60, "jti": "j", "sub": "1", "sid": "s", "events": { EVENT: {} } });
    let logout = |header: &Value, claims: &Value| {
        let claims = signed_claims(&keys, &signer.sign(header, claims))?;
        logout_claims(&claims, ISSUER, CLIENT, now())
    };
    let typed = json!({ "alg": "EdDSA", "kid": "1", "typ": "logout+jwt" });
    let good = logout(&typed, &claims()).expect("genuine");
    assert_eq!((good.subject.as_deref(), good.sid.as_deref()), (Some("1"), Some("s")));
    for (name, value) in [
        ("iss", json!("https://evil.example.com")),
        ("aud", json!("other")),
        ("exp", json!(NOW)),
        ("iat", json!(NOW - 3600)),
        ("iat", Value::Null),
        ("events", json!({})),
        ("events", json!([EVENT])),
        ("nonce", json!("n")),
    ] {
        assert!(logout(&typed, &with(claims(), name, value.clone())).is_err(), "{name}: {value}");
    }
    assert!(logout(&typed, &with(with(claims(), "sub", Value::Null), "sid", Value::Null)).is_err(), "names nobody");
    assert!(logout(&typed, &id_claims()).is_err(), "an ID token");
    assert!(logout(&json!({ "alg": "EdDSA", "kid": "1", "typ": "at+jwt" }), &claims()).is_err(), "an access token");
    assert!(logout(&json!({ "alg": "EdDSA", "kid": "2" }), &claims()).is_err(), "of a key that is not known");
    assert!(
        logout(&json!({ "alg": "EdDSA", "kid": "1", "crit": ["x"] }), &claims()).is_err(),
        "with what nobody understands"
    );
}

#[test]
fn nobody_is_led_to_another_site() {
    for good in
        ["/", "/environments/x?tab=logs", "/oauth/authorize?client_id=vctl&redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2F"]
    {
        assert_eq!(local_path(good), good);
    }
    for bad in [
        "",
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "javascript:alert(1)",
        "/a\nb",
        "/\t/evil.example",
        " /",
        "/ä",
        "evil.example",
    ] {
        assert_eq!(local_path(bad), "/", "{bad}");
    }
}

/// A provider over TLS that shows the keys that are set, counts how often it is asked for them, and is asked by the second.
struct Played {
    provider: Provider,
    issuer: String,
    keys: Arc<Mutex<Value>>,
    asked: Arc<AtomicU32>,
    tasks: Tasks,
}

impl Played {
    async fn start(keys: Value) -> Self {
        install_crypto_provider();
        let validity = Validity::from_now(Timestamp::now(), std::time::Duration::from_hours(1));
        let authority = Authority::generate("provider", validity).expect("authority");
        let identity = authority.server(&["localhost".to_owned()], validity).expect("identity");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let issuer = format!("https://localhost:{}", listener.local_addr().expect("address").port());
        let (keys, asked) = (Arc::new(Mutex::new(keys)), Arc::new(AtomicU32::new(0)));
        let metadata = json!({
            "issuer": issuer, "authorization_endpoint": format!("{issuer}/auth"), "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/jwks"), "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["EdDSA"],
        });
        let shown = {
            let (keys, asked) = (keys.clone(), asked.clone());
            move || {
                asked.fetch_add(1, Ordering::Relaxed);
                std::future::ready(Json(keys.lock().expect("lock").clone()))
            }
        };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(move || std::future::ready(Json(metadata.clone()))))
            .route("/jwks", get(shown));
        let tasks = Tasks::new();
        let tls = Tls::new(&identity.certificate_pem, &identity.key_pem).expect("TLS");
        Server::new(tls, router, tasks.clone()).listen_tcp(listener);
        let config = IssuerConfig {
            url: issuer.clone(),
            title: "Played".to_owned(),
            client_id: CLIENT.to_owned(),
            client_secret: None,
            scopes: None,
            parameters: std::collections::BTreeMap::new(),
            claims: ClaimNames::default(),
            authorities: Some(authority.certificate_pem().as_bytes().to_vec()),
        };
        let provider = Provider::new("played", config, "https://vctl.example.com");
        Self { provider, issuer, keys, asked, tasks }
    }

    /// Whether a logout token that is signed now with a key counts after so many milliseconds.
    async fn believes(&self, signer: &Signer, key: &str, millis: i64) -> bool {
        let at = NOW + millis / 1000;
        let claims = json!({ "iss": self.issuer, "aud": CLIENT, "iat": at, "exp": at + 60, "jti": "j", "sub": "1", "events": { EVENT: {} } });
        let token = signer.sign(&json!({ "alg": "EdDSA", "kid": key, "typ": "logout+jwt" }), &claims);
        let now = Timestamp::from_millisecond(NOW * 1000 + millis).expect("time");
        match self.provider.logout(now, &token).await {
            Ok(_) => true,
            Err(ProviderError::Token(_)) => false,
            Err(e) => panic!("{e}"),
        }
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn keys_that_nobody_knows_are_fetched_but_not_for_every_token() {
    let (old, new) = (Signer::new(), Signer::new());
    let played = Played::start(old.keys_as("old")).await;
    assert!(played.believes(&old, "old", 0).await);
    assert!(!played.believes(&new, "old", 0).await, "another key by a known id");
    assert_eq!(played.asked(), 1, "a wrong signature is no reason to ask");
    *played.keys.lock().expect("lock") = new.keys_as("new");
    // They were just fetched: whoever sends tokens with ids of keys that are nowhere makes no requests of them.
    for millis in 0..50 {
        assert!(!played.believes(&new, "new", millis * 20).await);
    }
    assert_eq!(played.asked(), 1);
    assert!(played.believes(&new, "new", 5000).await, "the provider has rotated its keys");
    assert_eq!(played.asked(), 2);
    assert!(!played.believes(&old, "old", 5001).await, "a key that was taken back");
    let mallory = Signer::new();
    for millis in 0..100 {
        assert!(!played.believes(&mallory, &millis.to_string(), 5000 + millis * 200).await);
        assert!(played.believes(&new, "new", 5000 + millis * 200).await);
    }
    assert!(played.asked() <= 6, "in 20 s once every 5 s: {}", played.asked());
    played.tasks.stop();
}
