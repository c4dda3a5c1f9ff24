//! The endpoints, and what surrounds every request.
//!
//! There is one table of endpoints ([`endpoints`]); the router is made from it and a test walks it without signing in.

mod api;
mod assets;
mod backup;
mod body;
mod events;
mod guard;
mod kube;
mod lifecycle;
mod pages;
pub mod problem;
mod users;

use axum::{
    Router, middleware,
    routing::{MethodRouter, delete, get, patch, post, put},
};

use crate::Portal;

/// Largest body of a request in bytes. Nothing that the API takes is near it.
pub const BODY_LIMIT: usize = 1024 * 1024;

/// Who may call an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody: it gives nothing away.
    Public,
    /// Whoever is signed in; others get a problem document.
    SignedIn,
    /// The administrator of the server; others get a problem document.
    Admin,
    /// Whoever is signed in; others get a page that says how.
    Page,
}

/// One endpoint.
pub struct Endpoint {
    /// HTTP method.
    pub method: &'static str,
    /// Path with `{parameters}`.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    handler: MethodRouter<Portal>,
}

/// Every endpoint there is.
pub fn endpoints() -> Vec<Endpoint> {
    use Access::{Admin, Page, Public, SignedIn};
    let row = |method, path, access, handler| Endpoint { method, path, access, handler };
    vec![
        row("GET", "/", Page, get(pages::console)),
        row("GET", "/create", Page, get(pages::console)),
        row("GET", "/environments/{*path}", Page, get(pages::console)),
        row("GET", "/templates", Page, get(pages::console)),
        row("GET", "/templates/{*path}", Page, get(pages::console)),
        row("GET", "/workers", Page, get(pages::console)),
        row("GET", "/jobs", Page, get(pages::console)),
        row("GET", "/jobs/{*path}", Page, get(pages::console)),
        row("GET", "/audit", Page, get(pages::console)),
        row("GET", "/projects", Page, get(pages::console)),
        row("GET", "/projects/{*path}", Page, get(pages::console)),
        row("GET", "/approvals", Page, get(pages::console)),
        row("GET", "/settings", Page, get(pages::console)),
        row("GET", "/favicon.svg", Public, get(assets::icon)),
        row("GET", "/login", Public, get(pages::login)),
        row("POST", "/logout", Page, post(pages::logout)),
        row("GET", "/assets/{*path}", Public, get(assets::asset)),
        row("GET", "/api/v1/session", SignedIn, get(api::session)),
        row("GET", "/api/v1/environments", SignedIn, get(api::list_environments)),
        row("POST", "/api/v1/environments", SignedIn, post(api::create_environment)),
        row("GET", "/api/v1/environments/{name}", SignedIn, get(api::get_environment)),
        row("DELETE", "/api/v1/environments/{name}", SignedIn, delete(api::delete_environment)),
        row("GET", "/api/v1/environments/{name}/kubeconfig", SignedIn, get(api::kubeconfig)),
        row("GET", "/api/v1/environments/{name}/kube/{*path}", SignedIn, get(kube::serve)),
        row("POST", "/api/v1/environments/{name}/kube/{*path}", SignedIn, post(kube::serve)),
        row("PUT", "/api/v1/environments/{name}/kube/{*path}", SignedIn, put(kube::serve)),
        row("PATCH", "/api/v1/environments/{name}/kube/{*path}", SignedIn, patch(kube::serve)),
        row("DELETE", "/api/v1/environments/{name}/kube/{*path}", SignedIn, delete(kube::serve)),
        row("GET", "/api/v1/environments/{name}/authentication", SignedIn, get(api::get_authentication)),
        row("PUT", "/api/v1/environments/{name}/authentication", Admin, put(api::set_authentication)),
        row("POST", "/api/v1/environments/{name}/rotate-ca", Admin, post(api::rotate_ca)),
        row("POST", "/api/v1/environments/{name}/sleep", SignedIn, post(lifecycle::sleep)),
        row("POST", "/api/v1/environments/{name}/wake", SignedIn, post(lifecycle::wake)),
        row("POST", "/api/v1/environments/{name}/extend", SignedIn, post(lifecycle::extend)),
        row("GET", "/api/v1/environments/{name}/snapshot", Admin, get(backup::snapshot)),
        row("POST", "/api/v1/environments/{name}/restore", Admin, backup::limited(post(backup::restore))),
        row("POST", "/api/v1/environments/{name}/compact", Admin, post(backup::compact)),
        row("GET", "/api/v1/backup", Admin, get(backup::whole)),
        row("POST", "/api/v1/reencrypt", Admin, post(backup::reencrypt)),
        row("GET", "/api/v1/templates", SignedIn, get(api::list_templates)),
        row("GET", "/api/v1/templates/{name}", SignedIn, get(api::get_template)),
        row("GET", "/api/v1/jobs", SignedIn, get(api::list_jobs)),
        row("GET", "/api/v1/jobs/{id}", SignedIn, get(api::get_job)),
        row("GET", "/api/v1/audit", SignedIn, get(api::list_audit)),
        row("GET", "/api/v1/workers", SignedIn, get(api::list_workers)),
        row("GET", "/api/v1/status", SignedIn, get(api::status)),
        row("GET", "/api/v1/events", SignedIn, get(events::stream)),
        row("POST", "/api/v1/login-links", SignedIn, post(api::create_login_link)),
        row("GET", "/api/v1/identity", SignedIn, get(users::whoami)),
        row("GET", "/api/v1/users", Admin, get(users::list)),
        row("GET", "/api/v1/users/{id}", Admin, get(users::get)),
        row("PATCH", "/api/v1/users/{id}", Admin, patch(users::change)),
        row("DELETE", "/api/v1/users/{id}", Admin, delete(users::remove)),
    ]
}

/// The same guards around endpoints that are not the portal's own.
pub(crate) fn for_administrator(portal: Portal, endpoints: Router) -> Router {
    endpoints
        .layer(middleware::from_fn(guard::administrator))
        .layer(middleware::from_fn_with_state(portal, guard::signed_in))
        .layer(middleware::from_fn(guard::surround))
}

pub(crate) fn router(portal: Portal) -> Router {
    let mut router = Router::new();
    for Endpoint { path, access, handler, .. } in endpoints() {
        let handler = match access {
            Access::Public => handler,
            Access::SignedIn => handler.layer(middleware::from_fn_with_state(portal.clone(), guard::signed_in)),
            // From the inside out: who is asking is found first.
            Access::Admin => handler
                .layer(middleware::from_fn(guard::administrator))
                .layer(middleware::from_fn_with_state(portal.clone(), guard::signed_in)),
            Access::Page => handler.layer(middleware::from_fn_with_state(portal.clone(), guard::signed_in_page)),
        };
        router = router.route(path, handler);
    }
    // Unknown addresses say nothing to strangers either.
    let unknown = get(api::unknown).fallback(api::unknown);
    let unknown = unknown.layer(middleware::from_fn_with_state(portal.clone(), guard::signed_in));
    router
        .fallback_service(unknown.with_state::<()>(portal.clone()))
        // From the inside out: limit what is read, then give every answer (also refusals) its headers and request id.
        .layer(axum::extract::DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn(guard::surround))
        .with_state(portal)
}
