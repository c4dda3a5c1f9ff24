//! The portal as authorization server of its command line.

use axum::{
    Extension, Form, Json,
    extract::{Query, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode};
use minijinja::context;
use schemars::JsonSchema;
use serde::Deserialize;
use vctl_api::rest::{DeviceAuthorization, OauthError, TokenResponse};

use super::{
    guard::{self, RequestId},
    pages,
};
use crate::{
    Portal,
    auth::{
        Identity,
        oauth::{CLIENT_ID, OauthRefusal, Request},
    },
    error::Error,
};

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// An authorization request, as a browser brings it and as the form brings it back.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(default)]
pub(super) struct AuthorizeQuery {
    client_id: String,
    response_type: String,
    redirect_uri: String,
    state: String,
    code_challenge: String,
    code_challenge_method: String,
    /// Name of the machine.
    client_name: String,
    csrf: String,
    decision: String,
}

impl AuthorizeQuery {
    fn check(&self) -> Result<Request, Error> {
        let challenge = (self.code_challenge.as_str(), self.code_challenge_method.as_str());
        Request::check(
            &self.client_id,
            &self.response_type,
            &self.redirect_uri,
            &self.state,
            challenge,
            &self.client_name,
        )
        .map_err(Error::BadRequest)
    }
}

/// Asks whether the command line is to be let in. Nothing happens without a click: any program of this machine could have opened the page.
pub(super) async fn authorize(
    State(portal): State<Portal>,
    Extension(identity): Extension<Identity>,
    Query(query): Query<AuthorizeQuery>,
) -> Response {
    let request = match query.check() {
        Ok(request) => request,
        Err(e) => return pages::failed(&portal, e, None),
    };
    let csrf = identity.session.as_ref().map(|s| s.csrf.clone()).unwrap_or_default();
    let hidden = vec![
        ("client_id", query.client_id),
        ("response_type", query.response_type),
        ("redirect_uri", request.redirect_uri),
        ("state", request.state),
        ("code_challenge", query.code_challenge),
        ("code_challenge_method", query.code_challenge_method),
        ("client_name", request.client.clone()),
        ("csrf", csrf),
    ];
    pages::page(
        StatusCode::OK,
        "authorize.html",
        context! { action => "/oauth/authorize", client => request.client, actor => identity.actor, hidden },
    )
}

pub(super) async fn decide(
    State(portal): State<Portal>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    form: Result<Form<AuthorizeQuery>, axum::extract::rejection::FormRejection>,
) -> Result<Response, Error> {
    let Form(form) = form.map_err(|e| Error::BadRequest(e.body_text()))?;
    check_form(&identity, &headers, &form.csrf)?;
    let request = match form.check() {
        Ok(request) => request,
        Err(e) => return Ok(pages::failed(&portal, e, None)),
    };
    let inner = portal.inner();
    let (address, text) = if form.decision == "allow" {
        let code = inner.auth.authorize_client(&identity, &request).await?;
        (
            request.answer("code", &code, &inner.config.public_url),
            "The command line is signed in. You can close this window.",
        )
    } else {
        (request.answer("error", "access_denied", &inner.config.public_url), "The command line was not let in.")
    };
    // A page that goes on by itself: the policy lets no form lead to another address.
    Ok(pages::page(StatusCode::OK, "continue.html", context! { address, text }))
}

/// Forms need a browser session and its token.
fn check_form(identity: &Identity, headers: &HeaderMap, csrf: &str) -> Result<(), Error> {
    guard::same_origin(headers)?;
    let session = identity.session.as_ref();
    let session = session.ok_or_else(|| Error::Forbidden("sign in with a browser to do this".to_owned()))?;
    guard::check_csrf(&session.csrf, csrf)
}

/// The code that a device shows.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(default)]
pub(super) struct DeviceQuery {
    user_code: String,
    csrf: String,
    decision: String,
}

pub(super) async fn device(
    State(portal): State<Portal>,
    Extension(identity): Extension<Identity>,
    Query(query): Query<DeviceQuery>,
) -> Result<Response, Error> {
    let client = portal.inner().auth.device(&query.user_code).await?;
    let Some(client) = client else {
        let why = if query.user_code.is_empty() {
            ""
        } else {
            "No machine waits for this code: it is mistyped, or has run out."
        };
        return Ok(pages::page(StatusCode::OK, "device.html", context! { why }));
    };
    let csrf = identity.session.as_ref().map(|s| s.csrf.clone()).unwrap_or_default();
    let hidden = vec![("user_code", query.user_code), ("csrf", csrf)];
    let values = context! { action => "/device", client, actor => identity.actor, hidden };
    Ok(pages::page(StatusCode::OK, "authorize.html", values))
}

pub(super) async fn decide_device(
    State(portal): State<Portal>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    form: Result<Form<DeviceQuery>, axum::extract::rejection::FormRejection>,
) -> Result<Response, Error> {
    let Form(form) = form.map_err(|e| Error::BadRequest(e.body_text()))?;
    check_form(&identity, &headers, &form.csrf)?;
    let allow = form.decision == "allow";
    let found = portal.inner().auth.decide_device(&identity, &form.user_code, allow).await?;
    let text = match (found, allow) {
        (false, _) => "No machine waits for this code: it has run out.",
        (true, true) => "The machine is signed in. You can close this window.",
        (true, false) => "The machine was not let in.",
    };
    Ok(pages::page(StatusCode::OK, "continue.html", context! { address => "", text }))
}

/// A request to the token endpoint.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(default)]
pub(super) struct TokenForm {
    grant_type: String,
    client_id: String,
    code: String,
    code_verifier: String,
    redirect_uri: String,
    refresh_token: String,
    device_code: String,
    token: String,
    client_name: String,
}

type OauthAnswer<T> = Result<Json<T>, Refused>;
type FormOf<T> = Result<Form<T>, axum::extract::rejection::FormRejection>;

/// A refusal as RFC 6749 writes it.
pub(super) struct Refused(OauthRefusal);

impl From<OauthRefusal> for Refused {
    fn from(refusal: OauthRefusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let error = match &self.0 {
            OauthRefusal::InvalidRequest(_) => "invalid_request",
            OauthRefusal::InvalidGrant => "invalid_grant",
            OauthRefusal::InvalidClient => "invalid_client",
            OauthRefusal::UnsupportedGrantType => "unsupported_grant_type",
            OauthRefusal::AuthorizationPending => "authorization_pending",
            OauthRefusal::SlowDown => "slow_down",
            OauthRefusal::AccessDenied => "access_denied",
            OauthRefusal::ExpiredToken => "expired_token",
            OauthRefusal::Failed(_) => "",
        };
        let error_description = self.0.to_string();
        if let OauthRefusal::Failed(e) = self.0 {
            return e.into_response();
        }
        (StatusCode::BAD_REQUEST, Json(OauthError { error: error.to_owned(), error_description })).into_response()
    }
}

fn checked(form: FormOf<TokenForm>) -> Result<TokenForm, OauthRefusal> {
    let Form(form) = form.map_err(|e| OauthRefusal::InvalidRequest(e.body_text()))?;
    if form.client_id != CLIENT_ID {
        return Err(OauthRefusal::InvalidClient);
    }
    Ok(form)
}

pub(super) async fn token(
    State(portal): State<Portal>,
    Extension(id): Extension<RequestId>,
    form: FormOf<TokenForm>,
) -> OauthAnswer<TokenResponse> {
    let form = checked(form)?;
    let auth = &portal.inner().auth;
    let response = match form.grant_type.as_str() {
        "authorization_code" => auth.exchange_code(&form.code, &form.code_verifier, &form.redirect_uri, &id.0).await?,
        "refresh_token" => {
            let refreshed = auth.refresh_client_login(&form.refresh_token, &id.0).await.map_err(OauthRefusal::from)?;
            refreshed.ok_or(OauthRefusal::InvalidGrant)?
        }
        DEVICE_GRANT => auth.ask_device(&form.device_code, &id.0).await?,
        _ => return Err(OauthRefusal::UnsupportedGrantType.into()),
    };
    Ok(Json(response))
}

pub(super) async fn device_authorization(
    State(portal): State<Portal>,
    form: FormOf<TokenForm>,
) -> OauthAnswer<DeviceAuthorization> {
    let form = checked(form)?;
    Ok(Json(portal.inner().auth.begin_device(&form.client_name).await?))
}

/// RFC 7009: a token that does not count is no error.
pub(super) async fn revoke(
    State(portal): State<Portal>,
    Extension(id): Extension<RequestId>,
    form: FormOf<TokenForm>,
) -> Result<StatusCode, Refused> {
    let form = checked(form)?;
    portal.inner().auth.end_client_login(&form.token, &id.0).await.map_err(OauthRefusal::from)?;
    Ok(StatusCode::OK)
}
