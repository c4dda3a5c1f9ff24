//! One kind of requests.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use vctl_runtime::metrics::{Counter, Exposition, Gauge, Histogram};

use crate::request::RequestInfo;

/// Upper bounds in seconds; upstream's.
const BOUNDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

/// Codes that are counted each by itself; what is none of them is counted as the last.
const CODES: [u16; 24] = [
    200, 201, 202, 101, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 501, 502, 503, 504, 206,
    0,
];

/// What tells kinds of requests apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labels {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) verb: &'static str,
    pub(super) scope: &'static str,
    pub(super) dry_run: bool,
}

/// A verb as upstream counts it.
fn verb(info: &RequestInfo, apply: bool) -> &'static str {
    if matches!(&*info.subresource, "exec" | "attach" | "portforward" | "proxy" | "log") && info.is_resource {
        return "CONNECT";
    }
    match &*info.verb {
        "get" | "head" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" if apply => "APPLY",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    }
}

/// What a request is about: an object, a namespace, or all of the cluster.
fn scope(info: &RequestInfo) -> &'static str {
    if !info.is_resource {
        ""
    } else if !info.name.is_empty() && !matches!(&*info.verb, "list" | "watch" | "deletecollection") {
        "resource"
    } else if !info.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

/// Paths that are no resources, as far as they are told apart.
fn place(path: &str) -> &'static str {
    const PLACES: [&str; 10] = [
        "/healthz",
        "/livez",
        "/readyz",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/version",
        "/apis",
        "/api",
    ];
    let below = |place: &&&str| path.strip_prefix(**place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    PLACES.iter().find(below).copied().unwrap_or_default()
}

/// FNV-1a, so that a request's labels are found without making texts of them.
struct Hash(u64);

impl Hash {
    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn id(parts: [&str; 6], dry_run: bool) -> u64 {
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    for part in parts {
        hash.add(part);
    }
    hash.0 ^ u64::from(dry_run)
}

impl Labels {
    /// The id of a request's labels, without the labels.
    pub(super) fn id_of(info: &RequestInfo, apply: bool, dry_run: bool) -> u64 {
        let [group, version, resource, subresource] = parts(info);
        id([group, version, resource, subresource, verb(info, apply), scope(info)], dry_run)
    }

    pub(super) fn of(info: &RequestInfo, apply: bool, dry_run: bool) -> Self {
        let [group, version, resource, subresource] = parts(info).map(str::to_owned);
        Self { group, version, resource, subresource, verb: verb(info, apply), scope: scope(info), dry_run }
    }

    pub(super) fn id(&self) -> u64 {
        let Self { group, version, resource, subresource, verb, scope, dry_run } = self;
        id([group, version, resource, subresource, verb, scope], *dry_run)
    }

    /// The same without what there can be any number of.
    pub(super) fn anonymous(&self) -> Self {
        let empty = String::new;
        Self { group: empty(), version: empty(), resource: empty(), subresource: empty(), ..self.clone() }
    }
}

fn parts(info: &RequestInfo) -> [&str; 4] {
    if info.is_resource {
        [&info.group, &info.version, &info.resource, &info.subresource]
    } else {
        ["", "", "", place(&info.path)]
    }
}

/// The numbers of one kind of requests.
pub(super) struct Series {
    pub(super) labels: Labels,
    codes: [Counter; CODES.len()],
    duration: OnceLock<Histogram>,
    running: Gauge,
    server: Option<Arc<Series>>,
}

impl Series {
    pub(super) fn new(labels: Labels, server: Option<Arc<Self>>) -> Self {
        Self { labels, codes: Default::default(), duration: OnceLock::new(), running: Gauge::default(), server }
    }

    /// Whether such requests go on until somebody ends them.
    pub(super) fn is_long(&self) -> bool {
        matches!(self.labels.verb, "WATCH" | "CONNECT")
    }

    /// Counts a request that was answered after this time.
    pub(super) fn answered(&self, code: u16, took: Duration) {
        let at = CODES.iter().position(|c| *c == code).unwrap_or(CODES.len() - 1);
        if let Some(counter) = self.codes.get(at) {
            counter.add_one();
        }
        if !self.is_long() {
            self.duration.get_or_init(|| Histogram::new(BOUNDS)).observe(took);
        }
        if let Some(server) = &self.server {
            server.answered(code, took);
        }
    }

    /// A long one has begun or ended.
    pub(super) fn running(&self, change: i64) {
        self.running.add(change);
        if let Some(server) = &self.server {
            server.running(change);
        }
    }

    fn labels(&self) -> Vec<(&str, &str)> {
        let Labels { group, version, resource, subresource, verb, scope, dry_run } = &self.labels;
        let component = if resource.is_empty() { "" } else { "apiserver" };
        vec![
            ("component", component),
            ("dry_run", if *dry_run { "All" } else { "" }),
            ("group", group),
            ("resource", resource),
            ("scope", scope),
            ("subresource", subresource),
            ("verb", verb),
            ("version", version),
        ]
    }

    pub(super) fn write_total(&self, text: &mut Exposition) {
        for (code, counter) in CODES.iter().zip(&self.codes) {
            if counter.get() > 0 {
                let code = code.to_string();
                let mut labels = self.labels();
                labels.insert(0, ("code", &code));
                text.sample("apiserver_request_total", &labels, counter.get());
            }
        }
    }

    pub(super) fn write_duration(&self, text: &mut Exposition) {
        if let Some(duration) = self.duration.get() {
            text.histogram("apiserver_request_duration_seconds", &self.labels(), duration);
        }
    }

    pub(super) fn write_running(&self, text: &mut Exposition) {
        if self.is_long() {
            let mut labels = self.labels();
            labels.retain(|(name, _)| *name != "dry_run");
            text.sample("apiserver_longrunning_requests", &labels, self.running.get());
        }
    }
}
