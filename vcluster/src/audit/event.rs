//! The `audit.k8s.io/v1` Event of a stage of a request.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    policy::{Level, Stage},
    request::{Audit, Noted},
};
use crate::user::User;

/// An event is made smaller than this by leaving out what was sent and answered, as upstream's `--audit-log-truncate-max-event-size`.
pub(super) const LARGEST: usize = 100 << 10;
/// What is said of an event that was made smaller.
const TRUNCATED: &str = "audit.k8s.io/truncated";
/// About the size of an event without objects and what clients and servers write at length.
const PLAIN: usize = 1 << 10;

/// Something that is to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent {
    /// Name of the virtual cluster.
    pub environment: String,
    /// When the stage was reached.
    pub at: Timestamp,
    /// Who asked.
    pub user: String,
    /// As whom, when they impersonated somebody; else empty.
    pub impersonated: String,
    /// Kubernetes' verb, or the method in lower case.
    pub verb: String,
    /// Address that the request came from.
    pub source: String,
    /// Id of the request: the `Audit-Id` of the answer.
    pub id: String,
    /// Whether it is to change something, or a session in a pod: never dropped.
    pub changes: bool,
    /// About how many bytes it takes.
    pub size: usize,
    /// The Event of `audit.k8s.io/v1`.
    pub event: Value,
}

/// What was answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// `responseStatus`.
    pub(super) status: Option<Value>,
    pub(super) object: Option<Value>,
    /// There was more than is kept.
    pub(super) cut: bool,
}

/// As upstream's MicroTime.
fn micro(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// `UserInfo`; controllers' extra powers are of this process only.
fn user(user: &User) -> Value {
    user.info()
}

impl Audit {
    /// The event of a stage.
    pub(super) fn event(&self, noted: &Noted, stage: Stage, at: Timestamp, answer: Answer) -> AuditEvent {
        let info = &self.info;
        let level = self.decision.level;
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": level.as_str(), "auditID": self.id, "stage": stage.as_str(),
            "requestURI": self.uri, "verb": info.verb, "user": user(&self.user), "sourceIPs": [self.source],
            "requestReceivedTimestamp": micro(self.received), "stageTimestamp": micro(at),
        });
        if !self.agent.is_empty() {
            event["userAgent"] = self.agent.as_str().into();
        }
        if let Some(as_user) = &noted.impersonated {
            event["impersonatedUser"] = user(as_user);
        }
        if info.is_resource {
            let known = &noted.reference;
            let or = |given: &str, known: &str| if given.is_empty() { known.to_owned() } else { given.to_owned() };
            let mut reference = json!({});
            for (field, text) in [
                ("resource", info.resource.clone()),
                ("namespace", or(&info.namespace, &known.namespace)),
                ("name", or(&info.name, &known.name)),
                ("uid", known.uid.clone()),
                ("apiGroup", info.group.clone()),
                ("apiVersion", info.version.clone()),
                ("resourceVersion", known.revision.clone()),
                ("subresource", info.subresource.clone()),
            ] {
                if !text.is_empty() {
                    reference[field] = text.into();
                }
            }
            event["objectRef"] = reference;
        }
        if let Some(status) = answer.status {
            event["responseStatus"] = status;
        }
        let mut annotations = noted.annotations.clone();
        let noted_size = annotations.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let said = event["responseStatus"]["message"].as_str().map_or(0, str::len);
        let mut size = PLAIN + self.uri.len() + self.agent.len() + noted_size + said;
        let mut objects: Vec<(&str, Value)> = Vec::new();
        if level >= Level::Request && stage != Stage::RequestReceived {
            objects.extend(noted.sent.clone().map(|sent| ("requestObject", sent)));
        }
        objects.extend(answer.object.map(|object| ("responseObject", object)));
        let all: usize = objects.iter().map(|(_, object)| object.to_string().len()).sum();
        if answer.cut || all > LARGEST {
            annotations.insert(TRUNCATED.to_owned(), "true".to_owned());
        }
        if all <= LARGEST {
            size += all;
            for (field, mut object) in objects {
                if self.decision.omit_managed_fields {
                    without_managed_fields(&mut object);
                }
                event[field] = object;
            }
        }
        if !annotations.is_empty() {
            event["annotations"] = json!(annotations);
        }
        AuditEvent {
            environment: self.plane.name.clone(),
            at,
            user: self.user.name.clone(),
            impersonated: noted.impersonated.as_ref().map(|u| u.name.clone()).unwrap_or_default(),
            verb: info.verb.clone(),
            source: self.source.clone(),
            id: self.id.clone(),
            changes: self.changes,
            size,
            event,
        }
    }
}

/// Of an object, or of all of a list or a table.
fn without_managed_fields(object: &mut Value) {
    let remove = |of: &mut Value| {
        if let Some(metadata) = of.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    remove(object);
    for item in object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        remove(item);
    }
    for row in object.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(object) = row.get_mut("object") {
            remove(object);
        }
    }
}
