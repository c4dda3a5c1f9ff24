//! What objects cost of a ResourceQuota; pure. Used by admission, which charges, and by the controller, which counts anew.
//! Source: upstream's `pkg/quota/v1/evaluator`.

use jiff::Timestamp;
use serde_json::Value;
use vctl_machinery::{
    amounts::{Amounts, Quantity, add, amounts},
    pod_resources,
};

use crate::{
    document::meta,
    objects::{create::time, strategy::qos_class},
};

/// The store's resource of quotas.
pub(crate) const QUOTAS: &str = "resourcequotas";
const CLASS: &str = ".storageclass.storage.k8s.io/";
/// Kinds that are also counted by their plain name.
const PLAIN: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];
const POD: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// Where a quota tracks one of these, every container must say it.
const REQUIRED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Whether a tracked name is about objects of a resource (`pods`, `deployments.apps`).
pub(crate) fn concerns(resource: &str, name: &str) -> bool {
    if name.strip_prefix("count/") == Some(resource) {
        return true;
    }
    match resource {
        "pods" => {
            POD.contains(&name)
                || name.starts_with("hugepages-")
                || name.starts_with("requests.hugepages-")
                || (name.starts_with("requests.") && name.contains('/'))
        }
        "services" => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
        "persistentvolumeclaims" => {
            let plain = name.split_once(CLASS).map_or(name, |(_, rest)| rest);
            matches!(plain, "persistentvolumeclaims" | "requests.storage")
        }
        _ => PLAIN.contains(&resource) && name == resource,
    }
}

/// The resource that a tracked name is about; none when it is about nothing known.
pub(crate) fn resource_of(name: &str) -> Option<&str> {
    if let Some(counted) = name.strip_prefix("count/") {
        return Some(counted);
    }
    ["pods", "services", "persistentvolumeclaims"].into_iter().chain(PLAIN).find(|r| concerns(r, name))
}

/// Whether changes of objects of this resource can cost something (all can by being created).
pub(crate) fn grows(resource: &str) -> bool {
    matches!(resource, "services" | "persistentvolumeclaims")
}

/// What one object costs.
pub(crate) fn usage(resource: &str, object: &Value, now: Timestamp) -> Amounts {
    let one = Quantity::count(1);
    let mut used = Amounts::from([(format!("count/{resource}"), one)]);
    match resource {
        "pods" if is_charged(object, now) => {
            add(&mut used, &compute(&pod_resources::requests(object), &pod_resources::limits(object)));
        }
        "services" => service(object, &mut used),
        "persistentvolumeclaims" => claim(object, &mut used),
        _ if PLAIN.contains(&resource) => {
            used.insert(resource.to_owned(), one);
        }
        _ => {}
    }
    used
}

/// A pod that has ended, or should be gone by now, costs no more than its place.
fn is_charged(pod: &Value, now: Timestamp) -> bool {
    if matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")) {
        return false;
    }
    let deleted = time(meta(pod, "deletionTimestamp"));
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64();
    // deletionTimestamp is when it should be gone: grace is counted in already.
    !matches!((deleted, grace), (Some(at), Some(grace)) if now.as_second() > at.as_second() + grace)
}

fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::from([("pods".to_owned(), Quantity::count(1))]);
    for (name, amount) in requests {
        let native = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
        if native || name.starts_with("hugepages-") {
            used.insert(name.clone(), *amount);
        }
        if native || name.starts_with("hugepages-") || name.contains('/') {
            used.insert(format!("requests.{name}"), *amount);
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            used.insert(format!("limits.{name}"), *amount);
        }
    }
    used
}

fn service(service: &Value, used: &mut Amounts) {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let own = ports.iter().filter(|p| p["nodePort"].as_i64().is_some_and(|n| n != 0)).count();
    let kind = spec["type"].as_str().unwrap_or("ClusterIP");
    let node_ports = match kind {
        "NodePort" => ports.len(),
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"] == false => own,
        "LoadBalancer" => ports.len(),
        _ => 0,
    };
    used.insert("services".into(), Quantity::count(1));
    used.insert("services.nodeports".into(), Quantity::count(node_ports));
    used.insert("services.loadbalancers".into(), Quantity::count((kind == "LoadBalancer").into()));
}

fn claim(claim: &Value, used: &mut Amounts) {
    let class = match claim.pointer("/metadata/annotations/volume.beta.kubernetes.io~1storage-class") {
        Some(class) => class.as_str(),
        None => claim["spec"]["storageClassName"].as_str(),
    }
    .unwrap_or_default();
    let mut charge = |name: &str, amount: Quantity| {
        used.insert(name.to_owned(), amount);
        if !class.is_empty() {
            used.insert(format!("{class}{CLASS}{name}"), amount);
        }
    };
    charge("persistentvolumeclaims", Quantity::count(1));
    if let Some(requested) = Quantity::of(&claim["spec"]["resources"]["requests"]["storage"]) {
        let allocated = Quantity::of(&claim["status"]["allocatedResources"]["storage"]).unwrap_or(Quantity::ZERO);
        charge("requests.storage", requested.max(allocated).round_up());
    }
}

/// What `resources` say, by the names of quotas.
fn said(resources: &Value) -> Amounts {
    compute(&amounts(&resources["requests"]), &amounts(&resources["limits"]))
}

/// Which containers lack what a quota that tracks `names` requires: `must specify ..`; none when nothing is missing.
pub(crate) fn missing(pod: &Value, names: &[&String]) -> Option<String> {
    let mut texts = Vec::new();
    // What the pod says as a whole its containers need not say. (Upstream asks nothing of a pod that says anything as a whole.)
    let whole = said(&pod["spec"]["resources"]);
    for name in names.iter().filter(|n| REQUIRED.contains(&n.as_str()) && !whole.contains_key(n.as_str())) {
        let mut lacking: Vec<&str> = ["containers", "initContainers"]
            .iter()
            .filter_map(|f| pod["spec"][*f].as_array())
            .flatten()
            .filter(|c| !said(&c["resources"]).contains_key(*name))
            .filter_map(|c| c["name"].as_str())
            .collect();
        lacking.sort_unstable();
        lacking.dedup();
        if !lacking.is_empty() {
            texts.push(format!("{name} for: {}", lacking.join(",")));
        }
    }
    (!texts.is_empty()).then(|| format!("must specify {}", texts.join("; ")))
}

/// Whether all scopes of a quota hold for an object.
pub(crate) fn in_scope(quota: &Value, resource: &str, object: &Value) -> bool {
    let spec = &quota["spec"];
    let plain = spec["scopes"].as_array().into_iter().flatten().all(|s| scope(resource, s, "Exists", &[], object));
    let selected = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten().all(|e| {
        let values: Vec<&str> = e["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        scope(resource, &e["scopeName"], e["operator"].as_str().unwrap_or_default(), &values, object)
    });
    plain && selected
}

fn scope(resource: &str, name: &Value, operator: &str, values: &[&str], object: &Value) -> bool {
    let spec = &object["spec"];
    match (resource, name.as_str().unwrap_or_default()) {
        ("pods", "Terminating") => spec["activeDeadlineSeconds"].as_i64().is_some_and(|s| s >= 0),
        ("pods", "NotTerminating") => spec["activeDeadlineSeconds"].as_i64().is_none_or(|s| s < 0),
        ("pods", "BestEffort") => qos_class(object) == "BestEffort",
        ("pods", "NotBestEffort") => qos_class(object) != "BestEffort",
        ("pods", "PriorityClass") => {
            selects(operator, values, &[spec["priorityClassName"].as_str().unwrap_or_default()])
        }
        ("pods", "CrossNamespacePodAffinity") => {
            ["podAffinity", "podAntiAffinity"].iter().any(|a| crosses(&spec["affinity"][*a]))
        }
        ("persistentvolumeclaims", "VolumeAttributesClass") => {
            let status = &object["status"];
            let names = [
                &spec["volumeAttributesClassName"],
                &status["currentVolumeAttributesClassName"],
                &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
            ];
            selects(operator, values, &names.map(|n| n.as_str().unwrap_or_default()))
        }
        _ => false,
    }
}

/// A selector's operator over the names that an object has (empty ones are none).
fn selects(operator: &str, values: &[&str], names: &[&str]) -> bool {
    let mut has = names.iter().filter(|n| !n.is_empty());
    match operator {
        "Exists" => has.next().is_some(),
        "DoesNotExist" => has.next().is_none(),
        "In" => has.any(|n| values.contains(n)),
        "NotIn" => has.next().is_none() || names.iter().any(|n| !n.is_empty() && !values.contains(n)),
        _ => false,
    }
}

fn crosses(affinity: &Value) -> bool {
    let term = |t: &Value| {
        t["namespaces"].as_array().is_some_and(|n| !n.is_empty())
            || t.get("namespaceSelector").is_some_and(|s| !s.is_null())
    };
    let of = |field: &str| affinity[field].as_array().map(Vec::as_slice).unwrap_or_default();
    of("requiredDuringSchedulingIgnoredDuringExecution").iter().any(term)
        || of("preferredDuringSchedulingIgnoredDuringExecution").iter().any(|w| term(&w["podAffinityTerm"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vctl_machinery::amounts::listed;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    #[test]
    fn containers_say_what_their_pod_does_not() {
        let names = ["requests.cpu".to_owned(), "limits.memory".to_owned()];
        let names: Vec<&String> = names.iter().collect();
        let mut pod = json!({ "spec": { "containers": [{ "name": "a" }, { "name": "b", "resources": { "requests": { "cpu": "1" } } }] } });
        assert_eq!(missing(&pod, &names).as_deref(), Some("must specify requests.cpu for: a; limits.memory for: a,b"));
        pod["spec"]["resources"] = json!({ "requests": { "cpu": "2" } });
        assert_eq!(missing(&pod, &names).as_deref(), Some("must specify limits.memory for: a,b"));
        pod["spec"]["resources"]["limits"] = json!({ "memory": "1Gi" });
        assert_eq!(missing(&pod, &names), None);
    }

    #[test]
    fn objects_cost_what_upstream_charges() {
        let pod = json!({ "spec": { "containers": [{ "resources": {
            "requests": { "cpu": "100m", "memory": "64Mi", "nvidia.com/gpu": "1" }, "limits": { "cpu": "1" },
        } }] } });
        assert_eq!(
            listed(&usage("pods", &pod, now())),
            "count/pods=1,cpu=100m,limits.cpu=1,memory=64Mi,pods=1,requests.cpu=100m,requests.memory=64Mi,requests.nvidia.com/gpu=1"
        );
        let mut ended = pod.clone();
        ended["status"]["phase"] = "Succeeded".into();
        assert_eq!(listed(&usage("pods", &ended, now())), "count/pods=1");
        let service = json!({ "spec": { "type": "LoadBalancer", "ports": [{}, {}] } });
        assert_eq!(
            listed(&usage("services", &service, now())),
            "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2"
        );
        let claim =
            json!({ "spec": { "storageClassName": "fast", "resources": { "requests": { "storage": "1Gi" } } } });
        assert_eq!(
            listed(&usage("persistentvolumeclaims", &claim, now())),
            "count/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             fast.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi"
        );
    }

    #[test]
    fn names_belong_to_resources() {
        for (name, resource) in [
            ("pods", Some("pods")),
            ("requests.cpu", Some("pods")),
            ("requests.nvidia.com/gpu", Some("pods")),
            ("count/deployments.apps", Some("deployments.apps")),
            ("services.nodeports", Some("services")),
            ("requests.storage", Some("persistentvolumeclaims")),
            ("gold.storageclass.storage.k8s.io/requests.storage", Some("persistentvolumeclaims")),
            ("secrets", Some("secrets")),
            ("nonsense", None),
        ] {
            assert_eq!(resource_of(name), resource, "{name}");
        }
    }

    #[test]
    fn scopes_select_pods() {
        let pod = json!({ "spec": { "activeDeadlineSeconds": 5, "priorityClassName": "high", "containers": [] } });
        let quota = |spec: Value| json!({ "spec": spec });
        let by = |op: &str, values: Value| {
            quota(json!({ "scopeSelector": { "matchExpressions": [
            { "scopeName": "PriorityClass", "operator": op, "values": values }] } }))
        };
        assert!(in_scope(&quota(json!({ "scopes": ["Terminating", "BestEffort"] })), "pods", &pod));
        assert!(!in_scope(&quota(json!({ "scopes": ["NotTerminating"] })), "pods", &pod));
        assert!(!in_scope(&quota(json!({ "scopes": ["Terminating"] })), "services", &pod));
        assert!(in_scope(&by("In", json!(["high"])), "pods", &pod));
        assert!(!in_scope(&by("NotIn", json!(["high"])), "pods", &pod));
        assert!(in_scope(&by("Exists", json!([])), "pods", &pod));
    }
}
