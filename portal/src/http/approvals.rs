//! The handlers of requests for approval, their rules, and break-glass.

use axum::{
    Extension, Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    response::{IntoResponse, NoContent, Response},
};
use http::{HeaderMap, StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vctl_api::rest::{Approval, ApprovalRule, ApprovalRuleSettings, Decide, RequestRole};

use super::{
    body::{IfMatch, JsonBody, Tagged, or_current, tagged},
    listing::{Listing, Paged},
    openapi::{
        answers::Created,
        describe::{Gives, Operation},
    },
    permit,
    requester::Requester,
};
use crate::{
    Portal,
    access::{permission::Permission, policy::Permit},
    approvals::{Asked, Wanted, documents::ApprovalDoc},
    documents::Stored,
    error::Error,
};

fn place(approval: &Approval) -> String {
    format!("/api/v1/approvals/{}", approval.id)
}

/// An answer to what may have to wait for approval: 202, and where to look.
pub(super) enum OrWaits<T> {
    /// It did not have to.
    Done(T),
    /// It waits.
    Waits(Box<Approval>),
}

impl<T> OrWaits<T> {
    pub(super) fn of<U>(asked: Asked<U>, done: impl FnOnce(U) -> T) -> Self {
        match asked {
            Asked::Done(value) => Self::Done(done(value)),
            Asked::Waits(approval) => Self::Waits(approval),
        }
    }
}

impl<T: IntoResponse> IntoResponse for OrWaits<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Done(answer) => answer.into_response(),
            Self::Waits(approval) => {
                (StatusCode::ACCEPTED, [(header::LOCATION, place(&approval))], Json(approval)).into_response()
            }
        }
    }
}

/// What a 202 shows when a job does it, or it waits.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes an answer")]
enum JobOrApproval {
    Job(vctl_api::rest::Job),
    Approval(Box<Approval>),
}

impl<T: Gives> Gives for OrWaits<T> {
    fn gives(operation: &mut Operation<'_>) {
        T::gives(operation);
        let jobs = operation.has(StatusCode::ACCEPTED);
        let text = "It waits for approval: the answer says for whose.";
        if jobs {
            operation.gives::<JobOrApproval>(StatusCode::ACCEPTED, &format!("A job does it. Or: {text}"));
        } else {
            operation.gives::<Approval>(StatusCode::ACCEPTED, text);
        }
        operation.with_header(
            StatusCode::ACCEPTED,
            "Location",
            "The address of the request for approval, when it waits.",
        );
    }
}

fn created(approval: Approval) -> Created<Approval> {
    Created::at(place(&approval), approval)
}

/// Query of a list of requests.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListQuery {
    /// The caller's own.
    #[serde(default)]
    mine: bool,
    /// Those that the caller can decide now.
    #[serde(default)]
    decidable: bool,
    /// Break-glass that nobody has looked at.
    #[serde(default)]
    unreviewed: bool,
}

pub(super) async fn list(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    query: Result<Query<ListQuery>, QueryRejection>,
    listing: Listing<Stored<ApprovalDoc>>,
) -> Result<Paged<Approval>, Error> {
    let Query(ListQuery { mine, decidable, unreviewed }) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    let approvals = &portal.inner().approvals;
    let (selected, next) = listing.select(approvals.list(&permit, &Wanted { mine, decidable, unreviewed }).await?);
    listing.answer(approvals.views(&permit, selected).await?, next)
}

pub(super) async fn request_role(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    JsonBody(request): JsonBody<RequestRole>,
) -> Result<Created<Approval>, Error> {
    let approvals = &portal.inner().approvals;
    permit::in_project(&portal, &permit, Permission::ApprovalsCreate, &request.project).await?;
    Ok(created(approvals.request_role(requester.caller(), &permit, request).await?))
}

pub(super) async fn break_glass(
    State(portal): State<Portal>,
    requester: Requester,
    Extension(permit): Extension<Permit>,
    JsonBody(request): JsonBody<RequestRole>,
) -> Result<Created<Approval>, Error> {
    let approvals = &portal.inner().approvals;
    permit::in_project(&portal, &permit, Permission::ApprovalsBreakGlass, &request.project).await?;
    Ok(created(approvals.break_glass(requester.caller(), &permit, request).await?))
}

pub(super) async fn get(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Tagged<Approval>, Error> {
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
    listing: Listing<ApprovalRule>,
) -> Result<Paged<ApprovalRule>, Error> {
    let seen = may_see_rules(&portal, &permit).await?;
    listing.page(if seen { portal.inner().approvals.list_rules(None).await? } else { Vec::new() })
}

pub(super) async fn get_rule(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Tagged<ApprovalRule>, Error> {
    if !may_see_rules(&portal, &permit).await? {
        return Err(Error::NotFound { what: "approval rule", name, nearest: Vec::new() });
    }
    let rule = portal.inner().approvals.rule(None, &name).await?;
    tagged(&rule, Some(rule.revision), &headers)
}

/// A rule of a project, or the platform's, is made or changed.
async fn put_rule_of(
    portal: &Portal,
    requester: &Requester,
    project: Option<&str>,
    name: &str,
    settings: ApprovalRuleSettings,
    revision: Option<u64>,
) -> Result<Json<ApprovalRule>, Error> {
    let approvals = &portal.inner().approvals;
    let changed = approvals.put_rule(requester.caller(), project, name, settings, revision).await;
    or_current(changed, revision, approvals.rule(project, name)).await.map(Json)
}

/// A rule of a project, or the platform's, is taken away.
async fn delete_rule_of(
    portal: &Portal,
    requester: &Requester,
    project: Option<&str>,
    name: &str,
    revision: Option<u64>,
) -> Result<NoContent, Error> {
    let approvals = &portal.inner().approvals;
    let deleted = approvals.delete_rule(requester.caller(), project, name, revision).await;
    or_current(deleted, revision, approvals.rule(project, name)).await.map(|_| NoContent)
}

pub(super) async fn put_rule(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
    JsonBody(settings): JsonBody<ApprovalRuleSettings>,
) -> Result<Json<ApprovalRule>, Error> {
    put_rule_of(&portal, &requester, None, &name, settings, revision).await
}

pub(super) async fn delete_rule(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
) -> Result<NoContent, Error> {
    delete_rule_of(&portal, &requester, None, &name, revision).await
}

pub(super) async fn list_own_rules(
    State(portal): State<Portal>,
    Path(project): Path<String>,
    listing: Listing<ApprovalRule>,
) -> Result<Paged<ApprovalRule>, Error> {
    listing.page(portal.inner().approvals.list_rules(Some(&project)).await?)
}

pub(super) async fn get_own_rule(
    State(portal): State<Portal>,
    Path((project, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Tagged<ApprovalRule>, Error> {
    let rule = portal.inner().approvals.rule(Some(&project), &name).await?;
    tagged(&rule, Some(rule.revision), &headers)
}

pub(super) async fn put_own_rule(
    State(portal): State<Portal>,
    requester: Requester,
    Path((project, name)): Path<(String, String)>,
    IfMatch(revision): IfMatch,
    JsonBody(settings): JsonBody<ApprovalRuleSettings>,
) -> Result<Json<ApprovalRule>, Error> {
    put_rule_of(&portal, &requester, Some(&project), &name, settings, revision).await
}

pub(super) async fn delete_own_rule(
    State(portal): State<Portal>,
    requester: Requester,
    Path((project, name)): Path<(String, String)>,
    IfMatch(revision): IfMatch,
) -> Result<NoContent, Error> {
    delete_rule_of(&portal, &requester, Some(&project), &name, revision).await
}
