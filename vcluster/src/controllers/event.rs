//! Life-cycle events: pure builders of `core/v1 Event` objects, as client-go's recorders make them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{name, namespace, rfc3339, rfc3339_micro, text, uid};

/// `type` of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Somebody may have to look.
    Warning,
}

impl EventType {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something that happened to an object, not yet an Event.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// `involvedObject`, an ObjectReference.
    pub involved: Value,
    /// Normal or Warning.
    pub kind: EventType,
    /// CamelCase, for machines.
    pub reason: String,
    /// For people; cut at 1024 bytes.
    pub message: String,
    /// Set by components that use the newer `events.k8s.io` API (the scheduler): what was being done.
    pub action: Option<&'static str>,
}

impl Draft {
    /// An event about `object`, of type `api_version`/`kind`.
    pub fn new(
        api_version: &str,
        kind: &str,
        object: &Value,
        event_type: EventType,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
        let mut involved = json!({
            "apiVersion": api_version, "kind": kind, "name": name(object), "uid": uid(object),
        });
        if !namespace(object).is_empty() {
            involved["namespace"] = namespace(object).into();
        }
        let revision = text(object, "/metadata/resourceVersion");
        if !revision.is_empty() {
            involved["resourceVersion"] = revision.into();
        }
        Self { involved, kind: event_type, reason: reason.into(), message: cut(message.into()), action: None }
    }

    /// Where the Event lives: the object's namespace, or `default` for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        match text(&self.involved, "/namespace") {
            "" => "default",
            namespace => namespace,
        }
    }

    /// The Event, first seen at `now`. Its name is the object's name and the nanoseconds since 1970 in hex.
    pub fn build(&self, component: &str, now: Timestamp) -> Value {
        let nanos = now.as_nanosecond();
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "name": format!("{}.{nanos:x}", text(&self.involved, "/name")), "namespace": self.namespace() },
            "involvedObject": self.involved,
            "type": self.kind.as_str(), "reason": self.reason, "message": self.message,
            "reportingComponent": component,
        });
        match self.action {
            None => {
                event["source"] = json!({ "component": component });
                event["reportingInstance"] = "".into();
                event["firstTimestamp"] = rfc3339(now).into();
                event["lastTimestamp"] = rfc3339(now).into();
                event["count"] = 1.into();
            }
            Some(action) => {
                event["source"] = json!({});
                event["reportingInstance"] = component.into();
                event["action"] = action.into();
                event["eventTime"] = rfc3339_micro(now).into();
            }
        }
        event
    }

    /// The merge patch that says that the event was seen for the `count`-th time.
    pub fn repeat(&self, count: u32, now: Timestamp) -> Value {
        match self.action {
            None => json!({ "count": count, "lastTimestamp": rfc3339(now), "message": self.message }),
            Some(_) => json!({ "series": { "count": count, "lastObservedTime": rfc3339_micro(now) } }),
        }
    }
}

/// At most 1024 bytes, as the API allows.
fn cut(mut message: String) -> String {
    if message.len() > 1024 {
        let mut end = 1024;
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> Draft {
        let pod = json!({ "metadata": { "name": "web-1", "namespace": "shop", "uid": "u1", "resourceVersion": "7" } });
        Draft::new("v1", "Pod", &pod, EventType::Normal, "Created", "Created container")
    }

    #[test]
    fn names_and_fields_are_those_of_client_go() {
        let now = Timestamp::from_nanosecond(0x18a_b000_0000_0001).unwrap();
        let event = draft().build("replicaset-controller", now);
        assert_eq!(event["metadata"]["name"], "web-1.18ab00000000001");
        assert_eq!(event["metadata"]["namespace"], "shop");
        assert_eq!(event["involvedObject"]["resourceVersion"], "7");
        assert_eq!(event["source"]["component"], "replicaset-controller");
        assert_eq!(event["reportingComponent"], "replicaset-controller");
        assert_eq!(event["count"], 1);
        assert_eq!(event["firstTimestamp"], event["lastTimestamp"]);
    }

    #[test]
    fn the_newer_form_has_event_time_and_action_instead_of_counts() {
        let now: Timestamp = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let event = Draft { action: Some("Binding"), ..draft() }.build("default-scheduler", now);
        assert_eq!(event["eventTime"], "2026-01-01T00:00:00.500000Z");
        assert_eq!(event["action"], "Binding");
        assert!(event.get("count").is_none() && event.get("firstTimestamp").is_none());
    }

    #[test]
    fn cluster_scoped_objects_have_their_events_in_default_and_messages_are_cut() {
        let node = json!({ "metadata": { "name": "n1", "uid": "n1" } });
        let draft = Draft::new("v1", "Node", &node, EventType::Warning, "X", "ä".repeat(600));
        assert_eq!(draft.namespace(), "default");
        assert_eq!(draft.message.len(), 1024);
    }
}
