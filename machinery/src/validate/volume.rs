//! Volumes of pods. Source: upstream `pkg/apis/core/validation/validation.go` (`validateVolumeSource` and what it calls).

use std::collections::HashSet;

use super::check::{At, Errors, config_key_errors};
use crate::{names, quantity};

/// Kinds of volumes in the order in which upstream looks at them: all but the first are too many.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Sources that need fields and nothing more: the source, and the fields in upstream's order.
const REQUIRED: &[(&str, &[&str])] = &[
    ("gitRepo", &["repository"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("configMap", &["name"]),
    ("csi", &["driver"]),
    ("cephfs", &["monitors"]),
    ("rbd", &["monitors", "image"]),
    ("glusterfs", &["endpoints", "path"]),
    ("azureFile", &["secretName", "shareName"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("gcePersistentDisk", &["pdName"]),
    ("cinder", &["volumeID"]),
    ("vsphereVolume", &["volumePath"]),
    ("ephemeral", &["volumeClaimTemplate"]),
];

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// What files of a downward API volume may show.
const DOWNWARD_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// What an environment variable may show of its pod.
pub(super) const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// What may be shown of a container's resources.
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// The volumes of a pod; their names.
pub(super) fn volumes<'v>(list: &At<'v>, errors: &mut Errors) -> HashSet<&'v str> {
    let mut found = HashSet::new();
    for volume in list.items() {
        let name = volume.field("name");
        errors.named(&name, names::dns_label_errors);
        if !name.is_empty() && !found.insert(name.text()) {
            errors.duplicate(&name);
        }
        let given = volume.value.as_object().into_iter().flatten();
        let mut sources: Vec<&str> =
            given.filter(|(k, v)| *k != "name" && !v.is_null()).map(|(k, _)| k.as_str()).collect();
        sources.sort_by_key(|s| SOURCES.iter().position(|known| known == s));
        match sources.as_slice() {
            [] => errors.required(&volume, "must specify a volume type"),
            [one, more @ ..] => {
                source(one, &volume.field(one), errors);
                for source in more {
                    errors.forbidden(&volume.field(source), "may not specify more than 1 volume type");
                }
            }
        }
    }
    found
}

fn source(kind: &str, source: &At<'_>, errors: &mut Errors) {
    for field in REQUIRED.iter().filter(|(k, _)| *k == kind).flat_map(|(_, fields)| *fields) {
        let field = source.field(field);
        if field.is_empty() {
            errors.required(&field, "");
        }
    }
    match kind {
        "emptyDir" => {
            let limit = source.field("sizeLimit");
            if limit.value.as_str().and_then(quantity::parse).is_some_and(|n| n < 0) {
                errors.forbidden(&limit, "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => {
            let path = source.field("path");
            if path.is_empty() {
                errors.required(&path, "");
            } else {
                no_backsteps(&path, errors);
            }
            errors.if_set_one_of(&source.field("type"), HOST_PATH_TYPES);
        }
        "gitRepo" => local_descending_path(&source.field("directory"), errors),
        "nfs" => {
            let path = source.field("path");
            if !path.is_empty() && !path.text().starts_with('/') {
                errors.invalid(&path, "must be an absolute path");
            }
        }
        "secret" | "configMap" => files(source, errors),
        "downwardAPI" => {
            mode(&source.field("defaultMode"), errors);
            downward(&source.field("items"), errors);
        }
        "projected" => projected(source, errors),
        _ => {}
    }
}

fn mode(mode: &At<'_>, errors: &mut Errors) {
    if mode.value.as_i64().is_some_and(|n| !(0..=0o777).contains(&n)) {
        errors.invalid(mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Keys that become files.
fn files(source: &At<'_>, errors: &mut Errors) {
    mode(&source.field("defaultMode"), errors);
    for item in source.field("items").items() {
        if item.field("key").is_empty() {
            errors.required(&item.field("key"), "");
        }
        file_path(&item.field("path"), errors);
        mode(&item.field("mode"), errors);
    }
}

fn file_path(path: &At<'_>, errors: &mut Errors) {
    if path.is_empty() {
        errors.required(path, "");
        return;
    }
    local_descending_path(path, errors);
    // A path that steps back has been refused already.
    if path.text().starts_with("..") && !path.text().split('/').any(|part| part == "..") {
        errors.invalid(path, "must not start with '..'");
    }
}

fn no_backsteps(path: &At<'_>, errors: &mut Errors) {
    if path.text().split('/').any(|part| part == "..") {
        errors.invalid(path, "must not contain '..'");
    }
}

/// A path below some directory.
pub(super) fn local_descending_path(path: &At<'_>, errors: &mut Errors) {
    if path.text().starts_with('/') {
        errors.invalid(path, "must be a relative path");
    }
    no_backsteps(path, errors);
}

fn downward(items: &At<'_>, errors: &mut Errors) {
    for item in items.items() {
        file_path(&item.field("path"), errors);
        let (field, resource) = (item.field("fieldRef"), item.field("resourceFieldRef"));
        if field.exists() {
            field_ref(&field, DOWNWARD_FIELDS, errors);
            if resource.exists() {
                errors.invalid_value(
                    &item,
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                );
            }
        } else if resource.exists() {
            resource_field_ref(&resource, true, errors);
        } else {
            errors.required(&item, "one of fieldRef and resourceFieldRef is required");
        }
        mode(&item.field("mode"), errors);
    }
}

/// A reference to a field of the pod.
pub(super) fn field_ref(reference: &At<'_>, allowed: &[&str], errors: &mut Errors) {
    let path = reference.field("fieldPath");
    if path.is_empty() {
        errors.required(&path, "");
        return;
    }
    if let Some((map, subscript)) = path.text().strip_suffix(']').and_then(|p| p.split_once('[')) {
        let key = subscript.trim_matches('\'');
        if matches!(map, "metadata.annotations" | "metadata.labels") {
            for why in names::qualified_name_errors(&if map == "metadata.annotations" {
                key.to_lowercase()
            } else {
                key.to_owned()
            }) {
                errors.invalid_value(reference, key, &why);
            }
        } else {
            errors.invalid_value(reference, map, "does not support subscript");
        }
    } else {
        errors.if_set_one_of(&path, allowed);
    }
}

/// A reference to the resources of a container; volumes must name it.
pub(super) fn resource_field_ref(reference: &At<'_>, volume: bool, errors: &mut Errors) {
    let (container, resource) = (reference.field("containerName"), reference.field("resource"));
    if volume && container.is_empty() {
        errors.required(&container, "");
    } else if resource.is_empty() {
        errors.required(&resource, "");
    } else if !["limits.hugepages-", "requests.hugepages-"].iter().any(|p| resource.text().starts_with(p)) {
        errors.if_set_one_of(&resource, RESOURCES);
    }
}

fn projected(source: &At<'_>, errors: &mut Errors) {
    mode(&source.field("defaultMode"), errors);
    for item in source.field("sources").items() {
        let mut count = 0;
        for kind in
            ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"]
        {
            let one = item.field(kind);
            if !one.exists() {
                continue;
            }
            count += 1;
            if count > 1 {
                errors.forbidden(&one, "may not specify more than 1 volume type");
                continue;
            }
            match kind {
                "secret" | "configMap" => {
                    if one.field("name").is_empty() {
                        errors.required(&one.field("name"), "");
                    }
                    files(&one, errors);
                }
                "downwardAPI" => downward(&one.field("items"), errors),
                "serviceAccountToken" => token(&one, errors),
                "clusterTrustBundle" => file_path(&one.field("path"), errors),
                _ => {}
            }
        }
    }
}

fn token(token: &At<'_>, errors: &mut Errors) {
    let seconds = token.field("expirationSeconds");
    match seconds.value.as_i64() {
        Some(n) if n < 600 => errors.invalid(&seconds, "may not specify a duration less than 10 minutes"),
        Some(n) if n > 1 << 32 => errors.invalid(&seconds, "may not specify a duration larger than 2^32 seconds"),
        _ => {}
    }
    if token.field("path").is_empty() {
        errors.required(&token.field("path"), "");
    } else {
        local_descending_path(&token.field("path"), errors);
    }
}

/// A key of a ConfigMap or Secret.
pub(super) fn key_selector(selector: &At<'_>, errors: &mut Errors) {
    for field in ["name", "key"] {
        if selector.field(field).is_empty() {
            errors.required(&selector.field(field), "");
        }
    }
    let key = selector.field("key");
    if !key.is_empty() {
        for why in config_key_errors(key.text()) {
            errors.invalid(&key, &why);
        }
    }
}
