//! The status of an autoscaler while it is worked out.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::object::{int, list, rfc3339, text};

/// See the module.
pub(super) struct Status {
    value: Value,
    now: Timestamp,
}

impl Status {
    /// Begins with what the object says.
    pub(super) fn of(autoscaler: &Value, now: Timestamp) -> Self {
        let mut value = autoscaler.get("status").filter(|s| s.is_object()).cloned().unwrap_or_else(|| json!({}));
        if value.get("desiredReplicas").is_none() {
            value["desiredReplicas"] = 0.into();
        }
        if let Some(generation) = int(autoscaler, "/metadata/generation") {
            value["observedGeneration"] = generation.into();
        }
        Self { value, now }
    }

    /// Sets a condition; the time is that of the last change of its status.
    pub(super) fn set(&mut self, kind: &str, holds: bool, reason: &str, message: impl Into<String>) {
        let status = if holds { "True" } else { "False" };
        let mut conditions = list(&self.value, "/conditions").to_vec();
        let known = conditions.iter_mut().find(|c| text(c, "/type") == kind);
        match known {
            Some(condition) => {
                if text(condition, "/status") != status {
                    condition["lastTransitionTime"] = rfc3339(self.now).into();
                }
                condition["status"] = status.into();
                condition["reason"] = reason.into();
                condition["message"] = message.into().into();
            }
            None => conditions.push(json!({
                "type": kind, "status": status, "reason": reason, "message": message.into(),
                "lastTransitionTime": rfc3339(self.now),
            })),
        }
        self.value["conditions"] = conditions.into();
    }

    /// The number of replicas that there are.
    pub(super) fn current(&mut self, replicas: i64) {
        self.value["currentReplicas"] = replicas.into();
    }

    /// The numbers in the end, and whether the target has just been scaled.
    pub(super) fn scaled(&mut self, current: i64, desired: i64, now: bool) {
        self.current(current);
        self.value["desiredReplicas"] = desired.into();
        if now {
            self.value["lastScaleTime"] = rfc3339(self.now).into();
        }
    }

    /// What was measured, in the order of the metrics.
    pub(super) fn metrics(&mut self, metrics: Vec<Value>) {
        self.value["currentMetrics"] = metrics.into();
    }

    /// The object with this status, if it has another one.
    pub(super) fn changed(self, autoscaler: &Value) -> Option<Value> {
        (autoscaler.get("status") != Some(&self.value)).then(|| {
            let mut changed = autoscaler.clone();
            changed["status"] = self.value;
            changed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_tell_when_a_condition_changed() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut object = json!({ "metadata": { "generation": 2 }, "spec": {} });
        let mut first = Status::of(&object, at(10));
        first.set("AbleToScale", true, "A", "a");
        first.scaled(1, 1, false);
        object = first.changed(&object).unwrap();
        assert_eq!(object["status"]["observedGeneration"], 2);
        let mut same = Status::of(&object, at(20));
        same.set("AbleToScale", true, "A", "a");
        assert_eq!(same.changed(&object), None);
        let mut other = Status::of(&object, at(30));
        other.set("AbleToScale", true, "B", "b");
        object = other.changed(&object).unwrap();
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:10Z");
        let mut turned = Status::of(&object, at(40));
        turned.set("AbleToScale", false, "C", "c");
        turned.scaled(1, 3, true);
        object = turned.changed(&object).unwrap();
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:40Z");
        assert_eq!(object["status"]["lastScaleTime"], "1970-01-01T00:00:40Z");
    }
}
