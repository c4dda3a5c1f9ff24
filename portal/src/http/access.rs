//! The handlers of projects, teams, roles, members and shares.

use axum::{
    Extension, Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    response::IntoResponse,
};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use vctl_api::rest::{
    CreateProject, Environment, Page, Permissions, Platform, Project, ProjectSettings, QuotaUsage, Role, RoleSettings,
    Share, ShareAccess, Team, TeamSettings,
};

use super::{
    api::Answer,
    body::{JsonBody, if_match, tagged},
    requester::Requester,
};
use crate::{
    Portal,
    access::{decide::Scope, policy::Permit, role},
    error::Error,
};

fn page<T: serde::Serialize>(items: Vec<T>, headers: &HeaderMap) -> Answer {
    tagged(&Page { items, next: None }, None, headers)
}

/// Query of what one may do: in a project, with an environment, or (neither) on the platform.
#[derive(Deserialize)]
pub(super) struct PermissionsQuery {
    project: Option<String>,
    environment: Option<String>,
}

pub(super) async fn permissions(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    query: Result<Query<PermissionsQuery>, QueryRejection>,
) -> Result<Json<Permissions>, Error> {
    let Query(query) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    let set = match (query.project, query.environment) {
        (None, None) => permit.at(Scope::Platform),
        (Some(project), None) => {
            let project = portal.inner().access.project(&permit, &project).await?.value;
            permit.at(Scope::Project(&project.name))
        }
        (None, Some(name)) => permit.on(&portal.inner().environments.seen(&permit, &name).await?.value),
        (Some(_), Some(_)) => {
            return Err(Error::BadRequest("say either project or environment, not both".to_owned()));
        }
    };
    Ok(Json(Permissions { permissions: set.iter().map(|p| p.as_str().to_owned()).collect() }))
}

pub(super) async fn list_projects(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    headers: HeaderMap,
) -> Answer {
    page(portal.inner().access.projects(&permit).await?, &headers)
}

pub(super) async fn create_project(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    JsonBody(request): JsonBody<CreateProject>,
) -> Answer {
    let project = portal.inner().access.create_project(requester.caller(), &permit, request).await?;
    let location = format!("/api/v1/projects/{}", project.name);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(project)).into_response())
}

pub(super) async fn get_project(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let project = crate::access::documents::project(portal.inner().access.project(&permit, &name).await?);
    tagged(&project, Some(project.revision), &headers)
}

pub(super) async fn usage(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
) -> Result<Json<QuotaUsage>, Error> {
    let access = &portal.inner().access;
    let quota = access.project(&permit, &name).await?.value.settings.quota;
    let (used, limits) = access.usage(&name, &permit.subject.user).await?;
    Ok(Json(QuotaUsage { quota, used, limits }))
}

pub(super) async fn put_project(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<ProjectSettings>,
) -> Result<Json<Project>, Error> {
    let revision = if_match(&headers)?;
    let access = &portal.inner().access;
    access.update_project(requester.caller(), &permit, &name, settings, revision).await.map(Json)
}

pub(super) async fn delete_project(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
) -> Result<StatusCode, Error> {
    portal.inner().access.delete_project(requester.caller(), &permit, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list_teams(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    headers: HeaderMap,
) -> Answer {
    page(portal.inner().access.teams(&permit).await?, &headers)
}

pub(super) async fn get_team(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let team = portal.inner().access.team(&permit, &name).await?;
    tagged(&team, Some(team.revision), &headers)
}

pub(super) async fn put_team(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<TeamSettings>,
) -> Result<Json<Team>, Error> {
    let revision = if_match(&headers)?;
    let access = &portal.inner().access;
    access.put_team(requester.caller(), &permit, &name, settings, revision).await.map(Json)
}

pub(super) async fn delete_team(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
) -> Result<StatusCode, Error> {
    portal.inner().access.delete_team(requester.caller(), &permit, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list_roles(State(portal): State<Portal>, headers: HeaderMap) -> Answer {
    page(portal.inner().access.roles().await?, &headers)
}

pub(super) async fn put_role(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<RoleSettings>,
) -> Result<Json<Role>, Error> {
    let revision = if_match(&headers)?;
    let access = &portal.inner().access;
    access.put_role(requester.caller(), &permit, &name, settings, revision).await.map(Json)
}

pub(super) async fn delete_role(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
) -> Result<StatusCode, Error> {
    portal.inner().access.delete_role(requester.caller(), &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn get_platform(State(portal): State<Portal>, headers: HeaderMap) -> Answer {
    let platform = portal.inner().access.platform().await?;
    tagged(&platform, Some(platform.revision), &headers)
}

pub(super) async fn put_platform(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<Platform>,
) -> Result<Json<Platform>, Error> {
    let revision = if_match(&headers)?;
    portal.inner().access.put_platform(requester.caller(), &permit, settings, revision).await.map(Json)
}

pub(super) async fn share(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path((name, user)): Path<(String, String)>,
    JsonBody(Share { access }): JsonBody<Share>,
) -> Result<Json<Environment>, Error> {
    let environments = &portal.inner().environments;
    let given = match access {
        ShareAccess::Admin => role::SHARED,
        ShareAccess::ReadOnly => role::READER,
    };
    let missing = given.without(permit.lasting_on(&environments.seen(&permit, &name).await?.value));
    if !missing.is_empty() {
        return Err(Error::Forbidden(format!(
            "this would give what you do not have yourself ({}): ask the owner of the environment",
            missing.to_text()
        )));
    }
    let user = portal.inner().access.user_id(&user).await?;
    environments.share(requester.caller(), &name, &user, Some(access)).await.map(Json)
}

pub(super) async fn unshare(
    State(portal): State<Portal>,
    requester: Requester,
    Path((name, user)): Path<(String, String)>,
) -> Result<Json<Environment>, Error> {
    let user = portal.inner().access.user_id(&user).await?;
    portal.inner().environments.share(requester.caller(), &name, &user, None).await.map(Json)
}
