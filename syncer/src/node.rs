//! The Node object that stands for a worker in each environment. Pure.

use serde_json::{Map, Value, json};
use vctl_api::agent::NodeReport;

use crate::json::{Json, time};

/// Whether a worker can be used, for the condition Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// Its agent is connected, or was a moment ago.
    Ready,
    /// Nothing has been heard of its agent for too long.
    Unknown,
}

/// The Node as it should be, on the base of the one that is there (null for none): what others wrote stays.
pub(crate) fn node(name: &str, kind: &str, report: &NodeReport, health: Health, present: &Value, now_ms: i64) -> Value {
    let mut node =
        if present.is_object() { present.clone() } else { json!({ "metadata": { "name": name }, "spec": {} }) };
    node["apiVersion"] = "v1".into();
    node["kind"] = "Node".into();
    let mut labels = map(&node["metadata"]["labels"]);
    for (key, value) in [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", report.os.as_str()),
        ("kubernetes.io/arch", report.architecture.as_str()),
        ("beta.kubernetes.io/os", report.os.as_str()),
        ("beta.kubernetes.io/arch", report.architecture.as_str()),
        ("vctl.dev/worker", kind),
    ] {
        if !value.is_empty() {
            labels.insert(key.to_owned(), value.into());
        }
    }
    node["metadata"]["labels"] = labels.into();
    if !report.pod_cidr.is_empty() && node.some_text("/spec/podCIDR").is_none() {
        node["spec"]["podCIDR"] = report.pod_cidr.as_str().into();
        node["spec"]["podCIDRs"] = json!([report.pod_cidr]);
    }
    node["status"] = status(name, report, health, &present["status"], now_ms);
    node
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn status(name: &str, report: &NodeReport, health: Health, present: &Value, now_ms: i64) -> Value {
    let capacity = json!({
        "cpu": cpu(report.cpu_millis),
        "memory": format!("{}Ki", report.memory_bytes / 1024),
        "pods": report.max_pods.to_string(),
        "ephemeral-storage": format!("{}Ki", report.ephemeral_storage_bytes / 1024),
    });
    let mut status = map(present);
    status.insert("capacity".into(), capacity.clone());
    status.insert("allocatable".into(), capacity);
    let hostname = if report.hostname.is_empty() { name } else { &report.hostname };
    let mut addresses = Vec::new();
    if !report.internal_ip.is_empty() {
        addresses.push(json!({ "type": "InternalIP", "address": report.internal_ip }));
    }
    addresses.push(json!({ "type": "Hostname", "address": hostname }));
    status.insert("addresses".into(), addresses.into());
    status.insert(
        "nodeInfo".into(),
        json!({
            "machineID": report.machine_id, "systemUUID": report.machine_id, "bootID": report.boot_id,
            "kernelVersion": report.kernel_version, "osImage": report.os_image,
            "containerRuntimeVersion": report.container_runtime_version,
            "kubeletVersion": KUBELET_VERSION, "kubeProxyVersion": "",
            "operatingSystem": report.os, "architecture": report.architecture,
        }),
    );
    let images: Vec<Value> = report.images.iter().take(50).map(|i| json!({ "names": [i] })).collect();
    if images.is_empty() {
        status.remove("images");
    } else {
        status.insert("images".into(), images.into());
    }
    status.insert("conditions".into(), conditions(health, present, now_ms).into());
    // The API server defaults this one; absent it would look like a change each time.
    status.entry("daemonEndpoints").or_insert_with(|| json!({ "kubeletEndpoint": { "Port": 0 } }));
    Value::Object(status)
}

/// The version of Kubernetes whose kubelet the agents follow.
const KUBELET_VERSION: &str = "v1.36.0";

fn cpu(millis: i64) -> String {
    if millis % 1000 == 0 { (millis / 1000).to_string() } else { format!("{millis}m") }
}

fn conditions(health: Health, present: &Value, now_ms: i64) -> Vec<Value> {
    let healthy = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let mut out: Vec<Value> = healthy
        .into_iter()
        .map(|(kind, status, reason, message)| {
            let (status, reason, message) = match health {
                Health::Ready => (status, reason, message),
                Health::Unknown => ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
            };
            let before =
                present.items("/conditions").iter().find(|c| c.text("/type") == kind && c.text("/status") == status);
            let since = |pointer: &str| {
                before.and_then(|c| c.some_text(pointer)).map_or_else(|| time(now_ms), ToOwned::to_owned)
            };
            // A heartbeat would be a write per environment and minute: it moves only when the condition does.
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": since("/lastHeartbeatTime"), "lastTransitionTime": since("/lastTransitionTime"),
            })
        })
        .collect();
    let ours: Vec<&str> = healthy.iter().map(|c| c.0).collect();
    out.extend(present.items("/conditions").iter().filter(|c| !ours.contains(&c.text("/type"))).cloned());
    out
}

/// A report as it is kept in the store, so that the Node stays while the agent is away over a restart of the server.
pub(crate) fn stored(report: &NodeReport) -> Value {
    json!({
        "cpuMillis": report.cpu_millis, "memoryBytes": report.memory_bytes, "maxPods": report.max_pods,
        "ephemeralStorageBytes": report.ephemeral_storage_bytes, "internalIP": report.internal_ip,
        "hostname": report.hostname, "os": report.os, "architecture": report.architecture,
        "kernelVersion": report.kernel_version, "osImage": report.os_image,
        "containerRuntimeVersion": report.container_runtime_version, "machineID": report.machine_id,
        "bootID": report.boot_id, "podCIDR": report.pod_cidr, "images": report.images,
    })
}

/// The inverse of [`stored`].
pub(crate) fn restored(value: &Value) -> NodeReport {
    let text = |pointer: &str| value.text(pointer).to_owned();
    let number = |pointer: &str| value.number(pointer).unwrap_or_default();
    NodeReport {
        cpu_millis: number("/cpuMillis"),
        memory_bytes: number("/memoryBytes"),
        max_pods: number("/maxPods"),
        ephemeral_storage_bytes: number("/ephemeralStorageBytes"),
        internal_ip: text("/internalIP"),
        hostname: text("/hostname"),
        os: text("/os"),
        architecture: text("/architecture"),
        kernel_version: text("/kernelVersion"),
        os_image: text("/osImage"),
        container_runtime_version: text("/containerRuntimeVersion"),
        machine_id: text("/machineID"),
        boot_id: text("/bootID"),
        pod_cidr: text("/podCIDR"),
        images: value.texts("/images"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> NodeReport {
        NodeReport {
            cpu_millis: 2500,
            memory_bytes: 1 << 30,
            max_pods: 110,
            os: "linux".into(),
            architecture: "amd64".into(),
            internal_ip: "10.0.0.1".into(),
            ..NodeReport::default()
        }
    }

    #[test]
    fn a_node_says_what_the_worker_has_and_stays_the_same() {
        let first = node("w", "podman", &report(), Health::Ready, &Value::Null, 1_000);
        assert_eq!(first["status"]["allocatable"]["cpu"], "2500m");
        assert_eq!(first["status"]["capacity"]["memory"], "1048576Ki");
        assert_eq!(first["metadata"]["labels"]["kubernetes.io/hostname"], "w");
        assert_eq!(node("w", "podman", &report(), Health::Ready, &first, 99_000), first, "no heartbeat writes");
        let away = node("w", "podman", &report(), Health::Unknown, &first, 99_000);
        let ready = away.items("/status/conditions").iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!((ready.text("/status"), ready.text("/lastTransitionTime")), ("Unknown", "1970-01-01T00:01:39Z"));
        assert_eq!(restored(&stored(&report())), report());
    }

    #[test]
    fn what_a_user_wrote_stays() {
        let mut present = node("w", "podman", &report(), Health::Ready, &Value::Null, 1_000);
        present["metadata"]["labels"]["team"] = "x".into();
        present["spec"]["taints"] = json!([{ "key": "k", "effect": "NoSchedule" }]);
        assert_eq!(node("w", "podman", &report(), Health::Ready, &present, 2_000), present);
    }
}
