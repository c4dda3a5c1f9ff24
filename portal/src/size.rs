//! How large something is: what the workloads and claims of its manifests request.

use serde_json::Value;
use vctl_api::rest::Amounts;
use vctl_machinery::{quantity, requests::Requests};

/// Nesting of lists in lists that is looked into.
const DEPTH: usize = 4;

/// Adds up what documents request: the pods of workloads times their replicas, and claims. Of a DaemonSet one pod counts, of a Job or CronJob as
/// many as run at a time. Custom resources count nothing: what becomes of them is not known.
pub(crate) fn of(documents: &[Value]) -> Requests {
    documents.iter().fold(Requests::NONE, |sum, document| sum.plus(of_document(document, DEPTH)))
}

/// As Kubernetes writes them.
pub(crate) fn amounts(of: Requests) -> Amounts {
    Amounts { cpu: Some(millis(of.cpu)), memory: Some(bytes(of.memory)), storage: Some(bytes(of.storage)) }
}

/// Thousandths as a quantity.
pub(crate) fn millis(millis: u64) -> String {
    if millis.is_multiple_of(1000) { (millis / 1000).to_string() } else { format!("{millis}m") }
}

/// Bytes as a quantity, with the largest suffix that is exact.
pub(crate) fn bytes(bytes: u64) -> String {
    let suffixes = [(1_u64 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    let exact = suffixes.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    exact.map_or_else(|| bytes.to_string(), |(unit, suffix)| format!("{}{suffix}", bytes / unit))
}

/// A quantity in thousandths; none for what is none, or negative.
pub(crate) fn parse_millis(text: &str) -> Option<u64> {
    scaled(quantity::parse(text)?, quantity::NANOS / 1000)
}

/// A quantity in whole units; none for what is none, or negative.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    scaled(quantity::parse(text)?, quantity::NANOS)
}

fn scaled(nanos: i128, unit: i128) -> Option<u64> {
    quantity::ceil(nanos, unit).try_into().ok()
}

fn of_document(document: &Value, depth: usize) -> Requests {
    let spec = &document["spec"];
    let pods = |spec: &Value, count: &str| {
        let count = spec[count].as_u64().unwrap_or(1);
        of_pod(&spec["template"]["spec"]).times(count)
    };
    match document["kind"].as_str().unwrap_or_default() {
        "Pod" => of_pod(spec),
        "Deployment" | "ReplicaSet" | "ReplicationController" => pods(spec, "replicas"),
        "StatefulSet" => {
            let claims = spec["volumeClaimTemplates"].as_array().into_iter().flatten();
            let claims = claims.fold(Requests::NONE, |sum, claim| sum.plus(of_claim(&claim["spec"])));
            pods(spec, "replicas").plus(claims.times(spec["replicas"].as_u64().unwrap_or(1)))
        }
        "DaemonSet" => of_pod(&spec["template"]["spec"]),
        "Job" => pods(spec, "parallelism"),
        "CronJob" => pods(&spec["jobTemplate"]["spec"], "parallelism"),
        "PersistentVolumeClaim" => of_claim(spec),
        _ if depth > 0 => {
            let items = document["items"].as_array().into_iter().flatten();
            items.fold(Requests::NONE, |sum, item| sum.plus(of_document(item, depth - 1)))
        }
        _ => Requests::NONE,
    }
}

fn of_claim(spec: &Value) -> Requests {
    let asked = &spec["resources"]["requests"]["storage"];
    Requests {
        storage: quantity::of(asked).and_then(|n| scaled(n, quantity::NANOS)).unwrap_or_default(),
        ..Requests::NONE
    }
}

/// As the scheduler counts it: all containers together, or the largest that runs before them, and overhead. Source: k8s.io/component-helpers
/// resource.PodRequests.
fn of_pod(spec: &Value) -> Requests {
    let containers = |field: &str| spec[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut running = containers("containers").iter().fold(Requests::NONE, |sum, c| sum.plus(of_container(c)));
    let (mut beside, mut largest) = (Requests::NONE, Requests::NONE);
    for container in containers("initContainers") {
        let asked = of_container(container);
        if container["restartPolicy"] == "Always" {
            running = running.plus(asked);
            beside = beside.plus(asked);
            largest = largest.max(beside);
        } else {
            largest = largest.max(beside.plus(asked));
        }
    }
    running.max(largest).plus(of_amounts(|name| spec["overhead"].get(name)))
}

/// Requests, or limits where there are none: that is what a request is then.
fn of_container(container: &Value) -> Requests {
    let resources = &container["resources"];
    of_amounts(|name| resources["requests"].get(name).or_else(|| resources["limits"].get(name)))
}

fn of_amounts<'v>(find: impl Fn(&str) -> Option<&'v Value>) -> Requests {
    let amount = |name: &str, unit: i128| find(name).and_then(quantity::of).and_then(|n| scaled(n, unit)).unwrap_or(0);
    Requests { cpu: amount("cpu", quantity::NANOS / 1000), memory: amount("memory", quantity::NANOS), storage: 0 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(cpu: &str, memory: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}})
    }

    #[test]
    fn replicas_count_and_claims_too() {
        let template = json!({"spec": {"containers": [container("250m", "64Mi"), container("1", "1Gi")]}});
        let documents = [
            json!({"kind": "Deployment", "spec": {"replicas": 4, "template": template}}),
            json!({"kind": "StatefulSet", "spec": {"replicas": 2, "template": template, "volumeClaimTemplates": [
                {"spec": {"resources": {"requests": {"storage": "10Gi"}}}}]}}),
            json!({"kind": "List", "items": [{"kind": "PersistentVolumeClaim", "spec": {"resources": {"requests": {"storage": "5Gi"}}}}]}),
            json!({"kind": "Deployment", "spec": {"replicas": 0, "template": template}}),
            json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"parallelism": 2, "template": template}}}}),
        ];
        let size = of(&documents);
        let shown = amounts(size);
        assert_eq!((shown.cpu.as_deref(), shown.storage.as_deref()), (Some("10"), Some("25Gi")));
        assert_eq!(size.memory, 8 * ((1 << 30) + (64 << 20)));
    }

    #[test]
    fn a_pod_is_as_large_as_it_ever_is() {
        let pod = |init: Value| json!({"kind": "Pod", "spec": {"containers": [container("1", "1Gi")], "initContainers": init}});
        let mut side = container("500m", "1Gi");
        side["restartPolicy"] = "Always".into();
        let cpu = |init: Value| of(&[pod(init)]).cpu;
        assert_eq!(cpu(json!([container("3", "0")])), 3000);
        assert_eq!(cpu(json!([side, container("3", "0")])), 3500);
        assert_eq!(cpu(json!([side])), 1500);
        let limited = json!({"kind": "Pod", "spec": {"containers": [{"resources": {"limits": {"cpu": "2"}}}], "overhead": {"cpu": "10m"}}});
        assert_eq!(of(&[limited]).cpu, 2010);
    }

    #[test]
    fn nonsense_counts_nothing_and_nothing_overflows() {
        let documents = [
            json!({"kind": "Deployment", "spec": {"replicas": u64::MAX, "template": {"spec": {"containers": [container("4", "8Gi")]}}}}),
            json!({"kind": "Pod", "spec": {"containers": [container("-1", "x")]}}),
            json!(null),
        ];
        assert_eq!(of(&documents).cpu, u64::MAX);
        assert_eq!((parse_millis("0.5"), parse_millis("-1"), parse_bytes("1Ki")), (Some(500), None, Some(1024)));
        assert_eq!((bytes(0), bytes(1536), bytes(3 << 30)), ("0".into(), "1536".into(), "3Gi".into()));
    }
}
