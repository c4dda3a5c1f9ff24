//! Signing in at an issuer, and out again.

use axum::{
    Extension, Form,
    extract::{Path, Query, State},
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    guard::{self, RequestId},
    pages,
};
use crate::{
    Portal,
    auth::oidc::{AUTHORIZATION_LIFE, Callback},
    error::Error,
};

/// Binds a sign-in under way to a browser. Lax: it must come along when the issuer sends the browser back.
const COOKIE: &str = "__Host-vctl-sign-in";

fn cookie(value: &str, life: i64) -> Result<HeaderValue, Error> {
    let cookie = format!("{COOKIE}={value}; Path=/; Max-Age={life}; Secure; HttpOnly; SameSite=Lax");
    cookie.parse().map_err(|_| Error::Internal("a cookie cannot be sent".to_owned()))
}

/// Query of the beginning of a sign-in.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Start {
    issuer: Option<String>,
    next: Option<String>,
}

pub(super) async fn start(State(portal): State<Portal>, Query(query): Query<Start>) -> Response {
    let auth = &portal.inner().auth;
    let next = query.next.unwrap_or_default();
    let Some(issuer) = query.issuer else {
        return pages::please_sign_in(&portal, "Choose where you sign in.", Some(&next));
    };
    let begun = auth.begin_sign_in(&issuer, &next).await;
    let answer = begun.and_then(|(address, secret)| {
        let mut response = Redirect::to(&address).into_response();
        response.headers_mut().insert(header::SET_COOKIE, cookie(&secret, AUTHORIZATION_LIFE.as_secs())?);
        Ok(response)
    });
    answer.unwrap_or_else(|e| pages::failed(&portal, e, Some(&next)))
}

pub(super) async fn callback(
    State(portal): State<Portal>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
    Query(answer): Query<Callback>,
) -> Response {
    let auth = &portal.inner().auth;
    let browser = guard::named_cookie(&headers, COOKIE);
    match auth.finish_sign_in(answer, browser, guard::cookie(&headers), &id.0).await {
        Ok(signed_in) => pages::signed_in(&signed_in.cookie, &signed_in.next, cookie("", 0)),
        Err(e) => pages::failed(&portal, e, None),
    }
}

/// The form of a back-channel logout.
#[derive(Deserialize, JsonSchema)]
pub(super) struct LogoutToken {
    logout_token: String,
}

/// OpenID Connect Back-Channel Logout 1.0, section 2.8: 200 when it is done, 400 when the token does not count.
pub(super) async fn back_channel_logout(
    State(portal): State<Portal>,
    Extension(id): Extension<RequestId>,
    Path(issuer): Path<String>,
    form: Result<Form<LogoutToken>, axum::extract::rejection::FormRejection>,
) -> Result<StatusCode, Error> {
    let Form(form) = form.map_err(|e| Error::BadRequest(e.body_text()))?;
    portal.inner().auth.back_channel_logout(&issuer, &form.logout_token, &id.0).await?;
    Ok(StatusCode::OK)
}
