//! How far workloads are, and why they are no further.

use jiff::Timestamp;
use serde_json::Value;
use vctl_portal::ports::{UnreadyPod, Workload};

use super::text;

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// Kinds that an environment waits for, as group-resource and as people call them.
pub(super) const WORKLOADS: &[(&str, &str)] = &[
    ("deployments.apps", "deployment"),
    ("statefulsets.apps", "statefulset"),
    ("daemonsets.apps", "daemonset"),
    ("replicasets.apps", "replicaset"),
    ("jobs.batch", "job"),
];

/// How far a workload is; none for one that another workload owns.
pub(super) fn workload(kind: &str, object: &Value) -> Option<Workload> {
    let owned = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).is_some_and(|o| !o.is_empty());
    if owned {
        return None;
    }
    let observed = number(object, "/status/observedGeneration") >= number(object, "/metadata/generation");
    let (ready, desired, updated) = match kind {
        "job" => {
            let wanted = number(object, "/spec/completions").unwrap_or(1);
            let done = number(object, "/status/succeeded").unwrap_or_default();
            (done, wanted, done >= wanted)
        }
        "daemonset" => {
            let wanted = number(object, "/status/desiredNumberScheduled").unwrap_or_default();
            let updated = number(object, "/status/updatedNumberScheduled").unwrap_or_default();
            (number(object, "/status/numberReady").unwrap_or_default(), wanted, observed && updated >= wanted)
        }
        _ => {
            let wanted = number(object, "/spec/replicas").unwrap_or(1);
            let ready = number(object, "/status/readyReplicas").unwrap_or_default();
            let updated = match kind {
                "replicaset" => wanted,
                _ => number(object, "/status/updatedReplicas").unwrap_or_default(),
            };
            let old = number(object, "/status/replicas").unwrap_or_default() > wanted;
            (ready, wanted, observed && updated >= wanted && !old)
        }
    };
    Some(Workload {
        kind: kind.to_owned(),
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        ready: u32::try_from(ready).unwrap_or_default(),
        desired: u32::try_from(desired).unwrap_or_default(),
        done: updated && ready >= desired,
        why: failure(object).to_owned(),
    })
}

/// What a Deployment or ReplicaSet says of pods that cannot be made, or of a rollout that does not go on.
fn failure(object: &Value) -> &str {
    let says = |kind: &str, status: &str| condition(object, kind).filter(|c| text(c, "/status") == status);
    says("ReplicaFailure", "True").or_else(|| says("Progressing", "False")).map_or("", |c| text(c, "/message"))
}

/// Whether only its events can say why it is not ready: kinds without such a condition.
pub(super) fn lacks_a_reason(workload: &Workload) -> bool {
    !workload.done && workload.why.is_empty() && matches!(&*workload.kind, "statefulset" | "daemonset" | "job")
}

/// Why the last pod or claim of a workload could not be made, if that was the last that was told of it; empty otherwise.
pub(super) fn told(workload: &Workload, events: &[Value]) -> String {
    let about = |event: &&Value| {
        let object = &event["involvedObject"];
        text(object, "/kind").eq_ignore_ascii_case(&workload.kind)
            && text(object, "/namespace") == workload.namespace
            && text(object, "/name") == workload.name
    };
    let failed = |event: &Value| text(event, "/reason") == "FailedCreate";
    let at = |event: &&Value| {
        let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
        let at = times.iter().find_map(|time| text(event, time).parse::<Timestamp>().ok());
        // Within a second the order is not known.
        (at, failed(event))
    };
    let last = events.iter().filter(about).max_by_key(at).filter(|event| failed(event));
    last.map_or("", |event| text(event, "/message")).to_owned()
}

pub(super) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|c| text(c, "/status") == "True")
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|c| text(c, "/type") == kind)
}

/// Why a pod is not ready: the first container that waits or has failed, else the condition that does not hold.
pub(super) fn unready(pod: &Value) -> Option<UnreadyPod> {
    if is_ready(pod) || text(pod, "/status/phase") == "Succeeded" {
        return None;
    }
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"]
        .into_iter()
        .filter_map(|pointer| pod.pointer(pointer)?.as_array())
        .flatten();
    let mut reason = None;
    for status in statuses {
        for state in ["waiting", "terminated"] {
            let Some(state) = status.pointer(&format!("/state/{state}")) else { continue };
            let (why, message) = (text(state, "/reason"), text(state, "/message"));
            if !matches!(why, "" | "Completed" | "PodInitializing") && reason.is_none() {
                let message = if message.is_empty() { String::new() } else { format!(": {message}") };
                reason = Some(format!("container {}: {why}{message}", text(status, "/name")));
            }
        }
    }
    let reason = reason.unwrap_or_else(|| {
        let failing = ["PodScheduled", "Initialized", "Ready"]
            .into_iter()
            .find_map(|kind| condition(pod, kind).filter(|c| text(c, "/status") == "False"));
        failing.map_or_else(
            || format!("{} so far", text(pod, "/status/phase")),
            |c| [text(c, "/reason"), text(c, "/message")].join(": "),
        )
    });
    Some(UnreadyPod {
        namespace: text(pod, "/metadata/namespace").to_owned(),
        name: text(pod, "/metadata/name").to_owned(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_is_done_when_its_newest_pods_are_ready() {
        let deployment = |ready: i64, updated: i64, replicas: i64, observed: i64| {
            json!({
                "metadata": { "name": "web", "namespace": "default", "generation": 2 },
                "spec": { "replicas": 2 },
                "status": { "observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated, "readyReplicas": ready },
            })
        };
        let done = |object: &Value| workload("deployment", object).is_some_and(|w| w.done);
        assert!(done(&deployment(2, 2, 2, 2)));
        assert!(!done(&deployment(1, 2, 2, 2)));
        assert!(!done(&deployment(2, 1, 2, 2)));
        assert!(!done(&deployment(2, 2, 3, 2)), "an old pod is still there");
        assert!(!done(&deployment(2, 2, 2, 1)), "the controller has not seen it");
        assert!(workload("replicaset", &json!({ "metadata": { "ownerReferences": [{}] } })).is_none());
    }

    #[test]
    fn a_workload_without_its_pods_says_why() {
        let quota = "pods \"web-x\" is forbidden: exceeded quota: project/web";
        let with = |conditions: Value| json!({ "metadata": { "name": "web" }, "status": { "conditions": conditions } });
        let why = |conditions: Value| workload("deployment", &with(conditions)).map(|w| w.why).unwrap_or_default();
        let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "message": quota });
        assert_eq!(why(json!([condition("Progressing", "True"), condition("ReplicaFailure", "True")])), quota);
        assert_eq!(why(json!([condition("Progressing", "False")])), quota);
        assert_eq!(why(json!([condition("Progressing", "True"), condition("Available", "False")])), "");

        let job = json!({ "metadata": { "name": "web", "namespace": "a" } });
        let job = workload("job", &job).expect("a job");
        assert!(lacks_a_reason(&job));
        let event = |kind: &str, reason: &str, minute: u8| {
            json!({ "involvedObject": { "kind": kind, "namespace": "a", "name": "web" }, "reason": reason, "message": quota,
                "lastTimestamp": format!("2026-01-01T00:{minute:02}:00Z") })
        };
        let told = |events: &[Value]| told(&job, events);
        assert_eq!(told(&[event("Job", "FailedCreate", 2), event("Job", "SuccessfulCreate", 1)]), quota);
        assert_eq!(told(&[event("Job", "FailedCreate", 2), event("Job", "SuccessfulCreate", 3)]), "", "it went on");
        assert_eq!(told(&[event("StatefulSet", "FailedCreate", 2)]), "", "another one of the name");
    }

    #[test]
    fn a_pod_that_is_not_ready_says_why() {
        let pod = json!({
            "metadata": { "name": "p", "namespace": "default" },
            "status": {
                "phase": "Pending",
                "containerStatuses": [{ "name": "c", "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } } }],
            },
        });
        assert_eq!(unready(&pod).map(|u| u.reason).as_deref(), Some("container c: ImagePullBackOff: no such image"));
        let unscheduled = json!({
            "metadata": { "name": "p", "namespace": "default" },
            "status": { "phase": "Pending", "conditions": [
                { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes are available" },
            ] },
        });
        assert_eq!(unready(&unscheduled).map(|u| u.reason).as_deref(), Some("Unschedulable: 0/0 nodes are available"));
    }
}
