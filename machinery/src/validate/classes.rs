//! Kinds of the cluster: classes and revisions.

use super::{
    check::{At, Errors, same},
    flow_control,
};
use crate::{catalog::Descriptor, names};

/// Values above are the system's (`scheduling.HighestUserDefinablePriority`).
const HIGHEST_PRIORITY: i64 = 1_000_000_000;

pub(super) fn common(descriptor: &Descriptor, object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("scheduling.k8s.io", "priorityclasses") => priority_class(object, errors),
        ("networking.k8s.io", "ingressclasses") => errors.named(&spec.field("controller"), |_| Vec::new()),
        ("node.k8s.io", "runtimeclasses") => errors.named(&object.field("handler"), names::dns_label_errors),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => flow_control::flow_schema(object, errors),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => flow_control::priority_level(object, errors),
        ("apps", "controllerrevisions") => {
            if !object.field("data").exists() {
                errors.required(&object.field("data"), "data is mandatory");
            }
            errors.non_negative(&object.field("revision"));
        }
        _ => {}
    }
}

pub(super) fn update(descriptor: &Descriptor, new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, was) = (new.field("spec"), old.field("spec"));
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("apps", "controllerrevisions") => errors.immutable(&new.field("data"), &old.field("data")),
        ("networking.k8s.io", "ingressclasses") => {
            errors.immutable(&spec.field("controller"), &was.field("controller"));
        }
        ("node.k8s.io", "runtimeclasses") => errors.immutable(&new.field("handler"), &old.field("handler")),
        ("storage.k8s.io", "csidrivers") => {
            // Upstream's path has a typo of its own.
            let at = At { value: spec.field("attachRequired").value, path: "spec.attachedRequired".into() };
            errors.immutable(&at, &was.field("attachRequired"));
            errors.immutable(&spec.field("volumeLifecycleModes"), &was.field("volumeLifecycleModes"));
        }
        _ => {}
    }
}

fn priority_class(object: &At<'_>, errors: &mut Errors) {
    let (name, value) = (object.field("metadata").field("name"), object.field("value"));
    if let Some(rest) = name.text().strip_prefix("system-") {
        if !matches!(rest, "cluster-critical" | "node-critical") {
            errors.forbidden(
                &name,
                &format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {} is not a known system \
                     priority class",
                    name.text()
                ),
            );
        }
    } else if value.value.as_i64().is_some_and(|n| n > HIGHEST_PRIORITY) {
        errors.forbidden(&value, &format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}"));
    }
    let policy = object.field("preemptionPolicy");
    errors.if_set_one_of(&policy, &["Never", "PreemptLowerPriority"]);
}

/// Ephemeral containers that are there stay as they are. Source: `ValidatePodEphemeralContainersUpdate`.
pub(super) fn ephemeral_containers(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let list = new.field("spec").field("ephemeralContainers");
    for before in old.field("spec").field("ephemeralContainers").items() {
        let name = before.field("name").text();
        match list.items().find(|c| c.field("name").text() == name) {
            None => errors.forbidden(&list, &format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(now) if !same(now.value, before.value) => {
                errors.forbidden(&list, &format!("existing ephemeral containers {name:?} may not be changed\n"));
            }
            Some(_) => {}
        }
    }
}
