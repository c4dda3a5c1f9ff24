//! What surrounds every request: request id, authentication, scopes of API keys, protection against forged requests, headers.

mod scopes;

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use tracing::{Instrument as _, field};
use vctl_api::rest::Problem;
use vctl_runtime::{serve::Peer, telemetry};

use super::{pages, permit, problem};
use crate::{Portal, audit::from_source, auth::Identity, error::Error};

/// Name of the session cookie. `__Host-`: only over TLS, only for this host, for all paths.
pub(crate) const COOKIE: &str = "__Host-vctl-session";
/// Header with the session's token against forged requests.
pub(crate) const CSRF_HEADER: &str = "x-csrf-token";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Id of the request, in its extensions.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Nothing but our own files; nothing inline; no frames; text never becomes markup or script (Trusted Types without a policy).
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// For what a tenant may have written: nothing in it does anything.
const FOREIGN_POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::STRICT_TRANSPORT_SECURITY, "max-age=31536000"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Gives the request an id (the caller's when it is a sensible one), writes the bodies of problems, and adds headers.
pub(crate) async fn surround(State(portal): State<Portal>, mut request: Request, next: Next) -> Response {
    let began = std::time::Instant::now();
    let given = request.headers().get(&REQUEST_ID).and_then(|v| v.to_str().ok());
    let sensible = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let id = given.filter(sensible).map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
    request.extensions_mut().insert(RequestId(id.clone()));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let source = request.extensions().get::<Peer>().map(address).unwrap_or_default();
    // Without the query, which may hold codes of a sign-in.
    let span = tracing::info_span!(
        "request",
        otel.name = field::Empty,
        otel.kind = "server",
        %method,
        path,
        request_id = id,
        http.response.status_code = field::Empty
    );
    telemetry::accept(&span, request.headers());
    if telemetry::is_on() {
        // Before it is entered: with that its name is settled.
        span.record("otel.name", format!("{method} {path}"));
    }
    let mut response = from_source(source, next.run(request)).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    portal.inner().http.answered(&method, response.status(), began.elapsed());
    span.in_scope(|| tracing::debug!(status = response.status().as_u16(), "answered"));
    if response.status() == StatusCode::METHOD_NOT_ALLOWED && response.extensions().get::<Problem>().is_none() {
        response.extensions_mut().insert(problem::describe(&Error::MethodNotAllowed));
    }
    let mut response = foreign_problem(response).await;
    if let Some(mut problem) = response.extensions_mut().remove::<Problem>() {
        problem.request_id.clone_from(&id);
        // A problem is plain data: writing it cannot fail.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(problem::MEDIA_TYPE));
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(body);
    }
    let foreign = response.extensions().get::<super::kube::Foreign>().is_some();
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if foreign {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(FOREIGN_POLICY));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

/// A refusal of the framework (a path or query that cannot be read, an unknown media type) becomes a problem as all others are.
async fn foreign_problem(response: Response) -> Response {
    let status = response.status();
    let error = status.is_client_error() || status.is_server_error();
    let text = response.headers().get(header::CONTENT_TYPE).is_none_or(|t| t.as_bytes().starts_with(b"text/plain"));
    let extensions = response.extensions();
    let known = extensions.get::<Problem>().is_some() || extensions.get::<super::kube::Foreign>().is_some();
    if !error || !text || known {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // A longer one is no sentence for people.
    let bytes = axum::body::to_bytes(body, 4096).await.unwrap_or_default();
    parts.extensions.insert(problem::of_status(status, String::from_utf8_lossy(&bytes).into_owned()));
    Response::from_parts(parts, Body::empty())
}

/// Where a request came from, without the port, which says nothing.
fn address(peer: &Peer) -> String {
    match peer {
        Peer::Address(address) => address.ip().to_canonical().to_string(),
        other => other.to_string(),
    }
}

/// Lets through who is signed in; others get a problem document.
pub(crate) async fn signed_in(State(portal): State<Portal>, mut request: Request, next: Next) -> Response {
    let checked = match authenticate(&portal, request.headers(), Seen::Yes).await {
        Ok(identity) => not_forged(&identity, request.method(), request.headers())
            .and_then(|()| scopes::within(&identity, request.uri().path()))
            .map(|()| identity),
        Err(e) => Err(e),
    };
    match checked {
        Ok(identity) => {
            if let Err(e) = permit::attach(&portal, identity, &mut request).await {
                return e.into_response();
            }
            next.run(request).await
        }
        Err(e) => e.into_response(),
    }
}

/// Lets through who is signed in; others get a page that says how. Forms carry their token in a field, which the handler checks.
pub(crate) async fn signed_in_page(State(portal): State<Portal>, mut request: Request, next: Next) -> Response {
    let authenticated = authenticate(&portal, request.headers(), Seen::Yes).await;
    match authenticated.and_then(|identity| scopes::within(&identity, request.uri().path()).map(|()| identity)) {
        Ok(identity) => {
            if let Err(e) = permit::attach(&portal, identity, &mut request).await {
                return e.into_response();
            }
            next.run(request).await
        }
        Err(e) => {
            let wanted = request.uri().path_and_query().map(|p| p.as_str().to_owned());
            pages::failed(&portal, e, wanted.as_deref().filter(|_| request.method().is_safe()))
        }
    }
}

/// Whether a request is a use of its session, which then lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Somebody asks for something.
    Yes,
    /// It only goes on.
    No,
}

/// Who sends a request with these headers.
pub(super) async fn authenticate(portal: &Portal, headers: &HeaderMap, seen: Seen) -> Result<Identity, Error> {
    let auth = &portal.inner().auth;
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let token = value
            .to_str()
            .ok()
            .and_then(|v| v.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, token)) = token else {
            return Err(Error::Unauthorized("the Authorization header must say Bearer and a token".to_owned()));
        };
        return auth.bearer(token.trim()).await;
    }
    match cookie(headers) {
        Some(cookie) if seen == Seen::No => auth.session_now(cookie).await.map(|(identity, _)| identity),
        Some(cookie) => auth.session(cookie).await,
        None => Err(Error::Unauthorized(
            "not signed in: send `Authorization: Bearer TOKEN` (admin.token in the data dir), or open a sign-in link from \
             `vctl login-link`. This is the portal; the Kubernetes API of an environment begins with /clusters/NAME"
                .to_owned(),
        )),
    }
}

/// The session cookie.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    named_cookie(headers, COOKIE)
}

/// The cookie of this name.
pub(crate) fn named_cookie<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok());
    all.flat_map(|v| v.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == wanted).then_some(value)
    })
}

/// A change that comes with a cookie must prove that a page of ours sent it.
fn not_forged(identity: &Identity, method: &Method, headers: &HeaderMap) -> Result<(), Error> {
    let Some(session) = &identity.session else { return Ok(()) };
    if method.is_safe() {
        return Ok(());
    }
    same_origin(headers)?;
    let token = headers.get(CSRF_HEADER).and_then(|v| v.to_str().ok()).unwrap_or_default();
    check_csrf(&session.csrf, token)
}

/// Compares the session's token against forged requests with the one that came.
pub(crate) fn check_csrf(expected: &str, given: &str) -> Result<(), Error> {
    if crate::auth::digest(expected) == crate::auth::digest(given) {
        return Ok(());
    }
    Err(Error::Forbidden(format!(
        "the request does not carry the session's {CSRF_HEADER}: reload the page and try again"
    )))
}

/// Refuses what a browser says comes from another site.
pub(crate) fn same_origin(headers: &HeaderMap) -> Result<(), Error> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    // What a browser says of itself, and no page can make it say. Forms have the Origin `null` here, because of `no-referrer`.
    if text("sec-fetch-site") == Some("same-origin") {
        return Ok(());
    }
    let foreign_site = text("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    let foreign_origin = match (text("origin"), text("host")) {
        (Some(origin), Some(host)) => origin.split_once("://").is_none_or(|(_, authority)| authority != host),
        // HTTP/2 has :authority instead of Host; Sec-Fetch-Site and the token decide then.
        _ => false,
    };
    if foreign_site || foreign_origin {
        return Err(Error::Forbidden("the request comes from another site".to_owned()));
    }
    Ok(())
}
