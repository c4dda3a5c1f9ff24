//! What is to be done with one claim; pure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    PROVISIONER, Told, View, claims_of, is_ours,
    matching::{BIND_COMPLETED, SELECTED_NODE, capacity, class_of, find, is_for, requested, unfit, waits_for_consumer},
};
use crate::controllers::{
    object::{annotation, condition, flag, is_deleting, list, name, namespace, text, uid},
    pod,
};

/// What is to be done with one claim.
#[derive(Debug, PartialEq)]
pub(super) enum ClaimStep<'a> {
    Nothing,
    /// Tie it to this volume.
    Bind(&'a Value),
    /// Make a volume of ours; on this node.
    Provision {
        class: &'a Value,
        node: &'a Value,
    },
    /// Somebody else's provisioner makes the volume.
    External {
        provisioner: &'a str,
    },
    /// The node that was chosen is gone: the scheduler is to choose another one.
    Reselect,
    /// It asks for more than its volume has, and its class allows that.
    Grow {
        volume: &'a Value,
        capacity: Value,
    },
    Wait(Told),
    Lost(Told),
}

/// See [`ClaimStep`]. `taken`: volumes that claims before this one get.
pub(super) fn step<'a>(claim: &'a Value, view: &'a View, taken: &BTreeSet<String>) -> ClaimStep<'a> {
    if annotation(claim, BIND_COMPLETED).is_some() {
        return bound(claim, view);
    }
    if is_deleting(claim) {
        return ClaimStep::Nothing;
    }
    let wanted = text(claim, "/spec/volumeName");
    if wanted.is_empty() { unbound(claim, view, taken) } else { named(claim, wanted, view) }
}

/// A claim that was bound once.
fn bound<'a>(claim: &Value, view: &'a View) -> ClaimStep<'a> {
    let lost = |message: &str| {
        if text(claim, "/status/phase") == "Lost" {
            return ClaimStep::Nothing;
        }
        ClaimStep::Lost(Told::warning("ClaimLost", message))
    };
    let wanted = text(claim, "/spec/volumeName");
    if wanted.is_empty() {
        return lost("Bound claim has lost reference to PersistentVolume. Data on the volume is lost!");
    }
    let Some(volume) = view.volumes.iter().find(|v| name(v) == wanted) else {
        return lost("Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    };
    if !text(volume, "/spec/claimRef/uid").is_empty() && !is_for(volume, claim) {
        if text(claim, "/status/phase") == "Lost" {
            return ClaimStep::Nothing;
        }
        let message = "Two claims are bound to the same volume, this one is bound incorrectly";
        return ClaimStep::Lost(Told::warning("ClaimMisbound", message));
    }
    let complete = text(volume, "/spec/claimRef/uid") == uid(claim)
        && text(volume, "/status/phase") == "Bound"
        && text(claim, "/status/phase") == "Bound"
        && claim.pointer("/status/capacity") == volume.pointer("/spec/capacity");
    if !complete {
        return ClaimStep::Bind(volume);
    }
    let class = view.classes.iter().find(|c| name(c) == class_of(claim));
    if capacity(volume) < requested(claim)
        && is_ours(volume)
        && !is_deleting(claim)
        && class.is_some_and(|c| flag(c, "/allowVolumeExpansion"))
    {
        return ClaimStep::Grow { volume, capacity: claim["spec"]["resources"]["requests"]["storage"].clone() };
    }
    ClaimStep::Nothing
}

/// A claim that names its volume.
fn named<'a>(claim: &Value, wanted: &str, view: &'a View) -> ClaimStep<'a> {
    let Some(volume) = view.volumes.iter().find(|v| name(v) == wanted) else {
        let message = format!("volume {wanted:?} does not exist yet");
        return ClaimStep::Wait(Told::normal("FailedBinding", message));
    };
    if text(volume, "/spec/claimRef/name").is_empty() {
        return match unfit(claim, volume) {
            None => ClaimStep::Bind(volume),
            Some(why) => {
                let message = format!("Cannot bind to requested volume {wanted:?}: {why}");
                ClaimStep::Wait(Told::warning("VolumeMismatch", message))
            }
        };
    }
    if is_for(volume, claim) {
        return ClaimStep::Bind(volume);
    }
    ClaimStep::Wait(Told::warning("FailedBinding", format!("volume {wanted:?} already bound to a different claim.")))
}

/// A claim that takes any volume that serves it.
fn unbound<'a>(claim: &'a Value, view: &'a View, taken: &BTreeSet<String>) -> ClaimStep<'a> {
    let class_name = class_of(claim);
    let class = view.classes.iter().find(|c| name(c) == class_name);
    let selected = annotation(claim, SELECTED_NODE);
    let deferred = class.is_some_and(waits_for_consumer);
    if let Some(volume) = find(claim, &view.volumes, taken, None, deferred) {
        return ClaimStep::Bind(volume);
    }
    if deferred && selected.is_none() {
        return ClaimStep::Wait(for_consumer(claim, view));
    }
    if class_name.is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return ClaimStep::Wait(Told::normal("FailedBinding", message));
    }
    let failed = |message: String| ClaimStep::Wait(Told::warning("ProvisioningFailed", message));
    let Some(class) = class else {
        return failed(format!("storageclass.storage.k8s.io {class_name:?} not found"));
    };
    let provisioner = text(class, "/provisioner");
    if provisioner != PROVISIONER {
        return if provisioner.starts_with("kubernetes.io/") {
            failed(format!("no volume plugin matched name: {provisioner}"))
        } else {
            ClaimStep::External { provisioner }
        };
    }
    let cannot = |why: &str| failed(format!("failed to provision volume with StorageClass {class_name:?}: {why}"));
    if text(claim, "/spec/volumeMode") == "Block" {
        return cannot("volumes of this class are directories: block volumes are not supported");
    }
    if claim.pointer("/spec/selector").is_some_and(|s| !s.is_null()) {
        return cannot("claim Selector is not supported");
    }
    if !list(class, "/mountOptions").is_empty() {
        return cannot("volumes of this class are directories: mount options are not supported");
    }
    if ["/spec/dataSource", "/spec/dataSourceRef"].iter().any(|f| claim.pointer(f).is_some_and(|s| !s.is_null())) {
        return cannot("data sources are not supported");
    }
    let node = match selected {
        Some(selected) => view.nodes.iter().find(|n| name(n) == selected),
        None => view.nodes.iter().find(|n| condition(n, "Ready").is_some_and(|c| text(c, "/status") == "True")),
    };
    match node {
        Some(node) => ClaimStep::Provision { class, node },
        None if selected.is_some() => ClaimStep::Reselect,
        None => cannot("no node is ready"),
    }
}

/// What a claim waits for whose volume is made when its first pod is placed.
fn for_consumer(claim: &Value, view: &View) -> Told {
    let pods: Vec<&str> = view
        .pods
        .iter()
        .filter(|p| namespace(p) == namespace(claim) && pod::is_active(p) && text(p, "/spec/nodeName").is_empty())
        .filter(|p| claims_of(p).any(|c| c == name(claim)))
        .map(name)
        .collect();
    match pods[..] {
        [] => Told::normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        [pod] => Told::normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        _ => Told::normal("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(spec: Value) -> Value {
        let mut claim = json!({ "metadata": { "name": "c", "namespace": "ns", "uid": "u" }, "status": { "phase": "Pending" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
        for (key, value) in spec.as_object().unwrap() {
            claim["spec"][key] = value.clone();
        }
        claim
    }

    fn view(volumes: Vec<Value>) -> View {
        let class = |name: &str, provisioner: &str, mode: &str| json!({ "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": mode });
        View {
            claims: Vec::new(),
            volumes,
            classes: vec![
                class("standard", PROVISIONER, "WaitForFirstConsumer"),
                class("now", PROVISIONER, "Immediate"),
                class("theirs", "example.com/disks", "Immediate"),
                class("none", "kubernetes.io/no-provisioner", "Immediate"),
            ],
            nodes: vec![
                json!({ "metadata": { "name": "down" } }),
                json!({ "metadata": { "name": "up" }, "status": { "conditions": [{ "type": "Ready", "status": "True" }] } }),
            ],
            pods: Vec::new(),
        }
    }

    fn volume(reference: Value) -> Value {
        json!({ "metadata": { "name": "v" }, "status": { "phase": "Available" },
            "spec": { "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" }, "claimRef": reference } })
    }

    /// What a claim comes to, for comparison.
    fn of(claim: &Value, view: &View) -> String {
        match step(claim, view, &BTreeSet::new()) {
            ClaimStep::Nothing => "nothing".into(),
            ClaimStep::Bind(v) => format!("bind {}", name(v)),
            ClaimStep::Provision { class, node } => format!("provision {} on {}", name(class), name(node)),
            ClaimStep::External { provisioner } => format!("external {provisioner}"),
            ClaimStep::Reselect => "reselect".into(),
            ClaimStep::Grow { capacity, .. } => format!("grow to {capacity}"),
            ClaimStep::Wait(t) => format!("wait {} {}", t.reason, t.message),
            ClaimStep::Lost(t) => format!("lost {}", t.reason),
        }
    }

    #[test]
    fn unbound_claims_follow_their_class() {
        let v = view(Vec::new());
        let with = |class: &str| claim(json!({ "storageClassName": class }));
        assert_eq!(
            of(&with("standard"), &v),
            "wait WaitForFirstConsumer waiting for first consumer to be created before binding"
        );
        let mut selected = with("standard");
        selected["metadata"]["annotations"] = json!({ SELECTED_NODE: "down" });
        assert_eq!(of(&selected, &v), "provision standard on down", "the scheduler has chosen it");
        selected["metadata"]["annotations"][SELECTED_NODE] = "gone".into();
        assert_eq!(of(&selected, &v), "reselect");
        assert_eq!(of(&with("now"), &v), "provision now on up");
        assert_eq!(of(&with("theirs"), &v), "external example.com/disks");
        assert_eq!(
            of(&with("none"), &v),
            "wait ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner"
        );
        assert_eq!(of(&with("no"), &v), "wait ProvisioningFailed storageclass.storage.k8s.io \"no\" not found");
        assert!(of(&claim(json!({})), &v).starts_with("wait FailedBinding no persistent volumes available"));
        let mut block = with("now");
        block["spec"]["volumeMode"] = "Block".into();
        assert!(of(&block, &v).contains("block volumes are not supported"));
        let mut deleting = with("now");
        deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(of(&deleting, &v), "nothing");
        let mut waited = view(Vec::new());
        waited.pods = vec![
            json!({ "metadata": { "name": "p", "namespace": "ns" }, "spec": { "volumes": [{ "persistentVolumeClaim": { "claimName": "c" } }] } }),
        ];
        assert_eq!(of(&with("standard"), &waited), "wait WaitForPodScheduled waiting for pod p to be scheduled");
    }

    #[test]
    fn claims_that_name_a_volume_get_it_or_are_told_why_not() {
        let wants = claim(json!({ "volumeName": "v" }));
        assert_eq!(of(&wants, &view(vec![volume(Value::Null)])), "bind v");
        assert_eq!(of(&wants, &view(vec![volume(json!({ "namespace": "ns", "name": "c" }))])), "bind v");
        let other = view(vec![volume(json!({ "namespace": "ns", "name": "other", "uid": "x" }))]);
        assert_eq!(of(&wants, &other), "wait FailedBinding volume \"v\" already bound to a different claim.");
        assert!(of(&wants, &view(Vec::new())).starts_with("wait"));
        let mut small = volume(Value::Null);
        small["spec"]["capacity"]["storage"] = "1Mi".into();
        assert_eq!(
            of(&wants, &view(vec![small])),
            "wait VolumeMismatch Cannot bind to requested volume \"v\": requested PV is too small"
        );
    }

    #[test]
    fn what_was_bound_is_completed_lost_or_grown() {
        let mut done = claim(json!({ "volumeName": "v", "storageClassName": "standard" }));
        done["metadata"]["annotations"] = json!({ BIND_COMPLETED: "yes" });
        assert_eq!(of(&done, &view(Vec::new())), "lost ClaimLost");
        let mut volume = volume(json!({ "namespace": "ns", "name": "c", "uid": "u" }));
        assert_eq!(of(&done, &view(vec![volume.clone()])), "bind v", "the status is missing");
        volume["status"]["phase"] = "Bound".into();
        done["status"] = json!({ "phase": "Bound", "capacity": { "storage": "1Gi" } });
        assert_eq!(of(&done, &view(vec![volume.clone()])), "nothing");
        done["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
        volume["metadata"]["annotations"] = json!({ "pv.kubernetes.io/provisioned-by": PROVISIONER });
        let mut v = view(vec![volume.clone()]);
        assert_eq!(of(&done, &v), "nothing", "the class does not allow it");
        v.classes[0]["allowVolumeExpansion"] = true.into();
        assert_eq!(of(&done, &v), "grow to \"2Gi\"");
        v.volumes[0]["spec"]["claimRef"]["uid"] = "x".into();
        assert_eq!(of(&done, &v), "lost ClaimMisbound");
    }
}
