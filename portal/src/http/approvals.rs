//! The handlers of requests for approval, their rules, and break-glass.

use axum::{
    Extension, Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, de::DeserializeOwned};
use vctl_api::rest::{
    Approval, ApprovalKind, ApprovalRule, ApprovalRuleSettings, ApprovalState, Decide, Page, RequestRole,
};

use super::{
    api::{Answer, PAGE_LIMIT, named_in_body},
    body::{JsonBody, if_match, tagged},
    permit,
    requester::Requester,
};
use crate::{
    Portal,
    access::{decide::Scope, permission::Permission, policy::Permit},
    approvals::Wanted,
    error::Error,
};

/// What was asked for waits: 202, and where to look.
pub(super) fn waits(approval: &Approval) -> Response {
    let location = format!("/api/v1/approvals/{}", approval.id);
    (StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(approval)).into_response()
}

fn created(approval: &Approval) -> Response {
    let location = format!("/api/v1/approvals/{}", approval.id);
    (StatusCode::CREATED, [(header::LOCATION, location)], Json(approval)).into_response()
}

/// Query of a list of requests.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListQuery {
    state: Option<String>,
    kind: Option<String>,
    project: Option<String>,
    environment: Option<String>,
    #[serde(default)]
    mine: bool,
    #[serde(default)]
    decidable: bool,
    #[serde(default)]
    unreviewed: bool,
    after: Option<String>,
    limit: Option<usize>,
}

/// A word as the API writes it.
fn word<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Error> {
    serde_json::from_value(text.into()).map_err(|e| Error::BadRequest(format!("{what}: {e}")))
}

pub(super) async fn list(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    query: Result<Query<ListQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Answer {
    let Query(query) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    let states = query.state.iter().flat_map(|all| all.split(',')).filter(|s| !s.is_empty());
    let wanted = Wanted {
        states: states.map(|state| word::<ApprovalState>("state", state)).collect::<Result<_, _>>()?,
        kind: query.kind.as_deref().map(|kind| word::<ApprovalKind>("kind", kind)).transpose()?,
        project: query.project,
        environment: query.environment,
        mine: query.mine,
        decidable: query.decidable,
        unreviewed: query.unreviewed,
        after: query.after,
        limit: query.limit.unwrap_or(100).clamp(1, PAGE_LIMIT),
    };
    tagged(&portal.inner().approvals.list(&permit, &wanted).await?, None, &headers)
}

/// A permission in the project that the body names.
async fn in_project(portal: &Portal, permit: &Permit, name: &str, permission: Permission) -> Result<(), Error> {
    let project = portal.inner().access.project(permit, name).await.map_err(named_in_body)?;
    permit::check(permit, permission, Scope::Project(&project.value.name))
}

pub(super) async fn request_role(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    JsonBody(request): JsonBody<RequestRole>,
) -> Answer {
    let approvals = &portal.inner().approvals;
    in_project(&portal, &permit, &request.project, Permission::ApprovalsCreate).await?;
    Ok(created(&approvals.request_role(requester.caller(), &permit, request).await?))
}

pub(super) async fn break_glass(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    JsonBody(request): JsonBody<RequestRole>,
) -> Answer {
    let approvals = &portal.inner().approvals;
    in_project(&portal, &permit, &request.project, Permission::ApprovalsBreakGlass).await?;
    Ok(created(&approvals.break_glass(requester.caller(), &permit, request).await?))
}

pub(super) async fn get(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let approval = portal.inner().approvals.get(&permit, &id).await?;
    tagged(&approval, Some(approval.revision), &headers)
}

macro_rules! steps {
    ($($name:ident)*) => {
        $(pub(super) async fn $name(
            State(portal): State<Portal>,
            requester: Requester,
            Extension(permit): Extension<Permit>,
            Path(id): Path<String>,
            JsonBody(decide): JsonBody<Decide>,
        ) -> Result<Json<Approval>, Error> {
            portal.inner().approvals.$name(requester.caller(), &permit, &id, &decide).await.map(Json)
        })*
    };
}
steps! { approve deny withdraw revoke review }

/// The platform's rules are for whoever sees requests in some project.
async fn may_see_rules(portal: &Portal, permit: &Permit) -> Result<bool, Error> {
    portal.inner().access.allows_somewhere(permit, Permission::ApprovalsList).await
}

pub(super) async fn list_rules(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    headers: HeaderMap,
) -> Answer {
    let seen = may_see_rules(&portal, &permit).await?;
    let items = if seen { portal.inner().approvals.list_rules(None).await? } else { Vec::new() };
    tagged(&Page { items, next: None }, None, &headers)
}

pub(super) async fn get_rule(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    if !may_see_rules(&portal, &permit).await? {
        return Err(Error::NotFound { what: "approval rule", name, nearest: Vec::new() });
    }
    let rule = portal.inner().approvals.rule(None, &name).await?;
    tagged(&rule, Some(rule.revision), &headers)
}

pub(super) async fn put_rule(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<ApprovalRuleSettings>,
) -> Result<Json<ApprovalRule>, Error> {
    let approvals = &portal.inner().approvals;
    approvals.put_rule(requester.caller(), None, &name, settings, if_match(&headers)?).await.map(Json)
}

pub(super) async fn delete_rule(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Error> {
    portal.inner().approvals.delete_rule(requester.caller(), None, &name, if_match(&headers)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list_own_rules(
    State(portal): State<Portal>,
    Path(project): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let items = portal.inner().approvals.list_rules(Some(&project)).await?;
    tagged(&Page { items, next: None }, None, &headers)
}

pub(super) async fn get_own_rule(
    State(portal): State<Portal>,
    Path((project, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let rule = portal.inner().approvals.rule(Some(&project), &name).await?;
    tagged(&rule, Some(rule.revision), &headers)
}

pub(super) async fn put_own_rule(
    State(portal): State<Portal>,
    requester: Requester,
    Path((project, name)): Path<(String, String)>,
    headers: HeaderMap,
    JsonBody(settings): JsonBody<ApprovalRuleSettings>,
) -> Result<Json<ApprovalRule>, Error> {
    let (approvals, revision) = (&portal.inner().approvals, if_match(&headers)?);
    approvals.put_rule(requester.caller(), Some(&project), &name, settings, revision).await.map(Json)
}

pub(super) async fn delete_own_rule(
    State(portal): State<Portal>,
    requester: Requester,
    Path((project, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Error> {
    portal.inner().approvals.delete_rule(requester.caller(), Some(&project), &name, if_match(&headers)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
