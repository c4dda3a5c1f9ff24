//! Sleeping, waking, and living longer.

use axum::{
    Extension, Json,
    extract::{Path, State},
    response::IntoResponse,
};
use http::StatusCode;
use vctl_api::rest::{Environment, Extend};

use super::{
    api::{Answer, caller},
    body::JsonBody,
    guard::RequestId,
};
use crate::{Portal, auth::Identity, error::Error, sleep::Why};

pub(super) async fn sleep(
    State(portal): State<Portal>,
    Extension(identity): Extension<Identity>,
    Extension(id): Extension<RequestId>,
    Path(name): Path<String>,
) -> Answer {
    let environments = &portal.inner().environments;
    let why = Why { reason: "command", at: environments.now() };
    let job = environments.sleep(caller(&identity, &id), &name, why).await?;
    Ok((StatusCode::ACCEPTED, Json(job)).into_response())
}

pub(super) async fn wake(
    State(portal): State<Portal>,
    Extension(identity): Extension<Identity>,
    Extension(id): Extension<RequestId>,
    Path(name): Path<String>,
) -> Answer {
    let environments = &portal.inner().environments;
    let why = Why { reason: "command", at: environments.now() };
    let job = environments.wake(caller(&identity, &id), &name, why).await?;
    Ok((StatusCode::ACCEPTED, Json(job)).into_response())
}

pub(super) async fn extend(
    State(portal): State<Portal>,
    Extension(identity): Extension<Identity>,
    Extension(id): Extension<RequestId>,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<Extend>,
) -> Result<Json<Environment>, Error> {
    portal.inner().environments.extend(caller(&identity, &id), &name, request.period).await.map(Json)
}
