//! Versions of templates.

use axum::{
    Extension, Json,
    extract::{Path, State},
    response::IntoResponse,
};
use http::StatusCode;
use vctl_api::rest::{Page, PublishTemplate, TemplateVersion};

use super::{api::Answer, body::JsonBody, requester::Requester};
use crate::{
    Portal,
    access::{permission::Permission, policy::Permit},
    error::Error,
};

pub(super) async fn publish(
    State(portal): State<Portal>,
    requester: Requester,
    JsonBody(request): JsonBody<PublishTemplate>,
) -> Answer {
    let environments = &portal.inner().environments;
    let version = environments.registry.publish(requester.caller(), request, environments.now()).await?;
    Ok((StatusCode::CREATED, Json(version)).into_response())
}

pub(super) async fn versions(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
) -> Result<Json<Page<TemplateVersion>>, Error> {
    if !portal.inner().access.templates(&permit, Permission::TemplatesGet).await?.contains(&name) {
        return Err(Error::NotFound { what: "template", name, nearest: Vec::new() });
    }
    let items = portal.inner().environments.registry.versions(&name).await?;
    Ok(Json(Page { items, next: None }))
}
