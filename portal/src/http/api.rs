//! The handlers of `/api/v1`: HTTP in, [`crate::environments`] and its like, HTTP out.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    extract::{Path, Query, State, rejection::QueryRejection},
};
use http::HeaderMap;
use schemars::JsonSchema;
use serde::Deserialize;
use vctl_api::rest::{
    Authentication, CreateEnvironment, CreatePreview, Environment, Job, Kubeconfig, LoginLink, RotateCa, ServerStatus,
    Template, Worker,
};

use super::{
    approvals::OrWaits,
    body::{IfMatch, JsonBody, Tagged, or_current, tagged},
    listing::{Listing, Paged},
    openapi::answers::{Accepted, Created, Made, ShownOnce, Waited},
    permit,
    requester::Requester,
};
use crate::{
    Portal,
    access::{permission::Permission, policy::Permit},
    auth::Credential,
    documents::{EnvironmentDoc, JobDoc, Stored},
    error::Error,
    jobs,
};

/// Longest wait of a request for a change.
const WAIT: Duration = Duration::from_secs(25);
/// Longest wait of a request for the end of a deletion.
const DELETE_WAIT: Duration = Duration::from_mins(5);
pub(super) async fn unknown(request: axum::extract::Request) -> Error {
    let near = super::endpoints().into_iter().map(|e| e.path).filter(|p| p.starts_with("/api/"));
    let nearest = crate::error::nearest(request.uri().path(), near);
    Error::NotFound { what: "address", name: request.uri().path().to_owned(), nearest }
}

pub(super) async fn session(State(portal): State<Portal>, requester: Requester) -> Json<vctl_api::rest::Session> {
    let identity = requester.identity;
    Json(vctl_api::rest::Session {
        administrator: identity.is_local_admin(),
        csrf_token: identity.session.map(|s| s.csrf),
        actor: identity.actor,
        server_version: portal.inner().config.version.clone(),
    })
}

pub(super) async fn list_environments(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    listing: Listing<Stored<Arc<EnvironmentDoc>>>,
) -> Result<Paged<Environment>, Error> {
    let environments = &portal.inner().environments;
    let (selected, next) = listing.select(environments.listed(&permit).await?);
    // Pods and jobs are looked at for what is on the page alone.
    listing.answer(environments.views(selected).await?, next)
}

/// Query of a creation.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateQuery {
    /// Checks everything and makes nothing, unless it is `false`.
    dry_run: Option<String>,
}

pub(super) async fn create_environment(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    query: Result<Query<CreateQuery>, QueryRejection>,
    JsonBody(request): JsonBody<CreateEnvironment>,
) -> Result<OrWaits<Made<Environment>>, Error> {
    let Query(query) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    let project = permit::in_project(&portal, &permit, Permission::EnvironmentsCreate, &request.project).await?;
    if query.dry_run.is_some_and(|dry_run| dry_run != "false") {
        let would_be = portal.inner().environments.try_new(requester.caller(), &project, request).await?;
        return Ok(OrWaits::Done(Made::WouldBe(would_be.environment)));
    }
    let asked = portal.inner().approvals.create(requester.caller(), &permit, &project, request).await?;
    Ok(OrWaits::of(asked, |environment| {
        let location = format!("/api/v1/environments/{}", environment.name);
        Made::Made(Created::at(location, environment))
    }))
}

/// What a create would make, with all objects of the template, without secrets. Nothing is made.
pub(super) async fn preview_environment(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    JsonBody(request): JsonBody<CreateEnvironment>,
) -> Result<Json<CreatePreview>, Error> {
    let project = permit::in_project(&portal, &permit, Permission::EnvironmentsCreate, &request.project).await?;
    portal.inner().environments.try_new(requester.caller(), &project, request).await.map(Json)
}

pub(super) async fn get_environment(
    State(portal): State<Portal>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Tagged<Environment>, Error> {
    let environment = portal.inner().environments.get(&name).await?;
    tagged(&environment, Some(environment.revision), &headers)
}

/// Query of a deletion: `?wait` or `?wait=true`.
#[derive(Deserialize, JsonSchema)]
pub(super) struct DeleteQuery {
    /// The answer comes when it is gone, or after five minutes.
    wait: Option<String>,
}

pub(super) async fn delete_environment(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    query: Result<Query<DeleteQuery>, QueryRejection>,
    IfMatch(revision): IfMatch,
) -> Result<Waited<Job>, Error> {
    let Query(query) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    let environments = &portal.inner().environments;
    let deleted = environments.delete(requester.caller(), &name, revision).await;
    let mut job = or_current(deleted, revision, environments.get(&name)).await?;
    if query.wait.is_none_or(|wait| wait == "false") {
        return Ok(Waited { ended: false, value: job });
    }
    let waited = tokio::time::timeout(DELETE_WAIT, async {
        while !jobs::ended(job.state) {
            job = environments.job_after(&job.id, job.revision).await?;
        }
        Ok::<_, Error>(())
    });
    match waited.await {
        Ok(done) => done.map(|()| Waited { ended: true, value: job }),
        Err(_) => Ok(Waited { ended: false, value: job }),
    }
}

pub(super) async fn kubeconfig(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
) -> Result<Json<Kubeconfig>, Error> {
    let inner = portal.inner();
    // The certificate is the cluster's administrator for a year, whatever is taken from whoever has it: for the local administrator only.
    let by_certificate = requester.identity.is_local_admin()
        && matches!(requester.identity.credential, Credential::Administrator | Credential::Session);
    if !by_certificate {
        let environment = inner.environments.stored(&name).await?.value;
        inner.auth.check_environment_use(&requester.identity, &environment).await?;
    }
    let kubeconfig = inner.environments.kubeconfig(requester.caller(), &name).await?;
    let kubeconfig = if by_certificate {
        kubeconfig
    } else {
        crate::auth::kubeconfig::with_plugin(&kubeconfig, &inner.config.public_url, &name)?
    };
    Ok(Json(Kubeconfig { kubeconfig }))
}

pub(super) async fn get_authentication(
    State(portal): State<Portal>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Tagged<Authentication>, Error> {
    let stored = portal.inner().environments.stored(&name).await?;
    tagged(&Authentication { authentication: stored.value.authentication }, Some(stored.revision), &headers)
}

pub(super) async fn set_authentication(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
    JsonBody(request): JsonBody<Authentication>,
) -> Result<Json<Authentication>, Error> {
    let environments = &portal.inner().environments;
    let set =
        environments.set_authentication(requester.caller(), &name, request.authentication.clone(), revision).await;
    let now =
        async { environments.authentication(&name).await.map(|authentication| Authentication { authentication }) };
    or_current(set, revision, now).await?;
    Ok(Json(request))
}

pub(super) async fn rotate_ca(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<RotateCa>,
) -> Result<Accepted<Job>, Error> {
    let job = portal.inner().environments.rotate_ca(requester.caller(), &name, request).await?;
    Ok(Accepted(job))
}

pub(super) async fn list_templates(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    listing: Listing<Template>,
) -> Result<Paged<Template>, Error> {
    let seen = portal.inner().access.templates(&permit, Permission::TemplatesList).await?;
    let mut items: Vec<Template> = Vec::new();
    for (name, template) in
        portal.inner().environments.registry.all().await?.into_iter().filter(|(n, _)| seen.contains(n))
    {
        match template {
            Ok(template) => items.push(template.describe()),
            // It stays visible, with its error, so that its author finds it.
            Err(broken) => items.push(Template {
                name,
                version: String::new(),
                title: "cannot be used".to_owned(),
                description: broken.to_string(),
                parameters: Vec::new(),
                bindings: Vec::new(),
            }),
        }
    }
    listing.page(items)
}

pub(super) async fn get_template(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Tagged<Template>, Error> {
    let seen = portal.inner().access.templates(&permit, Permission::TemplatesGet).await?;
    let base = name.split('@').next().unwrap_or_default();
    if !seen.contains(base) {
        return Err(Error::NotFound { what: "template", name, nearest: Vec::new() });
    }
    let template = portal.inner().environments.registry.show(&name).await?;
    tagged(&template.describe(), None, &headers)
}

pub(super) async fn list_jobs(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    listing: Listing<Stored<JobDoc>>,
) -> Result<Paged<Job>, Error> {
    let (selected, next) = listing.select(portal.inner().environments.jobs(&permit).await?);
    listing.answer(selected.into_iter().map(jobs::view).collect(), next)
}

/// Query of one job: with `changedAfter` the answer waits for a newer revision, up to 25 s.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobQuery {
    /// The answer waits for a newer revision than this, for up to 25 s.
    changed_after: Option<u64>,
}

pub(super) async fn get_job(
    State(portal): State<Portal>,
    Path(id): Path<String>,
    query: Result<Query<JobQuery>, QueryRejection>,
) -> Result<Json<Job>, Error> {
    let Query(query) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    let environments = &portal.inner().environments;
    if let Some(after) = query.changed_after {
        let wait = tokio::time::timeout(WAIT, environments.job_after(&id, after));
        tokio::select! {
            job = wait => if let Ok(job) = job { return job.map(Json) },
            () = portal.inner().tasks.cancelled() => {}
        }
    }
    environments.job(&id).await.map(Json)
}

pub(super) async fn list_workers(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    listing: Listing<Worker>,
) -> Result<Paged<Worker>, Error> {
    listing.page(workers(&portal, &permit).await?)
}

/// The workers, for whoever may see them in some project.
pub(super) async fn workers(portal: &Portal, permit: &Permit) -> Result<Vec<Worker>, Error> {
    if portal.inner().access.allows_somewhere(permit, Permission::WorkersList).await? {
        return Ok(portal.inner().workers.list().await?);
    }
    Ok(Vec::new())
}

pub(super) async fn status(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
) -> Result<Json<ServerStatus>, Error> {
    let inner = portal.inner();
    Ok(Json(ServerStatus {
        version: inner.config.version.clone(),
        pid: std::process::id(),
        listen: inner.config.listen.clone(),
        started_at: inner.started_at,
        environments: u32::try_from(inner.environments.count(&permit).await?).unwrap_or(u32::MAX),
        workers: workers(&portal, &permit).await?,
        resident_bytes: resident_bytes().filter(|_| permit.allows_everywhere(Permission::PlatformGet)),
    }))
}

/// From /proc of Linux; none elsewhere.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

pub(super) async fn create_login_link(
    State(portal): State<Portal>,
    requester: Requester,
) -> Result<ShownOnce<LoginLink>, Error> {
    let link = portal.inner().auth.mint_link(&requester.identity, requester.caller().request_id).await?;
    Ok(ShownOnce(link))
}
