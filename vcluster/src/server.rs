//! HTTP: the first half of the pipeline (authenticate, route, authorize, decode) and its end (encode).

pub(crate) mod actions;
pub(crate) mod body;
mod discovery;
mod frames;
mod health;
mod listing;
mod metrics;
mod negotiate;
mod objects;
pub(crate) mod openapi;
mod pods;
mod proxy;
pub(crate) mod respond;
mod review;
mod show;
mod token;
mod watch;

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use tracing::{Instrument as _, field};
use vctl_machinery::status::ApiError;
use vctl_runtime::telemetry;

use crate::{
    activity, aggregation,
    api_metrics::Observation,
    audit::{self, Audit},
    authentication,
    authorization::{self, rules::Attributes},
    control_planes::{Authenticated, Peer, Prefix},
    fairness,
    objects::{Call, FieldValidation},
    plane::Plane,
    request::{Query, RequestInfo},
    user::User,
};

/// A request on its way through the pipeline.
pub(crate) struct Context {
    pub plane: Arc<Plane>,
    pub user: Arc<User>,
    pub info: RequestInfo,
    pub query: Query,
    pub headers: HeaderMap,
    /// What users of the resource are warned of.
    pub warning: Option<String>,
    /// What the listener took off the path; empty for nothing.
    pub prefix: String,
    /// Where what is recorded of it is noted; none when nothing is.
    pub audit: Option<Arc<Audit>>,
}

/// Answers a request.
pub(crate) async fn serve(plane: Arc<Plane>, request: Request<Body>, peer: Peer) -> Response<Body> {
    let mut observation = Observation::begin(plane.metrics.clone());
    let id = audit::id_of(request.headers());
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let info = RequestInfo::new(request.method(), request.uri().path(), &query);
    observation.is(&info, &query, request.headers());
    // Nothing of it is evaluated unless somebody collects spans or logs of this level.
    let span = tracing::debug_span!(
        "kubernetes request",
        otel.name = %Title(&info),
        otel.kind = "server",
        environment = plane.name,
        audit_id = id,
        verb = info.verb,
        resource = info.resource,
        subresource = info.subresource,
        namespace = info.namespace,
        http.response.status_code = field::Empty
    );
    telemetry::accept(&span, request.headers());
    let ran = run(plane.clone(), request, info, query, peer, &id).instrument(span.clone()).await;
    let mut response = ran.unwrap_or_else(|e| respond::error(&e));
    span.record("http.response.status_code", response.status().as_u16());
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(audit::AUDIT_ID, id);
    }
    observation.end(&plane, response).await
}

async fn run(
    plane: Arc<Plane>,
    request: Request<Body>,
    info: RequestInfo,
    query: Query,
    peer: Peer,
    id: &str,
) -> Result<Response<Body>, ApiError> {
    let user = match request.extensions().get::<Authenticated>() {
        Some(Authenticated(user)) => user.clone(),
        None => authentication::authenticate(&plane, request.headers(), &peer).await?,
    };
    let audit = Audit::begin(&plane, &info, &user, &request, &peer, id);
    let Some(audit) = audit else { return in_turn(plane, user, info, query, request, peer.pod, None).await };
    audit.received().await;
    let response = match in_turn(plane, user, info, query, request, peer.pod, Some(audit.clone())).await {
        Ok(response) => response,
        Err(e) => respond::error(&e),
    };
    Ok(audit.end(response).await)
}

/// What a request is about, as its span is called: `list pods`, `get pods/log`, `get /version`.
struct Title<'a>(&'a RequestInfo);

impl std::fmt::Display for Title<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RequestInfo { verb, resource, subresource, path, is_resource, .. } = self.0;
        match (is_resource, &**subresource) {
            (false, _) => write!(f, "{verb} {path}"),
            (true, "") => write!(f, "{verb} {resource}"),
            (true, subresource) => write!(f, "{verb} {resource}/{subresource}"),
        }
    }
}

/// Waits until it is the request's turn, and goes on.
async fn in_turn(
    plane: Arc<Plane>,
    user: Arc<User>,
    info: RequestInfo,
    query: Query,
    request: Request<Body>,
    of_a_pod: bool,
    audit: Option<Arc<Audit>>,
) -> Result<Response<Body>, ApiError> {
    let user = authentication::impersonate(&plane, user, request.headers()).await?;
    if let Some(audit) = &audit {
        audit.impersonates(&user);
    }
    let admitted = match fairness::admit(&plane, &user, &info).await? {
        Ok(admitted) => admitted,
        Err(refused) => return Ok(refused),
    };
    let response = match authorized(plane, user, info, query, request, of_a_pod, audit).await {
        Ok(response) => response,
        Err(e) => respond::error(&e),
    };
    Ok(admitted.finish(response))
}

/// The rest of the pipeline, for a request whose turn it is.
async fn authorized(
    plane: Arc<Plane>,
    user: Arc<User>,
    info: RequestInfo,
    query: Query,
    request: Request<Body>,
    of_a_pod: bool,
    audit: Option<Arc<Audit>>,
) -> Result<Response<Body>, ApiError> {
    let attributes = attributes(&info);
    let decision = plane.decide(&user, &attributes).await?;
    if let Some(audit) = &audit {
        audit.annotate("authorization.k8s.io/decision", if decision.allowed { "allow" } else { "forbid" });
        audit.annotate("authorization.k8s.io/reason", &decision.reason);
    }
    if !decision.allowed {
        return Err(authorization::forbidden(&user, &attributes, &decision.reason));
    }
    if !of_a_pod {
        activity::note(&plane, &info, &query);
    }
    if let Some(service) = aggregation::serving(&plane, &info.path).await? {
        return Ok(aggregation::serve(&plane, &service, &user, request).await);
    }
    let prefix = request.extensions().get::<Prefix>().map(|p| p.0.clone()).unwrap_or_default();
    let headers = request.headers().clone();
    let context = Context { plane, user, info, query, headers, warning: None, prefix, audit };
    if context.info.is_resource { objects::serve(context, request).await } else { plain(context).await }
}

fn attributes(info: &RequestInfo) -> Attributes {
    if !info.is_resource {
        return Attributes { verb: info.verb.clone(), path: Some(info.path.clone()), ..Attributes::default() };
    }
    // A session that begins as GET (websocket) is as good as one that begins as POST.
    let session = info.resource == "pods" && matches!(&*info.subresource, "exec" | "attach" | "portforward");
    Attributes {
        verb: if session { "create".into() } else { info.verb.clone() },
        path: None,
        group: info.group.clone(),
        version: info.version.clone(),
        resource: info.resource.clone(),
        subresource: info.subresource.clone(),
        namespace: info.namespace.clone(),
        name: info.name.clone(),
    }
}

/// Paths that are no resources.
async fn plain(context: Context) -> Result<Response<Body>, ApiError> {
    if let Some(answer) = health::serve(&context).await {
        return Ok(answer);
    }
    if context.info.path.trim_end_matches('/') == "/metrics" {
        return metrics::serve(&context).await;
    }
    if let Some(answer) = token::discovery(&context)? {
        return Ok(answer);
    }
    Ok(discovery::serve(&context).await?.unwrap_or_else(respond::page_not_found))
}

impl Context {
    /// The second half of the pipeline, as the request asks for it.
    pub(crate) fn call(&self) -> Result<Call, ApiError> {
        let agent = self.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let manager = match self.query.get("fieldManager") {
            "" => agent
                .split(['/', ' '])
                .next()
                .filter(|a| !a.is_empty())
                .unwrap_or("unknown")
                .chars()
                .take(128)
                .collect(),
            manager => manager.to_owned(),
        };
        let mut call = Call::new(self.plane.clone(), self.user.clone(), manager);
        call.audit.clone_from(&self.audit);
        self.warning.iter().for_each(|w| call.warn(w.clone()));
        match (&*self.info.group, &*self.info.resource) {
            ("", "endpoints") => {
                call.warn("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into())
            }
            ("", "componentstatuses") => call.warn("v1 ComponentStatus is deprecated in v1.19+".into()),
            _ => {}
        }
        let options = options_kind(&self.info.verb);
        let dry_runs: Vec<&str> = self.query.all("dryRun").collect();
        check_manager(options, self.query.get("fieldManager"))?;
        call.dry_run = dry_run(options, &dry_runs)?;
        call.validation = match self.query.get("fieldValidation") {
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            "Warn" | "" => FieldValidation::Warn,
            other => {
                let body =
                    format!("Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"");
                return Err(option_error(options, "fieldValidation", "FieldValueNotSupported", body));
            }
        };
        Ok(call)
    }
}

/// The options that a verb takes.
fn options_kind(verb: &str) -> &'static str {
    match verb {
        "update" => "UpdateOptions",
        "patch" => "PatchOptions",
        "delete" | "deletecollection" => "DeleteOptions",
        _ => "CreateOptions",
    }
}

/// Managers have names of at most 128 bytes that can be printed.
fn check_manager(options: &str, manager: &str) -> Result<(), ApiError> {
    if manager.len() > 128 {
        let body = "Too long: may not be more than 128 bytes".to_owned();
        return Err(option_error(options, "fieldManager", "FieldValueTooLong", body));
    }
    if let Some((at, c)) = manager.char_indices().find(|(_, c)| c.is_control()) {
        let body = format!("Invalid value: {manager:?}: invalid character U+{:04X} (at position {at})", u32::from(c));
        return Err(option_error(options, "fieldManager", "FieldValueInvalid", body));
    }
    Ok(())
}

/// Whether nothing is to be stored; `options` is the kind that the values are of.
pub(crate) fn dry_run(options: &str, values: &[&str]) -> Result<bool, ApiError> {
    if values.iter().any(|v| *v != "All") {
        let body = format!("Unsupported value: {}: supported values: \"All\"", serde_json::json!(values));
        return Err(option_error(options, "dryRun", "FieldValueNotSupported", body));
    }
    Ok(!values.is_empty())
}

fn option_error(options: &str, field: &str, reason: &'static str, body: String) -> ApiError {
    let error = vctl_machinery::validate::FieldError { reason, field: field.to_owned(), body };
    ApiError::invalid("meta.k8s.io", options, "", &[error])
}
