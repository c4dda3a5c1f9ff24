//! Pods: what `STATUS` and `RESTARTS` say (`printPod`).

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, NAME, NONE, Printer, age, bool_at, containers, int_at, len_at, list_at, map_text, name, str_at, str_or, text,
    wide,
};

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        resource: "pods",
        columns: &[
            NAME,
            text("Ready"),
            text("Status"),
            text("Restarts"),
            AGE,
            wide("IP"),
            wide("Node"),
            wide("Nominated Node"),
            wide("Readiness Gates"),
        ],
        cells: pod,
    },
    Printer {
        resource: "podtemplates",
        columns: &[NAME, text("Containers"), text("Images"), text("Pod Labels")],
        cells: |object, _| {
            let [names, images] = containers(object.pointer("/template/spec"));
            vec![name(object), names, images, map_text(object.pointer("/template/metadata/labels")).into()]
        },
    },
];

/// What is summed up over the containers of a pod.
#[derive(Default)]
struct Restarts {
    count: i64,
    /// Seconds since 1970 of the last one.
    last: Option<i64>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += int_at(status, "/restartCount");
        let finished = str_at(status, "/lastState/terminated/finishedAt").parse::<Timestamp>().ok();
        self.last = self.last.max(finished.map(Timestamp::as_second));
    }

    fn text(&self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count > 0 => format!("{} ({} ago)", self.count, age::human(now.as_second() - last)),
            _ => self.count.to_string(),
        }
    }
}

fn pod(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut reason = str_or(object, "/status/reason", str_at(object, "/status/phase")).to_owned();
    let scheduling_gated = list_at(object, "/status/conditions")
        .iter()
        .any(|c| str_at(c, "/type") == "PodScheduled" && str_at(c, "/reason") == "SchedulingGated");
    if scheduling_gated {
        "SchedulingGated".clone_into(&mut reason);
    }

    let init_specs = list_at(object, "/spec/initContainers");
    let sidecar =
        |name: &str| init_specs.iter().any(|c| str_at(c, "/name") == name && str_at(c, "/restartPolicy") == "Always");
    let mut total = list_at(object, "/spec/containers").len()
        + init_specs.iter().filter(|c| str_at(c, "/restartPolicy") == "Always").count();
    let mut ready = 0;
    let (mut all, mut of_sidecars) = (Restarts::default(), Restarts::default());

    let mut initializing = false;
    for (index, status) in list_at(object, "/status/initContainerStatuses").iter().enumerate() {
        let is_sidecar = sidecar(str_at(status, "/name"));
        all.add(status);
        if is_sidecar {
            of_sidecars.add(status);
        }
        let terminated = status.pointer("/state/terminated");
        if terminated.is_some_and(|t| int_at(t, "/exitCode") == 0) {
            continue;
        }
        if is_sidecar && bool_at(status, "/started") {
            ready += usize::from(bool_at(status, "/ready"));
            continue;
        }
        reason = match terminated {
            Some(t) => format!("Init:{}", ended(t)),
            None => match str_at(status, "/state/waiting/reason") {
                "" | "PodInitializing" => format!("Init:{index}/{}", init_specs.len()),
                waiting => format!("Init:{waiting}"),
            },
        };
        initializing = true;
        break;
    }

    let initialized = list_at(object, "/status/conditions")
        .iter()
        .any(|c| str_at(c, "/type") == "Initialized" && str_at(c, "/status") == "True");
    if !initializing || initialized {
        let mut restarts = of_sidecars;
        let mut running = false;
        for status in list_at(object, "/status/containerStatuses").iter().rev() {
            restarts.add(status);
            let waiting = str_at(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut reason);
            } else if let Some(terminated) = status.pointer("/state/terminated") {
                reason = ended(terminated);
            } else if bool_at(status, "/ready") && status.pointer("/state/running").is_some() {
                running = true;
                ready += 1;
            }
        }
        all = restarts;
        if reason == "Completed" && running {
            let is_ready = list_at(object, "/status/conditions")
                .iter()
                .any(|c| str_at(c, "/type") == "Ready" && str_at(c, "/status") == "True");
            if is_ready { "Running" } else { "NotReady" }.clone_into(&mut reason);
        }
    }

    if object.pointer("/metadata/deletionTimestamp").is_some() {
        let phase = str_at(object, "/status/phase");
        if str_at(object, "/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut reason);
        } else if !matches!(phase, "Failed" | "Succeeded") {
            "Terminating".clone_into(&mut reason);
        }
    }

    total = total.max(ready);
    let gates = list_at(object, "/spec/readinessGates");
    let open = gates.iter().filter(|gate| {
        let kind = str_at(gate, "/conditionType");
        list_at(object, "/status/conditions")
            .iter()
            .any(|c| str_at(c, "/type") == kind && str_at(c, "/status") == "True")
    });
    let gates = if gates.is_empty() { NONE.to_owned() } else { format!("{}/{}", open.count(), gates.len()) };
    let ip = if len_at(object, "/status/podIPs") > 0 { str_or(object, "/status/podIPs/0/ip", NONE) } else { NONE };
    vec![
        name(object),
        format!("{ready}/{total}").into(),
        reason.into(),
        all.text(now).into(),
        age::of(object, now),
        ip.into(),
        str_or(object, "/spec/nodeName", NONE).into(),
        str_or(object, "/status/nominatedNodeName", NONE).into(),
        gates.into(),
    ]
}

/// How a container ended.
fn ended(terminated: &Value) -> String {
    match (str_at(terminated, "/reason"), int_at(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", int_at(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::table::testing::row;

    fn pod(spec: Value, status: Value) -> Value {
        json!({ "metadata": { "name": "p", "creationTimestamp": "2025-12-31T23:59:00Z" }, "spec": spec, "status": status })
    }

    fn status_of(object: &Value) -> String {
        row("pods", object).split(" | ").skip(1).take(3).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn status_and_restarts() {
        let one = json!({ "containers": [{ "name": "c" }] });
        let with_init =
            json!({ "initContainers": [{ "name": "i" }, { "name": "j" }], "containers": [{ "name": "c" }] });
        let container = |state: Value, ready: bool, restarts: i64| {
            json!([{ "name": "c", "state": state, "ready": ready, "restartCount": restarts,
                     "lastState": { "terminated": { "finishedAt": "2025-12-31T23:55:00Z" } } }])
        };
        for (object, expected) in [
            (pod(one.clone(), json!({ "phase": "Pending" })), "0/1 Pending 0"),
            (
                pod(
                    one.clone(),
                    json!({ "phase": "Running", "containerStatuses": container(json!({ "running": {} }), true, 0) }),
                ),
                "1/1 Running 0",
            ),
            (
                pod(
                    one.clone(),
                    json!({ "phase": "Running", "containerStatuses":
                    container(json!({ "waiting": { "reason": "CrashLoopBackOff" } }), false, 3) }),
                ),
                "0/1 CrashLoopBackOff 3 (5m ago)",
            ),
            (
                pod(
                    one.clone(),
                    json!({ "phase": "Failed", "containerStatuses":
                    container(json!({ "terminated": { "exitCode": 2 } }), false, 0) }),
                ),
                "0/1 ExitCode:2 0",
            ),
            (
                pod(
                    one.clone(),
                    json!({ "phase": "Succeeded", "containerStatuses":
                    container(json!({ "terminated": { "exitCode": 0, "reason": "Completed" } }), false, 0) }),
                ),
                "0/1 Completed 0",
            ),
            (pod(one.clone(), json!({ "phase": "Failed", "reason": "Evicted" })), "0/1 Evicted 0"),
            (
                pod(
                    with_init.clone(),
                    json!({ "phase": "Pending", "initContainerStatuses": [
                    { "name": "i", "state": { "terminated": { "exitCode": 0 } } },
                    { "name": "j", "state": { "running": {} } },
                ] }),
                ),
                "0/1 Init:1/2 0",
            ),
            (
                pod(
                    with_init,
                    json!({ "phase": "Pending", "initContainerStatuses": [
                    { "name": "i", "restartCount": 1, "state": { "terminated": { "exitCode": 1, "reason": "Error" } } },
                ] }),
                ),
                "0/1 Init:Error 1",
            ),
            (
                pod(
                    one,
                    json!({ "phase": "Pending", "conditions": [
                    { "type": "PodScheduled", "status": "False", "reason": "SchedulingGated" },
                ] }),
                ),
                "0/1 SchedulingGated 0",
            ),
        ] {
            assert_eq!(status_of(&object), expected, "{object}");
        }
    }

    #[test]
    fn a_pod_being_deleted_is_terminating() {
        let mut object = pod(json!({ "containers": [{}] }), json!({ "phase": "Running" }));
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(status_of(&object), "0/1 Terminating 0");
    }

    #[test]
    fn a_started_sidecar_counts() {
        let spec =
            json!({ "initContainers": [{ "name": "s", "restartPolicy": "Always" }], "containers": [{ "name": "c" }] });
        let object = pod(
            spec,
            json!({
                "phase": "Running",
                "initContainerStatuses": [{ "name": "s", "started": true, "ready": true, "state": { "running": {} } }],
                "containerStatuses": [{ "name": "c", "ready": true, "state": { "running": {} } }],
            }),
        );
        assert_eq!(status_of(&object), "2/2 Running 0");
    }

    #[test]
    fn the_wide_columns() {
        let object = pod(
            json!({ "nodeName": "n1", "containers": [{}], "readinessGates": [{ "conditionType": "a" }, { "conditionType": "b" }] }),
            json!({ "phase": "Running", "podIPs": [{ "ip": "10.0.0.1" }], "conditions": [{ "type": "a", "status": "True" }] }),
        );
        assert_eq!(row("pods", &object), "p | 0/1 | Running | 0 | 60s | 10.0.0.1 | n1 | <none> | 1/2");
    }
}
