//! A provider in this process, and tokens that are right and wrong in every way.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Json, Router, routing::get};
use http::StatusCode;
use jiff::Timestamp;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::json;
use vctl_runtime::{
    pki::{Authority, TokenKey, Validity},
    serve::{Server, Tls, bind_tcp},
    tasks::Tasks,
};

use super::*;
use crate::{
    Peer,
    config::OutboundAddresses,
    tests::{Fixture, NAME},
};

/// What the provider serves, and how often it was asked.
#[derive(Default)]
struct Served {
    keys: Mutex<Vec<Value>>,
    issuer: Mutex<Option<String>>,
    asked: AtomicUsize,
}

struct Played {
    url: String,
    authority_pem: String,
    served: Arc<Served>,
    key: TokenKey,
    tasks: Tasks,
}

fn jwk(key: &TokenKey, id: &str) -> Value {
    let (x, y) = key.public_point();
    let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
    json!({ "use": "sig", "kty": "EC", "kid": id, "crv": "P-256", "alg": "ES256", "x": x, "y": y })
}

impl Played {
    async fn start() -> Self {
        let validity = Validity::from_now(Timestamp::now(), Duration::from_hours(1));
        let authority = Authority::generate("provider", validity).unwrap();
        let identity = authority.server(&["127.0.0.1".into()], validity).unwrap();
        let tls = Tls::new(&identity.certificate_pem, &identity.key_pem).unwrap();
        let listener = bind_tcp("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let served = Arc::new(Served::default());
        let discovery = {
            let (served, url) = (served.clone(), url.clone());
            move || async move {
                served.asked.fetch_add(1, Ordering::SeqCst);
                let issuer = served.issuer.lock().unwrap().clone().unwrap_or_else(|| url.clone());
                Json(json!({ "issuer": issuer, "jwks_uri": format!("{url}/keys") }))
            }
        };
        let keys = {
            let served = served.clone();
            move || async move { Json(json!({ "keys": *served.keys.lock().unwrap() })) }
        };
        let router = Router::new().route("/.well-known/openid-configuration", get(discovery)).route("/keys", get(keys));
        let tasks = Tasks::new();
        Server::new(tls, router, tasks.clone()).listen_tcp(listener);
        let key = TokenKey::generate().unwrap();
        served.keys.lock().unwrap().push(jwk(&key, "first"));
        Self { url, authority_pem: authority.certificate_pem().to_owned(), served, key, tasks }
    }

    fn configuration(&self, more: Value) -> Value {
        let mut jwt = json!({
            "issuer": { "url": self.url, "audiences": ["kubernetes"], "certificateAuthority": self.authority_pem },
            "claimMappings": {
                "username": { "claim": "sub", "prefix": "oidc:" }, "groups": { "claim": "groups", "prefix": "oidc:" },
            },
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            jwt[field] = value.clone();
        }
        json!({ "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [jwt] })
    }

    /// A token of this provider; `change` says what is other than in a good one.
    fn token(&self, f: &Fixture, change: Value) -> String {
        self.signed(f, &self.key, "first", change)
    }

    fn signed(&self, f: &Fixture, key: &TokenKey, id: &str, change: Value) -> String {
        let now = f.clock.now().as_second();
        let mut claims = json!({
            "iss": self.url, "aud": "kubernetes", "sub": "alice", "groups": ["dev", "all"], "exp": now + 600, "iat": now,
            "email": "alice@example.com", "email_verified": true, "jti": "1",
        });
        for (claim, value) in change.as_object().into_iter().flatten() {
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(claim);
            } else {
                claims[claim] = value.clone();
            }
        }
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(id.to_owned());
        jsonwebtoken::encode(&header, &claims, &EncodingKey::from_ec_pem(key.pem().as_bytes()).unwrap()).unwrap()
    }
}

async fn fixture() -> Fixture {
    Fixture::with(crate::tests::no_streams(), |config| config.outbound = OutboundAddresses::Any).await
}

async fn configure(f: &Fixture, configuration: Value) {
    f.planes.set_authentication(&NAME.parse().unwrap(), Some(configuration)).await.unwrap();
}

/// Who the holder of a token is, by its own SelfSubjectReview.
async fn who(f: &Fixture, token: &str) -> (StatusCode, Value) {
    let headers = [("authorization", &*format!("Bearer {token}"))];
    let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let uri = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (status, answer) = f.send_as(&Peer::default(), &headers, "POST", uri, body).await;
    (status, answer["status"]["userInfo"].clone())
}

#[tokio::test]
async fn a_token_makes_a_user_with_groups() {
    let (f, provider) = (fixture().await, Played::start().await);
    let token = provider.token(&f, json!({}));
    assert_eq!(who(&f, &token).await.0, StatusCode::UNAUTHORIZED, "nobody has configured it");
    configure(&f, provider.configuration(json!({}))).await;
    let (status, user) = who(&f, &token).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(
        user,
        json!({
            "username": "oidc:alice", "groups": ["oidc:dev", "oidc:all", "system:authenticated"],
            "extra": { "authentication.kubernetes.io/credential-id": ["JTI=1"] },
        })
    );
    // Rights go by those names.
    let headers = [("authorization", &*format!("Bearer {token}"))];
    let maps = "/api/v1/namespaces/default/configmaps";
    let list = async || f.send_as(&Peer::default(), &headers, "GET", maps, Value::Null).await.0;
    assert_eq!(list().await, StatusCode::FORBIDDEN);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "dev" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "oidc:dev" }],
    });
    f.ok("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding).await;
    assert_eq!(list().await, StatusCode::OK);
    // A TokenReview tells the same; such a token is for this server only.
    let review = async |audiences: Value| {
        let spec = json!({ "token": token, "audiences": audiences });
        let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec });
        f.ok("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body).await["status"].clone()
    };
    let own = "https://127.0.0.1:6443/clusters/dev";
    let status = review(json!([])).await;
    assert_eq!((&status["user"]["username"], &status["audiences"]), (&json!("oidc:alice"), &json!([own])));
    assert_eq!(review(json!(["vault", own])).await["audiences"], json!([own]));
    assert_ne!(review(json!(["vault"])).await["authenticated"], true);
    f.planes.set_authentication(&NAME.parse().unwrap(), None).await.unwrap();
    assert_eq!(who(&f, &token).await.0, StatusCode::UNAUTHORIZED);
    assert!(provider.tasks.shutdown(Duration::from_secs(10)).await);
}

#[tokio::test]
async fn tokens_that_are_wrong_are_refused() {
    let (f, provider) = (fixture().await, Played::start().await);
    configure(&f, provider.configuration(json!({}))).await;
    let now = f.clock.now().as_second();
    for (change, accepted) in [
        (json!({}), true),
        (json!({ "exp": now }), false),
        (json!({ "exp": null }), false),
        (json!({ "nbf": now + 299 }), true),
        (json!({ "nbf": now + 301 }), false),
        (json!({ "aud": ["other", "kubernetes"] }), true),
        (json!({ "aud": ["other"] }), false),
        (json!({ "aud": null }), false),
        (json!({ "iss": "https://elsewhere.example" }), false),
        (json!({ "sub": null }), false),
        (json!({ "sub": "" }), false),
        (json!({ "groups": "one" }), true),
        (json!({ "groups": null }), true),
        (json!({ "groups": [1] }), false),
    ] {
        let (status, _) = who(&f, &provider.token(&f, change.clone())).await;
        assert_eq!(status == StatusCode::CREATED, accepted, "{change}: {status}");
        assert!(accepted || status == StatusCode::UNAUTHORIZED, "{change}: {status}");
    }
    // Signed by somebody else, with nothing, or with the public key as a secret.
    let other = TokenKey::generate().unwrap();
    assert_eq!(who(&f, &provider.signed(&f, &other, "first", json!({}))).await.0, StatusCode::UNAUTHORIZED);
    let good = provider.token(&f, json!({}));
    let mut parts = good.split('.').map(ToOwned::to_owned).collect::<Vec<_>>();
    parts[0] = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    parts[2] = String::new();
    assert_eq!(who(&f, &parts.join(".")).await.0, StatusCode::UNAUTHORIZED);
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(&parts[1]).unwrap()).unwrap();
    let secret = EncodingKey::from_secret(&provider.key.public_der());
    let forged = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &secret).unwrap();
    assert_eq!(who(&f, &forged).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn keys_are_fetched_when_they_are_needed() {
    let (f, provider) = (fixture().await, Played::start().await);
    configure(&f, provider.configuration(json!({}))).await;
    let asked = || provider.served.asked.load(Ordering::SeqCst);
    assert_eq!(asked(), 0);
    let good = provider.token(&f, json!({}));
    for _ in 0..3 {
        assert_eq!(who(&f, &good).await.0, StatusCode::CREATED);
    }
    assert_eq!(asked(), 1);
    // The provider takes another key; a token that names it has it fetched, but not more often than once a second.
    let second = TokenKey::generate().unwrap();
    provider.served.keys.lock().unwrap().push(jwk(&second, "second"));
    let new = provider.signed(&f, &second, "second", json!({}));
    let begun = std::time::Instant::now();
    while who(&f, &new).await.0 != StatusCode::CREATED {
        assert!(begun.elapsed() < Duration::from_secs(30), "the new key is not fetched");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(asked(), 2);
    for _ in 0..20 {
        let unknown = provider.signed(&f, &second, "nobody", json!({}));
        assert_eq!(who(&f, &unknown).await.0, StatusCode::UNAUTHORIZED);
    }
    assert!(asked() as u64 <= 3 + begun.elapsed().as_secs(), "{}", asked());
    // Away: what is known goes on.
    assert!(provider.tasks.shutdown(Duration::from_secs(10)).await);
    assert_eq!(who(&f, &good).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn a_provider_must_be_whom_it_says_and_where_it_may_be() {
    let (f, provider) = (fixture().await, Played::start().await);
    *provider.served.issuer.lock().unwrap() = Some("https://elsewhere.example".into());
    configure(&f, provider.configuration(json!({}))).await;
    let token = provider.token(&f, json!({}));
    assert_eq!(who(&f, &token).await.0, StatusCode::UNAUTHORIZED, "another issuer's document");
    *provider.served.issuer.lock().unwrap() = None;
    let mut stranger = provider.configuration(json!({}));
    stranger["jwt"][0]["issuer"]["certificateAuthority"] =
        Authority::generate("x", Validity::from_now(Timestamp::now(), Duration::from_hours(1)))
            .unwrap()
            .certificate_pem()
            .into();
    configure(&f, stranger).await;
    assert_eq!(who(&f, &token).await.0, StatusCode::UNAUTHORIZED, "another authority's certificate");
    // By default nothing of the server's own network is dialled.
    let closed = Fixture::new().await;
    configure(&closed, provider.configuration(json!({}))).await;
    assert_eq!(who(&closed, &provider.token(&closed, json!({}))).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(who(&f, "not.a.token").await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn claims_are_mapped_and_checked_by_expressions() {
    let (f, provider) = (fixture().await, Played::start().await);
    configure(
        &f,
        provider.configuration(json!({
            "claimMappings": {
                "username": { "expression": "claims.email_verified ? claims.email : 'unverified:' + claims.sub" },
                "groups": { "expression": "claims.groups.filter(g, g != 'all').map(g, 'team-' + g)" },
                "uid": { "claim": "sub" },
                "extra": [{ "key": "example.com/tenant", "valueExpression": "claims.tenant" }],
            },
            "claimValidationRules": [
                { "claim": "tenant", "requiredValue": "acme" },
                { "expression": "claims.exp - claims.iat <= 3600", "message": "tokens live an hour at most" },
            ],
            "userValidationRules": [{ "expression": "!user.username.startsWith('system:')", "message": "reserved" }],
        })),
    )
    .await;
    let (status, user) = who(&f, &provider.token(&f, json!({ "tenant": "acme" }))).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!((&user["username"], &user["uid"]), (&json!("alice@example.com"), &json!("alice")));
    assert_eq!(user["groups"], json!(["team-dev", "system:authenticated"]));
    assert_eq!(user["extra"]["example.com/tenant"], json!(["acme"]));
    let later = f.clock.now().as_second() + 4000;
    for wrong in [
        json!({}),
        json!({ "tenant": "other" }),
        json!({ "tenant": "acme", "exp": later }),
        json!({ "tenant": "acme", "email": "system:admin" }),
        json!({ "tenant": "acme", "groups": null }),
    ] {
        let (status, user) = who(&f, &provider.token(&f, wrong.clone())).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{wrong}: {user}");
    }
}

#[test]
fn what_is_wrong_with_a_configuration_is_said() {
    let good = json!({
        "issuer": { "url": "https://i.example", "audiences": ["a"] },
        "claimMappings": { "username": { "claim": "sub", "prefix": "" } },
    });
    let errors = |pointer: &str, value: Value| -> String {
        let mut jwt = good.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let parent = if parent.is_empty() { &mut jwt } else { jwt.pointer_mut(parent).unwrap() };
        parent[field] = value;
        let document =
            json!({ "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [jwt] });
        config::compile(&document).map(|_| String::new()).unwrap_or_else(|errors| errors.join("; "))
    };
    assert_eq!(errors("/issuer/url", "https://i.example".into()), "");
    for (pointer, value, wanted) in [
        (
            "/issuer/url",
            json!("http://i.example"),
            "jwt[0].issuer.url: Invalid value: \"http://i.example\": URL scheme must be https",
        ),
        ("/issuer/url", json!(""), "jwt[0].issuer.url: Required value: URL is required"),
        ("/issuer/audiences", json!([]), "at least one issuer.audiences is required"),
        ("/issuer/audiences", json!(["a", "b"]), "audienceMatchPolicy must be MatchAny for multiple audiences"),
        ("/issuer/certificateAuthority", json!("nonsense"), "jwt[0].issuer.certificateAuthority: Invalid value"),
        ("/issuer/egressSelectorType", json!("cluster"), "unknown field `egressSelectorType`"),
        (
            "/claimMappings/username",
            json!({}),
            "jwt[0].claimMappings.username: Required value: claim or expression is required",
        ),
        ("/claimMappings/username", json!({ "claim": "sub" }), "prefix is required when claim is set"),
        ("/claimMappings/username", json!({ "expression": "claims.email" }), "claims.email_verified must be used"),
        ("/claimMappings/username", json!({ "expression": "claims." }), "compilation failed"),
        ("/claimMappings/extra", json!([{ "key": "foo", "valueExpression": "'x'" }]), "must be a domain-prefixed path"),
        (
            "/claimMappings/extra",
            json!([{ "key": "a.k8s.io/x", "valueExpression": "'x'" }]),
            "reserved for Kubernetes use",
        ),
        ("/claimValidationRules", json!([{}]), "claim or expression is required"),
        ("/claimValidationRules", json!([{ "expression": "1 + 1" }]), "must evaluate to bool"),
        ("/userValidationRules", json!([{ "expression": "user.nome == ''" }]), "compilation failed"),
    ] {
        let found = errors(pointer, value.clone());
        assert!(found.contains(wanted), "{pointer} {value}: {found}");
    }
    let wrong = json!({ "apiVersion": "v1", "kind": "AuthenticationConfiguration" });
    assert!(config::compile(&wrong).is_err_and(|e| e[0].contains("apiserver.config.k8s.io/v1")));
    let twice = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [good, good],
    });
    assert!(config::compile(&twice).is_err_and(|e| e[0].contains("jwt[1].issuer.url: Duplicate value")));
}
