//! What a Podman worker refuses: an Event of the pod and the state of its container say why.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{event, of, until};
use crate::containers_podman::{platform, pod, ready};

/// Each pod with what it asks for, the Event's reason and text, and the reason of the container that waits: those of kubelets
/// (kubernetes: pkg/kubelet/events/event.go, pkg/kubelet/kuberuntime/kuberuntime_container.go, startContainer).
fn refused() -> Vec<(&'static str, Value, Value, &'static str, &'static str, &'static str)> {
    let (failed, config) = ("Failed", "CreateContainerConfigError");
    let none = || json!({});
    let adding = json!({ "securityContext": { "capabilities": { "add": ["SYS_ADMIN"] } } });
    let sysctls = json!({ "securityContext": { "sysctls": [{ "name": "kernel.msgmax", "value": "1" }] } });
    let host_path = json!({ "volumes": [{ "name": "v", "hostPath": { "path": "/etc" } }] });
    let mount = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
    let variable =
        json!({ "env": [{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "later", "key": "a" } } }] });
    let privileged = json!({ "securityContext": { "privileged": true } });
    vec![
        ("network", json!({ "hostNetwork": true }), none(), failed, "Error: hostNetwork is not allowed", config),
        ("processes", json!({ "hostPID": true }), none(), failed, "Error: hostPID is not allowed", config),
        ("ipc", json!({ "hostIPC": true }), none(), failed, "Error: hostIPC is not allowed", config),
        ("privileged", none(), privileged, failed, "Error: privileged is not allowed", config),
        ("capability", none(), adding, failed, "Error: the capability SYS_ADMIN is not allowed", config),
        ("sysctl", sysctls, none(), failed, "Error: forbidden sysctl: \"kernel.msgmax\" not allowlisted", config),
        ("files", host_path, mount, "FailedMount", "hostPath \"/etc\" is not allowed", "ContainerCreating"),
        ("variable", none(), variable, failed, "Error: configmap \"later\" not found", config),
    ]
}

#[test]
fn podman_refusals_are_events_and_states() -> Result<()> {
    let platform = platform()?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    for (name, of_pod, of_container, ..) in refused() {
        let mut manifest: Value = serde_json::from_str(&pod(name, "exec sleep 100000"))?;
        for (to, fields) in [("/spec", of_pod), ("/spec/containers/0", of_container)] {
            let to = manifest.pointer_mut(to).and_then(Value::as_object_mut).into_iter();
            to.for_each(|to| to.extend(fields.as_object().cloned().unwrap_or_default()));
        }
        k.apply(&manifest.to_string())?;
    }
    for (name, _, _, reason, text, waiting) in refused() {
        event(&k, name, reason, text)?;
        until(&k, name, "{.status.containerStatuses[0].state.waiting.reason}", waiting)?;
        let said = of(&k, name, "{.status.phase} {.status.containerStatuses[0].state.waiting.message}")?;
        let why = text.trim_start_matches("Error: ");
        ensure!(said.starts_with("Pending ") && said.contains(why), "{name}: {said}");
        let selector = format!("involvedObject.name={name},reason={reason}");
        let kind = k.ok(&["get", "events", "--field-selector", &selector, "-o", "jsonpath={.items[*].type}"])?;
        ensure!(kind == "Warning", "{name}: {kind}");
    }
    // What was only missing starts as soon as it is there.
    k.ok(&["create", "configmap", "later", "--from-literal=a=b"])?;
    ready(&k, "variable")
}
