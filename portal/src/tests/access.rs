//! Who may do what: every endpoint without signing in, sign-in links, sessions, forged requests, limits, headers.

use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::{
    auth::{ADMIN, LINK_LIFE, SESSION_IDLE, SESSION_LIFE},
    http::{Access, endpoints, problem::MEDIA_TYPE},
    testing::World,
};

fn request(method: &str, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path)
}

fn empty(builder: http::request::Builder) -> Request<Body> {
    builder.body(Body::empty()).expect("request")
}

async fn text(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.expect("body").to_bytes();
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> &'a str {
    response.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

#[tokio::test]
async fn nothing_is_given_to_strangers() {
    let world = World::new();
    world.create("secret-env", "blank").await;
    for credentials in [None, Some("Bearer wrong"), Some("Basic YTpi"), Some("Bearer "), Some("nonsense")] {
        for endpoint in endpoints() {
            let path = endpoint.path.replace("{name}", "secret-env").replace("{id}", "1").replace("{user}", "ann");
            let path = path.replace("{*path}", "pages.css");
            let mut builder = request(endpoint.method, &path);
            if let Some(credentials) = credentials {
                builder = builder.header("authorization", credentials);
            }
            let response = world.send(empty(builder)).await;
            let place = format!("{} {path} with {credentials:?}", endpoint.method);
            let (status, kind) = (response.status(), header(&response, "content-type").to_owned());
            assert!(!header(&response, "x-request-id").is_empty(), "{place}");
            assert!(header(&response, "content-security-policy").contains("default-src 'none'"), "{place}");
            let body = text(response).await;
            assert!(!body.contains("secret-env") || path.contains("secret-env"), "{place}: {body}");
            match endpoint.access {
                Access::Public => {
                    assert!(status.is_success() || status.is_client_error(), "{place}: {status}");
                }
                Access::Page => {
                    assert_eq!(status, StatusCode::UNAUTHORIZED, "{place}");
                    assert!(kind.starts_with("text/html") && body.contains("vctl login-link"), "{place}: {body}");
                }
                Access::SignedIn | Access::Needs(..) => {
                    assert_eq!((status, kind.as_str()), (StatusCode::UNAUTHORIZED, MEDIA_TYPE), "{place}");
                    let problem: Value = serde_json::from_str(&body).expect("problem");
                    assert_eq!(
                        (&problem["type"], &problem["status"]),
                        (&"unauthorized".into(), &401.into()),
                        "{place}"
                    );
                    assert!(problem["requestId"].as_str().is_some_and(|id| !id.is_empty()), "{place}");
                }
            }
        }
    }
    for path in ["/nowhere", "/api/v1/nowhere"] {
        assert_eq!(world.send(empty(request("GET", path))).await.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[tokio::test]
async fn unknown_addresses_and_methods_are_problems() {
    let world = World::new();
    let (status, body) = world.call("GET", "/api/v1/environment", None).await;
    assert_eq!((status, &body["type"]), (StatusCode::NOT_FOUND, &"not-found".into()));
    assert_eq!(body["nearest"][0], "/api/v1/environments");
    let (status, body) = world.call("PUT", "/api/v1/environments", None).await;
    assert_eq!((status, &body["type"]), (StatusCode::METHOD_NOT_ALLOWED, &"method-not-allowed".into()));
}

#[tokio::test]
async fn a_large_body_is_refused() {
    let world = World::new();
    let body = format!("{{\"name\": \"{}\"}}", "x".repeat(4 * 1024 * 1024));
    let large = request("POST", "/api/v1/environments")
        .header("authorization", format!("Bearer {}", world.token))
        .header("content-type", "application/json")
        .body(Body::from(body))
        .expect("request");
    let response = world.send(large).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert!(text(response).await.contains("too-large"));
}

/// Opens a sign-in link; returns the cookie, or nothing when it was refused.
async fn open(world: &World, url: &str) -> Option<String> {
    let path = url.strip_prefix("https://127.0.0.1:8443").expect("our address");
    let response = world.send(empty(request("GET", path))).await;
    let cookie = header(&response, "set-cookie").to_owned();
    if response.status() != StatusCode::OK {
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert!(cookie.is_empty());
        return None;
    }
    for attribute in ["; Secure", "; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    Some(cookie.split(';').next().expect("pair").to_owned())
}

/// Who the cookie's session says is asking.
async fn session(world: &World, cookie: &str) -> (StatusCode, Value) {
    let response = world.send(empty(request("GET", "/api/v1/session").header("cookie", cookie))).await;
    let status = response.status();
    (status, serde_json::from_str(&text(response).await).expect("JSON"))
}

#[tokio::test]
async fn a_sign_in_link_works_once_and_for_ten_minutes() {
    let world = World::at_fixed_time();
    let (status, link) = world.call("POST", "/api/v1/login-links", None).await;
    assert_eq!(status, StatusCode::CREATED);
    let url = link["url"].as_str().expect("url");
    let path = url.strip_prefix("https://127.0.0.1:8443").expect("our address");
    let looked = world.send(empty(request("HEAD", path))).await;
    assert_eq!(
        (looked.status(), header(&looked, "set-cookie")),
        (StatusCode::OK, ""),
        "looking at it does not use it up"
    );
    let cookie = open(&world, url).await.expect("signed in");
    assert_eq!(open(&world, url).await, None, "it works once");
    let (status, who) = session(&world, &cookie).await;
    assert_eq!((status, &who["actor"], &who["administrator"]), (StatusCode::OK, &ADMIN.into(), &true.into()));
    let page = world.send(empty(request("GET", "/environments/any").header("cookie", &cookie))).await;
    assert_eq!((page.status(), header(&page, "cache-control")), (StatusCode::OK, "no-store"));

    let late = world.portal.login_link().await.expect("link").url;
    world.clock.advance(LINK_LIFE.as_secs());
    assert_eq!(open(&world, &late).await, None, "it has run out");
    assert_eq!(open(&world, "https://127.0.0.1:8443/login?token=guess").await, None);
    let token = url.split('=').nth(1).expect("token");
    let (_, audit) = world.call("GET", "/api/v1/audit", None).await;
    assert!(!audit.to_string().contains(token), "no secret in the audit trail");
}

#[tokio::test]
async fn a_session_ends_when_idle_and_at_its_limit() {
    let world = World::at_fixed_time();
    let link = world.portal.login_link().await.expect("link");
    let cookie = open(&world, &link.url).await.expect("signed in");
    let step = SESSION_IDLE.as_secs() - 60;
    let mut age = 0;
    while age + step < SESSION_LIFE.as_secs() {
        world.clock.advance(step);
        age += step;
        assert_eq!(session(&world, &cookie).await.0, StatusCode::OK, "used at {age} s");
    }
    world.clock.advance(step);
    assert_eq!(session(&world, &cookie).await.0, StatusCode::UNAUTHORIZED, "older than its limit");

    let link = world.portal.login_link().await.expect("link");
    let cookie = open(&world, &link.url).await.expect("signed in");
    world.clock.advance(SESSION_IDLE.as_secs());
    assert_eq!(session(&world, &cookie).await.0, StatusCode::UNAUTHORIZED, "idle");
}

#[tokio::test]
async fn changes_with_a_cookie_need_the_token_of_the_session() {
    let world = World::new();
    let link = world.portal.login_link().await.expect("link");
    let cookie = open(&world, &link.url).await.expect("signed in");
    let (_, who) = session(&world, &cookie).await;
    let csrf = who["csrfToken"].as_str().expect("token").to_owned();
    let link_with = |extra: &[(&'static str, String)]| {
        let mut builder = request("POST", "/api/v1/login-links").header("cookie", &cookie);
        for (name, value) in extra {
            builder = builder.header(*name, value);
        }
        empty(builder)
    };
    let cases = [
        (vec![], StatusCode::FORBIDDEN),
        (vec![("x-csrf-token", "guess".to_owned())], StatusCode::FORBIDDEN),
        (vec![("x-csrf-token", csrf.clone()), ("sec-fetch-site", "cross-site".to_owned())], StatusCode::FORBIDDEN),
        (
            vec![
                ("x-csrf-token", csrf.clone()),
                ("origin", "https://evil.example".to_owned()),
                ("host", "127.0.0.1:8443".to_owned()),
            ],
            StatusCode::FORBIDDEN,
        ),
        (
            vec![
                ("x-csrf-token", csrf.clone()),
                ("origin", "https://127.0.0.1:8443".to_owned()),
                ("host", "127.0.0.1:8443".to_owned()),
            ],
            StatusCode::CREATED,
        ),
    ];
    for (headers, expected) in cases {
        assert_eq!(world.send(link_with(&headers)).await.status(), expected, "{headers:?}");
    }

    let logout = |token: &str| {
        request("POST", "/logout")
            .header("cookie", &cookie)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(format!("csrf={token}")))
            .expect("request")
    };
    assert_eq!(world.send(logout("guess")).await.status(), StatusCode::FORBIDDEN);
    assert_eq!(world.send(logout(&csrf)).await.status(), StatusCode::OK);
    assert_eq!(session(&world, &cookie).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_bearer_token_has_no_token_against_forged_requests() {
    let world = World::new();
    let (status, who) = world.call("GET", "/api/v1/session", None).await;
    assert_eq!((status, &who["actor"], who.get("csrfToken")), (StatusCode::OK, &ADMIN.into(), None));
}
