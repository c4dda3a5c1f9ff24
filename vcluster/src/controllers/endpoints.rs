//! Endpoints of services with a selector (`pkg/controller/endpoint` upstream).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    context::{Context, Failure, is_namespace_terminating},
    event::{Draft, EventType},
    object::{annotation, entry, labels, list, rfc3339, text, time},
    pod,
    service_ports::{self as ports, Family},
};

const RESOURCE: &str = "endpoints";
/// Label of Endpoints that this controller writes.
pub(super) const MANAGED_BY: &str = "endpoint-controller";
pub(super) const MANAGED_BY_LABEL: &str = "endpoints.kubernetes.io/managed-by";
const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Addresses that one object holds at most.
const CAPACITY: usize = 1000;

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str, name: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(service) = cx.find("services", namespace, name).await? else {
        if let Some(left) = cx.find(RESOURCE, namespace, name).await?
            && text(labels(&left), "/endpoints.kubernetes.io~1managed-by") == MANAGED_BY
        {
            cx.delete(RESOURCE, namespace, name, Value::Null).await?;
        }
        return Ok(None);
    };
    if !ports::has_endpoints(&service) || super::object::is_deleting(&service) {
        return Ok(None);
    }
    let pods = cx.list("pods", namespace).await?;
    let live = cx.find(RESOURCE, namespace, name).await?;
    let Some(wanted) = plan(&service, &pods, live.as_ref()) else { return Ok(None) };
    let (done, what) = if live.is_some() {
        (cx.client.update(RESOURCE, namespace, name, "", wanted.clone()).await, "Update")
    } else {
        (cx.client.create(RESOURCE, namespace, wanted.clone()).await, "Create")
    };
    match done {
        Ok(_) => Ok(None),
        Err(e) if is_namespace_terminating(&e) => Ok(None),
        Err(e) => {
            if e.code != 409 {
                let message = match what {
                    "Create" => format!("Failed to create endpoint for service {namespace}/{name}: {e}"),
                    _ => format!("Failed to update endpoint {namespace}/{name}: {e}"),
                };
                let reason = format!("FailedTo{what}Endpoint");
                cx.record(Draft::new("v1", "Endpoints", &wanted, EventType::Warning, &reason, message)).await;
            }
            Err(e.into())
        }
    }
}

/// The object as it must be; none when the live one is.
fn plan(service: &Value, pods: &[Value], live: Option<&Value>) -> Option<Value> {
    let members: Vec<&Value> = pods.iter().filter(|p| ports::selects(service, p)).collect();
    let (subsets, truncated) = subsets(service, &members);
    let mut wanted_labels = labels(service).as_object().cloned().unwrap_or_default();
    wanted_labels.insert(MANAGED_BY_LABEL.into(), MANAGED_BY.into());
    if ports::is_headless(service) {
        wanted_labels.insert(HEADLESS_LABEL.into(), "".into());
    } else {
        wanted_labels.remove(HEADLESS_LABEL);
    }
    if let Some(live) = live
        && list(live, "/subsets") == subsets.as_slice()
        && labels(live).as_object() == Some(&wanted_labels)
        && annotation(live, OVER_CAPACITY).is_some() == truncated
    {
        return None;
    }
    let mut wanted = live.cloned().unwrap_or_else(|| {
        json!({ "apiVersion": "v1", "kind": "Endpoints", "metadata": {
            "name": super::object::name(service), "namespace": super::object::namespace(service) } })
    });
    wanted["metadata"]["labels"] = Value::Object(wanted_labels);
    let annotations = entry(&mut wanted["metadata"], "annotations");
    annotations.remove(OVER_CAPACITY);
    if truncated {
        annotations.insert(OVER_CAPACITY.into(), "truncated".into());
    }
    match last_change(service, &members) {
        Some(at) => annotations.insert(TRIGGER.into(), rfc3339(at).into()),
        None => annotations.remove(TRIGGER),
    };
    if subsets.is_empty() {
        if let Some(object) = wanted.as_object_mut() {
            object.remove("subsets");
        }
    } else {
        wanted["subsets"] = subsets.into();
    }
    Some(wanted)
}

/// When what endpoints depend on last changed, as far as objects tell: the newest readiness transition, or the service's creation.
pub(super) fn last_change(service: &Value, members: &[&Value]) -> Option<Timestamp> {
    members
        .iter()
        .filter_map(|p| super::object::condition(p, "Ready").and_then(|c| time(c, "/lastTransitionTime")))
        .chain(time(service, "/metadata/creationTimestamp"))
        .max()
}

/// A subset in the making.
#[derive(Default)]
struct Group {
    ready: Vec<Value>,
    not_ready: Vec<Value>,
    ports: Vec<Value>,
}

/// Addresses grouped by the ports they have: addresses with the same set of ports are one subset, in a stable order.
fn subsets(service: &Value, members: &[&Value]) -> (Vec<Value>, bool) {
    let unready = ports::publishes_unready(service);
    let family = Family::of(service).first().copied().unwrap_or(Family::V4);
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let mut members: Vec<&&Value> = members.iter().filter(|p| ports::is_endpoint(p, unready)).collect();
    members.sort_by_key(|p| (ports::addresses(p, family).first().cloned(), super::object::uid(p)));
    // Ready addresses have the first claim on the capacity.
    let ready_count = members.iter().filter(|p| unready || pod::is_ready(p)).count();
    let truncated = members.len() > CAPACITY;
    let (mut ready_left, mut unready_left) = (CAPACITY.min(ready_count), CAPACITY.saturating_sub(ready_count));
    for pod in members {
        let Some(ip) = ports::addresses(pod, family).into_iter().next() else { continue };
        let found = ports::ports_on(service, pod);
        let portless = list(service, "/spec/ports").is_empty();
        if found.is_empty() && !(portless && ports::is_headless(service)) {
            continue;
        }
        let is_ready = unready || pod::is_ready(pod);
        let left = if is_ready { &mut ready_left } else { &mut unready_left };
        if *left == 0 {
            continue;
        }
        *left -= 1;
        let mut address = json!({ "ip": ip, "targetRef": ports::target(pod) });
        if !text(pod, "/spec/nodeName").is_empty() {
            address["nodeName"] = text(pod, "/spec/nodeName").into();
        }
        if let Some(hostname) = ports::hostname(pod, service) {
            address["hostname"] = hostname.into();
        }
        let mut found: Vec<Value> = found.into_iter().map(without_empty_name).collect();
        found.sort_by_key(|p| (text(p, "/name").to_owned(), p["port"].as_i64(), text(p, "/protocol").to_owned()));
        let group = groups.entry(Value::from(found.clone()).to_string()).or_default();
        group.ports = found;
        if is_ready { group.ready.push(address) } else { group.not_ready.push(address) }
    }
    let subsets = groups.into_values().map(|group| {
        let mut subset = Map::new();
        for (field, values) in
            [("addresses", group.ready), ("notReadyAddresses", group.not_ready), ("ports", group.ports)]
        {
            if !values.is_empty() {
                subset.insert(field.into(), values.into());
            }
        }
        Value::Object(subset)
    });
    (subsets.collect(), truncated)
}

/// In Endpoints an empty port name is left out, in EndpointSlices it is written.
fn without_empty_name(mut port: Value) -> Value {
    if text(&port, "/name").is_empty()
        && let Some(port) = port.as_object_mut()
    {
        port.remove("name");
    }
    port
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Value {
        json!({
            "metadata": { "name": "web", "namespace": "ns", "labels": { "l": "1" }, "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "clusterIP": "10.0.0.1", "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": "http", "protocol": "TCP" }] },
        })
    }

    fn pod(name: &str, ip: &str, port: i64, ready: bool) -> Value {
        json!({
            "metadata": { "name": name, "namespace": "ns", "uid": name, "labels": { "app": "web" } },
            "spec": { "nodeName": "n1", "containers": [{ "ports": [{ "name": "http", "containerPort": port, "protocol": "TCP" }] }] },
            "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
                "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:01:00Z" }] },
        })
    }

    #[test]
    fn pods_are_grouped_by_ports_and_readiness_and_a_second_plan_is_empty() {
        let pods =
            [pod("b", "10.1.0.2", 8080, true), pod("a", "10.1.0.1", 8080, false), pod("c", "10.1.0.3", 9090, true)];
        let made = plan(&service(), &pods, None).unwrap();
        assert_eq!(made["metadata"]["labels"], json!({ "l": "1", MANAGED_BY_LABEL: MANAGED_BY }));
        assert_eq!(made["metadata"]["annotations"][TRIGGER], "2026-01-01T00:01:00Z");
        let subsets = made["subsets"].as_array().unwrap();
        assert_eq!(subsets.len(), 2);
        assert_eq!(subsets[0]["addresses"][0]["ip"], "10.1.0.2");
        assert_eq!(subsets[0]["notReadyAddresses"][0]["ip"], "10.1.0.1");
        assert_eq!(subsets[0]["ports"], json!([{ "port": 8080, "protocol": "TCP" }]));
        assert_eq!(plan(&service(), &pods, Some(&made)), None);
    }

    #[test]
    fn terminating_and_foreign_pods_are_out_unless_unready_addresses_are_published() {
        let mut leaving = pod("a", "10.1.0.1", 8080, false);
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let mut other = pod("b", "10.1.0.2", 8080, true);
        other["metadata"]["labels"] = json!({ "app": "other" });
        let made = plan(&service(), &[leaving.clone(), other.clone()], None).unwrap();
        assert!(made.get("subsets").is_none(), "{made}");
        let mut publishing = service();
        publishing["spec"]["publishNotReadyAddresses"] = true.into();
        publishing["spec"]["clusterIP"] = "None".into();
        let made = plan(&publishing, &[leaving, other], None).unwrap();
        assert_eq!(made["subsets"][0]["addresses"][0]["ip"], "10.1.0.1");
        assert_eq!(made["metadata"]["labels"][HEADLESS_LABEL], "");
    }

    #[test]
    fn more_than_a_thousand_addresses_are_cut_and_ready_ones_come_first() {
        let pods: Vec<Value> = (0..1200)
            .map(|n| pod(&format!("p{n}"), &format!("10.{}.{}.1", n / 200, n % 200), 8080, n >= 300))
            .collect();
        let made = plan(&service(), &pods, None).unwrap();
        assert_eq!(made["subsets"][0]["addresses"].as_array().unwrap().len(), 900);
        assert_eq!(made["subsets"][0]["notReadyAddresses"].as_array().unwrap().len(), 100);
        assert_eq!(made["metadata"]["annotations"][OVER_CAPACITY], "truncated");
    }
}
