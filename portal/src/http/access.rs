//! The handlers of projects, teams, roles, members and shares.

use axum::{
    Extension, Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    response::NoContent,
};
use http::{HeaderMap, header};
use schemars::JsonSchema;
use serde::Deserialize;
use vctl_api::rest::{
    CreateProject, Environment, Permissions, Platform, PlatformSettings, Project, ProjectSettings, QuotaUsage, Role,
    RoleSettings, Share, ShareAccess, Team, TeamSettings,
};

use super::{
    body::{IfMatch, JsonBody, Tagged, or_current, tagged},
    listing::{Listing, Paged},
    openapi::answers::{Created, OfNamed},
    requester::Requester,
};
use crate::{
    Portal,
    access::{decide::Scope, policy::Permit, role},
    error::Error,
};

/// Query of what one may do: in a project, with an environment, or (neither) on the platform.
#[derive(Deserialize, JsonSchema)]
pub(super) struct PermissionsQuery {
    /// In this project.
    project: Option<String>,
    /// With this environment; not together with a project.
    environment: Option<String>,
}

pub(super) async fn permissions(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    query: Result<Query<PermissionsQuery>, QueryRejection>,
) -> Result<OfNamed<Json<Permissions>>, Error> {
    let Query(query) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    let set = match (query.project, query.environment) {
        (None, None) => permit.at(Scope::Platform),
        (Some(project), None) => {
            let project = portal.inner().access.project(&permit, &project).await?.value;
            permit.at(Scope::Project(&project.name))
        }
        (None, Some(name)) => permit.on(&portal.inner().environments.seen(&permit, &name).await?.value),
        (Some(_), Some(_)) => {
            return Err(Error::invalid("ambiguous-place", "say either project or environment, not both"));
        }
    };
    Ok(OfNamed(Json(Permissions { permissions: set.iter().map(|p| p.as_str().to_owned()).collect() })))
}

pub(super) async fn list_projects(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    listing: Listing<Project>,
) -> Result<Paged<Project>, Error> {
    listing.page(portal.inner().access.projects(&permit).await?)
}

pub(super) async fn create_project(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    JsonBody(request): JsonBody<CreateProject>,
) -> Result<Created<Project>, Error> {
    let project = portal.inner().access.create_project(requester.caller(), &permit, request).await?;
    let location = format!("/api/v1/projects/{}", project.name);
    Ok(Created::at(location, project))
}

pub(super) async fn get_project(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Tagged<Project>, Error> {
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
    IfMatch(revision): IfMatch,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<ProjectSettings>,
) -> Result<Tagged<Project>, Error> {
    let access = &portal.inner().access;
    let changed = access.update_project(requester.caller(), &permit, &name, settings, revision).await;
    let now = async { access.project(&permit, &name).await.map(crate::access::documents::project) };
    let project = or_current(changed, revision, now).await?;
    changed_to(&project, project.revision, headers)
}

pub(super) async fn delete_project(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
) -> Result<NoContent, Error> {
    let access = &portal.inner().access;
    let deleted = access.delete_project(requester.caller(), &permit, &name, revision).await;
    let now = async { access.project(&permit, &name).await.map(crate::access::documents::project) };
    or_current(deleted, revision, now).await?;
    Ok(NoContent)
}

pub(super) async fn list_teams(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    listing: Listing<Team>,
) -> Result<Paged<Team>, Error> {
    listing.page(portal.inner().access.teams(&permit).await?)
}

pub(super) async fn get_team(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Tagged<Team>, Error> {
    let team = portal.inner().access.team(&permit, &name).await?;
    tagged(&team, Some(team.revision), &headers)
}

pub(super) async fn put_team(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<TeamSettings>,
) -> Result<Tagged<Team>, Error> {
    let access = &portal.inner().access;
    let changed = access.put_team(requester.caller(), &permit, &name, settings, revision).await;
    let team = or_current(changed, revision, access.team(&permit, &name)).await?;
    changed_to(&team, team.revision, headers)
}

pub(super) async fn delete_team(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
) -> Result<NoContent, Error> {
    let access = &portal.inner().access;
    let deleted = access.delete_team(requester.caller(), &permit, &name, revision).await;
    or_current(deleted, revision, access.team(&permit, &name)).await?;
    Ok(NoContent)
}

pub(super) async fn list_roles(State(portal): State<Portal>, listing: Listing<Role>) -> Result<Paged<Role>, Error> {
    listing.page(portal.inner().access.roles().await?)
}

pub(super) async fn get_role(
    State(portal): State<Portal>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Tagged<Role>, Error> {
    let role = portal.inner().access.role(&name).await?;
    tagged(&role, Some(role.revision), &headers)
}

pub(super) async fn put_role(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<RoleSettings>,
) -> Result<Tagged<Role>, Error> {
    let access = &portal.inner().access;
    let changed = access.put_role(requester.caller(), &permit, &name, settings, revision).await;
    let role = or_current(changed, revision, access.role(&name)).await?;
    changed_to(&role, role.revision, headers)
}

pub(super) async fn delete_role(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
) -> Result<NoContent, Error> {
    let access = &portal.inner().access;
    let deleted = access.delete_role(requester.caller(), &name, revision).await;
    or_current(deleted, revision, access.role(&name)).await?;
    Ok(NoContent)
}

pub(super) async fn get_platform(State(portal): State<Portal>, headers: HeaderMap) -> Result<Tagged<Platform>, Error> {
    let platform = portal.inner().access.platform().await?;
    tagged(&platform, Some(platform.revision), &headers)
}

pub(super) async fn put_platform(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    IfMatch(revision): IfMatch,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<PlatformSettings>,
) -> Result<Tagged<Platform>, Error> {
    let access = &portal.inner().access;
    let changed = access.put_platform(requester.caller(), &permit, settings, revision).await;
    let platform = or_current(changed, revision, access.platform()).await?;
    changed_to(&platform, platform.revision, headers)
}

/// What a change has made of it, with its new entity tag; never 304.
fn changed_to<T: serde::Serialize>(value: &T, revision: u64, mut request: HeaderMap) -> Result<Tagged<T>, Error> {
    request.remove(header::IF_NONE_MATCH);
    tagged(value, Some(revision), &request)
}

pub(super) async fn share(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    Path((name, user)): Path<(String, String)>,
    IfMatch(revision): IfMatch,
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
    let shared = environments.share(requester.caller(), &name, &user, Some(access), revision).await;
    or_current(shared, revision, environments.get(&name)).await.map(Json)
}

pub(super) async fn unshare(
    State(portal): State<Portal>,
    requester: Requester,
    Path((name, user)): Path<(String, String)>,
    IfMatch(revision): IfMatch,
) -> Result<Json<Environment>, Error> {
    let user = portal.inner().access.user_id(&user).await?;
    let environments = &portal.inner().environments;
    let unshared = environments.share(requester.caller(), &name, &user, None, revision).await;
    or_current(unshared, revision, environments.get(&name)).await.map(Json)
}
