//! Claims and the volumes that they have count once; volumes that no claim has any more count by themselves: their data is still on the
//! disk of a worker.

use std::collections::HashMap;

use serde_json::Value;
use vctl_machinery::amounts::Quantity;

use crate::{bootstrap::PROVISIONER, document::meta};

/// How a claim and a volume name each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tie {
    Claim {
        uid: String,
        /// The volume that it has or wants.
        volume: String,
    },
    Volume {
        name: String,
        /// UID of the claim that has it.
        claim: String,
    },
}

impl Tie {
    pub(super) fn of(resource: &str, object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = &object["spec"];
        match resource {
            "persistentvolumeclaims" => {
                Some(Self::Claim { uid: meta(object, "uid").to_owned(), volume: text(&spec["volumeName"]) })
            }
            "persistentvolumes" => {
                Some(Self::Volume { name: meta(object, "name").to_owned(), claim: text(&spec["claimRef"]["uid"]) })
            }
            _ => None,
        }
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

/// All claims and volumes of a cluster, in bytes.
#[derive(Default)]
pub(super) struct Volumes {
    claims: HashMap<String, u64>,
    /// The claim that names a volume.
    wanted_by: HashMap<String, String>,
    /// Name, UID of its claim, capacity.
    volumes: Vec<(String, String, u64)>,
}

impl Volumes {
    pub(super) fn add(&mut self, tie: &Tie, bytes: u64) {
        match tie {
            Tie::Claim { uid, volume } => {
                self.claims.insert(uid.clone(), bytes);
                if !volume.is_empty() {
                    self.wanted_by.insert(volume.clone(), uid.clone());
                }
            }
            Tie::Volume { name, claim } => self.volumes.push((name.clone(), claim.clone(), bytes)),
        }
    }

    /// A claim and all volumes that say they are its: whichever is more.
    pub(super) fn sum(self) -> u64 {
        let Self { claims, wanted_by, volumes } = self;
        let (mut sum, mut theirs) = (0_u64, HashMap::<&str, u64>::new());
        for (name, claim, bytes) in &volumes {
            match claims.get_key_value(claim).map(|(uid, _)| uid).or_else(|| wanted_by.get(name)) {
                Some(uid) => {
                    let of = theirs.entry(uid).or_default();
                    *of = of.saturating_add(*bytes);
                }
                None => sum = sum.saturating_add(*bytes),
            }
        }
        for (uid, bytes) in &claims {
            sum = sum.saturating_add(theirs.get(uid.as_str()).copied().unwrap_or_default().max(*bytes));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_count_with_their_claim_and_afterwards_alone() {
        let claim = |uid: &str, volume: &str| Tie::Claim { uid: uid.into(), volume: volume.into() };
        let volume = |name: &str, claim: &str| Tie::Volume { name: name.into(), claim: claim.into() };
        let sum = |all: &[(Tie, u64)]| {
            let mut volumes = Volumes::default();
            for (tie, bytes) in all {
                volumes.add(tie, *bytes);
            }
            volumes.sum()
        };
        assert_eq!(sum(&[(claim("u", ""), 3)]), 3);
        assert_eq!(sum(&[(claim("u", "v"), 3), (volume("v", "u"), 3)]), 3);
        assert_eq!(sum(&[(claim("u", "v"), 1), (volume("v", "u"), 3)]), 3, "the claim was made smaller");
        assert_eq!(sum(&[(claim("u", "v"), 4), (volume("v", "u"), 3)]), 4, "it is to grow");
        assert_eq!(sum(&[(volume("v", "u"), 3)]), 3, "it was released");
        assert_eq!(sum(&[(volume("v", ""), 3)]), 3, "it is available again");
        assert_eq!(sum(&[(volume("v", ""), 3), (claim("n", "v"), 2)]), 3, "and wanted");
        assert_eq!(
            sum(&[(claim("u", ""), 3), (volume("v", "u"), 3), (volume("w", "u"), 3)]),
            6,
            "both say they are its"
        );
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
