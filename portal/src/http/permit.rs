//! Whether the caller may do what an endpoint does: what the table of endpoints says, enforced in one place.

use axum::{
    RequestPartsExt,
    extract::{RawPathParams, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};

use serde::Deserialize;
use vctl_api::rest::DEFAULT_PROJECT;

use super::At;
use crate::{
    Portal,
    access::{
        decide::Scope,
        documents::ProjectDoc,
        permission::Permission,
        policy::{Limit, Permit},
    },
    auth::Identity,
    error::Error,
};

/// Puts who asks, and what they may do, into the extensions of a request.
pub(crate) async fn attach(portal: &Portal, identity: Identity, request: &mut Request) -> Result<(), Error> {
    let limit = Limit::of(&identity.credential);
    let permit = portal.inner().access.permit((&identity).into(), limit).await?;
    request.extensions_mut().insert(permit);
    request.extensions_mut().insert(identity);
    Ok(())
}

/// Lets through who has the permission. Who may not even see the thing is told that there is none.
pub(crate) async fn needs(
    State((portal, permission, at)): State<(Portal, Permission, At)>,
    request: Request,
    next: Next,
) -> Response {
    match checked(&portal, permission, at, request).await {
        Ok(request) => next.run(request).await,
        Err(e) => e.into_response(),
    }
}

async fn checked(portal: &Portal, permission: Permission, at: At, request: Request) -> Result<Request, Error> {
    let (mut parts, body) = request.into_parts();
    let permit = parts.extensions.get::<Permit>().cloned();
    // Whoever was let in has one: an endpoint without it is wired wrongly, and lets nobody through.
    let permit =
        permit.ok_or_else(|| Error::Internal("an endpoint asks for a permission before who asks".to_owned()))?;
    let parameters = parts.extract::<RawPathParams>().await.map_err(|e| Error::BadRequest(e.body_text()))?;
    let parameter =
        |name: &str| parameters.iter().find(|(n, _)| *n == name).map(|(_, value)| value).unwrap_or_default();
    match at {
        At::Each | At::Body => {}
        At::Platform => check(&permit, permission, Scope::Platform)?,
        At::Project => {
            let project = portal.inner().access.project(&permit, parameter("name")).await?;
            check(&permit, permission, Scope::Project(&project.value.name))?;
        }
        At::Environment => {
            let environment = portal.inner().environments.seen(&permit, parameter("name")).await?.value;
            if !permit.allows_on(permission, &environment) {
                return Err(Error::Forbidden(format!(
                    "you need {permission} for environment {:?}: ask its owner ({}) or an administrator of project {:?}",
                    environment.name.as_str(),
                    environment.owner,
                    environment.project
                )));
            }
        }
        At::Approval => {
            let request = portal.inner().approvals.seen(&permit, parameter("id")).await?.value;
            if !permit.on_approval(&request).contains(permission) {
                return Err(Error::Forbidden(format!(
                    "you need {permission} in project {:?}: ask an administrator of the project",
                    request.project
                )));
            }
        }
        At::Job => {
            let id = parameter("id");
            let environments = &portal.inner().environments;
            if !environments.allows_job(&permit, permission, id).await? {
                if permission != Permission::JobsGet
                    && environments.allows_job(&permit, Permission::JobsGet, id).await?
                {
                    return Err(Error::Forbidden(format!("you need {permission} for the environment of job {id:?}")));
                }
                return Err(Error::NotFound { what: "job", name: id.to_owned(), nearest: Vec::new() });
            }
        }
    }
    Ok(Request::from_parts(parts, body))
}

/// The project that a body names, if there is one, it may be seen, and the caller has a permission in it. What the body says is wrong otherwise,
/// not the address.
///
/// # Errors
/// [`Error::Invalid`]; [`Error::Forbidden`] with whom to ask.
pub(crate) async fn in_project(
    portal: &Portal,
    permit: &Permit,
    permission: Permission,
    name: &str,
) -> Result<ProjectDoc, Error> {
    let project = portal.inner().access.project(permit, name).await.map_err(|e| match e {
        Error::NotFound { ref nearest, .. } => {
            Error::Invalid { kind: "unknown-project", detail: e.to_string(), nearest: nearest.clone() }
        }
        other => other,
    })?;
    check(permit, permission, Scope::Project(name))?;
    Ok(project.value)
}

/// What a body says of where it belongs.
#[derive(Deserialize)]
struct Placed {
    #[serde(default = "default_project")]
    project: String,
}

fn default_project() -> String {
    DEFAULT_PROJECT.to_owned()
}

/// The same for a body as it was sent, before an answer that its handler gave earlier is given again.
///
/// # Errors
/// As [`in_project`]. A body that cannot be read is for its handler to refuse: nothing was ever answered to it.
pub(super) async fn in_body(
    portal: &Portal,
    permit: &Permit,
    permission: Permission,
    body: &[u8],
) -> Result<(), Error> {
    let Ok(Placed { project }) = serde_json::from_slice(body) else { return Ok(()) };
    in_project(portal, permit, permission, &project).await.map(drop)
}

/// A permission at a place.
///
/// # Errors
/// [`Error::Forbidden`] with whom to ask.
pub(crate) fn check(permit: &Permit, permission: Permission, scope: Scope<'_>) -> Result<(), Error> {
    if permit.allows(permission, scope) {
        return Ok(());
    }
    Err(Error::Forbidden(match scope {
        Scope::Platform => format!("you need {permission} on the platform: ask an administrator of the server"),
        Scope::Project(project) | Scope::Environment { project, .. } => {
            format!("you need {permission} in project {project:?}: ask an administrator of the project")
        }
    }))
}
