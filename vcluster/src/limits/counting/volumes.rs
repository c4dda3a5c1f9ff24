//! Claims and volumes count by the volume that they are, or that they can get; whichever of them is more.
//!
//! Which claim a volume says it belongs to (`spec.claimRef`) is for its tenant to write, as are phases and annotations: what counts must not
//! hang on them. What they cannot write is the name of a volume and the UID of a claim, and `spec.volumeName` only once. So a claim that names
//! a volume can only ever get that one, and the provisioner makes only one of the name [`made_for`] for one that names none. Volumes whose
//! claim is gone count alone: their data is still on the disk of a worker.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;
use vctl_machinery::amounts::Quantity;

use crate::{bootstrap::PROVISIONER, document::meta};

/// The name of the volume that the provisioner makes for a claim.
pub(crate) fn made_for(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}

/// The name of the volume that an object is, or that it can get; none for what is neither a claim nor a volume.
pub(crate) fn slot(resource: &str, object: &Value) -> Option<Arc<str>> {
    match resource {
        "persistentvolumes" => Some(meta(object, "name").into()),
        "persistentvolumeclaims" => {
            let named = object["spec"]["volumeName"].as_str().filter(|name| !name.is_empty());
            Some(named.map_or_else(|| made_for(meta(object, "uid")).into(), Into::into))
        }
        _ => None,
    }
}

/// What a volume has on the disk of a worker, in bytes: nothing of one that is elsewhere.
pub(super) fn capacity(volume: &Value) -> u64 {
    let spec = &volume["spec"];
    if spec["csi"]["driver"] != PROVISIONER {
        return 0;
    }
    Quantity::of(&spec["capacity"]["storage"]).unwrap_or(Quantity::ZERO).units_up()
}

/// What is requested of each volume, in bytes.
#[derive(Debug, Default)]
pub(super) struct Volumes(HashMap<Arc<str>, u64>);

impl Volumes {
    pub(super) fn add(&mut self, slot: &Arc<str>, bytes: u64) {
        let most = self.0.entry(slot.clone()).or_default();
        *most = bytes.max(*most);
    }

    pub(super) fn of(&self, slot: &str) -> u64 {
        self.0.get(slot).copied().unwrap_or_default()
    }

    pub(super) fn sum(&self) -> u64 {
        self.0.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// What all of it is more when this is requested, too.
    pub(super) fn more_with(&self, others: &Self) -> u64 {
        others.0.iter().fold(0, |sum, (slot, bytes)| sum.saturating_add(bytes.saturating_sub(self.of(slot))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_count_with_their_claim_and_afterwards_alone() {
        let claim = |uid: &str, volume: &str| {
            let claim = json!({ "metadata": { "uid": uid }, "spec": { "volumeName": volume } });
            slot("persistentvolumeclaims", &claim).unwrap()
        };
        let volume = |name: &str, claim: &str| {
            let volume = json!({ "metadata": { "name": name }, "spec": { "claimRef": { "uid": claim } } });
            slot("persistentvolumes", &volume).unwrap()
        };
        let sum = |all: &[(Arc<str>, u64)]| {
            let mut volumes = Volumes::default();
            for (slot, bytes) in all {
                volumes.add(slot, *bytes);
            }
            volumes.sum()
        };
        assert_eq!(sum(&[(claim("u", ""), 3)]), 3);
        assert_eq!(sum(&[(claim("u", ""), 3), (volume("pvc-u", "u"), 3)]), 3, "it was made for it");
        assert_eq!(sum(&[(claim("u", "v"), 3), (volume("v", "u"), 3)]), 3);
        assert_eq!(sum(&[(claim("u", "v"), 1), (volume("v", "u"), 3)]), 3, "the claim was made smaller");
        assert_eq!(sum(&[(claim("u", "v"), 4), (volume("v", "u"), 3)]), 4, "it is to grow");
        assert_eq!(sum(&[(volume("v", "u"), 3)]), 3, "it was released");
        assert_eq!(sum(&[(volume("v", ""), 3)]), 3, "it is available again");
        assert_eq!(sum(&[(volume("v", ""), 3), (claim("n", "v"), 2), (claim("o", "v"), 1)]), 3, "one of them gets it");
        assert_eq!(sum(&[(claim("u", ""), 3), (volume("v", "u"), 3)]), 6, "it says so, but another one can be made");
        assert_eq!(sum(&[(claim("u", "w"), 3), (volume("v", "u"), 3), (volume("w", "u"), 3)]), 6);
        assert_eq!(slot("pods", &json!({})), None);
    }

    #[test]
    fn only_volumes_on_workers_are_on_their_disks() {
        let of = |driver: &str| json!({ "spec": { "csi": { "driver": driver }, "capacity": { "storage": "1Ki" } } });
        assert_eq!(
            (capacity(&of(PROVISIONER)), capacity(&of("other.example.com")), capacity(&json!({}))),
            (1024, 0, 0)
        );
    }
}
