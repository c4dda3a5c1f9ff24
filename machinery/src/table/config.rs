//! Configuration, accounts, events and the other small kinds of the core group.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, NAME, Printer, UNKNOWN, age, int_at, int_or_string, integer, len_at, list_at, name, str_at, str_or, text, wide,
};

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        resource: "configmaps",
        columns: &[NAME, integer("Data"), AGE],
        cells: |o, now| vec![name(o), (len_at(o, "/data") + len_at(o, "/binaryData")).into(), age::of(o, now)],
    },
    Printer {
        resource: "secrets",
        columns: &[NAME, text("Type"), integer("Data"), AGE],
        cells: |o, now| vec![name(o), str_at(o, "/type").into(), len_at(o, "/data").into(), age::of(o, now)],
    },
    Printer {
        resource: "serviceaccounts",
        columns: &[NAME, integer("Secrets"), AGE],
        cells: |o, now| vec![name(o), len_at(o, "/secrets").into(), age::of(o, now)],
    },
    Printer {
        resource: "namespaces",
        columns: &[NAME, text("Status"), AGE],
        cells: |o, now| vec![name(o), str_at(o, "/status/phase").into(), age::of(o, now)],
    },
    Printer { resource: "events", columns: EVENT, cells: event },
    Printer { resource: "events.events.k8s.io", columns: EVENT, cells: event },
    Printer {
        resource: "resourcequotas",
        columns: &[NAME, text("Request"), text("Limit"), AGE],
        cells: |o, now| {
            let (mut requests, mut limits) = (Vec::new(), Vec::new());
            for (resource, hard) in o.pointer("/status/hard").and_then(Value::as_object).into_iter().flatten() {
                let used = o
                    .pointer("/status/used")
                    .and_then(|u| u.get(resource))
                    .map_or_else(|| "0".to_owned(), int_or_string);
                let text = format!("{resource}: {used}/{}", int_or_string(hard));
                if resource.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
            }
            vec![name(o), requests.join(", ").into(), limits.join(", ").into(), age::of(o, now)]
        },
    },
    Printer {
        resource: "componentstatuses",
        columns: &[NAME, text("Status"), text("Message"), text("Error")],
        cells: |o, _| {
            let healthy = list_at(o, "/conditions").iter().find(|c| str_at(c, "/type") == "Healthy");
            let status = match healthy.map(|c| str_at(c, "/status")) {
                Some("True") => "Healthy",
                Some("False") => "Unhealthy",
                _ => "Unknown",
            };
            let of = |pointer: &str| healthy.map(|c| str_at(c, pointer)).unwrap_or_default();
            vec![name(o), status.into(), of("/message").into(), of("/error").into()]
        },
    },
    Printer {
        resource: "leases.coordination.k8s.io",
        columns: &[NAME, text("Holder"), AGE],
        cells: |o, now| vec![name(o), str_at(o, "/spec/holderIdentity").into(), age::of(o, now)],
    },
];

const EVENT: &[super::Column] = &[
    text("Last Seen"),
    text("Type"),
    text("Reason"),
    text("Object"),
    wide("Subobject"),
    wide("Source"),
    text("Message"),
    wide("First Seen"),
    super::Column { name: "Count", kind: "integer", format: "", priority: 1 },
    super::Column { name: "Name", kind: "string", format: "name", priority: 1 },
];

/// Events of both groups: what one calls `involvedObject` is `regarding` in the other, and so on.
fn event(o: &Value, now: Timestamp) -> Vec<Value> {
    let either =
        |a: &str, b: &str| o.pointer(a).filter(|v| !v.is_null()).or_else(|| o.pointer(b).filter(|v| !v.is_null()));
    let event_time = o.pointer("/eventTime").filter(|t| !t.is_null());
    let first = either("/firstTimestamp", "/deprecatedFirstTimestamp").or(event_time);
    let last = o
        .pointer("/series/lastObservedTime")
        .or_else(|| either("/lastTimestamp", "/deprecatedLastTimestamp"))
        .or(event_time)
        .or(first);
    let seen = |time: Option<&Value>| time.map_or_else(|| UNKNOWN.to_owned(), |t| age::since(Some(t), now));
    let count = match int_at(o, "/series/count") {
        0 => either("/count", "/deprecatedCount").and_then(Value::as_i64).unwrap_or(1).max(1),
        n => n,
    };
    let object = either("/involvedObject", "/regarding").cloned().unwrap_or_default();
    let target = match str_at(&object, "/name") {
        "" => str_at(&object, "/kind").to_lowercase(),
        name => format!("{}/{name}", str_at(&object, "/kind").to_lowercase()),
    };
    let source = either("/source", "/deprecatedSource").cloned().unwrap_or_default();
    let component = str_or(&source, "/component", str_or(o, "/reportingComponent", str_at(o, "/reportingController")));
    let source = match str_or(&source, "/host", str_at(o, "/reportingInstance")) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    let message = str_or(o, "/message", str_at(o, "/note")).trim();
    vec![
        seen(last).into(),
        str_at(o, "/type").into(),
        str_at(o, "/reason").into(),
        target.into(),
        str_at(&object, "/fieldPath").into(),
        source.into(),
        message.into(),
        seen(first).into(),
        count.into(),
        name(o),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::table::testing::row;

    #[test]
    fn small_kinds() {
        let meta = json!({ "name": "x", "creationTimestamp": "2025-12-31T23:59:55Z" });
        assert_eq!(
            row("configmaps", &json!({ "metadata": meta, "data": { "a": "" }, "binaryData": { "b": "" } })),
            "x | 2 | 5s"
        );
        assert_eq!(row("secrets", &json!({ "metadata": meta, "type": "Opaque" })), "x | Opaque | 0 | 5s");
        let quota = json!({ "metadata": meta, "status": { "hard": { "pods": "3", "limits.cpu": "2" }, "used": { "pods": "1" } } });
        assert_eq!(row("resourcequotas", &quota), "x | pods: 1/3 | limits.cpu: 0/2 | 5s");
    }

    #[test]
    fn events_of_both_groups() {
        let core = json!({ "metadata": { "name": "e" }, "type": "Normal", "reason": "Scheduled", "message": "assigned ",
            "involvedObject": { "kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}" }, "source": { "component": "kubelet", "host": "n" },
            "firstTimestamp": "2025-12-31T23:59:00Z", "lastTimestamp": "2025-12-31T23:59:50Z", "count": 3 });
        let expected = "10s | Normal | Scheduled | pod/p | spec.containers{c} | kubelet, n | assigned | 60s | 3 | e";
        assert_eq!(row("events", &core), expected);
        let new = json!({ "metadata": { "name": "e" }, "type": "Normal", "reason": "R", "note": "n", "eventTime": "2025-12-31T23:59:50.000000Z",
            "regarding": { "kind": "Node", "name": "w" }, "reportingController": "c" });
        assert_eq!(row("events.events.k8s.io", &new), "10s | Normal | R | node/w |  | c | n | 10s | 1 | e");
    }
}
