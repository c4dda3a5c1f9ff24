//! What kinds do differently from each other before they are stored: upstream's registry strategies.

mod service;

use serde_json::{Value, json};
use vctl_machinery::catalog::Descriptor;

use crate::document::{meta, set_meta};

fn is(descriptor: &Descriptor, group: &str, plural: &str) -> bool {
    descriptor.group == group && descriptor.plural == plural
}

/// Kinds that a PUT creates when they are not there.
pub(crate) fn allows_create_on_update(descriptor: &Descriptor) -> bool {
    matches!(
        (&*descriptor.group, &*descriptor.plural),
        ("", "endpoints" | "events" | "limitranges" | "podtemplates" | "services")
            | ("events.k8s.io", "events")
            | ("coordination.k8s.io", "leases")
            | ("rbac.authorization.k8s.io", "clusterroles" | "clusterrolebindings" | "roles" | "rolebindings")
    )
}

/// Kinds that a PUT replaces without saying which version it replaces.
pub(crate) fn allows_unconditional_update(descriptor: &Descriptor) -> bool {
    !descriptor.custom
        && !matches!(
            (&*descriptor.group, &*descriptor.plural),
            ("coordination.k8s.io", "leases")
                | ("policy", "poddisruptionbudgets")
                | (
                    "apiextensions.k8s.io"
                        | "apiregistration.k8s.io"
                        | "admissionregistration.k8s.io"
                        | "flowcontrol.apiserver.k8s.io"
                        | "node.k8s.io",
                    _
                )
                | ("storage.k8s.io", "csidrivers" | "csinodes" | "volumeattachments" | "csistoragecapacities")
                | ("networking.k8s.io", "ingressclasses" | "ipaddresses" | "servicecidrs")
        )
}

/// Kinds whose DELETE answers with the object instead of a Status.
pub(crate) fn returns_deleted(descriptor: &Descriptor) -> bool {
    descriptor.group.is_empty()
        && matches!(
            &*descriptor.plural,
            "pods"
                | "services"
                | "serviceaccounts"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "podtemplates"
                | "resourcequotas"
        )
}

/// Kinds whose dependents stay unless the request says otherwise.
pub(crate) fn orphans_by_default(descriptor: &Descriptor) -> bool {
    is(descriptor, "", "replicationcontrollers") || is(descriptor, "batch", "jobs")
}

fn has_status(descriptor: &Descriptor) -> bool {
    descriptor.subresource("status").is_some()
}

/// The status of a new object.
fn initial_status(descriptor: &Descriptor, object: &Value) -> Option<Value> {
    Some(match (&*descriptor.group, &*descriptor.plural) {
        ("", "pods") => json!({ "phase": "Pending", "qosClass": qos_class(object) }),
        ("", "namespaces") => json!({ "phase": "Active" }),
        ("", "persistentvolumeclaims" | "persistentvolumes") => json!({ "phase": "Pending" }),
        ("", "services") | ("networking.k8s.io", "ingresses") => json!({ "loadBalancer": {} }),
        ("", "replicationcontrollers") | ("apps", "replicasets") => json!({ "replicas": 0 }),
        ("apps", "statefulsets") => json!({ "replicas": 0, "availableReplicas": 0 }),
        ("apps", "daemonsets") => {
            json!({ "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0 })
        }
        ("policy", "poddisruptionbudgets") => {
            json!({ "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0 })
        }
        ("autoscaling", "horizontalpodautoscalers") if descriptor.version == "v2" => {
            json!({ "currentMetrics": null, "desiredReplicas": 0 })
        }
        ("autoscaling", "horizontalpodautoscalers") => json!({ "currentReplicas": 0, "desiredReplicas": 0 }),
        _ if descriptor.custom => return None,
        _ => json!({}),
    })
}

/// `stringData` of a secret becomes data; it is never stored.
fn fold_string_data(secret: &mut Value) {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let Some(texts) = secret.as_object_mut().and_then(|s| s.remove("stringData")) else { return };
    for (key, text) in texts.as_object().into_iter().flatten() {
        if !secret["data"].is_object() {
            secret["data"] = json!({});
        }
        secret["data"][key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
    }
}

/// Prepares a new object: what the server alone decides.
pub(crate) fn prepare_create(descriptor: &Descriptor, object: &mut Value) {
    if is(descriptor, "", "secrets") {
        fold_string_data(object);
    }
    if is(descriptor, "", "nodes") || is(descriptor, "networking.k8s.io", "servicecidrs") {
        // A node may announce itself with its status.
    } else if has_status(descriptor)
        && let Some(status) = initial_status(descriptor, object)
    {
        object["status"] = status;
    } else if has_status(descriptor)
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
    }
    if is(descriptor, "", "namespaces") {
        let finalizers = object.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut);
        match finalizers {
            Some(list) if list.iter().any(|f| f == "kubernetes") => {}
            Some(list) => list.push("kubernetes".into()),
            None => object["spec"] = json!({ "finalizers": ["kubernetes"] }),
        }
        label_namespace(object);
    } else if is(descriptor, "batch", "jobs") {
        job_selector(object);
    }
    if descriptor.has_generation {
        set_meta(object, "generation", Some(json!(1)));
    } else {
        set_meta(object, "generation", None);
    }
}

/// Prepares a changed object: keeps what this way of changing it may not change, and counts generations.
pub(crate) fn prepare_update(descriptor: &Descriptor, subresource: &str, new: &mut Value, old: &Value) {
    match subresource {
        "status" => keep_all_but_status(descriptor, new, old),
        "" if has_status(descriptor) => {
            restore(new, old, "status");
        }
        _ => {}
    }
    if subresource.is_empty() {
        if is(descriptor, "", "secrets") {
            fold_string_data(new);
        } else if is(descriptor, "", "services") {
            service::drop_type_dependent_fields(new, old);
        } else if is(descriptor, "", "namespaces") {
            restore(new, old, "spec");
            label_namespace(new);
        } else if is(descriptor, "certificates.k8s.io", "certificatesigningrequests") {
            restore(new, old, "spec");
        }
    }
    if descriptor.has_generation {
        let before = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        let counts = !matches!(subresource, "binding" | "status");
        // Without a status subresource the status is a field like others.
        let status = descriptor.custom && !has_status(descriptor);
        let after = if counts && desired_differs(new, old, status) { before + 1 } else { before };
        if after > 0 {
            set_meta(new, "generation", Some(json!(after)));
        }
    } else {
        set_meta(new, "generation", old.pointer("/metadata/generation").cloned());
    }
}

/// Whether anything but metadata and (unless asked for) status differs.
fn desired_differs(new: &Value, old: &Value, status: bool) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new != old };
    let counts = |k: &&String| !matches!(k.as_str(), "metadata" | "apiVersion" | "kind") && (status || *k != "status");
    let empty = |v: Option<&Value>| v.is_none_or(Value::is_null);
    new.keys().chain(old.keys()).filter(counts).any(|k| {
        let (a, b) = (new.get(k), old.get(k));
        a != b && !(empty(a) && empty(b))
    })
}

fn restore(new: &mut Value, old: &Value, field: &str) {
    if let Some(map) = new.as_object_mut() {
        match old.get(field) {
            Some(value) => map.insert(field.to_owned(), value.clone()),
            None => map.remove(field),
        };
    }
}

/// What a status may not change: everything but itself and, for most kinds, metadata.
fn keep_all_but_status(descriptor: &Descriptor, new: &mut Value, old: &Value) {
    let mut kept = old.clone();
    let Some(fields) = kept.as_object_mut() else { return };
    for field in ["status", "metadata"] {
        match new.get(field) {
            Some(value) => fields.insert(field.to_owned(), value.clone()),
            None => fields.remove(field),
        };
    }
    for field in metadata_kept_by_status(descriptor) {
        set_meta(&mut kept, field, old.pointer(&format!("/metadata/{field}")).cloned());
    }
    *new = kept;
}

/// The metadata that a status does not change: the status strategies of upstream's registries differ, and newer ones call
/// `ResetObjectMetaForStatus`.
fn metadata_kept_by_status(descriptor: &Descriptor) -> &'static [&'static str] {
    const ALL: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];
    if descriptor.custom {
        return ALL;
    }
    match (&*descriptor.group, &*descriptor.plural) {
        ("", "pods") => &["ownerReferences"],
        ("apps", "deployments") => &["labels"],
        (
            "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "admissionregistration.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
            | "resource.k8s.io",
            _,
        )
        | ("storage.k8s.io", "volumeattachments") => ALL,
        _ => &[],
    }
}

fn label_namespace(object: &mut Value) {
    let name = meta(object, "name").to_owned();
    if name.is_empty() {
        return;
    }
    if !object["metadata"]["labels"].is_object() {
        set_meta(object, "labels", Some(json!({})));
    }
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
}

/// The selector and pod labels that tie a job to its pods.
fn job_selector(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (uid, name) = (meta(job, "uid").to_owned(), meta(job, "name").to_owned());
    let template = &mut job["spec"]["template"]["metadata"];
    if !template.is_object() {
        *template = json!({});
    }
    if !template["labels"].is_object() {
        template["labels"] = json!({});
    }
    for (label, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        template["labels"][label] = value.clone().into();
    }
    // What else the selector says stays, and is refused when the job is validated.
    if !job["spec"]["selector"]["matchLabels"].is_object() {
        job["spec"]["selector"]["matchLabels"] = json!({});
    }
    job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid.into();
}

/// Quality of service of a pod, from its requests and limits of cpu and memory.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let containers = ["containers", "initContainers"].iter().filter_map(|f| pod["spec"][*f].as_array()).flatten();
    for container in containers {
        for name in ["cpu", "memory"] {
            let of = |what: &str| container["resources"][what].get(name).filter(|v| **v != "0" && **v != 0).cloned();
            let (request, limit) = (of("requests"), of("limits"));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
