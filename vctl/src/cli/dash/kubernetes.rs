//! Kubernetes objects as rows of the dashboard.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self, ContainerStatus};
use vctl_tui::model::{Event, Pod};

/// A pod with the status that kubectl would print.
pub(super) fn pod(pod: &v1::Pod) -> Pod {
    let status = pod.status.clone().unwrap_or_default();
    let spec = pod.spec.clone().unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default();
    let init = status.init_container_statuses.unwrap_or_default();
    let mut text = status.reason.or(status.phase).unwrap_or_else(|| "Unknown".to_owned());
    let waiting_init =
        init.iter().position(|c| c.state.as_ref().and_then(|s| s.terminated.as_ref()).is_none_or(|t| t.exit_code != 0));
    let total_init = spec.init_containers.as_ref().map_or(0, Vec::len);
    match waiting_init.filter(|_| text == "Pending") {
        Some(at) => {
            let why = reason(&init[at]).filter(|r| r != "PodInitializing");
            text = why.map_or_else(|| format!("Init:{at}/{total_init}"), |why| format!("Init:{why}"));
        }
        None => {
            // The last container that has something to say speaks for the pod.
            if let Some(why) = containers.iter().rev().find_map(reason) {
                let one_runs = containers.iter().any(|c| c.ready);
                text = if why == "Completed" && one_runs { "Running".to_owned() } else { why };
            }
        }
    }
    if pod.metadata.deletion_timestamp.is_some() {
        "Terminating".clone_into(&mut text);
    }
    Pod {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        ready: containers.iter().filter(|c| c.ready).count() as u32,
        containers: spec.containers.len() as u32,
        status: text,
        restarts: containers.iter().map(|c| u32::try_from(c.restart_count).unwrap_or_default()).sum(),
        ip: status.pod_ip.unwrap_or_default(),
        node: spec.node_name.unwrap_or_default(),
        created: pod.metadata.creation_timestamp.as_ref().map(|t| t.0),
    }
}

/// Why a container does not run; none when it does.
fn reason(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        return waiting.reason.clone().filter(|r| !r.is_empty());
    }
    let ended = state.terminated.as_ref()?;
    let code = || match ended.signal {
        Some(signal) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", ended.exit_code),
    };
    Some(ended.reason.clone().filter(|r| !r.is_empty()).unwrap_or_else(code))
}

/// An Event; of a series, its last.
pub(super) fn event(event: &v1::Event) -> Event {
    let series = event.series.as_ref();
    let at: Option<Timestamp> = series
        .and_then(|s| s.last_observed_time.as_ref().map(|t| t.0))
        .or_else(|| event.last_timestamp.as_ref().map(|t| t.0))
        .or_else(|| event.event_time.as_ref().map(|t| t.0))
        .or_else(|| event.metadata.creation_timestamp.as_ref().map(|t| t.0));
    let object = &event.involved_object;
    let name = object.name.clone().unwrap_or_default();
    let place = object.namespace.as_ref().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"));
    let count = series.and_then(|s| s.count).or(event.count).unwrap_or(1);
    Event {
        at,
        warning: event.type_.as_deref() == Some("Warning"),
        reason: event.reason.clone().unwrap_or_default(),
        object: format!("{} {place}", object.kind.clone().unwrap_or_default()),
        count: u32::try_from(count).unwrap_or(1),
        message: event.message.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status_of(mut status: Value, deleted: bool) -> String {
        status["podIP"] = "10.0.0.1".into();
        let mut object = json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"containers": [{"name": "web"}], "initContainers": [{"name": "seed"}]}, "status": status,
        });
        if deleted {
            object["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        }
        pod(&serde_json::from_value(object).expect("pod")).status
    }

    #[test]
    fn the_status_is_what_kubectl_prints() {
        let container = |state: Value, ready: bool| json!([{"name": "web", "ready": ready, "restartCount": 0, "image": "i", "imageID": "", "state": state}]);
        let done = container(json!({"terminated": {"exitCode": 0}}), true);
        let cases = [
            (json!({"phase": "Pending"}), "Pending"),
            (json!({"phase": "Running", "containerStatuses": container(json!({"running": {}}), true)}), "Running"),
            (
                json!({"phase": "Pending", "initContainerStatuses": done,
                       "containerStatuses": container(json!({"waiting": {"reason": "ImagePullBackOff"}}), false)}),
                "ImagePullBackOff",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": container(json!({"running": {}}), false)}),
                "Init:0/1",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": container(json!({"waiting": {"reason": "ErrImagePull"}}), false)}),
                "Init:ErrImagePull",
            ),
            (
                json!({"phase": "Failed", "containerStatuses": container(json!({"terminated": {"exitCode": 3}}), false)}),
                "ExitCode:3",
            ),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
        ];
        for (status, expected) in cases {
            assert_eq!(status_of(status.clone(), false), expected, "{status}");
        }
        assert_eq!(status_of(json!({"phase": "Running"}), true), "Terminating");
    }
}
