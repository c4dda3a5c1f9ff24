//! Measurements of requests, under upstream's names (`k8s.io/apiserver` `pkg/endpoints/metrics`). Each cluster has its own, and what is
//! counted there is counted for the whole server at the same time. A request costs one look-up by hash and a few additions; text is made
//! and memory is taken only for the first request of its kind.

mod admission;
mod observe;
mod series;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use vctl_runtime::metrics::{Counter, Exposition, Gauge, Kind};
use vctl_store::Tenant;

use admission::Admission;
pub(crate) use admission::Step;
pub(crate) use observe::Observation;
use series::{Labels, Series};

/// Kinds of requests that are told apart; of one cluster, and of the server. The others are counted together.
const MOST_OF_CLUSTER: usize = 1000;
const MOST_OF_SERVER: usize = 10_000;

/// Measurements of one cluster, or of all of them.
pub(crate) struct ApiMetrics {
    series: RwLock<HashMap<u64, Arc<Series>>>,
    most: usize,
    /// Where everything is counted once more.
    server: Option<Arc<ApiMetrics>>,
    reading: Gauge,
    mutating: Gauge,
    /// Requests of all kinds that were answered.
    answered: Counter,
    admission: Admission,
}

/// Those of all clusters of the process.
pub(crate) struct AllMetrics {
    pub(crate) server: Arc<ApiMetrics>,
    clusters: Mutex<HashMap<Tenant, Arc<ApiMetrics>>>,
}

impl Default for AllMetrics {
    fn default() -> Self {
        Self { server: Arc::new(ApiMetrics::new(MOST_OF_SERVER, None)), clusters: Mutex::default() }
    }
}

impl AllMetrics {
    /// Those of one cluster; they live as long as it does.
    pub(crate) fn of(&self, tenant: Tenant) -> Arc<ApiMetrics> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(ApiMetrics::new(MOST_OF_CLUSTER, Some(self.server.clone())));
        clusters.entry(tenant).or_insert_with(make).clone()
    }

    /// How many requests each cluster has answered since its first one.
    pub(crate) fn answered(&self) -> Vec<(Tenant, u64)> {
        let clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.iter().map(|(tenant, metrics)| (*tenant, metrics.answered.get())).filter(|(_, n)| *n > 0).collect()
    }

    /// The cluster is gone.
    pub(crate) fn forget(&self, tenant: Tenant) {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).remove(&tenant);
    }
}

impl ApiMetrics {
    fn new(most: usize, server: Option<Arc<Self>>) -> Self {
        Self {
            series: RwLock::default(),
            most,
            server,
            reading: Gauge::default(),
            mutating: Gauge::default(),
            answered: Counter::default(),
            admission: Admission::default(),
        }
    }

    fn known(&self, id: u64) -> Option<Arc<Series>> {
        self.series.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// The series with these labels, made if need be.
    fn series(&self, labels: Labels) -> Arc<Series> {
        let id = labels.id();
        if let Some(known) = self.known(id) {
            return known;
        }
        let server = self.server.as_ref().map(|s| s.series(labels.clone()));
        let mut all = self.series.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() < self.most {
            return all.entry(id).or_insert_with(|| Arc::new(Series::new(labels, server))).clone();
        }
        let rest = labels.anonymous();
        let id = rest.id();
        let server = self.server.as_ref().map(|s| s.series(rest.clone()));
        all.entry(id).or_insert_with(|| Arc::new(Series::new(rest, server))).clone()
    }

    fn in_flight(&self, mutating: bool, change: i64) {
        if mutating { &self.mutating } else { &self.reading }.add(change);
        if let Some(server) = &self.server {
            server.in_flight(mutating, change);
        }
    }

    /// Counts a step of the admission of a request.
    pub(crate) fn admission_step(&self, operation: &'static str, step: Step, rejected: bool, took: Duration) {
        self.admission.step(operation, step, rejected, took);
        if let Some(server) = &self.server {
            server.admission_step(operation, step, rejected, took);
        }
    }

    /// Counts a call of an admission webhook. Their names are their cluster's: the server does not count them.
    pub(crate) fn webhook(&self, name: &str, operation: &'static str, mutating: bool, rejected: bool, took: Duration) {
        self.admission.webhook(name, operation, mutating, rejected, took);
    }

    /// Writes everything.
    pub(crate) fn write(&self, text: &mut Exposition) {
        let mut all: Vec<Arc<Series>> =
            self.series.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        all.sort_by(|a, b| a.labels.cmp(&b.labels));
        text.family(
            "apiserver_request_total",
            Kind::Counter,
            "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and \
             HTTP response code.",
        );
        for series in &all {
            series.write_total(text);
        }
        text.family(
            "apiserver_request_duration_seconds",
            Kind::Histogram,
            "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and \
             component. Requests without an end of their own are left out.",
        );
        for series in &all {
            series.write_duration(text);
        }
        text.family(
            "apiserver_longrunning_requests",
            Kind::Gauge,
            "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. \
             Not all requests are tracked this way.",
        );
        for series in &all {
            series.write_running(text);
        }
        text.family(
            "apiserver_current_inflight_requests",
            Kind::Gauge,
            "[STABLE] Number of requests that are being answered, per request kind.",
        );
        for (kind, gauge) in [("mutating", &self.mutating), ("readOnly", &self.reading)] {
            text.sample("apiserver_current_inflight_requests", &[("request_kind", kind)], gauge.get());
        }
        self.admission.write(text);
    }
}

#[cfg(test)]
mod tests;
