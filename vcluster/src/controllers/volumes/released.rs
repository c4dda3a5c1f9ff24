//! What is to be done with one volume, seen from its side; pure.

use serde_json::Value;

use super::{PROVISIONER, Told, claim_of, matching::BOUND_BY_CONTROLLER, provision::PROVISIONED_BY};
use crate::controllers::object::{annotation, is_deleting, name, text};

/// What is to be done with one volume.
#[derive(Debug, PartialEq)]
pub(super) enum VolumeStep {
    Nothing,
    Phase(&'static str),
    /// Its claim is bound to another volume: let go of it.
    Unbind {
        by_controller: bool,
    },
    /// Reclaim it: the object goes, and its finalizer sees to the directory.
    Delete,
    Failed(Told),
}

/// See [`VolumeStep`].
pub(super) fn step(volume: &Value, claims: &[Value]) -> VolumeStep {
    let phase = text(volume, "/status/phase");
    let become_ = |wanted: &'static str| if phase == wanted { VolumeStep::Nothing } else { VolumeStep::Phase(wanted) };
    if text(volume, "/spec/claimRef/uid").is_empty() {
        return become_("Available");
    }
    match claim_of(volume, claims) {
        None if phase == "Released" => reclaim(volume),
        None if phase == "Failed" => VolumeStep::Nothing,
        None => VolumeStep::Phase("Released"),
        // The claim is about to be bound.
        Some(claim) if text(claim, "/spec/volumeName").is_empty() => VolumeStep::Nothing,
        Some(claim) if text(claim, "/spec/volumeName") == name(volume) => become_("Bound"),
        Some(_) if is_provisioned(volume) && text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" => {
            if phase == "Released" { reclaim(volume) } else { VolumeStep::Phase("Released") }
        }
        Some(_) => VolumeStep::Unbind { by_controller: annotation(volume, BOUND_BY_CONTROLLER).is_some() },
    }
}

fn is_provisioned(volume: &Value) -> bool {
    annotation(volume, PROVISIONED_BY).is_some()
}

/// What the policy says of a volume without a claim.
fn reclaim(volume: &Value) -> VolumeStep {
    match text(volume, "/spec/persistentVolumeReclaimPolicy") {
        _ if is_deleting(volume) => VolumeStep::Nothing,
        "Delete" => match annotation(volume, PROVISIONED_BY) {
            Some(PROVISIONER) => VolumeStep::Delete,
            // Its own provisioner does that.
            Some(_) => VolumeStep::Nothing,
            None => {
                let message = format!(
                    "error getting deleter volume plugin for volume {:?}: no deletable volume plugin matched",
                    name(volume)
                );
                VolumeStep::Failed(Told::warning("VolumeFailedDelete", message))
            }
        },
        "Recycle" => {
            VolumeStep::Failed(Told::warning("VolumeFailedRecycle", "No recycler plugin found for the volume!"))
        }
        _ => VolumeStep::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_follow_their_claims_and_are_reclaimed_by_policy() {
        let claim = |uid: &str, volume: &str| json!({ "metadata": { "name": "c", "namespace": "ns", "uid": uid }, "spec": { "volumeName": volume } });
        let volume = |uid: Value, phase: &str, policy: &str, by: Option<&str>| {
            let mut v = json!({ "metadata": { "name": "v", "annotations": {} }, "status": { "phase": phase },
                "spec": { "persistentVolumeReclaimPolicy": policy, "claimRef": { "namespace": "ns", "name": "c", "uid": uid } } });
            if let Some(by) = by {
                v["metadata"]["annotations"][PROVISIONED_BY] = by.into();
            }
            v
        };
        let ours = Some(PROVISIONER);
        use VolumeStep::{Delete, Nothing, Phase, Unbind};
        for (what, volume, claims, expected) in [
            ("new", volume(Value::Null, "Pending", "Retain", None), vec![], Phase("Available")),
            ("reserved by name", volume(Value::Null, "Available", "Retain", None), vec![claim("u", "")], Nothing),
            ("about to be bound", volume("u".into(), "Pending", "Delete", ours), vec![claim("u", "")], Nothing),
            ("bound", volume("u".into(), "Available", "Delete", ours), vec![claim("u", "v")], Phase("Bound")),
            ("all well", volume("u".into(), "Bound", "Delete", ours), vec![claim("u", "v")], Nothing),
            ("claim gone", volume("u".into(), "Bound", "Delete", ours), vec![], Phase("Released")),
            (
                "another of the name",
                volume("u".into(), "Bound", "Delete", ours),
                vec![claim("x", "")],
                Phase("Released"),
            ),
            ("reclaimed", volume("u".into(), "Released", "Delete", ours), vec![], Delete),
            ("kept", volume("u".into(), "Released", "Retain", ours), vec![], Nothing),
            ("somebody else's", volume("u".into(), "Released", "Delete", Some("x")), vec![], Nothing),
            (
                "claim took another",
                volume("u".into(), "Bound", "Retain", None),
                vec![claim("u", "w")],
                Unbind { by_controller: false },
            ),
            (
                "claim took another, ours",
                volume("u".into(), "Bound", "Delete", ours),
                vec![claim("u", "w")],
                Phase("Released"),
            ),
        ] {
            assert_eq!(step(&volume, &claims), expected, "{what}");
        }
        let by_hand = step(&volume("u".into(), "Released", "Delete", None), &[]);
        assert!(matches!(by_hand, VolumeStep::Failed(t) if t.message.ends_with("no deletable volume plugin matched")));
    }
}
