//! Sleeping, waking, living longer, updates, and jobs.

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use vctl_api::rest::{Environment, Extend, Job, UpdateEnvironment, UpdatePreview};

use super::{
    approvals::OrWaits,
    body::{IfMatch, JsonBody, or_current},
    openapi::answers::Accepted,
    requester::Requester,
};
use crate::{Portal, access::policy::Permit, error::Error, sleep::Why};

pub(super) async fn sleep(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
) -> Result<Accepted<Job>, Error> {
    let environments = &portal.inner().environments;
    let why = Why { reason: "command", at: environments.now() };
    let job = environments.sleep(requester.caller(), &name, why).await?;
    Ok(Accepted(job))
}

pub(super) async fn wake(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
) -> Result<Accepted<Job>, Error> {
    let environments = &portal.inner().environments;
    let why = Why { reason: "command", at: environments.now() };
    let job = environments.wake(requester.caller(), &name, why).await?;
    Ok(Accepted(job))
}

pub(super) async fn extend(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
    JsonBody(request): JsonBody<Extend>,
) -> Result<Json<Environment>, Error> {
    let environments = &portal.inner().environments;
    let extended = environments.extend(requester.caller(), &name, request.period, revision).await;
    or_current(extended, revision, environments.get(&name)).await.map(Json)
}

pub(super) async fn update(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
    JsonBody(request): JsonBody<UpdateEnvironment>,
) -> Result<OrWaits<Accepted<Job>>, Error> {
    let inner = portal.inner();
    let asked = inner.approvals.update(requester.caller(), &permit, &name, request, revision).await;
    Ok(OrWaits::of(or_current(asked, revision, inner.environments.get(&name)).await?, Accepted))
}

pub(super) async fn preview(
    State(portal): State<Portal>,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<UpdateEnvironment>,
) -> Result<Json<UpdatePreview>, Error> {
    portal.inner().environments.preview_update(&name, &request).await.map(Json)
}

pub(super) async fn cancel_job(
    State(portal): State<Portal>,
    requester: Requester,
    Path(job): Path<String>,
) -> Result<Json<Job>, Error> {
    portal.inner().environments.cancel_job(requester.caller(), &job).await.map(Json)
}

pub(super) async fn resume_job(
    State(portal): State<Portal>,
    requester: Requester,
    Path(job): Path<String>,
) -> Result<Accepted<Job>, Error> {
    let job = portal.inner().environments.resume_job(requester.caller(), &job).await?;
    Ok(Accepted(job))
}
