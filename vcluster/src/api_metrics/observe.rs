//! One request while it is answered.

use std::{sync::Arc, time::Instant};

use axum::body::Body;
use http::{HeaderMap, Response, header};
use http_body::Body as _;

use super::{
    ApiMetrics,
    series::{Labels, Series},
};
use crate::{
    guarded::guarded,
    plane::Plane,
    request::{Query, RequestInfo},
};

/// Counts a request from its beginning to its end; one that is dropped is in flight no longer, and counted nowhere.
pub(crate) struct Observation {
    metrics: Arc<ApiMetrics>,
    started: Instant,
    kind: Option<Kindred>,
    in_flight: Option<bool>,
}

/// What the request is like.
enum Kindred {
    Known(Arc<Series>),
    /// The first of its kind: whether there is such a resource is known in the end.
    First(Box<Labels>),
}

impl Observation {
    pub(crate) fn begin(metrics: Arc<ApiMetrics>) -> Self {
        Self { metrics, started: Instant::now(), kind: None, in_flight: None }
    }

    /// Says what the request is about.
    pub(crate) fn is(&mut self, info: &RequestInfo, query: &Query, headers: &HeaderMap) {
        let patch = info.verb == "patch";
        let apply = patch
            && headers.get(header::CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"application/apply-patch"));
        let dry_run = query.has("dryRun");
        let kind = match self.metrics.known(Labels::id_of(info, apply, dry_run)) {
            Some(series) => Kindred::Known(series),
            None => Kindred::First(Box::new(Labels::of(info, apply, dry_run))),
        };
        let verb = match &kind {
            Kindred::Known(series) => series.labels.verb,
            Kindred::First(labels) => labels.verb,
        };
        if !matches!(verb, "WATCH" | "CONNECT") {
            let mutating = !matches!(verb, "GET" | "LIST");
            self.metrics.in_flight(mutating, 1);
            self.in_flight = Some(mutating);
        }
        self.kind = Some(kind);
    }

    /// The request has its answer.
    pub(crate) async fn end(mut self, plane: &Arc<Plane>, response: Response<Body>) -> Response<Body> {
        let series = match self.kind.take() {
            None => return response,
            Some(Kindred::Known(series)) => series,
            Some(Kindred::First(labels)) => {
                let serves = |catalog: &vctl_machinery::catalog::Catalog| {
                    catalog.resource(&labels.group, &labels.version, &labels.resource).is_some_and(|row| {
                        labels.subresource.is_empty() || row.subresource(&labels.subresource).is_some()
                    })
                };
                // Else anybody could make up any number of series.
                let real = labels.resource.is_empty() || plane.catalog().await.is_ok_and(|c| serves(&c));
                self.metrics.series(if real { *labels } else { labels.anonymous() })
            }
        };
        self.metrics.answered.add_one();
        series.answered(response.status().as_u16(), self.started.elapsed());
        if !series.is_long() || response.body().is_end_stream() {
            return response;
        }
        series.running(1);
        response.map(|body| guarded(body, Counted(series)))
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        if let Some(mutating) = self.in_flight {
            self.metrics.in_flight(mutating, -1);
        }
    }
}

/// A request that goes on; it is over when this is dropped.
struct Counted(Arc<Series>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.running(-1);
    }
}
