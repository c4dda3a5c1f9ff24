//! HTTP: the first half of the pipeline (authenticate, route, authorize, decode) and its end (encode).

pub(crate) mod actions;
mod body;
mod discovery;
mod health;
mod negotiate;
mod objects;
mod pods;
pub(crate) mod respond;
mod review;
mod show;
mod token;
mod watch;

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, Request, Response, header};
use vctl_machinery::status::ApiError;

use crate::{
    aggregation, authentication,
    authorization::{self, rules::Attributes},
    control_planes::Peer,
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
}

/// Answers a request.
pub(crate) async fn serve(plane: Arc<Plane>, request: Request<Body>, peer: Peer) -> Response<Body> {
    match run(plane, request, peer).await {
        Ok(response) => response,
        Err(e) => respond::error(&e),
    }
}

async fn run(plane: Arc<Plane>, request: Request<Body>, peer: Peer) -> Result<Response<Body>, ApiError> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let info = RequestInfo::new(request.method(), request.uri().path(), &query);
    let user = authentication::authenticate(&plane, request.headers(), &peer).await?;
    let user = authentication::impersonate(&plane, user, request.headers()).await?;
    let attributes = attributes(&info);
    let decision = plane.decide(&user, &attributes).await?;
    if !decision.allowed {
        return Err(authorization::forbidden(&user, &attributes, &decision.reason));
    }
    if let Some(service) = aggregation::serving(&plane, &info.path).await? {
        return Ok(aggregation::serve(&plane, &service, &user, request).await);
    }
    let context =
        Context { plane, user: Arc::new(user), info, query, headers: request.headers().clone(), warning: None };
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
    if let Some(answer) = health::serve(&context) {
        return Ok(answer);
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
        self.warning.iter().for_each(|w| call.warn(w.clone()));
        match (&*self.info.group, &*self.info.resource) {
            ("", "endpoints") => {
                call.warn("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into())
            }
            ("", "componentstatuses") => call.warn("v1 ComponentStatus is deprecated in v1.19+".into()),
            _ => {}
        }
        let dry_runs: Vec<&str> = self.query.all("dryRun").collect();
        call.dry_run = dry_run(&dry_runs)?;
        call.validation = match self.query.get("fieldValidation") {
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            "Warn" | "" => FieldValidation::Warn,
            other => {
                return Err(option_error("fieldValidation", other, "\"Ignore\", \"Strict\", \"Warn\""));
            }
        };
        Ok(call)
    }
}

/// Whether nothing is to be stored.
pub(crate) fn dry_run(values: &[&str]) -> Result<bool, ApiError> {
    match values.iter().find(|v| **v != "All") {
        Some(other) => Err(option_error("dryRun", other, "\"All\"")),
        None => Ok(!values.is_empty()),
    }
}

fn option_error(field: &str, value: &str, supported: &str) -> ApiError {
    ApiError::invalid(
        "meta.k8s.io",
        "CreateOptions",
        "",
        &[vctl_machinery::validate::FieldError {
            reason: "FieldValueNotSupported",
            field: field.to_owned(),
            body: format!("Unsupported value: {value:?}: supported values: {supported}"),
        }],
    )
}
