//! Which volume serves a claim (`component-helpers/storage/volume` upstream). Pure.

use std::collections::BTreeSet;

use serde_json::Value;
use vctl_machinery::{quantity, selector::LabelSelector};

use crate::controllers::{
    object::{annotation, is_deleting, labels, list, name, namespace, text, uid},
    scheduler::affinity,
};

/// The binding is complete: whoever changes it afterwards loses the volume.
pub(in crate::controllers) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The controller chose the other side; without, a person did.
pub(in crate::controllers) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The node that the scheduler chose for a claim's first pod.
pub(in crate::controllers) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The class of a claim or volume; empty for none.
pub(in crate::controllers) fn class_of(object: &Value) -> &str {
    annotation(object, BETA_CLASS).unwrap_or_else(|| text(object, "/spec/storageClassName"))
}

/// Whether claims of a class wait until a pod needs them.
pub(in crate::controllers) fn waits_for_consumer(class: &Value) -> bool {
    text(class, "/volumeBindingMode") == "WaitForFirstConsumer"
}

/// Whether a volume is reserved for a claim of this name, and not for an earlier one.
pub(in crate::controllers) fn is_for(volume: &Value, claim: &Value) -> bool {
    let reference = |field: &str| text(volume, &format!("/spec/claimRef/{field}"));
    !reference("name").is_empty()
        && reference("name") == name(claim)
        && reference("namespace") == namespace(claim)
        && (reference("uid").is_empty() || reference("uid") == uid(claim))
}

fn amount(object: &Value, pointer: &str) -> i128 {
    object.pointer(pointer).and_then(quantity::of).unwrap_or_default()
}

/// What a claim asks for, in billionths of a byte.
pub(in crate::controllers) fn requested(claim: &Value) -> i128 {
    amount(claim, "/spec/resources/requests/storage")
}

/// What a volume has, in billionths of a byte.
pub(in crate::controllers) fn capacity(volume: &Value) -> i128 {
    amount(volume, "/spec/capacity/storage")
}

fn mode(object: &Value) -> &str {
    match text(object, "/spec/volumeMode") {
        "" => "Filesystem",
        mode => mode,
    }
}

/// Why a volume that a claim names cannot serve it.
pub(in crate::controllers) fn unfit(claim: &Value, volume: &Value) -> Option<&'static str> {
    let modes = list(volume, "/spec/accessModes");
    if capacity(volume) < requested(claim) {
        Some("requested PV is too small")
    } else if class_of(claim) != class_of(volume) {
        Some("storageClassName does not match")
    } else if mode(claim) != mode(volume) {
        Some("incompatible volumeMode")
    } else if !list(claim, "/spec/accessModes").iter().all(|m| modes.contains(m)) {
        Some("incompatible accessMode")
    } else {
        None
    }
}

/// Whether the node affinity of a volume lets it be used on a node.
pub(in crate::controllers) fn reaches(volume: &Value, node: &Value) -> bool {
    match volume.pointer("/spec/nodeAffinity/required").filter(|r| !r.is_null()) {
        None => true,
        Some(required) => affinity::matches_terms(required, node),
    }
}

/// The volume for a claim: the one reserved for it, else the smallest that is enough. `deferred`: the claim waits for its first pod, and
/// only a volume reserved for it may be taken now; unless there is a `node`, on which it must be.
pub(in crate::controllers) fn find<'a>(
    claim: &Value,
    volumes: &'a [Value],
    taken: &BTreeSet<String>,
    node: Option<&Value>,
    deferred: bool,
) -> Option<&'a Value> {
    let selector = claim.pointer("/spec/selector").filter(|s| !s.is_null());
    let selector = selector.and_then(|s| LabelSelector::from_object(s).ok());
    let candidates = || volumes.iter().filter(|v| !is_deleting(v) && unfit(claim, v).is_none());
    let on_node = |volume: &Value| node.is_none_or(|node| reaches(volume, node));
    if let Some(reserved) = volumes.iter().find(|v| !is_deleting(v) && is_for(v, claim) && unfit_reserved(claim, v)) {
        return Some(reserved).filter(|v| on_node(v));
    }
    if deferred && node.is_none() {
        return None;
    }
    candidates()
        .filter(|v| text(v, "/status/phase") == "Available" && text(v, "/spec/claimRef/name").is_empty())
        .filter(|v| !taken.contains(name(v)) && on_node(v))
        .filter(|v| selector.as_ref().is_none_or(|s| s.matches(labels(v))))
        .min_by_key(|v| (capacity(v), name(v)))
}

/// Whether a volume that is reserved for a claim is large enough and of its mode; the rest is the business of who reserved it.
fn unfit_reserved(claim: &Value, volume: &Value) -> bool {
    capacity(volume) >= requested(claim) && mode(claim) == mode(volume)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(size: &str) -> Value {
        json!({ "metadata": { "name": "c", "namespace": "ns", "uid": "u" },
            "spec": { "storageClassName": "", "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } } } })
    }

    fn volume(name: &str, size: &str) -> Value {
        json!({ "metadata": { "name": name, "labels": { "disk": name } }, "status": { "phase": "Available" },
            "spec": { "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": { "storage": size } } })
    }

    fn found(claim: &Value, volumes: &[Value], node: Option<&Value>, deferred: bool) -> String {
        find(claim, volumes, &BTreeSet::new(), node, deferred).map(|v| name(v).to_owned()).unwrap_or_default()
    }

    #[test]
    fn the_smallest_that_is_enough_serves_and_a_reserved_one_first() {
        let mut volumes = vec![volume("large", "10Gi"), volume("small", "1Gi"), volume("middle", "5Gi")];
        assert_eq!(found(&claim("2Gi"), &volumes, None, false), "middle");
        assert_eq!(found(&claim("20Gi"), &volumes, None, false), "");
        assert_eq!(found(&claim("2Gi"), &volumes, None, true), "", "it waits for its pod");
        let mut picky = claim("2Gi");
        picky["spec"]["selector"] = json!({ "matchLabels": { "disk": "large" } });
        assert_eq!(found(&picky, &volumes, None, false), "large");
        let mut many = claim("1Gi");
        many["spec"]["accessModes"] = json!(["ReadWriteMany"]);
        assert_eq!(found(&many, &volumes, None, false), "");
        let mut other = claim("1Gi");
        other["spec"]["storageClassName"] = "fast".into();
        assert_eq!(found(&other, &volumes, None, false), "");
        volumes[0]["spec"]["claimRef"] = json!({ "namespace": "ns", "name": "c" });
        assert_eq!(found(&claim("2Gi"), &volumes, None, true), "large", "reserved, also for one that waits");
        volumes[0]["spec"]["claimRef"]["uid"] = "another".into();
        assert_eq!(found(&claim("6Gi"), &volumes, None, false), "", "taken by a claim that had the name before");
    }

    #[test]
    fn node_affinity_of_a_volume_is_minded() {
        let node = |n: &str| json!({ "metadata": { "name": n, "labels": { "kubernetes.io/hostname": n } } });
        let mut local = volume("local", "1Gi");
        local["spec"]["nodeAffinity"] = json!({ "required": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"] }] },
        ] } });
        assert_eq!(found(&claim("1Gi"), std::slice::from_ref(&local), Some(&node("n1")), true), "local");
        assert_eq!(found(&claim("1Gi"), &[local], Some(&node("n2")), true), "");
    }
}
