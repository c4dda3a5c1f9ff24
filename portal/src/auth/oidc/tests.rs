//! Tokens that must not count.

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

use super::{
    local_path,
    provider::tokens::{check, logout_claims, signed_claims},
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
        let x = BASE64.encode(self.0.public_key().as_ref());
        let keys =
            json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "1", "use": "sig", "alg": "EdDSA", "x": x }] });
        serde_json::from_value(keys).expect("keys")
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

#[test]
fn only_a_genuine_logout_token_ends_sessions() {
    const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
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
