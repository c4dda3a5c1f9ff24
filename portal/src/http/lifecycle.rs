//! Sleeping, waking, living longer, updates, and jobs.

use axum::{
    Extension, Json,
    extract::{Path, State},
    response::IntoResponse,
};
use http::StatusCode;
use vctl_api::rest::{Environment, Extend, Job, UpdateEnvironment, UpdatePreview};

use super::{api::Answer, approvals, body::JsonBody, requester::Requester};
use crate::{Portal, access::policy::Permit, approvals::Asked, error::Error, sleep::Why};

pub(super) async fn sleep(State(portal): State<Portal>, requester: Requester, Path(name): Path<String>) -> Answer {
    let environments = &portal.inner().environments;
    let why = Why { reason: "command", at: environments.now() };
    let job = environments.sleep(requester.caller(), &name, why).await?;
    Ok((StatusCode::ACCEPTED, Json(job)).into_response())
}

pub(super) async fn wake(State(portal): State<Portal>, requester: Requester, Path(name): Path<String>) -> Answer {
    let environments = &portal.inner().environments;
    let why = Why { reason: "command", at: environments.now() };
    let job = environments.wake(requester.caller(), &name, why).await?;
    Ok((StatusCode::ACCEPTED, Json(job)).into_response())
}

pub(super) async fn extend(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<Extend>,
) -> Result<Json<Environment>, Error> {
    portal.inner().environments.extend(requester.caller(), &name, request.period).await.map(Json)
}

pub(super) async fn update(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<UpdateEnvironment>,
) -> Answer {
    match portal.inner().approvals.update(requester.caller(), &permit, &name, request).await? {
        Asked::Done(job) => Ok((StatusCode::ACCEPTED, Json(job)).into_response()),
        Asked::Waits(approval) => Ok(approvals::waits(&approval)),
    }
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

pub(super) async fn resume_job(State(portal): State<Portal>, requester: Requester, Path(job): Path<String>) -> Answer {
    let job = portal.inner().environments.resume_job(requester.caller(), &job).await?;
    Ok((StatusCode::ACCEPTED, Json(job)).into_response())
}
