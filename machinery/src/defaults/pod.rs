//! Pods, their templates and the claims that stand in them.

use serde_json::{Value, json};

use super::fill::{Fields, ensure, has, items, object, set, set_number, text};
use crate::pod_resources;

/// A Pod.
pub(super) fn pod(fields: &mut Fields) {
    if let Some(spec) = ensure(fields, "spec") {
        for list in ["initContainers", "containers"] {
            items(spec, list).for_each(requests);
        }
        whole_pod(spec);
        set(spec, "enableServiceLinks", true);
        pod_spec(spec);
    }
    ensure(fields, "status");
    if let Some(status) = object(fields, "status") {
        set(status, "phase", "Pending");
    }
}

fn requests(container: &mut Fields) {
    if let Some(resources) = object(container, "resources") {
        requests_of(resources);
    }
}

/// A limit is the request as well, unless that is given.
fn requests_of(resources: &mut Fields) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if limits.is_empty() {
        return;
    }
    if let Some(requests) = ensure(resources, "requests") {
        for (name, quantity) in limits {
            set(requests, &name, quantity);
        }
    }
}

/// Where a pod as a whole has limits, it requests what its containers request together, and of what none of them does its limits
/// (`defaultPodRequests`).
fn whole_pod(spec: &mut Fields) {
    let limits = spec.get("resources").and_then(|r| r["limits"].as_object()).cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let together = pod_resources::of_containers(&Value::Object(spec.clone()), "requests");
    let together = together.into_iter().map(|(name, quantity)| (name, quantity.to_string().into()));
    if let Some(requests) = object(spec, "resources").and_then(|resources| ensure(resources, "requests")) {
        for (name, quantity) in together.chain(limits).filter(|(name, _)| pod_resources::is_of_a_whole_pod(name)) {
            set(requests, &name, quantity);
        }
    }
}

/// What has a pod template in `template`.
pub(super) fn template(fields: &mut Fields) {
    if let Some(spec) = ensure(fields, "template").and_then(|template| ensure(template, "spec")) {
        pod_spec(spec);
    }
}

fn pod_spec(spec: &mut Fields) {
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "restartPolicy", "Always");
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "schedulerName", "default-scheduler");
    ensure(spec, "securityContext");
    // Two names of one field.
    match (text(spec, "serviceAccountName").to_owned(), text(spec, "serviceAccount").to_owned()) {
        (name, old) if !name.is_empty() && name != old => {
            spec.insert("serviceAccount".into(), name.into());
        }
        (name, old) if name.is_empty() && !old.is_empty() => {
            spec.insert("serviceAccountName".into(), old.into());
        }
        _ => {}
    }
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for item in items(spec, list) {
            container(item, host_network && list != "ephemeralContainers");
        }
    }
    items(spec, "volumes").for_each(volume);
}

fn container(container: &mut Fields, host_network: bool) {
    let policy = pull_policy(text(container, "image"));
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    ensure(container, "resources");
    for port in items(container, "ports") {
        set(port, "protocol", "TCP");
        if host_network && let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
            set_number(port, "hostPort", number);
        }
    }
    for env in items(container, "env") {
        if let Some(source) = object(env, "valueFrom") {
            field_ref(source);
            if let Some(key) = object(source, "fileKeyRef") {
                set(key, "optional", false);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = object(container, name) {
            set_number(probe, "timeoutSeconds", 1);
            set_number(probe, "periodSeconds", 10);
            set_number(probe, "successThreshold", 1);
            set_number(probe, "failureThreshold", 3);
            http_get(probe);
            if let Some(grpc) = object(probe, "grpc")
                && !has(grpc, "service")
            {
                grpc.insert("service".into(), "".into());
            }
        }
    }
    if let Some(lifecycle) = object(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = object(lifecycle, name) {
                http_get(handler);
            }
        }
    }
}

fn http_get(handler: &mut Fields) {
    if let Some(get) = object(handler, "httpGet") {
        set(get, "path", "/");
        set(get, "scheme", "HTTP");
    }
}

fn field_ref(source: &mut Fields) {
    if let Some(field) = object(source, "fieldRef") {
        set(field, "apiVersion", "v1");
    }
    if let Some(resource) = object(source, "resourceFieldRef") {
        set(resource, "divisor", "0");
    }
}

/// `Always` for the tag `latest`, which is also meant where there is neither tag nor digest.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
        None if digest => "IfNotPresent",
        None => "Always",
    }
}

/// Octal 0644.
const MODE: i64 = 420;

fn volume(volume: &mut Fields) {
    if volume.iter().all(|(key, value)| key == "name" || value.is_null()) {
        volume.insert("emptyDir".into(), json!({}));
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object(volume, name) {
            set(source, "defaultMode", MODE);
            if name == "downwardAPI" {
                items(source, "items").for_each(field_ref);
            }
            for part in items(source, "sources") {
                if let Some(token) = object(part, "serviceAccountToken") {
                    set(token, "expirationSeconds", 3600);
                }
                if let Some(downward) = object(part, "downwardAPI") {
                    items(downward, "items").for_each(field_ref);
                }
            }
        }
    }
    volume_source(volume);
    if let Some(spec) = object(volume, "ephemeral")
        .and_then(|ephemeral| object(ephemeral, "volumeClaimTemplate"))
        .and_then(|template| ensure(template, "spec"))
    {
        claim_spec(spec);
    }
    if let Some(image) = object(volume, "image") {
        let policy = pull_policy(text(image, "reference"));
        set(image, "pullPolicy", policy);
    }
}

/// Sources that pods and persistent volumes share.
pub(super) fn volume_source(source: &mut Fields) {
    if let Some(path) = object(source, "hostPath")
        && !has(path, "type")
    {
        path.insert("type".into(), "".into());
    }
    if let Some(iscsi) = object(source, "iscsi") {
        set(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = object(source, "rbd") {
        set(rbd, "pool", "rbd");
        set(rbd, "user", "admin");
        set(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = object(source, "azureDisk") {
        set(disk, "cachingMode", "ReadWrite");
        set(disk, "kind", "Shared");
        set(disk, "fsType", "ext4");
        set(disk, "readOnly", false);
    }
    if let Some(io) = object(source, "scaleIO") {
        set(io, "storageMode", "ThinProvisioned");
        set(io, "fsType", "xfs");
    }
}

/// A PersistentVolumeClaim.
pub(super) fn claim(fields: &mut Fields) {
    if let Some(spec) = ensure(fields, "spec") {
        claim_spec(spec);
    }
    if let Some(status) = ensure(fields, "status") {
        set(status, "phase", "Pending");
    }
}

fn claim_spec(spec: &mut Fields) {
    set(spec, "volumeMode", "Filesystem");
    ensure(spec, "resources");
}
