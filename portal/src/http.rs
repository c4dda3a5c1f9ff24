//! The endpoints, and what surrounds every request.
//!
//! There is one table of endpoints ([`endpoints`]); the router is made from it and a test walks it without signing in.

mod access;
mod api;
mod api_keys;
mod approvals;
mod assets;
mod audit;
mod backup;
mod body;
mod events;
mod guard;
mod idempotency;
mod kube;
mod lifecycle;
mod listing;
mod logins;
pub(crate) mod metrics;
mod oauth;
mod openapi;
mod pages;
mod permit;
pub mod problem;
mod requester;
mod resources;
mod sign_in;
mod sources;
mod templates;
mod usage;
mod users;
mod webhooks;

use std::collections::HashMap;

use axum::{Extension, Router, middleware, routing::MethodFilter};

use self::body::told;
#[cfg(test)]
pub(crate) use self::events::STREAMS_LIMIT;
pub use self::openapi::document as openapi_document;
use self::openapi::{
    describe::Operation,
    handler::{Handler, delete, get, on, patch, post, put},
};
pub(crate) use self::{events::Streams, idempotency::Once};
use crate::{Portal, access::permission::Permission};

/// Largest body of a request in bytes, unless an endpoint says otherwise. Nothing that the API takes is near it.
pub const BODY_LIMIT: usize = 1024 * 1024;

/// Who may call an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody: it gives nothing away.
    Public,
    /// Whoever is signed in, about themselves; others get a problem document.
    SignedIn,
    /// Whoever is signed in and has a permission; others get a problem document.
    Needs(Permission, At),
    /// Whoever is signed in; others get a page that says how.
    Page,
}

/// Where a permission is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// On the platform as a whole.
    Platform,
    /// In the project `{name}`; who may not see it is told that there is none.
    Project,
    /// With the environment `{name}`; who may not see it is told that there is none.
    Environment,
    /// With the environment of the job `{id}`; who may not see it is told that there is none.
    Job,
    /// With the request for approval `{id}`; who may not see it is told that there is none.
    Approval,
    /// With each thing that is shown: the handler leaves out the others.
    Each,
    /// In the project that the body names: the handler asks.
    Body,
}

/// One endpoint.
pub struct Endpoint {
    /// HTTP method.
    pub method: &'static str,
    /// Path with `{parameters}`.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    describe: fn(&mut Operation<'_>),
    body_limit: usize,
    handler: axum::routing::MethodRouter<Portal>,
}

impl Endpoint {
    /// Whether a request with an `Idempotency-Key` is done once. What goes into an environment is for its own API, backups are too large to
    /// compare, and previews change nothing: all can be repeated as they are.
    fn is_idempotent(&self) -> bool {
        let own = self.path.starts_with("/api/v1/") && self.access != Access::Public;
        self.method == "POST"
            && own
            && !self.path.contains("/kube/")
            && !["restore", "preview"].iter().any(|e| self.path.ends_with(e))
    }
}

/// Every endpoint there is.
pub fn endpoints() -> Vec<Endpoint> {
    [pages(), environments(), kubernetes(), platform(), projects(), approvals()].into_iter().flatten().collect()
}

fn row(method: &'static str, path: &'static str, access: Access, handler: Handler) -> Endpoint {
    let Handler { router, describe, body_limit } = handler;
    Endpoint { method, path, access, describe, body_limit, handler: router }
}

fn pages() -> Vec<Endpoint> {
    use Access::{Page, Public};
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
        row("GET", "/account", Page, get(pages::console)),
        row("GET", "/admin/{*path}", Page, get(pages::console)),
        row("GET", "/favicon.svg", Public, get(assets::icon)),
        row("GET", "/login", Public, get(pages::login)),
        row("POST", "/logout", Page, post(pages::logout)),
        row("GET", "/assets/{*path}", Public, get(assets::asset)),
        row("GET", "/auth/start", Public, get(sign_in::start)),
        row("GET", "/auth/callback", Public, get(sign_in::callback)),
        row("POST", "/auth/back-channel-logout/{issuer}", Public, post(sign_in::back_channel_logout)),
        row("GET", "/oauth/authorize", Page, get(oauth::authorize)),
        row("POST", "/oauth/authorize", Page, post(oauth::decide)),
        row("POST", "/oauth/token", Public, post(oauth::token)),
        row("POST", "/oauth/device_authorization", Public, post(oauth::device_authorization)),
        row("POST", "/oauth/revoke", Public, post(oauth::revoke)),
        row("GET", "/device", Page, get(oauth::device)),
        row("POST", "/device", Page, post(oauth::decide_device)),
    ]
}

fn environments() -> Vec<Endpoint> {
    use Permission as P;
    let one = |permission| Access::Needs(permission, At::Environment);
    let each = |permission| Access::Needs(permission, At::Each);
    let platform = |permission| Access::Needs(permission, At::Platform);
    vec![
        row("GET", "/api/v1/environments", each(P::EnvironmentsList), get(api::list_environments)),
        row(
            "POST",
            "/api/v1/environments",
            Access::Needs(P::EnvironmentsCreate, At::Body),
            post(api::create_environment),
        ),
        row("POST", "/api/v1/preview", Access::Needs(P::EnvironmentsCreate, At::Body), post(api::preview_environment)),
        row("GET", "/api/v1/environments/{name}", one(P::EnvironmentsGet), get(api::get_environment)),
        row("DELETE", "/api/v1/environments/{name}", one(P::EnvironmentsDelete), delete(api::delete_environment)),
        row("GET", "/api/v1/environments/{name}/kubeconfig", one(P::EnvironmentsConnectReadOnly), get(api::kubeconfig)),
        row(
            "POST",
            "/api/v1/environments/{name}/token",
            one(P::EnvironmentsConnectReadOnly),
            post(api_keys::environment_token),
        ),
        row("GET", "/api/v1/environments/{name}/authentication", one(P::EnvironmentsGet), get(api::get_authentication)),
        row(
            "PUT",
            "/api/v1/environments/{name}/authentication",
            one(P::EnvironmentsUpdate),
            put(api::set_authentication),
        ),
        row("GET", "/api/v1/environments/{name}/audit-policy", one(P::EnvironmentsGet), get(audit::policy)),
        row("PUT", "/api/v1/environments/{name}/audit-policy", one(P::EnvironmentsAudit), put(audit::set_policy)),
        row("POST", "/api/v1/environments/{name}/rotate-ca", one(P::EnvironmentsRotateCa), post(api::rotate_ca)),
        row("POST", "/api/v1/environments/{name}/sleep", one(P::EnvironmentsSleep), post(lifecycle::sleep)),
        row("POST", "/api/v1/environments/{name}/wake", one(P::EnvironmentsSleep), post(lifecycle::wake)),
        row("POST", "/api/v1/environments/{name}/update", one(P::EnvironmentsUpdate), post(lifecycle::update)),
        row("POST", "/api/v1/environments/{name}/update/preview", one(P::EnvironmentsUpdate), post(lifecycle::preview)),
        row("POST", "/api/v1/environments/{name}/extend", one(P::EnvironmentsExtend), post(lifecycle::extend)),
        row("GET", "/api/v1/environments/{name}/snapshot", one(P::EnvironmentsSnapshot), get(backup::snapshot)),
        row(
            "POST",
            "/api/v1/environments/{name}/restore",
            platform(P::EnvironmentsRestore),
            post(backup::restore).limited(backup::BACKUP_LIMIT),
        ),
        row("GET", "/api/v1/usage", each(P::EnvironmentsGet), get(usage::current)),
        row("GET", "/api/v1/environments/{name}/usage", one(P::EnvironmentsGet), get(usage::series)),
        row("POST", "/api/v1/environments/{name}/compact", one(P::EnvironmentsCompact), post(backup::compact)),
        row("PUT", "/api/v1/environments/{name}/shares/{user}", one(P::EnvironmentsShare), put(access::share)),
        row("DELETE", "/api/v1/environments/{name}/shares/{user}", one(P::EnvironmentsShare), delete(access::unshare)),
    ]
}

/// The Kubernetes API of an environment: one handler for every method.
fn kubernetes() -> Vec<Endpoint> {
    let access = Access::Needs(Permission::EnvironmentsConnectReadOnly, At::Environment);
    let methods = [
        ("GET", MethodFilter::GET),
        ("POST", MethodFilter::POST),
        ("PUT", MethodFilter::PUT),
        ("PATCH", MethodFilter::PATCH),
        ("DELETE", MethodFilter::DELETE),
    ];
    let one =
        |(method, filter)| row(method, "/api/v1/environments/{name}/kube/{*path}", access, on(filter, kube::serve));
    methods.into_iter().map(one).collect()
}

fn platform() -> Vec<Endpoint> {
    use Permission as P;
    let each = |permission| Access::Needs(permission, At::Each);
    let platform = |permission| Access::Needs(permission, At::Platform);
    vec![
        row("GET", "/api/v1/backup", platform(P::PlatformBackup), get(backup::whole)),
        row("POST", "/api/v1/reencrypt", platform(P::PlatformReencrypt), post(backup::reencrypt)),
        row("GET", "/api/v1/templates", each(P::TemplatesList), get(api::list_templates)),
        row("GET", "/api/v1/templates/{name}", each(P::TemplatesGet), get(api::get_template)),
        row(
            "POST",
            "/api/v1/templates",
            platform(P::TemplatesPublish),
            post(templates::publish).limited(templates::TEMPLATE_LIMIT),
        ),
        row("GET", "/api/v1/templates/{name}/versions", each(P::TemplatesGet), get(templates::versions)),
        row("GET", "/api/v1/templates/{name}/versions/{version}", each(P::TemplatesGet), get(templates::version)),
        row(
            "PATCH",
            "/api/v1/templates/{name}/versions/{version}",
            platform(P::TemplatesDelete),
            patch(templates::change_version),
        ),
        row("GET", "/api/v1/template-sources", platform(P::TemplatesPublish), get(sources::list)),
        row("POST", "/api/v1/template-sources", platform(P::TemplatesPublish), post(sources::add)),
        row("DELETE", "/api/v1/template-sources/{name}", platform(P::TemplatesPublish), delete(sources::remove)),
        row("POST", "/api/v1/template-sources/{name}/sync", platform(P::TemplatesPublish), post(sources::sync)),
        row("GET", "/api/v1/resources", each(P::TemplatesList), get(resources::list)),
        row("POST", "/api/v1/resources", platform(P::PlatformUpdate), post(resources::add)),
        row("DELETE", "/api/v1/resources/{name}", platform(P::PlatformUpdate), delete(resources::remove)),
        row("POST", "/api/v1/resources/{name}/probe", platform(P::PlatformUpdate), post(resources::probe)),
        row("GET", "/api/v1/jobs", each(P::JobsList), get(api::list_jobs)),
        row("GET", "/api/v1/jobs/{id}", Access::Needs(P::JobsGet, At::Job), get(api::get_job)),
        row("POST", "/api/v1/jobs/{id}/cancel", Access::Needs(P::JobsCancel, At::Job), post(lifecycle::cancel_job)),
        row("POST", "/api/v1/jobs/{id}/resume", Access::Needs(P::JobsCancel, At::Job), post(lifecycle::resume_job)),
        row("GET", "/api/v1/audit", each(P::AuditList), get(audit::list)),
        row("GET", "/api/v1/audit/export", each(P::AuditExport), get(audit::export)),
        row("GET", "/api/v1/audit/verify", platform(P::AuditVerify), get(audit::verify)),
        row("GET", "/api/v1/workers", each(P::WorkersList), get(api::list_workers)),
        row("GET", "/api/v1/status", each(P::EnvironmentsList), get(api::status)),
        row("GET", "/api/v1/events", each(P::EnvironmentsList), get(events::stream)),
        row("POST", "/api/v1/login-links", Access::SignedIn, post(api::create_login_link)),
        row("GET", "/api/v1/session", Access::SignedIn, get(api::session)),
        row("GET", "/api/v1/identity", Access::SignedIn, get(users::whoami)),
        row("GET", "/api/v1/api-keys", Access::SignedIn, get(api_keys::list)),
        row("POST", "/api/v1/api-keys", Access::SignedIn, post(api_keys::create)),
        row("DELETE", "/api/v1/api-keys/{id}", Access::SignedIn, delete(api_keys::remove)),
        row("GET", "/api/v1/logins", Access::SignedIn, get(logins::list)),
        row("DELETE", "/api/v1/logins/{id}", Access::SignedIn, delete(logins::remove)),
        row("GET", "/api/v1/openapi.json", Access::Public, get(openapi::serve)),
        row("GET", "/api/v1/users", platform(P::UsersList), get(users::list)),
        row("GET", "/api/v1/users/{id}", platform(P::UsersList), get(users::get)),
        row("PATCH", "/api/v1/users/{id}", platform(P::UsersUpdate), patch(users::change)),
        row("DELETE", "/api/v1/users/{id}", platform(P::UsersUpdate), delete(users::remove)),
    ]
}

fn projects() -> Vec<Endpoint> {
    use Permission as P;
    let one = |permission| Access::Needs(permission, At::Project);
    let each = |permission| Access::Needs(permission, At::Each);
    let platform = |permission| Access::Needs(permission, At::Platform);
    vec![
        row("GET", "/api/v1/permissions", Access::SignedIn, get(access::permissions)),
        row("GET", "/api/v1/projects", each(P::ProjectsList), get(access::list_projects)),
        row("POST", "/api/v1/projects", platform(P::ProjectsCreate), post(access::create_project)),
        row("GET", "/api/v1/projects/{name}", one(P::ProjectsGet), get(access::get_project)),
        row("GET", "/api/v1/projects/{name}/usage", one(P::ProjectsGet), get(access::usage)),
        row("PUT", "/api/v1/projects/{name}", one(P::ProjectsUpdate), put(access::put_project)),
        row("DELETE", "/api/v1/projects/{name}", one(P::ProjectsDelete), delete(access::delete_project)),
        row("GET", "/api/v1/teams", each(P::TeamsList), get(access::list_teams)),
        row("GET", "/api/v1/teams/{name}", each(P::TeamsList), get(access::get_team)),
        row("PUT", "/api/v1/teams/{name}", platform(P::TeamsUpdate), put(access::put_team)),
        row("DELETE", "/api/v1/teams/{name}", platform(P::TeamsUpdate), delete(access::delete_team)),
        row("GET", "/api/v1/roles", Access::SignedIn, get(access::list_roles)),
        row("GET", "/api/v1/roles/{name}", Access::SignedIn, get(access::get_role)),
        row("PUT", "/api/v1/roles/{name}", platform(P::RolesUpdate), put(access::put_role)),
        row("DELETE", "/api/v1/roles/{name}", platform(P::RolesUpdate), delete(access::delete_role)),
        row("GET", "/api/v1/platform", platform(P::PlatformGet), get(access::get_platform)),
        row("PUT", "/api/v1/platform", platform(P::PlatformUpdate), put(access::put_platform)),
    ]
}

fn approvals() -> Vec<Endpoint> {
    use Permission as P;
    let one = |permission| Access::Needs(permission, At::Approval);
    let each = |permission| Access::Needs(permission, At::Each);
    let project = |permission| Access::Needs(permission, At::Project);
    let platform = |permission| Access::Needs(permission, At::Platform);
    let body = |permission| Access::Needs(permission, At::Body);
    let own = "/api/v1/projects/{name}/approval-rules";
    let own_rule = "/api/v1/projects/{name}/approval-rules/{rule}";
    vec![
        row("GET", "/api/v1/approvals", each(P::ApprovalsList), get(approvals::list)),
        row("POST", "/api/v1/approvals", body(P::ApprovalsCreate), post(approvals::request_role)),
        row("GET", "/api/v1/approvals/{id}", one(P::ApprovalsList), get(approvals::get)),
        row("POST", "/api/v1/approvals/{id}/approve", one(P::ApprovalsDecide), post(approvals::approve)),
        row("POST", "/api/v1/approvals/{id}/deny", one(P::ApprovalsDecide), post(approvals::deny)),
        row("POST", "/api/v1/approvals/{id}/withdraw", one(P::ApprovalsCreate), post(approvals::withdraw)),
        row("POST", "/api/v1/approvals/{id}/revoke", one(P::ApprovalsDecide), post(approvals::revoke)),
        row("POST", "/api/v1/approvals/{id}/review", one(P::ApprovalsDecide), post(approvals::review)),
        row("POST", "/api/v1/break-glass", body(P::ApprovalsBreakGlass), post(approvals::break_glass)),
        row("GET", "/api/v1/approval-rules", each(P::ApprovalsList), get(approvals::list_rules)),
        row("GET", "/api/v1/approval-rules/{name}", each(P::ApprovalsList), get(approvals::get_rule)),
        row("PUT", "/api/v1/approval-rules/{name}", platform(P::PlatformUpdate), put(approvals::put_rule)),
        row("DELETE", "/api/v1/approval-rules/{name}", platform(P::PlatformUpdate), delete(approvals::delete_rule)),
        row("GET", own, project(P::ApprovalsList), get(approvals::list_own_rules)),
        row("GET", own_rule, project(P::ApprovalsList), get(approvals::get_own_rule)),
        row("PUT", own_rule, project(P::ApprovalsRules), put(approvals::put_own_rule)),
        row("DELETE", own_rule, project(P::ApprovalsRules), delete(approvals::delete_own_rule)),
        row("GET", "/api/v1/webhooks", platform(P::PlatformUpdate), get(webhooks::list)),
        row("GET", "/api/v1/webhooks/{name}", platform(P::PlatformUpdate), get(webhooks::get)),
        row("PUT", "/api/v1/webhooks/{name}", platform(P::PlatformUpdate), put(webhooks::put)),
        row("DELETE", "/api/v1/webhooks/{name}", platform(P::PlatformUpdate), delete(webhooks::delete)),
        row("POST", "/api/v1/webhooks/{name}/test", platform(P::PlatformUpdate), post(webhooks::test)),
    ]
}

/// The same guards around endpoints that are not the portal's own: for whoever may see the server's state.
pub(crate) fn for_administrator(portal: Portal, endpoints: Router) -> Router {
    endpoints
        .layer(middleware::from_fn_with_state((portal.clone(), Permission::PlatformGet, At::Platform), permit::needs))
        .layer(middleware::from_fn_with_state(portal.clone(), guard::signed_in))
        .layer(middleware::from_fn_with_state(portal, guard::surround))
}

pub(crate) fn router(portal: Portal) -> Router {
    let (mut router, mut all, mut reads) = (Router::new(), Vec::new(), HashMap::new());
    for endpoint in endpoints() {
        let once = endpoint.is_idempotent();
        let Endpoint { method, path, access, body_limit, mut handler, .. } = endpoint;
        if once {
            // Where the handler asks, it is not asked when an answer is given again.
            let asks = match access {
                Access::Needs(permission, At::Body) => Some(permission),
                _ => None,
            };
            let state = (portal.clone(), body_limit, asks);
            handler = handler.route_layer(middleware::from_fn_with_state(state, idempotency::once));
        }
        // Around the methods that there are: another one is answered with 405 and those that there are, to everybody alike, since the
        // document is public.
        let handler = match access {
            Access::Public => handler,
            Access::SignedIn => handler.route_layer(middleware::from_fn_with_state(portal.clone(), guard::signed_in)),
            // From the inside out: who is asking is found first.
            Access::Needs(permission, at) => handler
                .route_layer(middleware::from_fn_with_state((portal.clone(), permission, at), permit::needs))
                .route_layer(middleware::from_fn_with_state(portal.clone(), guard::signed_in)),
            Access::Page => handler.route_layer(middleware::from_fn_with_state(portal.clone(), guard::signed_in_page)),
        };
        // What is inside of an environment is for its own API.
        if method == "GET" && !path.contains("/kube/") {
            reads.insert(path, handler.clone());
        }
        all.push((method, path, handler));
    }
    for (method, path, mut handler) in all {
        if let Some(reads) = reads.get(path).filter(|_| ["PUT", "PATCH"].contains(&method)) {
            handler = handler.route_layer(Extension(told::Reads(reads.clone().with_state(portal.clone()))));
        }
        router = router.route(path, handler);
    }
    // Unknown addresses say nothing to strangers either.
    let unknown = axum::routing::get(api::unknown).fallback(api::unknown);
    let unknown = unknown.layer(middleware::from_fn_with_state(portal.clone(), guard::signed_in));
    router
        .fallback_service(unknown.with_state::<()>(portal.clone()))
        // From the inside out: limit what is read, then give every answer (also refusals) its headers and request id.
        .layer(axum::extract::DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn_with_state(portal.clone(), guard::surround))
        .with_state(portal)
}
