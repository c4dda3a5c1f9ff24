//! Nodes, certificates, API registration, flow control and device classes.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, NAME, NONE, Printer, UNKNOWN, age, bool_at, int_at, integer, list_at, name, str_at, str_or, text, wide,
};

/// An amount of a resource, as metrics-server's `pkg/api/table.go` has it.
const fn quantity(name: &'static str) -> Column {
    Column { name, kind: "string", format: "quantity", priority: 0 }
}

const WINDOW: Column = Column { name: "Window", kind: "string", format: "duration", priority: 0 };

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        resource: "nodes",
        columns: &[
            NAME,
            text("Status"),
            text("Roles"),
            AGE,
            text("Version"),
            wide("Internal-IP"),
            wide("External-IP"),
            wide("OS-Image"),
            wide("Kernel-Version"),
            wide("Container-Runtime"),
        ],
        cells: node,
    },
    Printer {
        resource: "certificatesigningrequests.certificates.k8s.io",
        columns: &[NAME, AGE, text("SignerName"), text("Requestor"), text("RequestedDuration"), text("Condition")],
        cells: |o, now| {
            let duration = match o.pointer("/spec/expirationSeconds").and_then(Value::as_i64) {
                Some(seconds) => age::human(seconds),
                None => NONE.to_owned(),
            };
            vec![
                name(o),
                age::of(o, now),
                str_or(o, "/spec/signerName", NONE).into(),
                str_at(o, "/spec/username").into(),
                duration.into(),
                request_condition(o).into(),
            ]
        },
    },
    Printer {
        resource: "pods.metrics.k8s.io",
        columns: &[NAME, quantity("cpu"), quantity("memory"), WINDOW],
        cells: |o, _| {
            let containers = list_at(o, "/containers");
            let sum = |resource: &str| sum(containers.iter().map(|c| str_at(&c["usage"], resource)));
            vec![name(o), sum("/cpu").into(), sum("/memory").into(), str_at(o, "/window").into()]
        },
    },
    Printer {
        resource: "nodes.metrics.k8s.io",
        columns: &[NAME, quantity("cpu"), quantity("memory"), WINDOW],
        cells: |o, _| {
            vec![
                name(o),
                str_at(o, "/usage/cpu").into(),
                str_at(o, "/usage/memory").into(),
                str_at(o, "/window").into(),
            ]
        },
    },
    Printer {
        resource: "apiservices.apiregistration.k8s.io",
        columns: &[NAME, text("Service"), text("Available"), AGE],
        cells: |o, now| {
            let service = o
                .pointer("/spec/service")
                .map_or_else(|| "Local".to_owned(), |s| format!("{}/{}", str_at(s, "/namespace"), str_at(s, "/name")));
            let available = list_at(o, "/status/conditions").iter().find(|c| str_at(c, "/type") == "Available");
            let available = match available {
                None => UNKNOWN.to_owned(),
                Some(c) if str_at(c, "/status") == "True" => "True".to_owned(),
                Some(c) => format!("{} ({})", str_at(c, "/status"), str_at(c, "/reason")),
            };
            vec![name(o), service.into(), available.into(), age::of(o, now)]
        },
    },
    Printer {
        resource: "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        columns: &[
            NAME,
            text("Type"),
            text("NominalConcurrencyShares"),
            text("Queues"),
            text("HandSize"),
            text("QueueLengthLimit"),
            AGE,
        ],
        cells: |o, now| {
            let number = |pointer: &str| o.pointer(pointer).map_or_else(|| NONE.to_owned(), Value::to_string);
            let shares = match str_at(o, "/spec/type") {
                "Exempt" => number("/spec/exempt/nominalConcurrencyShares"),
                _ => number("/spec/limited/nominalConcurrencyShares"),
            };
            vec![
                name(o),
                str_at(o, "/spec/type").into(),
                shares.into(),
                number("/spec/limited/limitResponse/queuing/queues").into(),
                number("/spec/limited/limitResponse/queuing/handSize").into(),
                number("/spec/limited/limitResponse/queuing/queueLengthLimit").into(),
                age::of(o, now),
            ]
        },
    },
    Printer {
        resource: "flowschemas.flowcontrol.apiserver.k8s.io",
        columns: &[
            NAME,
            text("PriorityLevel"),
            integer("MatchingPrecedence"),
            text("DistinguisherMethod"),
            AGE,
            text("MissingPL"),
        ],
        cells: |o, now| {
            let dangling = list_at(o, "/status/conditions").iter().find(|c| str_at(c, "/type") == "Dangling");
            vec![
                name(o),
                str_at(o, "/spec/priorityLevelConfiguration/name").into(),
                int_at(o, "/spec/matchingPrecedence").into(),
                str_or(o, "/spec/distinguisherMethod/type", NONE).into(),
                age::of(o, now),
                dangling.map_or("?", |c| str_at(c, "/status")).into(),
            ]
        },
    },
    Printer {
        resource: "resourceclaims.resource.k8s.io",
        columns: &[NAME, text("State"), AGE],
        cells: |o, now| {
            let mut states = Vec::new();
            if o.pointer("/metadata/deletionTimestamp").is_some() {
                states.push("deleted");
            }
            if o.pointer("/status/allocation").is_none() {
                states.push("pending");
            } else {
                states.push("allocated");
                if !list_at(o, "/status/reservedFor").is_empty() {
                    states.push("reserved");
                }
            }
            vec![name(o), states.join(",").into(), age::of(o, now)]
        },
    },
    Printer {
        resource: "resourceclaimtemplates.resource.k8s.io",
        columns: &[NAME, AGE],
        cells: |o, now| vec![name(o), age::of(o, now)],
    },
    Printer {
        resource: "deviceclasses.resource.k8s.io",
        columns: &[NAME, AGE],
        cells: |o, now| vec![name(o), age::of(o, now)],
    },
    Printer {
        resource: "resourceslices.resource.k8s.io",
        columns: &[NAME, text("Node"), text("Driver"), text("Pool"), AGE],
        cells: |o, now| {
            vec![
                name(o),
                str_or(o, "/spec/nodeName", UNKNOWN).into(),
                str_at(o, "/spec/driver").into(),
                str_at(o, "/spec/pool/name").into(),
                age::of(o, now),
            ]
        },
    },
];

fn node(o: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list_at(o, "/status/conditions").iter().find(|c| str_at(c, "/type") == "Ready");
    let mut status = match ready.map(|c| str_at(c, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if bool_at(o, "/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = list_at(o, "/status/addresses").iter().find(|a| str_at(a, "/type") == kind);
        found.map_or(NONE, |a| str_at(a, "/address")).to_owned()
    };
    vec![
        name(o),
        status.into(),
        roles(o).into(),
        age::of(o, now),
        str_at(o, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        str_or(o, "/status/nodeInfo/osImage", UNKNOWN).into(),
        str_or(o, "/status/nodeInfo/kernelVersion", UNKNOWN).into(),
        str_or(o, "/status/nodeInfo/containerRuntimeVersion", UNKNOWN).into(),
    ]
}

/// Roles by the labels `node-role.kubernetes.io/ROLE` and `kubernetes.io/role=ROLE`.
fn roles(o: &Value) -> String {
    let labels = o.pointer("/metadata/labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

/// `Approved,Issued` and the like.
fn request_condition(o: &Value) -> String {
    let has = |kind: &str| list_at(o, "/status/conditions").iter().any(|c| str_at(c, "/type") == kind);
    let mut text = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        text.push_str(",Failed");
    }
    if !str_at(o, "/status/certificate").is_empty() {
        text.push_str(",Issued");
    }
    text
}

/// The sum of quantities, with the largest suffix that leaves a whole number.
fn sum<'a>(quantities: impl Iterator<Item = &'a str>) -> String {
    let (mut nanos, mut binary) = (0_i128, false);
    for text in quantities {
        binary |= text.ends_with('i');
        nanos = nanos.saturating_add(crate::quantity::parse(text).unwrap_or_default());
    }
    let (mut number, step, suffixes): (i128, i128, &[&str]) = if binary {
        (nanos / 1_000_000_000, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
    } else {
        (nanos, 1000, &["n", "u", "m", "", "k", "M", "G", "T", "P", "E"])
    };
    if number == 0 {
        return "0".to_owned();
    }
    let mut power = 0;
    while number % step == 0 && power + 1 < suffixes.len() {
        number /= step;
        power += 1;
    }
    format!("{number}{}", suffixes.get(power).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::sum;
    use crate::table::testing::row;

    #[test]
    fn measurements_of_containers_are_added_up() {
        for (quantities, text) in [
            (&["1500000n", "500u"][..], "2m"),
            (&["1234567n"], "1234567n"),
            (&["0", "0"], "0"),
            (&["10Mi", "1024"], "10241Ki"),
            (&["1Gi", "1Gi"], "2Gi"),
        ] {
            assert_eq!(sum(quantities.iter().copied()), text, "{quantities:?}");
        }
    }

    #[test]
    fn nodes_and_requests() {
        let node = json!({ "metadata": { "name": "n", "creationTimestamp": "2025-12-31T23:59:55Z", "labels": { "node-role.kubernetes.io/worker": "" } },
            "spec": { "unschedulable": true }, "status": { "conditions": [{ "type": "Ready", "status": "True" }],
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }], "nodeInfo": { "kubeletVersion": "v1.36.0", "osImage": "Debian" } } });
        assert_eq!(
            row("nodes", &node),
            "n | Ready,SchedulingDisabled | worker | 5s | v1.36.0 | 10.0.0.1 | <none> | Debian | <unknown> | <unknown>"
        );
        let request = json!({ "metadata": { "name": "r", "creationTimestamp": "2025-12-31T23:59:55Z" },
            "spec": { "signerName": "s", "username": "u", "expirationSeconds": 3600 },
            "status": { "conditions": [{ "type": "Approved" }], "certificate": "eA==" } });
        assert_eq!(
            row("certificatesigningrequests.certificates.k8s.io", &request),
            "r | 5s | s | u | 60m | Approved,Issued"
        );
    }
}
