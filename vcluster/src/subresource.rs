//! Subresources as views of their object: what a client sees of it, and what of the client's answer gets into it.

use serde_json::{Value, json};
use vctl_machinery::{status::ApiError, validate::FieldError};

use crate::{
    document::{meta, set_meta},
    objects::Target,
};

/// What a client sees of an object through the target's subresource.
pub(crate) fn show(target: &Target, object: &Value) -> Result<Value, ApiError> {
    if target.subresource != "scale" {
        return Ok(object.clone());
    }
    if let Some(scale) = target.descriptor.definition.as_ref().and_then(|d| d.scale(object)) {
        return match scale.map_err(ApiError::internal)? {
            (scale, true) => Ok(scale),
            (_, false) => Err(ApiError::internal(format!(
                "the spec replicas field {:?} does not exist",
                target.descriptor.definition.as_ref().and_then(|d| d.replicas_path()).unwrap_or_default()
            ))),
        };
    }
    let selector = selector_text(&object["spec"]["selector"], target.is("", "replicationcontrollers"));
    let mut status = json!({ "replicas": object["status"]["replicas"].as_i64().unwrap_or(0) });
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let metadata = &object["metadata"];
    Ok(json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": { "replicas": object["spec"]["replicas"].as_i64().unwrap_or(0) },
        "status": status,
    }))
}

/// What a patch through the target's subresource begins with: replicas that are not there may be set.
pub(crate) fn show_for_update(target: &Target, object: &Value) -> Result<Value, ApiError> {
    if target.subresource == "scale"
        && let Some(scale) = target.descriptor.definition.as_ref().and_then(|d| d.scale(object))
    {
        return scale.map(|(scale, _)| scale).map_err(ApiError::bad_request);
    }
    show(target, object)
}

/// A label selector in its query form.
fn selector_text(selector: &Value, plain: bool) -> String {
    let mut parts = Vec::new();
    let labels = if plain { selector } else { &selector["matchLabels"] };
    for (key, value) in labels.as_object().into_iter().flatten() {
        parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        match expression["operator"].as_str() {
            Some("In") => parts.push(format!("{key} in ({})", values.join(","))),
            Some("NotIn") => parts.push(format!("{key} notin ({})", values.join(","))),
            Some("Exists") => parts.push(key.to_owned()),
            Some("DoesNotExist") => parts.push(format!("!{key}")),
            _ => {}
        }
    }
    parts.sort();
    parts.join(",")
}

/// The object with what the client's answer may change of it.
pub(crate) fn merge(target: &Target, old: &Value, wanted: Value) -> Result<Value, ApiError> {
    let mut new = old.clone();
    match target.subresource.as_str() {
        // Strategies know what a status may change.
        "" | "status" | "binding" => return Ok(wanted),
        // Callers that go past the view give the whole object.
        "scale" if wanted["kind"] == target.descriptor.kind => return Ok(wanted),
        "scale" => {
            let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
            if replicas < 0 {
                return Err(ApiError::invalid(
                    "autoscaling",
                    "Scale",
                    &target.name,
                    &[FieldError {
                        reason: "FieldValueInvalid",
                        field: "spec.replicas".into(),
                        body: format!("Invalid value: {replicas}: must be greater than or equal to 0"),
                    }],
                ));
            }
            if let Some(definition) = &target.descriptor.definition {
                definition.set_replicas(&mut new, replicas).map_err(ApiError::bad_request)?;
            } else {
                new["spec"]["replicas"] = replicas.into();
            }
            set_meta(&mut new, "resourceVersion", wanted.pointer("/metadata/resourceVersion").cloned());
        }
        "finalize" => {
            new["spec"]["finalizers"] = wanted["spec"]["finalizers"].clone();
            if new["spec"]["finalizers"].is_null() {
                new["spec"] = json!({});
            }
        }
        "approval" => {
            let (conditions, certificate) =
                (wanted["status"]["conditions"].clone(), old["status"]["certificate"].clone());
            new["status"] = json!({});
            for (field, value) in [("conditions", conditions), ("certificate", certificate)] {
                if !value.is_null() {
                    new["status"][field] = value;
                }
            }
        }
        "ephemeralcontainers" => new["spec"]["ephemeralContainers"] = wanted["spec"]["ephemeralContainers"].clone(),
        "resize" => resize(&mut new, &wanted),
        other => {
            return Err(ApiError::method_not_allowed(
                &target.descriptor.group,
                &target.descriptor.plural,
                &format!("update of {other}"),
            ));
        }
    }
    if target.subresource != "scale" {
        set_meta(&mut new, "resourceVersion", wanted.pointer("/metadata/resourceVersion").cloned());
        set_meta(&mut new, "managedFields", wanted.pointer("/metadata/managedFields").cloned());
    }
    Ok(new)
}

/// Resources and resize policies of the containers of the same names.
fn resize(pod: &mut Value, wanted: &Value) {
    for field in ["containers", "initContainers"] {
        for container in pod["spec"][field].as_array_mut().into_iter().flatten() {
            let same = wanted["spec"][field].as_array().into_iter().flatten().find(|c| c["name"] == container["name"]);
            if let Some(same) = same {
                container["resources"] = same["resources"].clone();
            }
        }
    }
}

/// Binds a pod to a node: the pod as it is to be, from a `Binding`.
pub(crate) fn bind(target: &Target, pod: &Value, binding: &Value, now: &str) -> Result<Value, ApiError> {
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Err(ApiError::invalid(
            "",
            "Binding",
            &target.name,
            &[FieldError { reason: "FieldValueRequired", field: "target.name".into(), body: "Required value".into() }],
        ));
    }
    if !meta(pod, "deletionTimestamp").is_empty() {
        return Err(target.conflict(&format!("pod {} is being deleted, cannot be assigned to a host", target.name)));
    }
    let bound = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if !bound.is_empty() {
        let why = format!("pod {} is already assigned to node {bound:?}", target.name);
        return Err(ApiError::conflict("", "pods/binding", &target.name, &why));
    }
    let uid = meta(binding, "uid");
    if !uid.is_empty() && uid != meta(pod, "uid") {
        return Err(target.conflict(&format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            meta(pod, "uid")
        )));
    }
    let mut new = pod.clone();
    new["spec"]["nodeName"] = node.into();
    for field in ["annotations", "labels"] {
        for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
            if !new["metadata"][field].is_object() {
                new["metadata"][field] = json!({});
            }
            new["metadata"][field][key] = value.clone();
        }
    }
    let scheduled =
        json!({ "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now });
    match new["status"]["conditions"].as_array_mut() {
        Some(conditions) => {
            conditions.retain(|c| c["type"] != "PodScheduled");
            conditions.push(scheduled);
        }
        None => new["status"]["conditions"] = json!([scheduled]),
    }
    Ok(new)
}
