//! The handlers of the audit trail.

use axum::{
    Extension, Json,
    body::{Body, Bytes},
    extract::{Path, Query, State, rejection::QueryRejection},
    response::IntoResponse,
};
use futures::stream;
use http::{HeaderMap, header};
use schemars::JsonSchema;
use serde::Deserialize;
use vctl_api::rest::{AuditEntry, AuditPolicy, AuditVerification};

use super::{
    body::{IfMatch, JsonBody, Tagged, or_current, tagged},
    listing::{Paged, Place},
    openapi::answers::TrailFile,
    requester::Requester,
};
use crate::{
    Portal,
    access::{permission::Permission, policy::Permit},
    audit::{
        Filter, Trail,
        trail::{CSV_HEAD, csv_line},
    },
    error::Error,
};

/// Most entries of a page.
const PAGE_LIMIT: usize = 500;

/// Where a page begins, and how much is on it.
#[derive(Deserialize, JsonSchema)]
pub(super) struct PageQuery {
    /// The same as `cursor`.
    after: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
    /// Most entries of the page: 100 unless it is said.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
}

pub(super) async fn list(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    filter: Result<Query<Filter>, QueryRejection>,
    page: Result<Query<PageQuery>, QueryRejection>,
    place: Place,
) -> Result<Paged<AuditEntry>, Error> {
    let Query(filter) = filter.map_err(|e| Error::BadRequest(e.body_text()))?;
    let Query(page) = page.map_err(|e| Error::BadRequest(e.body_text()))?;
    let limit = page.limit.unwrap_or(100);
    if !(1..=PAGE_LIMIT).contains(&limit) {
        return Err(Error::BadRequest(format!("limit is a number from 1 to {PAGE_LIMIT}")));
    }
    let after = page.cursor.or(page.after);
    let trail = &portal.inner().trail;
    let (items, next) = trail.list(&permit, Permission::AuditList, &filter, after, limit).await?;
    place.page(items, next)
}

/// How to write an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Jsonl,
    Csv,
}

/// Query of an export.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ExportQuery {
    #[serde(default)]
    format: Format,
}

/// An export on its way, page by page.
struct Export {
    trail: Trail,
    permit: Permit,
    filter: Filter,
    format: Format,
    after: Option<String>,
    state: Progress,
}

enum Progress {
    Head,
    Pages,
    Done,
}

impl Export {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, Error> {
        match self.state {
            Progress::Head => {
                self.state = Progress::Pages;
                let head = if self.format == Format::Csv { CSV_HEAD } else { "" };
                Ok(Some((Bytes::from_static(head.as_bytes()), self)))
            }
            Progress::Pages => {
                let after = self.after.take();
                let page = self.trail.list(&self.permit, Permission::AuditExport, &self.filter, after, PAGE_LIMIT);
                let (entries, next) = page.await?;
                let mut text = String::new();
                for entry in &entries {
                    match self.format {
                        Format::Csv => text.push_str(&csv_line(entry)),
                        Format::Jsonl => {
                            text.push_str(&serde_json::to_string(entry).map_err(|e| Error::Internal(e.to_string()))?);
                            text.push('\n');
                        }
                    }
                }
                self.state = if next.is_some() { Progress::Pages } else { Progress::Done };
                self.after = next;
                Ok(Some((text.into(), self)))
            }
            Progress::Done => Ok(None),
        }
    }
}

pub(super) async fn export(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    filter: Result<Query<Filter>, QueryRejection>,
    query: Result<Query<ExportQuery>, QueryRejection>,
) -> Result<TrailFile, Error> {
    let Query(filter) = filter.map_err(|e| Error::BadRequest(e.body_text()))?;
    let Query(ExportQuery { format }) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    if !portal.inner().access.allows_somewhere(&permit, Permission::AuditExport).await? {
        return Err(Error::Forbidden(format!(
            "you need {} in a project: ask its administrator",
            Permission::AuditExport
        )));
    }
    let (kind, name) = match format {
        Format::Csv => ("text/csv; charset=utf-8", "attachment; filename=\"audit.csv\""),
        Format::Jsonl => ("application/jsonl", "attachment; filename=\"audit.jsonl\""),
    };
    let trail = portal.inner().trail.clone();
    let export = Export { trail, permit, filter, format, after: None, state: Progress::Head };
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, name)];
    // A failure in the middle breaks the stream off: the reader finds it cut short.
    Ok(TrailFile((headers, Body::from_stream(stream::try_unfold(export, Export::next))).into_response()))
}

pub(super) async fn policy(
    State(portal): State<Portal>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Tagged<AuditPolicy>, Error> {
    let stored = portal.inner().environments.stored(&name).await?;
    tagged(&AuditPolicy { policy: stored.value.audit_policy }, Some(stored.revision), &headers)
}

pub(super) async fn set_policy(
    State(portal): State<Portal>,
    requester: Requester,
    Path(name): Path<String>,
    IfMatch(revision): IfMatch,
    JsonBody(request): JsonBody<AuditPolicy>,
) -> Result<Json<AuditPolicy>, Error> {
    let environments = &portal.inner().environments;
    let set = environments.set_audit_policy(requester.caller(), &name, request.policy.clone(), revision).await;
    let now = async { environments.audit_policy(&name).await.map(|policy| AuditPolicy { policy }) };
    or_current(set, revision, now).await?;
    Ok(Json(request))
}

pub(super) async fn verify(State(portal): State<Portal>) -> Result<Json<AuditVerification>, Error> {
    portal.inner().trail.verify().await.map(Json)
}
