//! EndpointSlices of services with a selector (`staging/src/k8s.io/endpointslice` upstream): at most 100 endpoints each, one group of
//! slices per address family and set of ports, changed as little as possible.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use vctl_machinery::selector::LabelSelector;

use super::{
    context::{Context, Failure, is_namespace_terminating},
    endpoints::last_change,
    object::{controller_reference, entry, is_deleting, labels, list, name, rfc3339, text, uid, uid_precondition},
    pod,
    service_ports::{self as ports, Family},
};

const RESOURCE: &str = "endpointslices.discovery.k8s.io";
/// Label value of slices that this controller writes.
pub(super) const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Endpoints per slice.
const SLICE_SIZE: usize = 100;

/// What is to be written.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    create: Vec<Value>,
    update: Vec<Value>,
    delete: Vec<Value>,
}

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str, name: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(service) = cx.find("services", namespace, name).await? else { return Ok(None) };
    if !ports::has_endpoints(&service) || is_deleting(&service) {
        return Ok(None);
    }
    let selector = LabelSelector::parse(&format!("{SERVICE_LABEL}={name},{MANAGED_BY_LABEL}={MANAGED_BY}"))
        .map_err(Failure::Partly)?;
    let slices = cx.client.list(RESOURCE, namespace, &selector).await?.items;
    let pods = cx.list("pods", namespace).await?;
    let nodes = cx.list("nodes", "").await?;
    let plan = plan(&service, &pods, &nodes, slices);
    for slice in plan.create {
        match cx.client.create(RESOURCE, namespace, slice).await {
            Err(e) if is_namespace_terminating(&e) => return Ok(None),
            Err(e) => return Err(e.into()),
            Ok(_) => {}
        }
    }
    for slice in plan.update {
        let slice_name = super::object::name(&slice).to_owned();
        cx.client.update(RESOURCE, namespace, &slice_name, "", slice).await?;
    }
    for slice in plan.delete {
        cx.delete(RESOURCE, namespace, super::object::name(&slice), uid_precondition(uid(&slice))).await?;
    }
    Ok(None)
}

fn plan(service: &Value, pods: &[Value], nodes: &[Value], slices: Vec<Value>) -> Plan {
    let members: Vec<&Value> =
        pods.iter().filter(|p| ports::selects(service, p) && ports::is_endpoint(p, true)).collect();
    let trigger = last_change(service, &members).map(rfc3339);
    let families = Family::of(service);
    let mut plan = Plan::default();
    let mut existing: HashMap<&'static str, Vec<Value>> = HashMap::new();
    for slice in slices {
        let ours = list(&slice, "/metadata/ownerReferences").iter().any(|r| text(r, "/uid") == uid(service));
        match families.iter().find(|f| f.address_type() == text(&slice, "/addressType")) {
            _ if is_deleting(&slice) => {}
            Some(family) if ours => existing.entry(family.address_type()).or_default().push(slice),
            _ => plan.delete.push(slice),
        }
    }
    for family in families {
        let mut groups: BTreeMap<String, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
        for pod in &members {
            let found = ports::ports_on(service, pod);
            if ports::addresses(pod, family).is_empty() {
                continue;
            }
            let key = port_key(&found);
            groups.entry(key).or_insert_with(|| (found, Vec::new())).1.push(endpoint(pod, service, nodes, family));
        }
        let slices = existing.remove(family.address_type()).unwrap_or_default();
        family_plan(service, family, groups, slices, trigger.as_deref(), &mut plan);
    }
    plan
}

/// Fills, shrinks, makes and drops the slices of one address family.
fn family_plan(
    service: &Value,
    family: Family,
    groups: BTreeMap<String, (Vec<Value>, Vec<Value>)>,
    slices: Vec<Value>,
    trigger: Option<&str>,
    plan: &mut Plan,
) {
    let mut by_ports: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for slice in slices {
        by_ports.entry(port_key(list(&slice, "/ports"))).or_default().push(slice);
    }
    // With no endpoints at all one empty slice stays, so that consumers see that the service has none.
    let placeholder = groups.is_empty();
    let groups = if placeholder { [(port_key(&[]), (Vec::new(), Vec::new()))].into() } else { groups };
    let mut spare: Vec<Value> = Vec::new();
    for (key, slices) in &mut by_ports {
        if !groups.contains_key(key) {
            spare.append(slices);
        }
    }
    for (key, (ports, endpoints)) in groups {
        let mut wanted: BTreeMap<String, Value> = endpoints.into_iter().map(|e| (endpoint_key(&e), e)).collect();
        // (slice, its endpoints from now on, whether they changed)
        let mut kept: Vec<(Value, Vec<Value>, bool)> = Vec::new();
        for slice in by_ports.remove(&key).unwrap_or_default() {
            let before = list(&slice, "/endpoints").to_vec();
            let after: Vec<Value> =
                before.iter().filter_map(|e| wanted.remove(&endpoint_key(e))).take(SLICE_SIZE).collect();
            let changed = before != after;
            kept.push((slice, after, changed));
        }
        let mut rest: Vec<Value> = wanted.into_values().collect();
        // First into slices that change anyway, then into one that takes all the rest, then into new ones.
        for (_, endpoints, changed) in &mut kept {
            if *changed && !endpoints.is_empty() {
                let room = SLICE_SIZE.saturating_sub(endpoints.len()).min(rest.len());
                endpoints.extend(rest.drain(..room));
            }
        }
        if !rest.is_empty()
            && let Some((_, endpoints, changed)) = kept.iter_mut().find(|(_, e, _)| e.len() + rest.len() <= SLICE_SIZE)
        {
            endpoints.append(&mut rest);
            *changed = true;
        }
        // Slices with other ports are reused rather than deleted and made anew.
        while !rest.is_empty() || (placeholder && kept.is_empty()) {
            let part: Vec<Value> = rest.drain(..rest.len().min(SLICE_SIZE)).collect();
            match spare.pop() {
                Some(mut slice) => {
                    slice["ports"] = ports.clone().into();
                    kept.push((slice, part, true));
                }
                None => {
                    plan.create.push(new_slice(service, family, &ports, part, trigger));
                    if placeholder {
                        return;
                    }
                }
            }
        }
        let mut left = kept.len();
        for (mut slice, endpoints, changed) in kept {
            if endpoints.is_empty() && (!placeholder || left > 1) {
                left -= 1;
                plan.delete.push(slice);
                continue;
            }
            let wanted_labels = slice_labels(service);
            if !changed && labels(&slice).as_object() == Some(&wanted_labels) {
                continue;
            }
            slice["endpoints"] = endpoints.into();
            slice["metadata"]["labels"] = Value::Object(wanted_labels);
            set_trigger(&mut slice, trigger);
            plan.update.push(slice);
        }
    }
    plan.delete.append(&mut spare);
}

fn new_slice(service: &Value, family: Family, ports: &[Value], endpoints: Vec<Value>, trigger: Option<&str>) -> Value {
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "generateName": pod::name_prefix(name(service)), "namespace": super::object::namespace(service),
            "labels": slice_labels(service), "ownerReferences": [controller_reference(service, "v1", "Service")],
        },
        "addressType": family.address_type(), "endpoints": endpoints, "ports": ports,
    });
    set_trigger(&mut slice, trigger);
    slice
}

fn set_trigger(slice: &mut Value, trigger: Option<&str>) {
    let annotations = entry(&mut slice["metadata"], "annotations");
    match trigger {
        Some(at) => annotations.insert(TRIGGER.into(), at.into()),
        None => annotations.remove(TRIGGER),
    };
}

/// The service's labels with those that say whose slice it is.
fn slice_labels(service: &Value) -> Map<String, Value> {
    let mut wanted = labels(service).as_object().cloned().unwrap_or_default();
    wanted.remove(HEADLESS_LABEL);
    if ports::is_headless(service) {
        wanted.insert(HEADLESS_LABEL.into(), "".into());
    }
    wanted.insert(SERVICE_LABEL.into(), name(service).into());
    wanted.insert(MANAGED_BY_LABEL.into(), MANAGED_BY.into());
    wanted
}

fn endpoint(pod: &Value, service: &Value, nodes: &[Value], family: Family) -> Value {
    let serving = pod::is_ready(pod);
    let terminating = is_deleting(pod);
    let mut endpoint = json!({
        "addresses": ports::addresses(pod, family),
        "conditions": {
            "ready": ports::publishes_unready(service) || (serving && !terminating), "serving": serving, "terminating": terminating,
        },
        "targetRef": ports::target(pod),
    });
    let node = text(pod, "/spec/nodeName");
    if !node.is_empty() {
        endpoint["nodeName"] = node.into();
        let zone =
            nodes.iter().find(|n| name(n) == node).and_then(|n| labels(n)["topology.kubernetes.io/zone"].as_str());
        if let Some(zone) = zone.filter(|z| !z.is_empty()) {
            endpoint["zone"] = zone.into();
        }
    }
    if let Some(hostname) = ports::hostname(pod, service) {
        endpoint["hostname"] = hostname.into();
    }
    endpoint
}

/// The identity of an endpoint: its pod and addresses.
fn endpoint_key(endpoint: &Value) -> String {
    format!("{} {}", text(endpoint, "/targetRef/uid"), endpoint["addresses"])
}

/// A set of ports, comparable.
fn port_key(ports: &[Value]) -> String {
    let mut keys: Vec<String> = ports
        .iter()
        .map(|p| format!("{}/{}/{}/{}", text(p, "/name"), text(p, "/protocol"), p["port"], text(p, "/appProtocol")))
        .collect();
    keys.sort();
    keys.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing;

    fn service() -> Value {
        json!({
            "metadata": { "name": "web", "namespace": "ns", "uid": "su", "labels": { "l": "1" } },
            "spec": { "clusterIP": "10.0.0.1", "selector": { "app": "web" },
                "ports": [{ "name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP" }] },
        })
    }

    fn pods(count: usize) -> Vec<Value> {
        (0..count)
            .map(|n| {
                json!({
                    "metadata": { "name": format!("p{n}"), "namespace": "ns", "uid": format!("p{n}"), "labels": { "app": "web" } },
                    "spec": { "nodeName": "n1" },
                    "status": { "phase": "Running", "podIP": format!("10.1.{}.{}", n / 250, n % 250 + 1),
                        "conditions": [{ "type": "Ready", "status": "True" }] },
                })
            })
            .collect()
    }

    /// Gives created slices names, as the API server does.
    fn store(plan: Plan, before: Vec<Value>) -> Vec<Value> {
        testing::stored(before, plan.create, plan.update, &plan.delete)
    }

    fn sizes(slices: &[Value]) -> Vec<usize> {
        let mut sizes: Vec<usize> = slices.iter().map(|s| list(s, "/endpoints").len()).collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn slices_hold_at_most_a_hundred_and_change_as_little_as_possible() {
        let nodes = [json!({ "metadata": { "name": "n1", "labels": { "topology.kubernetes.io/zone": "z1" } } })];
        let all = pods(250);
        let slices = store(plan(&service(), &all, &nodes, Vec::new()), Vec::new());
        assert_eq!(sizes(&slices), [50, 100, 100]);
        assert_eq!(slices[0]["endpoints"][0]["zone"], "z1");
        assert_eq!(slices[0]["ports"][0], json!({ "name": "http", "port": 8080, "protocol": "TCP" }));
        assert_eq!(plan(&service(), &all, &nodes, slices.clone()), Plan::default(), "nothing to do twice");

        let fewer = plan(&service(), &all[1..], &nodes, slices.clone());
        assert_eq!((fewer.create.len(), fewer.update.len(), fewer.delete.len()), (0, 1, 0));
        let more = plan(&service(), &pods(260), &nodes, slices.clone());
        assert_eq!((more.create.len(), more.update.len(), more.delete.len()), (0, 1, 0), "fits into the third");

        let none = plan(&service(), &[], &nodes, slices.clone());
        let slices = store(none, slices);
        assert_eq!(sizes(&slices), [0], "one empty slice stays");
        assert_eq!(plan(&service(), &[], &nodes, slices.clone()), Plan::default());
        let again = plan(&service(), &all[..1], &nodes, slices.clone());
        assert_eq!(
            (again.create.len(), again.update.len(), again.delete.len()),
            (0, 1, 0),
            "the empty slice is reused"
        );
        assert_eq!(again.update[0]["ports"][0]["port"], 8080);
    }

    #[test]
    fn conditions_tell_ready_serving_and_terminating_apart() {
        let mut leaving = pods(1);
        leaving[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let made = plan(&service(), &leaving, &[], Vec::new());
        assert_eq!(
            made.create[0]["endpoints"][0]["conditions"],
            json!({ "ready": false, "serving": true, "terminating": true })
        );
        let mut publishing = service();
        publishing["spec"]["publishNotReadyAddresses"] = true.into();
        let made = plan(&publishing, &leaving, &[], Vec::new());
        assert_eq!(made.create[0]["endpoints"][0]["conditions"]["ready"], true);
    }

    #[test]
    fn slices_of_a_former_service_of_the_same_name_go() {
        let slices = store(plan(&service(), &pods(1), &[], Vec::new()), Vec::new());
        let mut reborn = service();
        reborn["metadata"]["uid"] = "other".into();
        let plan = plan(&reborn, &pods(1), &[], slices);
        assert_eq!((plan.create.len(), plan.delete.len()), (1, 1));
    }
}
