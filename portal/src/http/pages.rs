//! The plain pages: environments, signing in, signing out. Rendered on the server, everything escaped.

use axum::{
    Extension, Form,
    extract::{Query, State},
    response::{Html, IntoResponse, Response},
};
use http::{HeaderMap, Method, StatusCode, header};
use minijinja::{Environment as Engine, UndefinedBehavior, context, value::Serde};
use serde::{Deserialize, Serialize};
use vctl_api::rest::{Environment, Phase};

use super::guard::{self, COOKIE, RequestId};
use crate::{Portal, auth::Identity, error::Error};

const FILES: [(&str, &str); 4] = [
    ("frame.html", include_str!("pages/frame.html")),
    ("home.html", include_str!("pages/home.html")),
    ("sign-in.html", include_str!("pages/sign-in.html")),
    ("signed-in.html", include_str!("pages/signed-in.html")),
];

fn page(status: StatusCode, file: &str, values: minijinja::Value) -> Response {
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

/// What a row of the page shows.
#[derive(Serialize)]
struct Row {
    name: String,
    template: String,
    phase: String,
    class: &'static str,
    pods: String,
    created: String,
    message: String,
}

impl From<Environment> for Row {
    fn from(e: Environment) -> Self {
        let class = match e.phase {
            Phase::Creating => "creating",
            Phase::Ready => "ready",
            Phase::Failed => "failed",
            Phase::Deleting => "deleting",
        };
        Self {
            name: e.name.to_string(),
            template: format!("{} {}", e.template, e.template_version),
            phase: format!("{:?}", e.phase),
            class,
            pods: format!("{}/{}", e.pods.ready, e.pods.total),
            created: e.created_at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
            message: e.message,
        }
    }
}

pub(super) async fn home(
    State(portal): State<Portal>,
    Extension(identity): Extension<Identity>,
) -> Result<Response, Error> {
    let inner = portal.inner();
    let rows: Vec<Row> = inner.environments.list().await?.into_iter().map(Row::from).collect();
    let workers: Vec<_> = inner
        .workers
        .list()
        .await?
        .into_iter()
        .map(|w| context! { name => w.name, kind => w.kind, connected => w.connected, pods => w.pods, runtime => w.runtime })
        .collect();
    let csrf = identity.session.as_ref().map(|s| s.csrf.clone()).unwrap_or_default();
    let values = context! { rows => Serde(rows), workers, csrf, actor => identity.actor, version => inner.config.version.clone() };
    Ok(page(StatusCode::OK, "home.html", values))
}

/// What someone sees who is not signed in.
pub(super) fn please_sign_in(why: &str) -> Response {
    let mut response = page(StatusCode::UNAUTHORIZED, "sign-in.html", context! { why });
    response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer realm=\"vctl\""));
    response
}

/// Query of a sign-in link.
#[derive(Deserialize)]
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
        return Ok(please_sign_in("This address needs a one-time token."));
    };
    // Chats and mail scanners look at links that way; the link stays good for whom it was made.
    if method == Method::HEAD {
        return Ok(page(StatusCode::OK, "signed-in.html", context! {}));
    }
    match portal.inner().auth.sign_in(&token, guard::cookie(&headers), &id.0).await {
        Ok(cookie) => {
            // A page that goes on by itself, not a redirect: a browser does not send a SameSite=Strict cookie along a redirect
            // that began on another site, such as a chat in which the link was opened.
            let mut response = page(StatusCode::OK, "signed-in.html", context! {});
            let life = crate::auth::SESSION_LIFE.as_secs();
            let cookie = format!("{COOKIE}={cookie}; Path=/; Max-Age={life}; Secure; HttpOnly; SameSite=Strict");
            let cookie = cookie.parse().map_err(|_| Error::Internal("a session cookie cannot be sent".to_owned()))?;
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            Ok(response)
        }
        Err(Error::Unauthorized(why)) => Ok(please_sign_in(&why)),
        Err(e) => Err(e),
    }
}

/// The form that signs out.
#[derive(Deserialize)]
pub(super) struct LogoutForm {
    csrf: String,
}

pub(super) async fn logout(
    State(portal): State<Portal>,
    Extension(identity): Extension<Identity>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
    form: Result<Form<LogoutForm>, axum::extract::rejection::FormRejection>,
) -> Result<Response, Error> {
    let Form(form) = form.map_err(|e| Error::BadRequest(e.body_text()))?;
    guard::same_origin(&headers)?;
    if let Some(session) = &identity.session {
        guard::check_csrf(&session.csrf, &form.csrf)?;
    }
    portal.inner().auth.sign_out(&identity, &id.0).await?;
    let mut response = please_sign_in("You have signed out.");
    *response.status_mut() = StatusCode::OK;
    let gone = format!("{COOKIE}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict");
    let gone = gone.parse().map_err(|_| Error::Internal("a session cookie cannot be removed".to_owned()))?;
    response.headers_mut().insert(header::SET_COOKIE, gone);
    Ok(response)
}
