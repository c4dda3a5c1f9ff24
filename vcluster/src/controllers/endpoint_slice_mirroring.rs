//! EndpointSlices that mirror Endpoints which somebody wrote for a service without selector (`pkg/controller/endpointslicemirroring`
//! upstream): one slice per address family and set of ports.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use vctl_machinery::selector::LabelSelector;

use super::{
    context::{Context, Failure, is_namespace_terminating},
    event::{Draft, EventType},
    object::{
        annotation, controller_reference, is_deleting, labels, list, name, namespace, text, uid, uid_precondition,
    },
    pod,
};

const RESOURCE: &str = "endpointslices.discovery.k8s.io";
/// Label value of slices that this controller writes.
pub(super) const MANAGED_BY: &str = "endpointslicemirroring-controller.k8s.io";
const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
const SKIP_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are about the Endpoints object itself.
const OWN_ANNOTATIONS: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];
/// Addresses of one subset that are mirrored at most.
const MOST_PER_SUBSET: usize = 1000;

/// What is to be written, and how many addresses are left out.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    create: Vec<Value>,
    update: Vec<Value>,
    delete: Vec<Value>,
    invalid: usize,
    skipped: usize,
}

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str, name: &str) -> Result<Option<Timestamp>, Failure> {
    let endpoints = cx.find("endpoints", namespace, name).await?.filter(is_mirrored);
    let service = match &endpoints {
        Some(_) => cx.find("services", namespace, name).await?,
        None => None,
    };
    let source = endpoints.filter(|_| service.is_some_and(|s| !has_selector(&s)));
    let selector = LabelSelector::parse(&format!("{SERVICE_LABEL}={name},{MANAGED_BY_LABEL}={MANAGED_BY}"))
        .map_err(Failure::Partly)?;
    let slices = cx.client.list(RESOURCE, namespace, &selector).await?.items;
    let plan = match &source {
        Some(endpoints) => plan(endpoints, slices),
        None => Plan { delete: slices, ..Plan::default() },
    };
    if let Some(endpoints) = &source {
        tell(cx, endpoints, &plan).await;
    }
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
    for slice in plan.delete.iter().filter(|s| !is_deleting(s)) {
        cx.delete(RESOURCE, namespace, super::object::name(slice), uid_precondition(uid(slice))).await?;
    }
    Ok(None)
}

/// Whether Endpoints are of the kind that is mirrored: not those that say they are not, nor those that elect a leader.
pub(super) fn is_mirrored(endpoints: &Value) -> bool {
    labels(endpoints)[SKIP_LABEL] != "true" && annotation(endpoints, LEADER).is_none()
}

/// Whether the pods behind a service are found by a selector, so that its endpoints are not written by hand.
pub(super) fn has_selector(service: &Value) -> bool {
    service.pointer("/spec/selector").and_then(Value::as_object).is_some_and(|s| !s.is_empty())
}

/// Says what could not be mirrored.
async fn tell(cx: &Context<'_>, endpoints: &Value, plan: &Plan) {
    let mut warnings = Vec::new();
    if plan.invalid > 0 {
        warnings.push((
            "InvalidIPAddress",
            format!("Skipped {} invalid IP addresses when mirroring to EndpointSlices", plan.invalid),
        ));
    }
    if plan.skipped > plan.invalid {
        let message = format!(
            "A max of {MOST_PER_SUBSET} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were skipped",
            plan.skipped
        );
        warnings.push(("TooManyAddressesToMirror", message));
    }
    for (reason, message) in warnings {
        cx.record(Draft::new("v1", "Endpoints", endpoints, EventType::Warning, reason, message)).await;
    }
}

/// Ports and endpoints of one slice.
struct Wanted {
    family: &'static str,
    ports: Vec<Value>,
    endpoints: BTreeMap<String, Value>,
}

fn plan(endpoints: &Value, slices: Vec<Value>) -> Plan {
    let mut plan = Plan::default();
    let mut wanted: BTreeMap<String, Wanted> = BTreeMap::new();
    for subset in list(endpoints, "/subsets") {
        collect(subset, &mut wanted, &mut plan);
    }
    let mut existing: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for slice in slices.into_iter().filter(|s| !is_deleting(s)) {
        let key = key(text(&slice, "/addressType"), list(&slice, "/ports"));
        existing.entry(key).or_default().push(slice);
    }
    let labels = slice_labels(endpoints);
    let annotations = slice_annotations(endpoints);
    for (key, Wanted { family, ports, endpoints: members }) in wanted {
        let members: Vec<Value> = members.into_values().collect();
        let mut same = existing.remove(&key).unwrap_or_default().into_iter();
        let first = same.next();
        plan.delete.extend(same);
        match first {
            Some(slice) if is_as_wanted(&slice, &members, &labels, &annotations) => {}
            Some(slice) => plan.update.push(fill(slice, ports, members, &labels, &annotations)),
            None => {
                let slice = json!({
                    "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                    "metadata": {
                        "generateName": pod::name_prefix(name(endpoints)), "namespace": namespace(endpoints),
                        "ownerReferences": [controller_reference(endpoints, "v1", "Endpoints")],
                    },
                    "addressType": family,
                });
                plan.create.push(fill(slice, ports, members, &labels, &annotations));
            }
        }
    }
    plan.delete.extend(existing.into_values().flatten());
    reuse(&mut plan);
    if is_deleting(endpoints) {
        plan.create.clear();
    }
    plan
}

/// Puts the addresses of a subset where they belong.
fn collect(subset: &Value, wanted: &mut BTreeMap<String, Wanted>, plan: &mut Plan) {
    let ports: Vec<Value> = list(subset, "/ports").iter().map(port).collect();
    let (ready, unready) = (list(subset, "/addresses"), list(subset, "/notReadyAddresses"));
    let mut added = 0;
    for (address, is_ready) in ready.iter().map(|a| (a, true)).chain(unready.iter().map(|a| (a, false))) {
        if added >= MOST_PER_SUBSET {
            break;
        }
        let Some((family, endpoint)) = endpoint(address, is_ready) else {
            plan.invalid += 1;
            continue;
        };
        added += 1;
        let group = wanted.entry(key(family, &ports)).or_insert_with(|| Wanted {
            family,
            ports: ports.clone(),
            endpoints: BTreeMap::new(),
        });
        group.endpoints.insert(identity(&endpoint), endpoint);
    }
    plan.skipped += ready.len() + unready.len() - added;
}

/// A slice that would go is written over instead of making another one of its family.
fn reuse(plan: &mut Plan) {
    let mut fresh = Vec::new();
    for mut slice in plan.create.drain(..) {
        let Some(at) = plan.delete.iter().position(|s| s["addressType"] == slice["addressType"]) else {
            fresh.push(slice);
            continue;
        };
        let former = plan.delete.swap_remove(at);
        let metadata = former["metadata"].clone();
        let (labels, annotations) = (slice["metadata"]["labels"].take(), slice["metadata"]["annotations"].take());
        let owners = slice["metadata"]["ownerReferences"].take();
        slice["metadata"] = metadata;
        slice["metadata"]["labels"] = labels;
        slice["metadata"]["annotations"] = annotations;
        slice["metadata"]["ownerReferences"] = owners;
        plan.update.push(slice);
    }
    plan.create = fresh;
}

fn fill(
    mut slice: Value,
    ports: Vec<Value>,
    members: Vec<Value>,
    labels: &Map<String, Value>,
    annotations: &Map<String, Value>,
) -> Value {
    slice["ports"] = ports.into();
    slice["endpoints"] = members.into();
    slice["metadata"]["labels"] = Value::Object(labels.clone());
    slice["metadata"]["annotations"] = Value::Object(annotations.clone());
    slice
}

fn is_as_wanted(
    slice: &Value,
    members: &[Value],
    wanted_labels: &Map<String, Value>,
    annotations: &Map<String, Value>,
) -> bool {
    let mut now: Vec<&Value> = list(slice, "/endpoints").iter().collect();
    now.sort_by_key(|e| identity(e));
    let of = |field: &str| slice["metadata"][field].as_object().cloned().unwrap_or_default();
    now.len() == members.len()
        && now.iter().zip(members).all(|(a, b)| **a == *b)
        && of("labels") == *wanted_labels
        && of("annotations") == *annotations
}

/// The labels of the Endpoints with those that say whose slice it is.
fn slice_labels(endpoints: &Value) -> Map<String, Value> {
    let mut wanted = labels(endpoints).as_object().cloned().unwrap_or_default();
    wanted.insert(SERVICE_LABEL.into(), name(endpoints).into());
    wanted.insert(MANAGED_BY_LABEL.into(), MANAGED_BY.into());
    wanted
}

fn slice_annotations(endpoints: &Value) -> Map<String, Value> {
    let mut wanted = endpoints["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    wanted.retain(|key, _| !OWN_ANNOTATIONS.contains(&key.as_str()));
    wanted
}

/// A port of Endpoints as slices spell it.
fn port(port: &Value) -> Value {
    let protocol = Some(text(port, "/protocol")).filter(|p| !p.is_empty()).unwrap_or("TCP");
    let mut out = json!({ "name": text(port, "/name"), "port": port["port"], "protocol": protocol });
    if let Some(application) = port.get("appProtocol").filter(|p| !p.is_null()) {
        out["appProtocol"] = application.clone();
    }
    out
}

/// An address of Endpoints with its family; none for what is no address.
fn endpoint(address: &Value, ready: bool) -> Option<(&'static str, Value)> {
    let ip: std::net::IpAddr = text(address, "/ip").parse().ok()?;
    let mut endpoint = json!({ "addresses": [ip.to_string()], "conditions": { "ready": ready } });
    for field in ["targetRef", "nodeName", "hostname"] {
        if let Some(value) = address.get(field).filter(|v| !v.is_null() && *v != "") {
            endpoint[field] = value.clone();
        }
    }
    Some((if ip.is_ipv4() { "IPv4" } else { "IPv6" }, endpoint))
}

/// What makes two endpoints the same one.
fn identity(endpoint: &Value) -> String {
    format!("{} {} {}", endpoint["addresses"], text(endpoint, "/hostname"), text(endpoint, "/targetRef/uid"))
}

/// A family with a set of ports, comparable.
fn key(family: &str, ports: &[Value]) -> String {
    let mut keys: Vec<String> = ports
        .iter()
        .map(|p| format!("{}/{}/{}/{}", text(p, "/name"), text(p, "/protocol"), p["port"], text(p, "/appProtocol")))
        .collect();
    keys.sort();
    format!("{family} {}", keys.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing;

    fn endpoints(subsets: Value) -> Value {
        json!({
            "metadata": { "name": "db", "namespace": "ns", "uid": "eu", "labels": { "l": "1" },
                "annotations": { "a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}" } },
            "subsets": subsets,
        })
    }

    fn simple(ip: &str) -> Value {
        endpoints(json!([{ "addresses": [{ "ip": ip }], "ports": [{ "port": 80 }] }]))
    }

    fn store(plan: Plan, before: Vec<Value>) -> Vec<Value> {
        testing::stored(before, plan.create, plan.update, &plan.delete)
    }

    #[test]
    fn a_slice_follows_its_endpoints() {
        let made = plan(&simple("10.1.2.3"), Vec::new());
        let slice = &made.create[0];
        assert_eq!(slice["addressType"], "IPv4");
        assert_eq!(slice["ports"], json!([{ "name": "", "port": 80, "protocol": "TCP" }]));
        assert_eq!(slice["endpoints"], json!([{ "addresses": ["10.1.2.3"], "conditions": { "ready": true } }]));
        assert_eq!(slice["metadata"]["generateName"], "db-");
        assert_eq!(slice["metadata"]["ownerReferences"][0]["kind"], "Endpoints");
        assert_eq!(slice["metadata"]["annotations"], json!({ "a": "b" }));
        assert_eq!(
            slice["metadata"]["labels"],
            json!({ "l": "1", "kubernetes.io/service-name": "db",
                "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io" })
        );
        let slices = store(made, Vec::new());
        assert_eq!(plan(&simple("10.1.2.3"), slices.clone()), Plan::default(), "nothing to do twice");

        let moved = plan(&simple("10.2.3.4"), slices.clone());
        assert_eq!((moved.create.len(), moved.update.len(), moved.delete.len()), (0, 1, 0));
        assert_eq!(moved.update[0]["endpoints"][0]["addresses"], json!(["10.2.3.4"]));
        let emptied = plan(&endpoints(json!([])), slices.clone());
        assert_eq!((emptied.create.len(), emptied.update.len(), emptied.delete.len()), (0, 0, 1));
        let mut relabelled = simple("10.1.2.3");
        relabelled["metadata"]["labels"] = json!({ "l": "2" });
        assert_eq!(plan(&relabelled, slices).update[0]["metadata"]["labels"]["l"], "2");
    }

    #[test]
    fn families_and_ports_have_slices_of_their_own_and_those_left_over_are_reused() {
        let both = endpoints(json!([
            { "addresses": [{ "ip": "10.0.0.1" }, { "ip": "fd00:0:0::1" }], "ports": [{ "name": "a", "port": 80 }] },
            { "addresses": [{ "ip": "10.0.0.1", "hostname": "h", "nodeName": "n" }], "notReadyAddresses": [{ "ip": "10.0.0.2" }],
              "ports": [{ "name": "b", "port": 81, "appProtocol": "http" }] },
        ]));
        let made = plan(&both, Vec::new());
        assert_eq!(made.create.len(), 3);
        let of = |port: &str, family: &str| {
            made.create.iter().find(|s| s["ports"][0]["name"] == port && s["addressType"] == family).unwrap()
        };
        assert_eq!(of("a", "IPv6")["endpoints"][0]["addresses"], json!(["fd00::1"]));
        let b = of("b", "IPv4");
        assert_eq!(b["ports"][0]["appProtocol"], "http");
        assert_eq!(
            b["endpoints"],
            json!([
                { "addresses": ["10.0.0.1"], "conditions": { "ready": true }, "hostname": "h", "nodeName": "n" },
                { "addresses": ["10.0.0.2"], "conditions": { "ready": false } },
            ])
        );
        let slices = store(plan(&simple("10.0.0.1"), Vec::new()), Vec::new());
        let other = endpoints(json!([{ "addresses": [{ "ip": "10.0.0.1" }], "ports": [{ "port": 81 }] }]));
        let changed = plan(&other, slices);
        assert_eq!((changed.create.len(), changed.update.len(), changed.delete.len()), (0, 1, 0));
        assert_eq!((name(&changed.update[0]), &changed.update[0]["ports"][0]["port"]), ("db-0-0", &json!(81)));
    }

    #[test]
    fn a_thousand_addresses_of_a_subset_are_mirrored_and_what_is_no_address_is_not() {
        let many: Vec<Value> =
            (0..1003).map(|n| json!({ "ip": format!("10.0.{}.{}", n / 250, n % 250 + 1) })).collect();
        let full = plan(&endpoints(json!([{ "addresses": many, "ports": [{ "port": 80 }] }])), Vec::new());
        assert_eq!((list(&full.create[0], "/endpoints").len(), full.skipped, full.invalid), (1000, 3, 0));
        let odd = plan(&endpoints(json!([{ "addresses": [{ "ip": "nowhere" }, { "ip": "10.0.0.1" }] }])), Vec::new());
        assert_eq!((list(&odd.create[0], "/endpoints").len(), odd.skipped, odd.invalid), (1, 1, 1));
    }

    #[test]
    fn some_endpoints_are_left_alone() {
        assert!(is_mirrored(&simple("10.0.0.1")));
        let mut skipped = simple("10.0.0.1");
        skipped["metadata"]["labels"][SKIP_LABEL] = "true".into();
        assert!(!is_mirrored(&skipped));
        let mut leader = simple("10.0.0.1");
        leader["metadata"]["annotations"][LEADER] = "{}".into();
        assert!(!is_mirrored(&leader));
        assert!(has_selector(&json!({ "spec": { "selector": { "a": "b" } } })));
        assert!(!has_selector(&json!({ "spec": {} })));
    }
}
