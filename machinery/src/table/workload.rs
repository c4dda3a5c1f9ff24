//! Workload controllers and what measures them.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, NAME, NONE, Printer, UNKNOWN, age, bool_at, boolean, containers, int_at, int_or_string, integer, list_at,
    map_text, name, selector_text, str_at, str_or, text, wide,
};

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        resource: "deployments.apps",
        columns: &[
            NAME,
            text("Ready"),
            integer("Up-to-date"),
            integer("Available"),
            AGE,
            wide("Containers"),
            wide("Images"),
            wide("Selector"),
        ],
        cells: |o, now| {
            let [names, images] = containers(o.pointer("/spec/template/spec"));
            vec![
                name(o),
                format!("{}/{}", int_at(o, "/status/readyReplicas"), int_at(o, "/spec/replicas")).into(),
                int_at(o, "/status/updatedReplicas").into(),
                int_at(o, "/status/availableReplicas").into(),
                age::of(o, now),
                names,
                images,
                selector_text(o.pointer("/spec/selector")).into(),
            ]
        },
    },
    Printer {
        resource: "replicasets.apps",
        columns: REPLICAS,
        cells: |o, now| replicas(o, now, selector_text(o.pointer("/spec/selector"))),
    },
    Printer {
        resource: "replicationcontrollers",
        columns: REPLICAS,
        cells: |o, now| replicas(o, now, map_text(o.pointer("/spec/selector"))),
    },
    Printer {
        resource: "statefulsets.apps",
        columns: &[NAME, text("Ready"), AGE, wide("Containers"), wide("Images")],
        cells: |o, now| {
            let [names, images] = containers(o.pointer("/spec/template/spec"));
            let ready = format!("{}/{}", int_at(o, "/status/readyReplicas"), int_at(o, "/spec/replicas"));
            vec![name(o), ready.into(), age::of(o, now), names, images]
        },
    },
    Printer {
        resource: "daemonsets.apps",
        columns: &[
            NAME,
            integer("Desired"),
            integer("Current"),
            integer("Ready"),
            integer("Up-to-date"),
            integer("Available"),
            text("Node Selector"),
            AGE,
            wide("Containers"),
            wide("Images"),
            wide("Selector"),
        ],
        cells: |o, now| {
            let [names, images] = containers(o.pointer("/spec/template/spec"));
            vec![
                name(o),
                int_at(o, "/status/desiredNumberScheduled").into(),
                int_at(o, "/status/currentNumberScheduled").into(),
                int_at(o, "/status/numberReady").into(),
                int_at(o, "/status/updatedNumberScheduled").into(),
                int_at(o, "/status/numberAvailable").into(),
                map_text(o.pointer("/spec/template/spec/nodeSelector")).into(),
                age::of(o, now),
                names,
                images,
                selector_text(o.pointer("/spec/selector")).into(),
            ]
        },
    },
    Printer {
        resource: "jobs.batch",
        columns: &[
            NAME,
            text("Status"),
            text("Completions"),
            text("Duration"),
            AGE,
            wide("Containers"),
            wide("Images"),
            wide("Selector"),
        ],
        cells: job,
    },
    Printer {
        resource: "cronjobs.batch",
        columns: &[
            NAME,
            text("Schedule"),
            text("Timezone"),
            boolean("Suspend"),
            integer("Active"),
            text("Last Schedule"),
            AGE,
            wide("Containers"),
            wide("Images"),
            wide("Selector"),
        ],
        cells: |o, now| {
            let [names, images] = containers(o.pointer("/spec/jobTemplate/spec/template/spec"));
            let last =
                o.pointer("/status/lastScheduleTime").map_or_else(|| NONE.to_owned(), |t| age::since(Some(t), now));
            let suspend = if bool_at(o, "/spec/suspend") { "True" } else { "False" };
            vec![
                name(o),
                str_at(o, "/spec/schedule").into(),
                str_or(o, "/spec/timeZone", NONE).into(),
                suspend.into(),
                list_at(o, "/status/active").len().into(),
                last.into(),
                age::of(o, now),
                names,
                images,
                selector_text(o.pointer("/spec/jobTemplate/spec/selector")).into(),
            ]
        },
    },
    Printer {
        resource: "horizontalpodautoscalers.autoscaling",
        columns: &[
            NAME,
            text("Reference"),
            text("Targets"),
            text("MinPods"),
            text("MaxPods"),
            integer("Replicas"),
            AGE,
        ],
        cells: |o, now| {
            let reference =
                format!("{}/{}", str_at(o, "/spec/scaleTargetRef/kind"), str_at(o, "/spec/scaleTargetRef/name"));
            let minimum = o.pointer("/spec/minReplicas").map_or_else(|| UNSET_MINIMUM.to_owned(), Value::to_string);
            vec![
                name(o),
                reference.into(),
                targets(o).into(),
                minimum.into(),
                int_at(o, "/spec/maxReplicas").to_string().into(),
                int_at(o, "/status/currentReplicas").into(),
                age::of(o, now),
            ]
        },
    },
    Printer {
        resource: "poddisruptionbudgets.policy",
        columns: &[NAME, text("Min Available"), text("Max Unavailable"), integer("Allowed Disruptions"), AGE],
        cells: |o, now| {
            let bound = |pointer: &str| o.pointer(pointer).map_or_else(|| "N/A".to_owned(), int_or_string);
            vec![
                name(o),
                bound("/spec/minAvailable").into(),
                bound("/spec/maxUnavailable").into(),
                int_at(o, "/status/disruptionsAllowed").into(),
                age::of(o, now),
            ]
        },
    },
    Printer {
        resource: "controllerrevisions.apps",
        columns: &[NAME, text("Controller"), integer("Revision"), AGE],
        cells: |o, now| {
            let owner = list_at(o, "/metadata/ownerReferences").iter().find(|r| bool_at(r, "/controller"));
            let controller = owner.map_or_else(|| NONE.to_owned(), owner_text);
            vec![name(o), controller.into(), int_at(o, "/revision").into(), age::of(o, now)]
        },
    },
];

const UNSET_MINIMUM: &str = super::UNSET;

const REPLICAS: &[super::Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn replicas(o: &Value, now: Timestamp, selector: String) -> Vec<Value> {
    let [names, images] = containers(o.pointer("/spec/template/spec"));
    vec![
        name(o),
        int_at(o, "/spec/replicas").into(),
        int_at(o, "/status/replicas").into(),
        int_at(o, "/status/readyReplicas").into(),
        age::of(o, now),
        names,
        images,
        selector.into(),
    ]
}

/// `statefulset.apps/web`.
fn owner_text(reference: &Value) -> String {
    let kind = str_at(reference, "/kind").to_lowercase();
    match str_at(reference, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", str_at(reference, "/name")),
        None => format!("{kind}/{}", str_at(reference, "/name")),
    }
}

fn job(o: &Value, now: Timestamp) -> Vec<Value> {
    let condition = |kind: &str| {
        list_at(o, "/status/conditions").iter().any(|c| str_at(c, "/type") == kind && str_at(c, "/status") == "True")
    };
    let status = if condition("Complete") {
        "Complete"
    } else if condition("Failed") {
        "Failed"
    } else if o.pointer("/metadata/deletionTimestamp").is_some() {
        "Terminating"
    } else if condition("Suspended") {
        "Suspended"
    } else if condition("FailureTarget") {
        "FailureTarget"
    } else if condition("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let succeeded = int_at(o, "/status/succeeded");
    let completions = match (o.pointer("/spec/completions"), int_at(o, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let second = |pointer: &str| str_at(o, pointer).parse::<Timestamp>().ok().map(Timestamp::as_second);
    let duration = second("/status/startTime")
        .map(|start| age::human(second("/status/completionTime").unwrap_or(now.as_second()) - start))
        .unwrap_or_default();
    let [names, images] = containers(o.pointer("/spec/template/spec"));
    vec![
        name(o),
        status.into(),
        completions.into(),
        duration.into(),
        age::of(o, now),
        names,
        images,
        selector_text(o.pointer("/spec/selector")).into(),
    ]
}

/// Current and target value of every metric of an autoscaler (v2, or v1's one percentage).
fn targets(o: &Value) -> String {
    if let Some(target) = o.pointer("/spec/targetCPUUtilizationPercentage") {
        let current = o.pointer("/status/currentCPUUtilizationPercentage");
        return format!("cpu: {}/{target}%", current.map_or_else(|| UNKNOWN.to_owned(), |c| format!("{c}%")));
    }
    let metrics = list_at(o, "/spec/metrics");
    if metrics.is_empty() {
        return NONE.to_owned();
    }
    let current = list_at(o, "/status/currentMetrics");
    let mut shown: Vec<String> =
        metrics.iter().take(2).enumerate().map(|(index, m)| metric(m, current.get(index))).collect();
    if metrics.len() > 2 {
        shown.push(format!("{} more...", metrics.len() - 2));
    }
    shown.join(", ")
}

fn metric(spec: &Value, current: Option<&Value>) -> String {
    let (field, name) = match str_at(spec, "/type") {
        "Resource" => ("resource", "name"),
        "ContainerResource" => ("containerResource", "name"),
        "Pods" => ("pods", ""),
        "Object" => ("object", ""),
        "External" => ("external", ""),
        _ => return "<unknown type>".to_owned(),
    };
    let prefix = if name.is_empty() { String::new() } else { format!("{}: ", str_at(spec, &format!("/{field}/name"))) };
    let now = |kind: &str| current.and_then(|c| c.pointer(&format!("/{field}/current/{kind}")));
    let target = |kind: &str| spec.pointer(&format!("/{field}/target/{kind}"));
    if let Some(target) = target("averageUtilization") {
        let now = now("averageUtilization").map_or_else(|| UNKNOWN.to_owned(), |v| format!("{v}%"));
        return format!("{prefix}{now}/{target}%");
    }
    let (kind, average) = if target("averageValue").is_some() { ("averageValue", " (avg)") } else { ("value", "") };
    let average = if field == "external" || field == "object" { average } else { "" };
    let now = now(kind).map_or_else(|| UNKNOWN.to_owned(), int_or_string);
    format!("{prefix}{now}/{}{average}", target(kind).map_or_else(|| UNKNOWN.to_owned(), int_or_string))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::table::testing::row;

    #[test]
    fn workloads() {
        let template =
            json!({ "spec": { "containers": [{ "name": "a", "image": "i:1" }, { "name": "b", "image": "j:2" }] } });
        let meta = json!({ "name": "w", "creationTimestamp": "2025-12-31T23:00:00Z" });
        let selector = json!({ "matchLabels": { "app": "w" } });
        let deployment = json!({ "metadata": meta, "spec": { "replicas": 3, "selector": selector, "template": template },
            "status": { "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2 } });
        assert_eq!(row("deployments.apps", &deployment), "w | 2/3 | 3 | 2 | 60m | a,b | i:1,j:2 | app=w");
        let set = json!({ "metadata": meta, "spec": { "replicas": 3, "selector": selector, "template": template }, "status": { "replicas": 3 } });
        assert_eq!(row("replicasets.apps", &set), "w | 3 | 3 | 0 | 60m | a,b | i:1,j:2 | app=w");
        assert_eq!(row("statefulsets.apps", &set), "w | 0/3 | 60m | a,b | i:1,j:2");
        let daemons = json!({ "metadata": meta, "spec": { "selector": selector, "template": template }, "status": { "numberReady": 1 } });
        assert_eq!(row("daemonsets.apps", &daemons), "w | 0 | 0 | 1 | 0 | 0 | <none> | 60m | a,b | i:1,j:2 | app=w");
        let job = json!({ "metadata": meta, "spec": { "completions": 2, "selector": selector, "template": template }, "status": {
            "succeeded": 2, "startTime": "2025-12-31T23:00:00Z", "completionTime": "2025-12-31T23:00:30Z",
            "conditions": [{ "type": "Complete", "status": "True" }] } });
        assert_eq!(row("jobs.batch", &job), "w | Complete | 2/2 | 30s | 60m | a,b | i:1,j:2 | app=w");
        let cron = json!({ "metadata": meta, "spec": { "schedule": "@daily", "suspend": false, "jobTemplate": { "spec": { "template": template } } } });
        assert_eq!(
            row("cronjobs.batch", &cron),
            "w | @daily | <none> | False | 0 | <none> | 60m | a,b | i:1,j:2 | <none>"
        );
        let budget =
            json!({ "metadata": meta, "spec": { "minAvailable": "50%" }, "status": { "disruptionsAllowed": 1 } });
        assert_eq!(row("poddisruptionbudgets.policy", &budget), "w | 50% | N/A | 1 | 60m");
        let scaler = json!({ "metadata": meta, "spec": { "minReplicas": 1, "maxReplicas": 5, "scaleTargetRef": { "kind": "Deployment", "name": "w" },
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu", "target": { "averageUtilization": 80 } } }] } });
        assert_eq!(
            row("horizontalpodautoscalers.autoscaling", &scaler),
            "w | Deployment/w | cpu: <unknown>/80% | 1 | 5 | 0 | 60m"
        );
    }
}
