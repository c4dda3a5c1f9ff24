//! `metrics.k8s.io/v1beta1`: what pods and nodes use, as their workers have measured it. Nothing of it is stored: it is made of the stored
//! pods and nodes when somebody asks. A node's use is that of this cluster's own pods on it; what others use there is not told.
//! Source of rules: kubernetes-sigs/metrics-server `pkg/api`, `pkg/storage`.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use vctl_machinery::{amounts::Quantity, catalog::Descriptor, status::ApiError};

use crate::{
    document::meta,
    objects::{
        Call, Target,
        list::{Page, Selection},
    },
    streams::PodUsage,
};

const GROUP: &str = "metrics.k8s.io";
const API_VERSION: &str = "metrics.k8s.io/v1beta1";
/// The time that a measurement of a node without pods is over, as workers measure this often.
const WINDOW_MILLIS: i64 = 15_000;
/// What is older is not told: the worker is away.
const FRESH: SignedDuration = SignedDuration::from_mins(2);

/// The rows of the catalog.
pub(crate) fn rows() -> impl Iterator<Item = Arc<Descriptor>> {
    [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)].into_iter().map(|(plural, kind, namespaced)| {
        Arc::new(Descriptor {
            group: GROUP.to_owned(),
            version: "v1beta1".to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: plural.to_owned(),
            singular: String::new(),
            namespaced,
            verbs: vec!["get".to_owned(), "list".to_owned()],
            short_names: Vec::new(),
            categories: Vec::new(),
            subresources: Vec::new(),
            storage_version: "v1beta1".to_owned(),
            custom: false,
            has_generation: false,
            kubernetes: vctl_machinery::version::MinorVersion::DEFAULT,
            definition: None,
        })
    })
}

/// Whether objects of a resource are measurements.
pub(crate) fn serves(descriptor: &Descriptor) -> bool {
    descriptor.group == GROUP
}

/// The measurements of one pod or node.
pub(crate) async fn get(call: &Call, target: &Target) -> Result<Value, ApiError> {
    let Some(object) = call.plane.object(&target.descriptor.plural, &target.namespace, &target.name).await? else {
        return Err(ApiError::not_found("", &target.descriptor.plural, &target.name));
    };
    let found = measured(call, target, &[object]).await?.into_iter().next();
    found.ok_or_else(|| {
        let (resource, name) = match &*target.descriptor.plural {
            "pods" => ("podmetrics", format!("{}/{}", target.namespace, target.name)),
            _ => ("nodemetrics", target.name.clone()),
        };
        ApiError::not_found(GROUP, resource, &name)
    })
}

/// The measurements of the pods or nodes that are selected, by namespace and name.
pub(crate) async fn list(call: &Call, target: &Target, selection: &Selection) -> Result<Page, ApiError> {
    let namespace = Some(target.namespace.as_str()).filter(|n| !n.is_empty());
    let mut objects = call.plane.objects(&target.descriptor.plural, namespace).await?;
    objects.retain(|o| selection.matches(&target.descriptor, o));
    let items = measured(call, target, &objects).await?;
    let revision = call.plane.store().revision(call.plane.tenant).await.map_err(crate::storage::error)?;
    Ok(Page { items, revision, ..Page::default() })
}

async fn measured(call: &Call, target: &Target, objects: &[Value]) -> Result<Vec<Value>, ApiError> {
    let now = call.plane.now();
    let mut usage = call.plane.shared.streams.usage(&call.plane.name);
    let oldest = now.checked_sub(FRESH).map_or(i64::MIN, Timestamp::as_millisecond);
    usage.retain(|u| u.time_ms >= oldest);
    if target.descriptor.namespaced {
        let by_uid: HashMap<&str, &PodUsage> = usage.iter().map(|u| (&*u.uid, u)).collect();
        return Ok(objects.iter().filter_map(|p| pod(p, by_uid.get(meta(p, "uid"))?, now)).collect());
    }
    let pods = call.plane.objects("pods", None).await?;
    Ok(objects.iter().filter_map(|n| node(n, &pods, &usage, now)).collect())
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Names of containers that run.
fn running(pod: &Value) -> impl Iterator<Item = &str> {
    let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
    statuses.into_iter().flatten().filter(|s| s["state"]["running"].is_object()).map(|s| text(s, "/name"))
}

/// `PodMetrics`; none for a pod that does not run, and none while one of its running containers has not been measured.
fn pod(pod: &Value, usage: &PodUsage, now: Timestamp) -> Option<Value> {
    let known: HashSet<&str> = usage.containers.iter().map(|c| &*c.name).collect();
    if text(pod, "/status/phase") != "Running" || known.is_empty() || running(pod).any(|c| !known.contains(c)) {
        return None;
    }
    let containers: Vec<Value> = usage
        .containers
        .iter()
        .map(|c| json!({ "name": c.name, "usage": amounts(c.cpu_nano_cores, c.memory_bytes) }))
        .collect();
    let mut metadata = json!({
        "name": meta(pod, "name"), "namespace": meta(pod, "namespace"), "creationTimestamp": seconds(now),
    });
    labels(pod, &mut metadata);
    Some(json!({
        "kind": "PodMetrics", "apiVersion": API_VERSION, "metadata": metadata,
        "timestamp": at(usage.time_ms), "window": duration(usage.window_ms), "containers": containers,
    }))
}

/// `NodeMetrics`; none for a node that is not ready.
fn node(node: &Value, pods: &[Value], usage: &[PodUsage], now: Timestamp) -> Option<Value> {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    if !conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True") {
        return None;
    }
    let name = meta(node, "name");
    let on_node: HashSet<&str> = pods
        .iter()
        .filter(|p| text(p, "/spec/nodeName") == name && text(p, "/status/phase") == "Running")
        .map(|p| meta(p, "uid"))
        .collect();
    let (mut cpu, mut memory, mut time, mut window) = (0, 0, None, WINDOW_MILLIS);
    for of in usage.iter().filter(|u| on_node.contains(&*u.uid)) {
        for container in &of.containers {
            cpu += container.cpu_nano_cores;
            memory += container.memory_bytes;
        }
        time = Some(time.map_or(of.time_ms, |t: i64| t.min(of.time_ms)));
        window = window.max(of.window_ms);
    }
    let mut metadata = json!({ "name": name, "creationTimestamp": seconds(now) });
    labels(node, &mut metadata);
    Some(json!({
        "kind": "NodeMetrics", "apiVersion": API_VERSION, "metadata": metadata,
        "timestamp": time.map_or_else(|| seconds(now), at), "window": duration(window), "usage": amounts(cpu, memory),
    }))
}

fn labels(of: &Value, metadata: &mut Value) {
    if let Some(labels) = of["metadata"].get("labels").filter(|l| l.is_object()) {
        metadata["labels"] = labels.clone();
    }
}

fn amounts(cpu_nano_cores: i64, memory_bytes: i64) -> Value {
    json!({ "cpu": Quantity::nanos(cpu_nano_cores).to_string(), "memory": Quantity::bytes(memory_bytes).to_string() })
}

fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn at(millis: i64) -> String {
    seconds(Timestamp::from_millisecond(millis).unwrap_or_default())
}

/// A time span as Go prints one: `15s`, `15.062s`, `1m0s`.
fn duration(millis: i64) -> String {
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    let seconds = match rest % 1000 {
        0 => format!("{}s", rest / 1000),
        fraction => format!("{}.{}s", rest / 1000, format!("{fraction:03}").trim_end_matches('0')),
    };
    if minutes == 0 { seconds } else { format!("{minutes}m{seconds}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::ContainerUsage;

    fn usage(uid: &str, containers: &[(&str, i64, i64)]) -> PodUsage {
        PodUsage {
            uid: uid.into(),
            time_ms: 1_000_500,
            window_ms: 15_062,
            containers: containers
                .iter()
                .map(|(name, cpu_nano_cores, memory_bytes)| ContainerUsage {
                    name: (*name).into(),
                    cpu_nano_cores: *cpu_nano_cores,
                    memory_bytes: *memory_bytes,
                })
                .collect(),
        }
    }

    fn document(uid: &str, node: &str, phase: &str, containers: &[&str]) -> Value {
        let statuses: Vec<Value> =
            containers.iter().map(|c| json!({ "name": c, "state": { "running": {} } })).collect();
        json!({ "metadata": { "name": uid, "namespace": "ns", "uid": uid, "labels": { "app": "web" } },
            "spec": { "nodeName": node }, "status": { "phase": phase, "containerStatuses": statuses } })
    }

    #[test]
    fn pods_say_what_each_container_uses() {
        let now = Timestamp::from_second(1010).unwrap();
        let running = document("a", "n1", "Running", &["c", "d"]);
        let both = usage("a", &[("c", 1_234_567, 10 << 20), ("d", 0, 1000)]);
        assert_eq!(
            pod(&running, &both, now).unwrap(),
            json!({
                "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
                "metadata": { "name": "a", "namespace": "ns", "creationTimestamp": "1970-01-01T00:16:50Z", "labels": { "app": "web" } },
                "timestamp": "1970-01-01T00:16:40Z", "window": "15.062s",
                "containers": [
                    { "name": "c", "usage": { "cpu": "1234567n", "memory": "10Mi" } },
                    { "name": "d", "usage": { "cpu": "0", "memory": "1k" } },
                ],
            })
        );
        assert_eq!(pod(&running, &usage("a", &[("c", 1, 1)]), now), None, "d has not been measured");
        assert_eq!(pod(&document("a", "n1", "Succeeded", &[]), &both, now), None);
    }

    #[test]
    fn nodes_sum_up_their_pods() {
        let now = Timestamp::from_second(1010).unwrap();
        let ready = |status: &str| json!({ "metadata": { "name": "n1" }, "status": { "conditions": [{ "type": "Ready", "status": status }] } });
        let pods = [
            document("a", "n1", "Running", &["c"]),
            document("b", "n1", "Running", &["c"]),
            document("x", "n2", "Running", &["c"]),
            document("y", "n1", "Failed", &["c"]),
        ];
        let all: Vec<PodUsage> =
            ["a", "b", "x", "y"].map(|uid| usage(uid, &[("c", 250_000_000, 1 << 20)])).into_iter().collect();
        let found = node(&ready("True"), &pods, &all, now).unwrap();
        assert_eq!(found["usage"], json!({ "cpu": "500m", "memory": "2Mi" }));
        assert_eq!((&found["timestamp"], &found["window"]), (&json!("1970-01-01T00:16:40Z"), &json!("15.062s")));
        let empty = node(&ready("True"), &[], &all, now).unwrap();
        assert_eq!((&empty["usage"]["cpu"], &empty["window"]), (&json!("0"), &json!("15s")));
        assert_eq!(node(&ready("Unknown"), &pods, &all, now), None);
    }

    #[test]
    fn spans_are_printed_as_go_does() {
        for (millis, text) in [(15_000, "15s"), (60_000, "1m0s"), (61_500, "1m1.5s"), (10, "0.01s")] {
            assert_eq!(duration(millis), text);
        }
    }
}
