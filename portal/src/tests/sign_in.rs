//! Logins of the command line, API keys and tokens for environments, without an issuer.

use axum::body::Body;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use vctl_store::{Expect, Tenant};

use crate::{auth::users::UserDoc, documents::put, testing::World};

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const REDIRECT: &str = "http://127.0.0.1:4711/callback";

async fn send(world: &World, request: Request<Body>) -> (StatusCode, String) {
    let response = world.send(request).await;
    let status = response.status();
    let bytes = response.into_body().collect().await.expect("body").to_bytes();
    (status, String::from_utf8(bytes.to_vec()).expect("text"))
}

async fn with_token(world: &World, token: &str, method: &str, path: &str, body: Option<Value>) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(path).header("authorization", format!("Bearer {token}"));
    let body = match body {
        Some(body) => request.header("content-type", "application/json").body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    };
    let (status, text) = send(world, body.expect("request")).await;
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

async fn form(world: &World, path: &str, cookie: Option<&str>, fields: &[(&str, &str)]) -> (StatusCode, String) {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let mut request = Request::post(path).header("content-type", "application/x-www-form-urlencoded");
    if let Some(cookie) = cookie {
        request = request.header("cookie", cookie);
    }
    send(world, request.body(Body::from(body)).expect("request")).await
}

async fn page(world: &World, path: &str, cookie: &str) -> (StatusCode, String) {
    send(world, Request::get(path).header("cookie", cookie).body(Body::empty()).expect("request")).await
}

/// A browser that the local administrator has signed in.
async fn browser(world: &World) -> String {
    let link = world.portal.login_link().await.expect("link").url;
    let path = link.strip_prefix("https://127.0.0.1:8443").expect("ours").to_owned();
    let response = world.send(Request::get(path).body(Body::empty()).expect("request")).await;
    let cookie = response.headers().get("set-cookie").and_then(|v| v.to_str().ok()).expect("cookie");
    cookie.split(';').next().expect("pair").to_owned()
}

fn hidden(page: &str, name: &str) -> String {
    let mark = format!("name=\"{name}\" value=\"");
    page.split(&mark).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}

/// Adds somebody as an issuer would have.
async fn add_user(world: &World, id: &str, groups: &[&str]) {
    let now = world.clock.now();
    let user = UserDoc {
        id: id.to_owned(),
        issuer: "corp".to_owned(),
        subject: id.to_owned(),
        actor: format!("{id}@example.com"),
        name: id.to_owned(),
        email: Some(format!("{id}@example.com")),
        groups: groups.iter().map(|g| (*g).to_owned()).collect(),
        created_at: now,
        last_sign_in: now,
        disabled: false,
    };
    world.store.transact(Tenant::SYSTEM, vec![put(&user, Expect::Any).expect("document")]).await.expect("stored");
}

fn authorize_path() -> String {
    let challenge = BASE64.encode(Sha256::digest(VERIFIER));
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("client_id", "vctl"),
            ("response_type", "code"),
            ("redirect_uri", REDIRECT),
            ("state", "st"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("client_name", "box<script>"),
        ])
        .finish();
    format!("/oauth/authorize?{query}")
}

/// A code for the command line, as a click on the page gives it.
async fn code(world: &World, cookie: &str) -> String {
    let (status, asked) = page(world, &authorize_path(), cookie).await;
    assert!(status == StatusCode::OK && asked.contains("box&lt;script&gt;"), "{asked}");
    let names = [
        "client_id",
        "response_type",
        "redirect_uri",
        "state",
        "code_challenge",
        "code_challenge_method",
        "client_name",
        "csrf",
    ];
    let values: Vec<(String, String)> = names
        .iter()
        .map(|n| ((*n).to_owned(), hidden(&asked, n).replace("&lt;", "<").replace("&gt;", ">").replace("&#x2f;", "/")))
        .collect();
    let mut fields: Vec<(&str, &str)> = values.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    fields.push(("decision", "allow"));
    let forged: Vec<_> = fields.iter().copied().filter(|(n, _)| *n != "csrf").collect();
    assert_eq!(
        form(world, "/oauth/authorize", Some(cookie), &forged).await.0,
        StatusCode::FORBIDDEN,
        "without its token"
    );
    let (status, answer) = form(world, "/oauth/authorize", Some(cookie), &fields).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let answer = answer.replace("&#x2f;", "/").replace("&amp;", "&");
    let target = answer.split("url=").nth(1).and_then(|r| r.split('"').next()).expect("target").to_owned();
    let target: url::Url = target.parse().expect("url");
    let of =
        |name: &str| target.query_pairs().find(|(n, _)| n == name).map(|(_, v)| v.into_owned()).expect("parameter");
    assert_eq!((of("state").as_str(), of("iss").as_str()), ("st", "https://127.0.0.1:8443"));
    assert!(target.as_str().starts_with(REDIRECT), "{target}");
    of("code")
}

async fn exchange(world: &World, code: &str, verifier: &str, redirect: &str) -> (StatusCode, Value) {
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", "vctl"),
        ("code", code),
        ("code_verifier", verifier),
        ("redirect_uri", redirect),
    ];
    let (status, text) = form(world, "/oauth/token", None, &fields).await;
    (status, serde_json::from_str(&text).expect("JSON"))
}

async fn refresh(world: &World, token: &str) -> (StatusCode, Value) {
    let fields = [("grant_type", "refresh_token"), ("client_id", "vctl"), ("refresh_token", token)];
    let (status, text) = form(world, "/oauth/token", None, &fields).await;
    (status, serde_json::from_str(&text).expect("JSON"))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_code_is_good_once_with_its_verifier_and_address() {
    let world = World::at_fixed_time();
    let cookie = browser(&world).await;
    let bad = authorize_path().replace("127.0.0.1%3A4711", "evil.example");
    let (status, answer) = page(&world, &bad, &cookie).await;
    assert!(status == StatusCode::BAD_REQUEST && !answer.contains("Allow"), "{answer}");

    for (verifier, redirect) in [("guess", REDIRECT), (VERIFIER, "http://127.0.0.1:1/callback")] {
        let code = code(&world, &cookie).await;
        assert_eq!(text(&exchange(&world, &code, verifier, redirect).await.1, "error"), "invalid_grant");
    }
    let late = code(&world, &cookie).await;
    world.clock.advance(61);
    assert_eq!(text(&exchange(&world, &late, VERIFIER, REDIRECT).await.1, "error"), "invalid_grant");

    let code = code(&world, &cookie).await;
    let (status, tokens) = exchange(&world, &code, VERIFIER, REDIRECT).await;
    assert_eq!(status, StatusCode::OK, "{tokens}");
    let access = text(&tokens, "access_token");
    let (status, me) = with_token(&world, access, "GET", "/api/v1/identity", None).await;
    assert_eq!((status, text(&me, "user"), text(&me, "credential")), (StatusCode::OK, "local-admin", "access-token"));
    assert_eq!(text(&exchange(&world, &code, VERIFIER, REDIRECT).await.1, "error"), "invalid_grant");
    let status = with_token(&world, access, "GET", "/api/v1/identity", None).await.0;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "a code that comes twice ends what it gave");
}

#[tokio::test]
async fn a_refresh_token_is_good_once_and_its_theft_ends_the_login() {
    let world = World::at_fixed_time();
    let cookie = browser(&world).await;
    let first = exchange(&world, &code(&world, &cookie).await, VERIFIER, REDIRECT).await.1;
    world.clock.advance(601);
    let status = with_token(&world, text(&first, "access_token"), "GET", "/api/v1/identity", None).await.0;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "an access token is good for ten minutes");
    let (status, second) = refresh(&world, text(&first, "refresh_token")).await;
    assert_eq!(status, StatusCode::OK, "{second}");
    assert_eq!(
        with_token(&world, text(&second, "access_token"), "GET", "/api/v1/identity", None).await.0,
        StatusCode::OK
    );
    // Two commands at once: the second one gets along without a refresh token.
    let (status, together) = refresh(&world, text(&first, "refresh_token")).await;
    assert_eq!((status, &together["refresh_token"]), (StatusCode::OK, &Value::Null));
    world.clock.advance(31);
    assert_eq!(text(&refresh(&world, text(&first, "refresh_token")).await.1, "error"), "invalid_grant");
    assert_eq!(
        text(&refresh(&world, text(&second, "refresh_token")).await.1, "error"),
        "invalid_grant",
        "the login has ended"
    );
    let status = with_token(&world, text(&second, "access_token"), "GET", "/api/v1/identity", None).await.0;
    assert_eq!(status, StatusCode::UNAUTHORIZED);

    let other = exchange(&world, &code(&world, &cookie).await, VERIFIER, REDIRECT).await.1;
    let fields = [("client_id", "vctl"), ("token", text(&other, "refresh_token"))];
    assert_eq!(form(&world, "/oauth/revoke", None, &fields).await.0, StatusCode::OK);
    let status = with_token(&world, text(&other, "access_token"), "GET", "/api/v1/identity", None).await.0;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "signed out");
}

#[tokio::test]
async fn a_device_waits_for_a_person() {
    const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
    let world = World::at_fixed_time();
    let cookie = browser(&world).await;
    let begin = async || -> Value {
        let fields = [("client_id", "vctl"), ("client_name", "box")];
        serde_json::from_str(&form(&world, "/oauth/device_authorization", None, &fields).await.1).expect("JSON")
    };
    let ask = async |device: &Value| -> Value {
        let fields = [("grant_type", GRANT), ("client_id", "vctl"), ("device_code", text(device, "device_code"))];
        serde_json::from_str(&form(&world, "/oauth/token", None, &fields).await.1).expect("JSON")
    };
    let decide = async |device: &Value, decision: &str| {
        let typed = text(device, "user_code").to_lowercase().replace('-', "");
        let (_, asked) = page(&world, &format!("/device?user_code={typed}"), &cookie).await;
        assert!(asked.contains("box"), "{asked}");
        let csrf = hidden(&asked, "csrf");
        let fields = [("user_code", typed.as_str()), ("decision", decision), ("csrf", &csrf)];
        assert_eq!(
            form(&world, "/device", Some(&cookie), &[("user_code", &typed), ("decision", decision)]).await.0,
            StatusCode::FORBIDDEN
        );
        assert_eq!(form(&world, "/device", Some(&cookie), &fields).await.0, StatusCode::OK);
    };
    let device = begin().await;
    assert_eq!(text(&ask(&device).await, "error"), "authorization_pending");
    assert_eq!(text(&ask(&device).await, "error"), "slow_down");
    decide(&device, "allow").await;
    let tokens = ask(&device).await;
    assert_eq!(
        with_token(&world, text(&tokens, "access_token"), "GET", "/api/v1/identity", None).await.0,
        StatusCode::OK,
        "{tokens}"
    );
    assert_eq!(text(&ask(&device).await, "error"), "invalid_grant", "good once");
    let token = text(&tokens, "access_token");
    let (_, logins) = with_token(&world, token, "GET", "/api/v1/logins?q=BOX", None).await;
    let login = &logins["items"][0];
    assert_eq!((&login["client"], &login["current"]), (&json!("box"), &json!(true)), "{logins}");
    let path = format!("/api/v1/logins/{}", text(login, "id"));
    let other = world.sign_in("other", &[]).await;
    assert_eq!(world.call_as(Some(&other), "DELETE", &path, None).await.0, StatusCode::NOT_FOUND, "it is not theirs");
    assert_eq!(world.call_as(Some(&other), "GET", "/api/v1/logins?all", None).await.0, StatusCode::FORBIDDEN);
    assert_eq!(with_token(&world, token, "DELETE", &path, None).await.0, StatusCode::NO_CONTENT);
    assert_eq!(with_token(&world, token, "GET", "/api/v1/identity", None).await.0, StatusCode::UNAUTHORIZED);
    let (_, audit) = world.call("GET", "/api/v1/audit?action=login.delete", None).await;
    assert_eq!(audit["items"][0]["detail"]["client"], "box", "{audit}");

    let refused = begin().await;
    decide(&refused, "deny").await;
    assert_eq!(text(&ask(&refused).await, "error"), "access_denied");
    let late = begin().await;
    world.clock.advance(601);
    assert_eq!(text(&ask(&late).await, "error"), "expired_token");
    assert!(
        page(&world, &format!("/device?user_code={}", text(&late, "user_code")), &cookie)
            .await
            .1
            .contains("No machine")
    );
}

async fn key(world: &World, scopes: Value) -> (String, String) {
    let expires = (world.clock.now() + jiff::SignedDuration::from_hours(24)).to_string();
    let request = json!({"name": "ci", "scopes": scopes, "expiresAt": expires});
    let (status, key) = world.call("POST", "/api/v1/api-keys", Some(request)).await;
    assert_eq!(status, StatusCode::CREATED, "{key}");
    (text(&key, "id").to_owned(), text(&key, "token").to_owned())
}

#[tokio::test]
async fn an_api_key_does_what_its_scopes_say_until_it_ends() {
    let world = World::at_fixed_time();
    world.create("one", "blank").await;
    world.create("two", "blank").await;
    let ask = async |token: &str, method: &str, path: &str| with_token(&world, token, method, path, None).await.0;
    let (id, read) = key(&world, json!({"verbs": ["read"]})).await;
    assert!(read.starts_with("vctl_key_"));
    assert_eq!(ask(&read, "GET", "/api/v1/environments/one").await, StatusCode::OK);
    for (method, path) in [
        ("DELETE", "/api/v1/environments/one"),
        ("POST", "/api/v1/api-keys"),
        ("GET", "/api/v1/users"),
        ("POST", "/api/v1/login-links"),
        ("GET", "/device"),
    ] {
        assert_eq!(ask(&read, method, path).await, StatusCode::FORBIDDEN, "{method} {path}");
    }
    let (_, one) = key(&world, json!({"verbs": ["read", "write"], "environment": "one"})).await;
    assert_eq!(ask(&one, "GET", "/api/v1/environments/one").await, StatusCode::OK);
    for path in ["/api/v1/environments/two", "/api/v1/environments/two/kubeconfig", "/api/v1/backup"] {
        let status = ask(&one, "GET", path).await;
        assert!([StatusCode::FORBIDDEN, StatusCode::NOT_FOUND].contains(&status), "{path}: {status}");
    }
    let (_, list) = with_token(&world, &one, "GET", "/api/v1/environments", None).await;
    assert!(list.to_string().contains("\"one\"") && !list.to_string().contains("\"two\""), "{list}");
    let (_, keys) = world.call("GET", "/api/v1/api-keys", None).await;
    assert!(keys.to_string().contains(&id) && !keys.to_string().contains(&read));
    let used: Vec<_> = keys["items"].as_array().expect("items").iter().filter(|k| k["id"] == id.as_str()).collect();
    assert!(used[0]["lastUsedAt"].is_string(), "{keys}");
    for wrong in [json!({"verbs": []}), json!({"verbs": ["read"], "colour": 1})] {
        let request = json!({"name": "x", "scopes": wrong, "expiresAt": "2026-02-01T00:00:00Z"});
        assert!(world.call("POST", "/api/v1/api-keys", Some(request)).await.0.is_client_error());
    }
    for expires in ["2028-01-01T00:00:00Z", "2025-01-01T00:00:00Z"] {
        let request = json!({"name": "x", "scopes": {"verbs": ["read"]}, "expiresAt": expires});
        assert_eq!(
            world.call("POST", "/api/v1/api-keys", Some(request)).await.0,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{expires}"
        );
    }
    assert_eq!(world.call("DELETE", &format!("/api/v1/api-keys/{id}"), None).await.0, StatusCode::NO_CONTENT);
    assert_eq!(ask(&read, "GET", "/api/v1/environments/one").await, StatusCode::UNAUTHORIZED, "deleted");
    world.clock.advance(24 * 3600);
    assert_eq!(ask(&one, "GET", "/api/v1/environments/one").await, StatusCode::UNAUTHORIZED, "expired");
}

#[tokio::test]
async fn a_token_for_an_environment_is_worth_what_its_origin_and_user_are() {
    let world = World::at_fixed_time();
    world.create("one", "blank").await;
    world.create("two", "blank").await;
    let mint = async |token: &str, body: Value| {
        let (status, answer) = with_token(&world, token, "POST", "/api/v1/environments/one/token", Some(body)).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        text(&answer, "token").to_owned()
    };
    let who = async |environment: &str, token: &str| world.portal.environment_user(environment, token).await;
    let (id, read) = key(&world, json!({"verbs": ["read"], "environment": "one"})).await;
    let own = mint(&world.token, json!({})).await;
    let viewing = mint(&read, json!({})).await;
    let fixed = mint(&world.token, json!({"ttlSeconds": 3600})).await;
    assert!(crate::Portal::is_environment_token(&own));
    let user = who("one", &own).await.expect("counts");
    assert_eq!((user.name.as_str(), user.admin), ("local-admin", true));
    assert!(!who("one", &viewing).await.expect("counts").admin, "a key that reads sees");
    who("two", &own).await.expect_err("for another environment");
    who("one", &format!("{own}x")).await.expect_err("changed");
    assert_eq!(world.call("DELETE", &format!("/api/v1/api-keys/{id}"), None).await.0, StatusCode::NO_CONTENT);
    who("one", &viewing).await.expect_err("its key is gone");
    world.clock.advance(601);
    who("one", &own).await.expect_err("after ten minutes");
    who("one", &fixed).await.expect("an hour");
    world.clock.advance(3600);
    who("one", &fixed).await.expect_err("after an hour");
    let refused =
        with_token(&world, &world.token, "POST", "/api/v1/environments/one/token", Some(json!({"ttlSeconds": 5})))
            .await;
    assert_eq!(refused.0, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_user_who_is_disabled_or_removed_has_nothing_at_the_next_request() {
    use crate::{auth::Identity, documents::Stored};
    let world = World::at_fixed_time();
    add_user(&world, "corp:alice", &["developers"]).await;
    let auth = &world.portal.inner().auth;
    let stored: Stored<UserDoc> = auth.stored_user("corp:alice").await.expect("there");
    let alice: Identity = stored.value.identity(crate::auth::Credential::AccessToken, None, crate::auth::Origin::User);
    let caller = crate::environments::Caller { actor: &alice.actor, user: &alice.user, request_id: "" };
    let request = json!({"name": "k", "scopes": {"verbs": ["read"]}, "expiresAt": "2026-01-03T00:00:00Z"});
    let request = serde_json::from_value(request).expect("request");
    let key = auth.create_api_key(caller, request).await.expect("key").token;
    let link = auth.mint_link(&alice, "").await.expect("link").url;
    let path = link.strip_prefix("https://127.0.0.1:8443").expect("ours").to_owned();
    let response = world.send(Request::get(path).body(Body::empty()).expect("request")).await;
    let cookie = response.headers().get("set-cookie").and_then(|v| v.to_str().ok()).expect("cookie").to_owned();
    let cookie = cookie.split(';').next().expect("pair").to_owned();
    let login = exchange(&world, &code(&world, &cookie).await, VERIFIER, REDIRECT).await.1;
    let access = text(&login, "access_token");

    let all = async || {
        let session = page(&world, "/device", &cookie).await.0;
        let key = with_token(&world, &key, "GET", "/api/v1/identity", None).await.0;
        let access = with_token(&world, access, "GET", "/api/v1/identity", None).await.0;
        [session, key, access]
    };
    assert_eq!(all().await, [StatusCode::OK; 3]);
    let (_, me) = with_token(&world, access, "GET", "/api/v1/identity", None).await;
    assert_eq!((text(&me, "actor"), &me["groups"]), ("corp:alice@example.com", &json!(["developers"])));
    let path = "/api/v1/users/corp:alice";
    assert_eq!(world.call("PATCH", path, Some(json!({"disabled": true}))).await.0, StatusCode::OK);
    assert_eq!(all().await, [StatusCode::UNAUTHORIZED; 3]);
    assert_eq!(text(&refresh(&world, text(&login, "refresh_token")).await.1, "error"), "invalid_grant");
    assert_eq!(world.call("PATCH", path, Some(json!({"disabled": false}))).await.0, StatusCode::OK);
    assert_eq!(all().await, [StatusCode::OK; 3]);
    assert_eq!(world.call("DELETE", path, None).await.0, StatusCode::NO_CONTENT);
    assert_eq!(all().await, [StatusCode::UNAUTHORIZED; 3]);
    // Whoever comes back under the same id does not find what they had.
    add_user(&world, "corp:alice", &[]).await;
    assert_eq!(all().await, [StatusCode::UNAUTHORIZED; 3]);
    assert_eq!(world.call("GET", "/api/v1/users/corp:alcie", None).await.0, StatusCode::NOT_FOUND);
}

/// A sign-in at an issuer that cannot be reached.
async fn add_sign_in(world: &World, refresh_token: Option<&str>) {
    let now = world.clock.now();
    let sign_in = crate::auth::sign_ins::SignInDoc {
        id: "s".to_owned(),
        user: "corp:alice".to_owned(),
        issuer: "corp".to_owned(),
        sid: None,
        refresh_token: refresh_token.map(str::to_owned),
        id_token: String::new(),
        created_at: now,
        confirmed_at: now,
        asked_at: now,
        keep_until: None,
    };
    world.store.transact(Tenant::SYSTEM, vec![put(&sign_in, Expect::Any).expect("document")]).await.expect("stored");
}

/// A portal whose only issuer is a port of this machine that nobody listens on.
fn world_with_issuer() -> World {
    vctl_runtime::serve::install_crypto_provider();
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("oidc.yaml");
    std::fs::write(&file, "issuers: {corp: {url: 'https://127.0.0.1:1', clientId: vctl, title: The company}}")
        .expect("write");
    World::with_issuers(crate::OidcConfig::load(&file).expect("config"))
}

#[tokio::test]
async fn with_the_issuer_away_what_it_said_last_stands_for_a_while() {
    let world = world_with_issuer();
    add_user(&world, "corp:alice", &["developers"]).await;
    add_sign_in(&world, Some("secret")).await;
    let auth = &world.portal.inner().auth;
    let check = async || auth.check_sign_in(Some("s")).await.map_err(|e| e.to_string());
    check().await.expect("fresh");
    world.clock.advance(61);
    check().await.expect("asked in vain");
    world.clock.advance(15 * 60 - 61 - 1);
    check().await.expect("within a quarter of an hour");
    world.clock.advance(1);
    let why = check().await.expect_err("after a quarter of an hour");
    assert!(why.contains("cannot be reached"), "{why}");
    assert!(auth.check_sign_in(Some("other")).await.is_err(), "a sign-in that has ended");

    let page = world.send(Request::get("/auth/start?issuer=corp&next=/x").body(Body::empty()).expect("request")).await;
    assert_eq!(page.status(), StatusCode::SERVICE_UNAVAILABLE);
    let (status, page) = send(&world, Request::get("/jobs/1").body(Body::empty()).expect("request")).await;
    assert!(
        status == StatusCode::UNAUTHORIZED && page.contains("issuer=corp") && page.contains("%2Fjobs%2F1"),
        "{page}"
    );
}

#[tokio::test]
async fn without_a_refresh_token_a_sign_in_counts_for_an_hour() {
    let world = world_with_issuer();
    add_user(&world, "corp:alice", &[]).await;
    add_sign_in(&world, None).await;
    let auth = &world.portal.inner().auth;
    world.clock.advance(3599);
    auth.check_sign_in(Some("s")).await.expect("within the hour");
    world.clock.advance(1);
    auth.check_sign_in(Some("s")).await.expect_err("after it");
}
