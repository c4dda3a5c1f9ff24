//! The handlers of what environments use.

use axum::{
    Extension, Json,
    extract::{Path, Query, State, rejection::QueryRejection},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use vctl_api::rest::{CurrentUsage, Period, UsageSeries};

use super::listing::{Listing, Paged};
use crate::{Portal, access::policy::Permit, error::Error};

/// Query of a series.
#[derive(Deserialize, JsonSchema)]
pub(super) struct SeriesQuery {
    since: Option<String>,
    until: Option<String>,
    step: Option<String>,
}

fn invalid(detail: String) -> Error {
    Error::Invalid { kind: "invalid-usage-query", detail, nearest: Vec::new() }
}

/// A time, or how long ago it was.
fn moment(name: &str, text: &str, now: Timestamp) -> Result<Timestamp, Error> {
    let period = || text.parse::<Period>().ok().map(|period| period.before(now));
    text.parse::<Timestamp>().ok().or_else(period).ok_or_else(|| {
        invalid(format!("{name} is {text:?}: write a time such as {now:.0}, or how long ago it was, such as 6h"))
    })
}

pub(super) async fn series(
    State(portal): State<Portal>,
    Path(name): Path<String>,
    query: Result<Query<SeriesQuery>, QueryRejection>,
) -> Result<Json<UsageSeries>, Error> {
    let Query(query) = query.map_err(|e| Error::BadRequest(e.body_text()))?;
    let environments = &portal.inner().environments;
    let now = environments.now();
    let since = moment("since", query.since.as_deref().unwrap_or("24h"), now)?;
    let until = query.until.map_or(Ok(now), |text| moment("until", &text, now))?;
    if until < since {
        return Err(invalid("until is before since: swap them".to_owned()));
    }
    let step = query.step.as_deref().unwrap_or("1m");
    let whole = step.parse::<Period>().ok().map(Period::seconds).filter(|s| s.is_multiple_of(60) && *s <= 86_400);
    let step = whole
        .ok_or_else(|| invalid(format!("step is {step:?}: write whole minutes up to a day, such as 1m, 15m or 1h")))?;
    let environment = environments.stored(&name).await?.value;
    let minutes = u32::try_from(step / 60).unwrap_or(1);
    portal.inner().usage.series(&environment, since, until, minutes).await.map(Json)
}

pub(super) async fn current(
    State(portal): State<Portal>,
    Extension(permit): Extension<Permit>,
    listing: Listing<CurrentUsage>,
) -> Result<Paged<CurrentUsage>, Error> {
    let inner = portal.inner();
    let items = inner.usage.current(&permit, &inner.environments).await?;
    listing.page(items)
}
