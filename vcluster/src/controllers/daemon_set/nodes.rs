//! Which nodes a DaemonSet runs on, and the pod for one of them.

use serde_json::{Value, json};

use crate::controllers::{
    daemon_set::OWNER,
    history::POD_REVISION,
    object::{condition, controller_reference, flag, labels, list, set_label, text},
    pod,
    scheduler::affinity::{self, tolerates},
};

/// Everything of a node that matters to DaemonSets.
pub(in crate::controllers) fn view(node: &Value) -> impl PartialEq + '_ {
    let ready = condition(node, "Ready").map(|c| text(c, "/status").to_owned());
    (labels(node), list(node, "/spec/taints"), flag(node, "/spec/unschedulable"), ready)
}

/// Taints that every pod of a DaemonSet tolerates: it is to run where others cannot.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The pod of the template before it is given a node.
pub(super) fn template_pod(set: &Value) -> Value {
    let mut pod = pod::from_template(&set["spec"]["template"], set, controller_reference(set, OWNER.0, OWNER.1));
    let mut tolerations = list(&pod, "/spec/tolerations").to_vec();
    let network = ("node.kubernetes.io/network-unavailable", "NoSchedule");
    for (key, effect) in TOLERATED.into_iter().chain(flag(&pod, "/spec/hostNetwork").then_some(network)) {
        let toleration = json!({ "key": key, "operator": "Exists", "effect": effect });
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    pod["spec"]["tolerations"] = tolerations.into();
    pod
}

/// The pod for a node. Its node affinity has been decided upon: it is replaced by the name of the node.
pub(super) fn pod_for(set: &Value, node: &str, hash: &str) -> Value {
    let mut pod = template_pod(set);
    let by_name = json!({ "nodeSelectorTerms": [{ "matchFields": [
        { "key": "metadata.name", "operator": "In", "values": [node] }] }] });
    if !pod["spec"]["affinity"].is_object() {
        pod["spec"]["affinity"] = json!({});
    }
    if !pod["spec"]["affinity"]["nodeAffinity"].is_object() {
        pod["spec"]["affinity"]["nodeAffinity"] = json!({});
    }
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = by_name;
    set_label(&mut pod, POD_REVISION, hash);
    pod
}

/// The node that a pod is on, or is meant for.
pub(super) fn of_pod(pod: &Value) -> &str {
    let bound = text(pod, "/spec/nodeName");
    if !bound.is_empty() {
        return bound;
    }
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    list(pod, terms)
        .iter()
        .flat_map(|t| list(t, "/matchFields"))
        .find(|f| text(f, "/key") == "metadata.name" && text(f, "/operator") == "In")
        .map_or("", |f| text(f, "/values/0"))
}

/// Whether a pod (of [`template_pod`]) is to run on a node, and whether one that is there may stay.
pub(super) fn fits(pod: &Value, node: &Value) -> (bool, bool) {
    let wanted = text(pod, "/spec/nodeName");
    let node_name = crate::controllers::object::name(node);
    if (!wanted.is_empty() && wanted != node_name) || !affinity::selects(pod, node) {
        return (false, false);
    }
    if affinity::untolerated(pod, node).is_some() {
        let evicted =
            list(node, "/spec/taints").iter().any(|t| text(t, "/effect") == "NoExecute" && !tolerates(pod, t));
        return (false, !evicted);
    }
    (true, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_runs_where_it_fits_and_tolerates_what_others_do_not() {
        let set = json!({ "metadata": { "name": "d", "uid": "u" }, "spec": { "template": { "spec": { "nodeSelector": { "disk": "ssd" } } } } });
        let pod = template_pod(&set);
        let node = |more: Value| {
            json!({ "metadata": { "name": "n1", "labels": { "disk": "ssd" } }, "spec": more,
                "status": { "conditions": [{ "type": "Ready", "status": "True" }] } })
        };
        let taint = |key: &str, effect: &str| json!({ "taints": [{ "key": key, "effect": effect }] });
        for (spec, expected) in [
            (json!({}), (true, true)),
            (taint("node.kubernetes.io/unschedulable", "NoSchedule"), (true, true)),
            (taint("node.kubernetes.io/unreachable", "NoExecute"), (true, true)),
            (taint("gpu", "NoSchedule"), (false, true)),
            (taint("gpu", "NoExecute"), (false, false)),
            (taint("gpu", "PreferNoSchedule"), (true, true)),
        ] {
            assert_eq!(fits(&pod, &node(spec.clone())), expected, "{spec}");
        }
        let mut other = node(json!({}));
        other["metadata"]["labels"] = json!({});
        assert_eq!(fits(&pod, &other), (false, false));
        let placed = pod_for(&set, "n1", "h");
        assert_eq!(of_pod(&placed), "n1");
        assert!(affinity::selects(&placed, &node(json!({}))));
    }
}
