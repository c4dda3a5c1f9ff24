//! Volumes of the cluster, claims and what drives them. Sources: upstream `pkg/apis/core/validation` (`ValidatePersistentVolume`,
//! `ValidatePersistentVolumeClaimSpec`) and `pkg/apis/storage/validation`.

use std::collections::HashSet;

use super::{
    check::{At, Errors, same},
    placement,
};
use crate::{catalog::Descriptor, names};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// Fields of a volume's spec that are no source of it.
const NO_SOURCE: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];
/// Longest name of a driver.
const LONGEST_DRIVER: usize = 63;

pub(super) fn common(descriptor: &Descriptor, object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("", "persistentvolumeclaims") => claim(&spec, errors),
        ("", "persistentvolumes") => volume(&spec, errors),
        ("storage.k8s.io", "storageclasses") => class(object, errors),
        ("storage.k8s.io", "csidrivers") => {
            driver(&object.field("metadata").field("name"), errors);
            for mode in spec.field("volumeLifecycleModes").items() {
                errors.if_set_one_of(&mode, &["Ephemeral", "Persistent"]);
            }
            errors.if_set_one_of(&spec.field("fsGroupPolicy"), &["File", "None", "ReadWriteOnceWithFSType"]);
            token_requests(&spec.field("tokenRequests"), errors);
        }
        ("storage.k8s.io", "csinodes") => node_drivers(&spec.field("drivers"), errors),
        ("storage.k8s.io", "volumeattachments") => {
            driver(&spec.field("attacher"), errors);
            if spec.field("nodeName").is_empty() {
                errors.required(&spec.field("nodeName"), "");
            }
            let source = spec.field("source");
            match (source.field("persistentVolumeName").exists(), source.field("inlineVolumeSpec").exists()) {
                (false, false) => {
                    errors.required(&source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
                }
                (true, true) => {
                    errors.forbidden(&source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
                }
                _ => {}
            }
        }
        ("storage.k8s.io", "csistoragecapacities") => {
            errors.named(&object.field("storageClassName"), names::dns_subdomain_errors);
            for field in ["capacity", "maximumVolumeSize"] {
                if object.field(field).exists() {
                    errors.quantity(&object.field(field));
                }
            }
        }
        ("storage.k8s.io", "volumeattributesclasses") => driver(&object.field("driverName"), errors),
        _ => {}
    }
}

fn modes(spec: &At<'_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.required(&modes, "at least 1 access mode is required");
    }
    let mut alone = false;
    for mode in modes.items() {
        let at = At { value: mode.value, path: modes.path.clone() };
        errors.if_set_one_of(&at, ACCESS_MODES);
        alone |= mode.text() == "ReadWriteOncePod";
    }
    if alone && modes.items().count() > 1 {
        errors.forbidden(&modes, "may not use ReadWriteOncePod with other access modes");
    }
}

fn claim(spec: &At<'_>, errors: &mut Errors) {
    if spec.field("selector").exists() {
        errors.selector(&spec.field("selector"));
    }
    modes(spec, errors);
    let storage = spec.field("resources").field("requests").field("storage");
    let at = At { value: storage.value, path: format!("{}.resources[storage]", spec.path) };
    if storage.exists() {
        errors.positive_quantity(&at);
    } else {
        errors.required(&at, "");
    }
    errors.if_named(&spec.field("storageClassName"), names::dns_subdomain_errors);
    errors.if_set_one_of(&spec.field("volumeMode"), &["Block", "Filesystem"]);
}

fn volume(spec: &At<'_>, errors: &mut Errors) {
    modes(spec, errors);
    let capacity = spec.field("capacity");
    if capacity.is_empty() {
        errors.required(&capacity, "");
    } else if capacity.entries().count() > 1 || capacity.field("storage").value.is_null() {
        errors.not_supported(&capacity, &capacity.value.to_string(), &["storage"]);
    }
    for (_, amount) in capacity.entries() {
        let at = At { value: amount.value, path: amount.path };
        errors.positive_quantity(&at);
    }
    let reclaim = spec.field("persistentVolumeReclaimPolicy");
    errors.if_set_one_of(&reclaim, &["Delete", "Recycle", "Retain"]);
    let affinity = spec.field("nodeAffinity");
    if affinity.exists() {
        let required = affinity.field("required");
        if required.exists() {
            placement::node_selector(&required, errors);
        } else {
            errors.required(&required, "must specify required node constraints");
        }
    }
    let given = spec.value.as_object().into_iter().flatten();
    let sources: Vec<&str> =
        given.filter(|(k, v)| !v.is_null() && !NO_SOURCE.contains(&&***k)).map(|(k, _)| k.as_str()).collect();
    match sources.as_slice() {
        [] => errors.required(spec, "must specify a volume type"),
        [first, more @ ..] => {
            source(first, &spec.field(first), errors);
            for another in more {
                errors.forbidden(&spec.field(another), "may not specify more than 1 volume type");
            }
        }
    }
    if sources.contains(&"hostPath")
        && spec.field("hostPath").field("path").text() == "/"
        && reclaim.text() == "Recycle"
    {
        errors.forbidden(
            &spec.field("persistentVolumeReclaimPolicy"),
            "may not be 'recycle' for a hostPath mount of '/'",
        );
    }
    errors.if_named(&spec.field("storageClassName"), names::dns_subdomain_errors);
    errors.if_set_one_of(&spec.field("volumeMode"), &["Block", "Filesystem"]);
}

fn source(kind: &str, source: &At<'_>, errors: &mut Errors) {
    let required: &[&str] = match kind {
        "hostPath" | "local" => &["path"],
        "nfs" => &["server", "path"],
        "csi" => &["driver", "volumeHandle"],
        "iscsi" => &["targetPortal", "iqn"],
        _ => &[],
    };
    for field in required {
        if source.field(field).is_empty() {
            errors.required(&source.field(field), "");
        }
    }
    let path = source.field("path");
    if matches!(kind, "hostPath" | "local") && path.text().split('/').any(|part| part == "..") {
        errors.invalid(&path, "must not contain '..'");
    }
}

fn class(object: &At<'_>, errors: &mut Errors) {
    let provisioner = object.field("provisioner");
    if provisioner.is_empty() {
        errors.required(&provisioner, "");
    } else {
        let lower = provisioner.text().to_lowercase();
        for why in names::qualified_name_errors(&lower) {
            errors.invalid(&provisioner, &why);
        }
    }
    let parameters = object.field("parameters");
    for (key, _) in parameters.entries() {
        if key.is_empty() {
            errors.invalid_value(&parameters, key, "field can not be empty.");
        }
    }
    errors.if_set_one_of(&object.field("reclaimPolicy"), &["Delete", "Retain"]);
    errors.if_set_one_of(&object.field("volumeBindingMode"), &["Immediate", "WaitForFirstConsumer"]);
    for term in object.field("allowedTopologies").items() {
        for expression in term.field("matchLabelExpressions").items() {
            let (key, values) = (expression.field("key"), expression.field("values"));
            for why in names::qualified_name_errors(key.text()) {
                errors.invalid(&key, &why);
            }
            if values.is_empty() {
                errors.required(&values, "");
            }
            let mut seen = HashSet::new();
            for value in values.items() {
                if !seen.insert(value.text()) {
                    errors.duplicate(&value);
                }
            }
        }
    }
}

fn driver(name: &At<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(name, "");
    }
    if name.text().len() > LONGEST_DRIVER {
        errors.too_long(name, LONGEST_DRIVER);
    }
    for why in names::dns_subdomain_errors(&name.text().to_lowercase()) {
        if !name.is_empty() {
            errors.invalid(name, &why);
        }
    }
}

fn token_requests(requests: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for request in requests.items() {
        let (audience, seconds) = (request.field("audience"), request.field("expirationSeconds"));
        if !seen.insert(audience.text()) {
            errors.duplicate(&audience);
        }
        match seconds.value.as_i64() {
            Some(n) if n < 600 => errors.invalid(&seconds, "may not specify a duration less than 10 minutes"),
            Some(n) if n > 1 << 32 => errors.invalid(&seconds, "may not specify a duration larger than 2^32 seconds"),
            _ => {}
        }
    }
}

fn node_drivers(drivers: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for one in drivers.items() {
        let name = one.field("name");
        driver(&name, errors);
        if one.field("nodeID").is_empty() {
            errors.required(&one.field("nodeID"), "");
        }
        let count = one.field("allocatable").field("count");
        if count.value.as_i64().is_some_and(|n| n < 0) {
            errors.invalid(&count, "must be greater than or equal to 0");
        }
        for key in one.field("topologyKeys").items() {
            for why in names::qualified_name_errors(key.text()) {
                errors.invalid(&key, &why);
            }
        }
        if !seen.insert(name.text()) {
            errors.duplicate(&name);
        }
    }
}

pub(super) fn update(descriptor: &Descriptor, new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, was) = (new.field("spec"), old.field("spec"));
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("", "persistentvolumes") => {
            let sources = |spec: &At<'_>| {
                let mut value = spec.value.clone();
                if let Some(fields) = value.as_object_mut() {
                    fields.retain(|key, _| !NO_SOURCE.contains(&key.as_str()));
                }
                value
            };
            if !same(&sources(&spec), &sources(&was)) {
                errors.forbidden(
                    &At { value: spec.value, path: "spec.persistentvolumesource".into() },
                    "spec.persistentvolumesource is immutable after creation",
                );
            }
            errors.immutable(&spec.field("volumeMode"), &was.field("volumeMode"));
        }
        ("storage.k8s.io", "volumeattachments") if !same(spec.value, was.value) => {
            errors.invalid(&spec, "field is immutable");
        }
        ("storage.k8s.io", "csistoragecapacities") => {
            for field in ["nodeTopology", "storageClassName"] {
                errors.immutable(&new.field(field), &old.field(field));
            }
        }
        ("storage.k8s.io", "volumeattributesclasses") => {
            if new.field("driverName").value != old.field("driverName").value {
                errors.forbidden(&new.field("driverName"), "updates to driverName are forbidden.");
            }
            if !same(new.field("parameters").value, old.field("parameters").value) {
                errors.forbidden(&new.field("parameters"), "updates to parameters are forbidden.");
            }
        }
        _ => {}
    }
}
