//! What a Podman worker does with containers, looked at from the machine's side too.

mod life_podman;
mod machine_podman;
mod measured_podman;
mod panic_podman;
mod refused_podman;

use std::time::Duration;

use anyhow::Result;
use vctl_tests::{kubectl::Kubectl, wait};

const LIMIT: Duration = Duration::from_mins(1);

/// A value of a pod by JSONPath.
fn of(k: &Kubectl, pod: &str, path: &str) -> Result<String> {
    k.ok(&["get", "pod", pod, "-o", &format!("jsonpath={path}")])
}

/// Waits until a value of a pod is as wanted.
fn until(k: &Kubectl, pod: &str, path: &str, wanted: &str) -> Result<()> {
    wait::until(&format!("{path} of {pod} is {wanted}"), LIMIT, || {
        let now = of(k, pod, path).map_err(|e| format!("{e:#}"))?;
        if now == wanted { Ok(()) } else { Err(now) }
    })
}

/// Waits until an Event of this reason with this text is there; kubelets' texts are in pkg/kubelet of kubernetes.
fn event(k: &Kubectl, pod: &str, reason: &str, text: &str) -> Result<()> {
    let selector = format!("involvedObject.name={pod},reason={reason}");
    wait::until(&format!("an event {reason} of {pod}: {text}"), LIMIT, || {
        let events = k
            .ok(&["get", "events", "--field-selector", &selector, "-o", "jsonpath={.items[*].message}"])
            .map_err(|e| format!("{e:#}"))?;
        if events.contains(text) { Ok(()) } else { Err(events) }
    })
}
