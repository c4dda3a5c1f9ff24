//! Where the claims of a pod let it go, and what is to be done with those that have no volume yet (the plugins VolumeBinding and
//! VolumeRestrictions upstream). Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::controllers::{
    object::{annotation, is_deleting, list, name, namespace, text},
    volumes::{
        claims_of,
        matching::{SELECTED_NODE, class_of, find, is_for, reaches, waits_for_consumer},
    },
};

/// Claims, volumes and classes of a tenant.
#[derive(Default)]
pub(super) struct Storage {
    pub(super) claims: Vec<Value>,
    pub(super) volumes: Vec<Value>,
    pub(super) classes: Vec<Value>,
    /// Volumes that pods of this round get.
    pub(super) taken: BTreeSet<String>,
    /// Claims (namespace, name) that may have one pod only, and have it.
    pub(super) held: BTreeSet<(String, String)>,
}

/// Why a pod cannot go to a node, and whether no eviction could change that.
pub(super) type Refusal = (&'static str, bool);

/// The claims of one pod.
#[derive(Default)]
pub(super) struct PodClaims<'a> {
    /// Volumes of claims that are bound.
    bound: Vec<&'a Value>,
    /// A volume that a claim is bound to does not exist.
    missing: bool,
    /// Claims that wait for this pod.
    unbound: Vec<&'a Value>,
    /// One of its claims may have one pod only, and has another one.
    is_held: bool,
}

/// What must be written before a pod can go to a node.
#[derive(Debug, PartialEq)]
pub(super) enum Prepare<'a> {
    /// A volume is made for the claim there.
    Select(&'a Value),
    /// The volume is reserved for the claim.
    Reserve { claim: &'a Value, volume: &'a Value },
}

/// Whether a pod has claims.
pub(super) fn has_claims(pod: &Value) -> bool {
    claims_of(pod).next().is_some()
}

fn is_single(claim: &Value) -> bool {
    list(claim, "/spec/accessModes").iter().any(|m| m == "ReadWriteOncePod")
}

impl Storage {
    fn claim(&self, namespace_: &str, of: &str) -> Option<&Value> {
        self.claims.iter().find(|c| namespace(c) == namespace_ && name(c) == of)
    }

    /// Notes that a pod has a node, for claims that may have one pod only.
    pub(super) fn hold(&mut self, pod: &Value) {
        for of in claims_of(pod) {
            if self.claim(namespace(pod), of).is_some_and(is_single) {
                self.held.insert((namespace(pod).to_owned(), of.to_owned()));
            }
        }
    }

    /// The claims of a pod; or why there is no node for it, whatever the nodes are.
    pub(super) fn of_pod(&self, pod: &Value) -> Result<PodClaims<'_>, String> {
        let mut all = PodClaims::default();
        for of in claims_of(pod) {
            let Some(claim) = self.claim(namespace(pod), of) else {
                return Err(format!("persistentvolumeclaim {of:?} not found"));
            };
            if is_deleting(claim) {
                return Err(format!("persistentvolumeclaim {of:?} is being deleted"));
            }
            if text(claim, "/status/phase") == "Lost" {
                let volume = text(claim, "/spec/volumeName");
                return Err(format!("persistentvolumeclaim {of:?} bound to non-existent persistentvolume {volume:?}"));
            }
            all.is_held |= self.held.contains(&(namespace(pod).to_owned(), of.to_owned()));
            if text(claim, "/status/phase") == "Bound" {
                match self.volumes.iter().find(|v| name(v) == text(claim, "/spec/volumeName")) {
                    Some(volume) => all.bound.push(volume),
                    None => all.missing = true,
                }
            } else if text(claim, "/spec/volumeName").is_empty() && self.class(claim).is_some_and(waits_for_consumer) {
                all.unbound.push(claim);
            } else {
                return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
        }
        Ok(all)
    }

    fn class(&self, claim: &Value) -> Option<&Value> {
        self.classes.iter().find(|c| name(c) == class_of(claim))
    }

    /// A volume that is there for a claim on a node.
    fn volume(&self, claim: &Value, node: &Value) -> Option<&Value> {
        find(claim, &self.volumes, &self.taken, Some(node), true)
    }

    /// Why the pod cannot go to a node; none when it can.
    pub(super) fn refuses(&self, claims: &PodClaims<'_>, node: &Value) -> Option<Refusal> {
        if claims.is_held {
            let why = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
            return Some((why, false));
        }
        if claims.missing {
            return Some(("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", true));
        }
        if claims.bound.iter().any(|volume| !reaches(volume, node)) {
            return Some(("node(s) didn't match PersistentVolume's node affinity", true));
        }
        let can_be_made = |claim: &Value| {
            self.class(claim).is_some_and(|c| !text(c, "/provisioner").starts_with("kubernetes.io/"))
                // A volume that is reserved for it elsewhere is the one it gets.
                && !self.volumes.iter().any(|v| is_for(v, claim))
        };
        if claims.unbound.iter().any(|claim| self.volume(claim, node).is_none() && !can_be_made(claim)) {
            return Some(("node(s) didn't find available persistent volumes to bind", true));
        }
        None
    }

    /// What must be written before the pod can go to this node, which does not refuse it; nothing when all its claims are bound.
    pub(super) fn prepare<'a>(&'a self, claims: &PodClaims<'a>, node: &Value) -> Vec<Prepare<'a>> {
        claims
            .unbound
            .iter()
            .map(|claim| match self.volume(claim, node) {
                Some(volume) => Prepare::Reserve { claim, volume },
                None => Prepare::Select(claim),
            })
            .collect()
    }
}

impl PodClaims<'_> {
    /// The node that was chosen before, while a volume is being made there.
    pub(super) fn preferred(&self) -> Option<String> {
        self.unbound.iter().find_map(|claim| annotation(claim, SELECTED_NODE)).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn storage() -> Storage {
        let claim = |name: &str, class: &str, status: Value, volume: &str| {
            json!({ "metadata": { "name": name, "namespace": "ns", "uid": name }, "status": status,
                "spec": { "storageClassName": class, "volumeName": volume, "accessModes": ["ReadWriteOncePod"],
                    "resources": { "requests": { "storage": "1Gi" } } } })
        };
        let class = |name: &str, provisioner: &str| json!({ "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer" });
        let volume = |name: &str, node: &str, class: &str| {
            json!({ "metadata": { "name": name }, "status": { "phase": "Available" },
                "spec": { "storageClassName": class, "accessModes": ["ReadWriteOncePod"], "capacity": { "storage": "1Gi" },
                    "nodeAffinity": { "required": { "nodeSelectorTerms": [
                        { "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] }] } ] } } } })
        };
        let mut v1 = volume("v1", "n1", "standard");
        v1["status"]["phase"] = "Bound".into();
        Storage {
            claims: vec![
                claim("bound", "standard", json!({ "phase": "Bound" }), "v1"),
                claim("lost", "standard", json!({ "phase": "Lost" }), "v0"),
                claim("new", "standard", json!({ "phase": "Pending" }), ""),
                claim("disk", "disks", json!({ "phase": "Pending" }), ""),
                claim("now", "", json!({ "phase": "Pending" }), ""),
            ],
            volumes: vec![v1, volume("d2", "n2", "disks")],
            classes: vec![class("standard", "volumes.vctl.dev"), class("disks", "kubernetes.io/no-provisioner")],
            ..Storage::default()
        }
    }

    fn pod(claims: &[&str]) -> Value {
        let volumes: Vec<Value> =
            claims.iter().map(|c| json!({ "persistentVolumeClaim": { "claimName": c } })).collect();
        json!({ "metadata": { "name": "p", "namespace": "ns" }, "spec": { "volumes": volumes } })
    }

    fn node(name: &str) -> Value {
        json!({ "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } } })
    }

    #[test]
    fn some_claims_keep_a_pod_from_every_node() {
        let s = storage();
        let why = |claim: &str| s.of_pod(&pod(&[claim])).err().unwrap_or_default();
        assert_eq!(why("no"), "persistentvolumeclaim \"no\" not found");
        assert_eq!(why("now"), "pod has unbound immediate PersistentVolumeClaims");
        assert_eq!(why("lost"), "persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"v0\"");
        assert_eq!((why("bound"), why("new")), (String::new(), String::new()));
    }

    #[test]
    fn volumes_draw_pods_to_their_nodes() {
        let mut s = storage();
        let refused = |s: &Storage, claim: &str, on: &str| {
            s.refuses(&s.of_pod(&pod(&[claim])).ok().unwrap(), &node(on)).map(|(why, _)| why)
        };
        assert_eq!(refused(&s, "bound", "n1"), None);
        assert_eq!(refused(&s, "bound", "n2"), Some("node(s) didn't match PersistentVolume's node affinity"));
        assert_eq!(refused(&s, "disk", "n1"), Some("node(s) didn't find available persistent volumes to bind"));
        assert_eq!(refused(&s, "disk", "n2"), None);
        let disk = pod(&["disk"]);
        {
            let claims = s.of_pod(&disk).ok().unwrap();
            assert!(
                matches!(s.prepare(&claims, &node("n2"))[..], [Prepare::Reserve { volume, .. }] if name(volume) == "d2")
            );
        }
        s.taken.insert("d2".into());
        assert!(refused(&s, "disk", "n2").is_some(), "another pod of this round gets it");
        let new = pod(&["bound", "new"]);
        assert!(
            matches!(s.prepare(&s.of_pod(&new).ok().unwrap(), &node("n1"))[..], [Prepare::Select(c)] if name(c) == "new")
        );
        s.hold(&pod(&["bound"]));
        assert!(refused(&s, "bound", "n1").is_some_and(|why| why.contains("ReadWriteOncePod")));
    }
}
