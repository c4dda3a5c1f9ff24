//! One request on its way.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::body::Body;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use http_body::Body as _;
use jiff::Timestamp;
use serde_json::Value;

use super::{
    AuditBackend, capture,
    event::Answer,
    policy::{Decision, Level, Stage, holds_secrets},
};
use crate::{activity, control_planes::Peer, guarded::guarded, plane::Plane, request::RequestInfo, user::User};

/// The request's id, of request and answer; upstream's name.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Longest id and longest annotation that is taken from others.
const LONGEST_ID: usize = 64;
const LONGEST_ANNOTATION: usize = 4096;
/// Annotations of one request.
const MOST_ANNOTATIONS: usize = 64;

/// The id of a request: the client's when it is a sensible one.
pub(crate) fn id_of(headers: &HeaderMap) -> String {
    let given = headers.get(AUDIT_ID).and_then(|v| v.to_str().ok());
    let sensible = |id: &&str| {
        (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    // Of the thread's own generator: every request has one, and asking the kernel for it takes longer than the rest.
    let made = || uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string();
    given.filter(sensible).map_or_else(made, ToOwned::to_owned)
}

/// A request of which something is recorded.
pub(crate) struct Audit {
    pub(super) plane: Arc<Plane>,
    backend: Arc<dyn AuditBackend>,
    pub(super) decision: Decision,
    pub(super) id: String,
    pub(super) info: RequestInfo,
    /// Path and query.
    pub(super) uri: String,
    pub(super) user: Arc<User>,
    pub(super) source: String,
    pub(super) agent: String,
    pub(super) received: Timestamp,
    pub(super) changes: bool,
    noted: Mutex<Noted>,
}

/// What is found out of it on its way.
#[derive(Default)]
pub(super) struct Noted {
    pub(super) impersonated: Option<Arc<User>>,
    pub(super) reference: Reference,
    pub(super) sent: Option<Value>,
    pub(super) annotations: BTreeMap<String, String>,
}

/// What the object that was sent says of itself.
#[derive(Default)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) revision: String,
}

/// Characters of a user agent that are recorded, and what is put behind them where there are more: as upstream.
const LONGEST_AGENT: usize = 1024;
const CUT: &str = "...TRUNCATED";

/// The user agent of a request. What is no visible ASCII counts for none.
fn agent_of(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    match agent.get(..LONGEST_AGENT) {
        Some(kept) if kept.len() < agent.len() => format!("{kept}{CUT}"),
        _ => agent.to_owned(),
    }
}

impl Audit {
    /// Looks up what is recorded of a request; none when nothing is.
    pub(crate) fn begin(
        plane: &Arc<Plane>,
        info: &RequestInfo,
        user: &Arc<User>,
        request: &Request<Body>,
        peer: &Peer,
        id: &str,
    ) -> Option<Arc<Self>> {
        let backend = plane.shared.config.audit.as_ref()?;
        // Anybody could fill the trail.
        if user.in_group("system:unauthenticated") {
            return None;
        }
        let decision = plane.audit_policy.decide(info, &user.name, &user.groups);
        plane.shared.audited.count(decision.level);
        if decision.level == Level::None {
            return None;
        }
        let uri = request.uri().path_and_query().map_or_else(|| info.path.clone(), ToString::to_string);
        // The port says nothing.
        let source = peer.address.parse::<SocketAddr>().map(|a| a.ip().to_canonical().to_string());
        Some(Arc::new(Self {
            backend: backend.clone(),
            decision,
            id: id.to_owned(),
            uri,
            user: user.clone(),
            source: source.unwrap_or_else(|_| peer.address.clone()),
            agent: agent_of(request.headers()),
            received: plane.now(),
            changes: activity::changes(info),
            info: info.clone(),
            plane: plane.clone(),
            noted: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// They act as somebody else.
    pub(crate) fn impersonates(&self, user: &Arc<User>) {
        if !Arc::ptr_eq(user, &self.user) && **user != *self.user {
            self.lock().impersonated = Some(user.clone());
        }
    }

    /// Notes what somebody on the way has to say. The first one to say something of a key is right.
    pub(crate) fn annotate(&self, key: &str, value: &str) {
        let annotations = &mut self.lock().annotations;
        if annotations.len() < MOST_ANNOTATIONS && !annotations.contains_key(key) {
            let end = (0..=LONGEST_ANNOTATION.min(value.len())).rev().find(|i| value.is_char_boundary(*i));
            annotations.insert(key.to_owned(), value[..end.unwrap_or(0)].to_owned());
        }
    }

    /// Whether what is sent is recorded whole.
    pub(crate) fn wants_patches(&self) -> bool {
        self.decision.level >= Level::Request
    }

    /// What was sent.
    pub(crate) fn sent(&self, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let mut noted = self.lock();
        noted.reference = Reference {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            revision: text("resourceVersion"),
        };
        if self.decision.level >= Level::Request {
            noted.sent = Some(object.clone());
        }
    }

    /// A patch that was sent.
    pub(crate) fn sent_patch(&self, patch: Value) {
        self.lock().sent = Some(patch);
    }

    async fn record(&self, stage: Stage, answer: Answer) {
        if !self.decision.omits(stage) {
            let event = self.event(&self.lock(), stage, self.plane.now(), answer);
            self.backend.process(event).await;
        }
    }

    /// The request has come.
    pub(crate) async fn received(&self) {
        if !self.decision.omits(Stage::RequestReceived) {
            let event = self.event(&self.lock(), Stage::RequestReceived, self.received, Answer::default());
            self.backend.process(event).await;
        }
    }

    /// The request has its answer.
    pub(crate) async fn end(self: Arc<Self>, response: Response<Body>) -> Response<Body> {
        let started = response.status() == StatusCode::SWITCHING_PROTOCOLS
            || (response.status().is_success() && is_long_running(&self.info));
        if started {
            return self.started(response).await;
        }
        let object = self.decision.level >= Level::RequestResponse && !is_log(&self.info);
        let (response, answer) = capture::read(response, object, holds_secrets(&self.info)).await;
        self.record(Stage::ResponseComplete, answer).await;
        response
    }

    /// Something has begun that goes on until somebody ends it.
    async fn started(self: Arc<Self>, response: Response<Body>) -> Response<Body> {
        let code = response.status().as_u16();
        self.record(Stage::ResponseStarted, status(code)).await;
        if response.body().is_end_stream() {
            // A session: it goes on over the connection. That it has begun is all there is to record.
            self.record(Stage::ResponseComplete, status(code)).await;
            return response;
        }
        response.map(|body| guarded(body, Recorded { audit: self, code }))
    }
}

fn status(code: u16) -> Answer {
    Answer { status: Some(serde_json::json!({ "metadata": {}, "code": code })), ..Answer::default() }
}

/// As upstream's check of long-running requests.
fn is_long_running(info: &RequestInfo) -> bool {
    info.verb == "watch" || matches!(&*info.subresource, "attach" | "exec" | "proxy" | "portforward") || is_log(info)
}

fn is_log(info: &RequestInfo) -> bool {
    info.resource == "pods" && info.subresource == "log"
}

/// An answer that goes on; it is over when this is dropped.
struct Recorded {
    audit: Arc<Audit>,
    code: u16,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let audit = &self.audit;
        if !audit.decision.omits(Stage::ResponseComplete) {
            let event = audit.event(&audit.lock(), Stage::ResponseComplete, audit.plane.now(), status(self.code));
            audit.backend.offer(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_user_agents_are_cut_and_say_so() {
        let agent = |length: usize| {
            let headers = HeaderMap::from_iter([(header::USER_AGENT, "a".repeat(length).parse().unwrap())]);
            agent_of(&headers)
        };
        assert_eq!(agent(LONGEST_AGENT), "a".repeat(LONGEST_AGENT));
        assert_eq!(agent(LONGEST_AGENT + 1), format!("{}...TRUNCATED", "a".repeat(LONGEST_AGENT)));
        assert_eq!(agent_of(&HeaderMap::new()), "");
    }
}
