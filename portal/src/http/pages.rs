//! The console's page, and the plain pages around it: signing in, signing out. Those are rendered on the server, everything escaped.

use axum::{
    Extension, Form,
    extract::{Query, State},
    response::{Html, IntoResponse, Response},
};
use http::{HeaderMap, Method, StatusCode, header};
use minijinja::{Environment as Engine, UndefinedBehavior, context, value::Serde};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    assets,
    guard::{self, COOKIE, RequestId},
    requester::Requester,
};
use crate::{
    Portal,
    auth::{Identity, oidc::local_path},
    error::Error,
};

const FILES: [(&str, &str); 8] = [
    ("authorize.html", include_str!("pages/authorize.html")),
    ("continue.html", include_str!("pages/continue.html")),
    ("device.html", include_str!("pages/device.html")),
    ("failed.html", include_str!("pages/failed.html")),
    ("frame.html", include_str!("pages/frame.html")),
    ("no-console.html", include_str!("pages/no-console.html")),
    ("sign-in.html", include_str!("pages/sign-in.html")),
    ("signed-in.html", include_str!("pages/signed-in.html")),
];

pub(super) fn page(status: StatusCode, file: &str, values: minijinja::Value) -> Response {
    let mut engine = Engine::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    for (name, text) in FILES {
        if let Err(e) = engine.add_template(name, text) {
            return Error::Internal(e.to_string()).into_response();
        }
    }
    match engine.get_template(file).and_then(|t| t.render(values)) {
        Ok(html) => (status, Html(html)).into_response(),
        Err(e) => Error::Internal(e.to_string()).into_response(),
    }
}

/// Every address of the console is the same page, whose script shows what the address names.
pub(super) async fn console(
    State(portal): State<Portal>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
) -> Response {
    if let Some(index) = assets::index(&headers) {
        return index;
    }
    let csrf = identity.session.as_ref().map(|s| s.csrf.clone()).unwrap_or_default();
    let version = portal.inner().config.version.clone();
    page(StatusCode::OK, "no-console.html", context! { csrf, version, actor => identity.actor })
}

/// A link of the sign-in page.
#[derive(Serialize)]
struct OfferLink {
    title: String,
    href: String,
}

/// What someone sees who is not signed in; afterwards they go where they wanted to.
pub(super) fn please_sign_in(portal: &Portal, why: &str, next: Option<&str>) -> Response {
    let next = local_path(next.unwrap_or("/"));
    let offers: Vec<OfferLink> = portal
        .inner()
        .auth
        .issuers
        .offers()
        .into_iter()
        .map(|offer| {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("issuer", &offer.name).append_pair("next", next);
            OfferLink { title: offer.title, href: format!("/auth/start?{}", query.finish()) }
        })
        .collect();
    let mut response = page(StatusCode::UNAUTHORIZED, "sign-in.html", context! { why, offers => Serde(offers) });
    response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer realm=\"vctl\""));
    response
}

/// A refusal or failure as a page.
pub(super) fn failed(portal: &Portal, e: Error, next: Option<&str>) -> Response {
    match e {
        Error::Unauthorized(why) => please_sign_in(portal, &why, next),
        Error::Internal(_) => e.into_response(),
        e => page(super::problem::classify(&e).0, "failed.html", context! { why => e.to_string() }),
    }
}

/// A page that goes on by itself, not a redirect: a browser does not send a SameSite=Strict cookie along a redirect that began on another
/// site, such as an issuer's, or a chat in which a link was opened.
pub(super) fn signed_in(cookie: &str, next: &str, also: Result<header::HeaderValue, Error>) -> Response {
    let life = crate::auth::SESSION_LIFE.as_secs();
    let cookie = format!("{COOKIE}={cookie}; Path=/; Max-Age={life}; Secure; HttpOnly; SameSite=Strict");
    let cookie = cookie.parse().map_err(|_| Error::Internal("a session cookie cannot be sent".to_owned()));
    match (cookie, also) {
        (Ok(cookie), Ok(also)) => {
            let mut response = page(StatusCode::OK, "signed-in.html", context! { next });
            response.headers_mut().append(header::SET_COOKIE, cookie);
            if !also.is_empty() {
                response.headers_mut().append(header::SET_COOKIE, also);
            }
            response
        }
        (Err(e), _) | (_, Err(e)) => e.into_response(),
    }
}

/// Query of a sign-in link.
#[derive(Deserialize, JsonSchema)]
pub(super) struct LoginQuery {
    token: Option<String>,
}

pub(super) async fn login(
    State(portal): State<Portal>,
    Extension(id): Extension<RequestId>,
    method: Method,
    headers: HeaderMap,
    Query(query): Query<LoginQuery>,
) -> Result<Response, Error> {
    let Some(token) = query.token else {
        return Ok(please_sign_in(&portal, "Choose how.", None));
    };
    // Chats and mail scanners look at links that way; the link stays good for whom it was made.
    if method == Method::HEAD {
        return Ok(page(StatusCode::OK, "signed-in.html", context! { next => "/" }));
    }
    match portal.inner().auth.sign_in(&token, guard::cookie(&headers), &id.0).await {
        Ok(cookie) => Ok(signed_in(&cookie, "/", Ok(header::HeaderValue::from_static("")))),
        Err(e) => Ok(failed(&portal, e, None)),
    }
}

/// The form that signs out.
#[derive(Deserialize, JsonSchema)]
pub(super) struct LogoutForm {
    csrf: String,
}

pub(super) async fn logout(
    State(portal): State<Portal>,
    requester: Requester,
    headers: HeaderMap,
    form: Result<Form<LogoutForm>, axum::extract::rejection::FormRejection>,
) -> Result<Response, Error> {
    let Form(form) = form.map_err(|e| Error::BadRequest(e.body_text()))?;
    guard::same_origin(&headers)?;
    if let Some(session) = &requester.identity.session {
        guard::check_csrf(&session.csrf, &form.csrf)?;
    }
    let auth = &portal.inner().auth;
    let elsewhere = auth.end_session_url(&requester.identity).await?;
    auth.sign_out(&requester.identity, requester.caller().request_id).await?;
    let mut response = match elsewhere {
        // The policy lets no form lead to another address, so the page goes on by itself.
        Some(address) => {
            page(StatusCode::OK, "continue.html", context! { address, text => "You have signed out here." })
        }
        None => please_sign_in(&portal, "You have signed out.", None),
    };
    *response.status_mut() = StatusCode::OK;
    let gone = format!("{COOKIE}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict");
    let gone = gone.parse().map_err(|_| Error::Internal("a session cookie cannot be removed".to_owned()))?;
    response.headers_mut().insert(header::SET_COOKIE, gone);
    Ok(response)
}
