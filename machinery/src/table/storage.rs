//! Volumes, claims and their classes.

use serde_json::Value;

use super::{
    AGE, NAME, Printer, UNSET, age, bool_at, boolean, int_or_string, integer, len_at, list_at, name, str_at, str_or,
    text, wide,
};

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        resource: "persistentvolumes",
        columns: &[
            NAME,
            text("Capacity"),
            text("Access Modes"),
            text("Reclaim Policy"),
            text("Status"),
            text("Claim"),
            text("StorageClass"),
            text("VolumeAttributesClass"),
            text("Reason"),
            AGE,
            wide("VolumeMode"),
        ],
        cells: |o, now| {
            let claim = o
                .pointer("/spec/claimRef")
                .map(|c| format!("{}/{}", str_at(c, "/namespace"), str_at(c, "/name")))
                .unwrap_or_default();
            vec![
                name(o),
                capacity(o, "/spec/capacity/storage").into(),
                access_modes(o, "/spec/accessModes").into(),
                str_at(o, "/spec/persistentVolumeReclaimPolicy").into(),
                phase(o).into(),
                claim.into(),
                class(o).into(),
                str_or(o, "/spec/volumeAttributesClassName", UNSET).into(),
                str_at(o, "/status/reason").into(),
                age::of(o, now),
                str_or(o, "/spec/volumeMode", UNSET).into(),
            ]
        },
    },
    Printer {
        resource: "persistentvolumeclaims",
        columns: &[
            NAME,
            text("Status"),
            text("Volume"),
            text("Capacity"),
            text("Access Modes"),
            text("StorageClass"),
            text("VolumeAttributesClass"),
            AGE,
            wide("VolumeMode"),
        ],
        cells: |o, now| {
            let bound = !str_at(o, "/spec/volumeName").is_empty();
            vec![
                name(o),
                phase(o).into(),
                str_at(o, "/spec/volumeName").into(),
                if bound { capacity(o, "/status/capacity/storage") } else { String::new() }.into(),
                if bound { access_modes(o, "/status/accessModes") } else { String::new() }.into(),
                class(o).into(),
                str_or(o, "/spec/volumeAttributesClassName", UNSET).into(),
                age::of(o, now),
                str_or(o, "/spec/volumeMode", UNSET).into(),
            ]
        },
    },
    Printer {
        resource: "storageclasses.storage.k8s.io",
        columns: &[
            NAME,
            text("Provisioner"),
            text("ReclaimPolicy"),
            text("VolumeBindingMode"),
            boolean("AllowVolumeExpansion"),
            AGE,
        ],
        cells: |o, now| {
            let annotations = o.pointer("/metadata/annotations");
            let marked = |key: &str| annotations.and_then(|a| a.get(key)).and_then(Value::as_str) == Some("true");
            let default = marked("storageclass.kubernetes.io/is-default-class")
                || marked("storageclass.beta.kubernetes.io/is-default-class");
            let shown = if default {
                format!("{} (default)", str_at(o, "/metadata/name"))
            } else {
                str_at(o, "/metadata/name").to_owned()
            };
            vec![
                shown.into(),
                str_at(o, "/provisioner").into(),
                str_or(o, "/reclaimPolicy", "Delete").into(),
                str_or(o, "/volumeBindingMode", "Immediate").into(),
                bool_at(o, "/allowVolumeExpansion").into(),
                age::of(o, now),
            ]
        },
    },
    Printer {
        resource: "volumeattachments.storage.k8s.io",
        columns: &[NAME, text("Attacher"), text("PV"), text("Node"), boolean("Attached"), AGE],
        cells: |o, now| {
            vec![
                name(o),
                str_at(o, "/spec/attacher").into(),
                str_at(o, "/spec/source/persistentVolumeName").into(),
                str_at(o, "/spec/nodeName").into(),
                bool_at(o, "/status/attached").into(),
                age::of(o, now),
            ]
        },
    },
    Printer {
        resource: "volumeattributesclasses.storage.k8s.io",
        columns: &[NAME, text("DriverName"), AGE],
        cells: |o, now| vec![name(o), str_at(o, "/driverName").into(), age::of(o, now)],
    },
    Printer {
        resource: "csidrivers.storage.k8s.io",
        columns: &[
            NAME,
            boolean("AttachRequired"),
            boolean("PodInfoOnMount"),
            boolean("StorageCapacity"),
            text("TokenRequests"),
            boolean("RequiresRepublish"),
            text("Modes"),
            AGE,
        ],
        cells: |o, now| {
            let texts =
                |pointer: &str| list_at(o, pointer).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
            let audiences: Vec<&str> =
                list_at(o, "/spec/tokenRequests").iter().map(|t| str_at(t, "/audience")).collect();
            let tokens = if audiences.is_empty() { UNSET.to_owned() } else { audiences.join(",") };
            let attach = o.pointer("/spec/attachRequired").and_then(Value::as_bool).unwrap_or(true);
            vec![
                name(o),
                attach.into(),
                bool_at(o, "/spec/podInfoOnMount").into(),
                bool_at(o, "/spec/storageCapacity").into(),
                tokens.into(),
                bool_at(o, "/spec/requiresRepublish").into(),
                texts("/spec/volumeLifecycleModes").into(),
                age::of(o, now),
            ]
        },
    },
    Printer {
        resource: "csinodes.storage.k8s.io",
        columns: &[NAME, integer("Drivers"), AGE],
        cells: |o, now| vec![name(o), len_at(o, "/spec/drivers").into(), age::of(o, now)],
    },
    Printer {
        resource: "csistoragecapacities.storage.k8s.io",
        columns: &[NAME, text("StorageClassName"), text("Capacity")],
        cells: |o, _| vec![name(o), str_at(o, "/storageClassName").into(), capacity(o, "/capacity").into()],
    },
];

fn capacity(o: &Value, pointer: &str) -> String {
    o.pointer(pointer).map(int_or_string).unwrap_or_default()
}

fn phase(o: &Value) -> &str {
    if o.pointer("/metadata/deletionTimestamp").is_some() { "Terminating" } else { str_at(o, "/status/phase") }
}

/// The class by field, or by the annotation that came before it.
fn class(o: &Value) -> &str {
    let annotation = o.pointer("/metadata/annotations").and_then(|a| a.get("volume.beta.kubernetes.io/storage-class"));
    annotation.and_then(Value::as_str).unwrap_or_else(|| str_at(o, "/spec/storageClassName"))
}

/// `RWO,ROX,RWX,RWOP` in this order.
fn access_modes(o: &Value, pointer: &str) -> String {
    let modes = list_at(o, pointer);
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    known
        .iter()
        .filter(|(mode, _)| modes.iter().any(|m| m == mode))
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::table::testing::row;

    #[test]
    fn claims_and_classes() {
        let meta = json!({ "name": "c", "creationTimestamp": "2025-12-31T23:59:55Z" });
        let pending =
            json!({ "metadata": meta, "spec": { "storageClassName": "fast" }, "status": { "phase": "Pending" } });
        assert_eq!(row("persistentvolumeclaims", &pending), "c | Pending |  |  |  | fast | <unset> | 5s | <unset>");
        let bound = json!({ "metadata": meta, "spec": { "volumeName": "pv", "volumeMode": "Filesystem" },
            "status": { "phase": "Bound", "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteMany", "ReadWriteOnce"] } });
        assert_eq!(
            row("persistentvolumeclaims", &bound),
            "c | Bound | pv | 1Gi | RWO,RWX |  | <unset> | 5s | Filesystem"
        );
        let volume = json!({ "metadata": meta, "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": { "namespace": "d", "name": "x" } }, "status": { "phase": "Bound" } });
        assert_eq!(
            row("persistentvolumes", &volume),
            "c | 1Gi | RWO | Retain | Bound | d/x |  | <unset> |  | 5s | <unset>"
        );
        let class = json!({ "metadata": { "name": "c", "creationTimestamp": "2025-12-31T23:59:55Z",
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } }, "provisioner": "p" });
        assert_eq!(row("storageclasses.storage.k8s.io", &class), "c (default) | p | Delete | Immediate | false | 5s");
    }
}
