//! Configuration, quotas, RBAC and the rest.

use serde_json::Value;

use super::{
    check::{At, Errors, config_key_errors, same},
    claim,
};
use crate::{catalog::Descriptor, names};

pub(super) fn common(descriptor: &Descriptor, object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("", "configmaps") => {
            data(object, errors);
            super::secret::config_map(object, errors);
        }
        ("", "secrets") => {
            data(object, errors);
            super::secret::secret(object, errors);
        }
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => {
            for rule in object.field("rules").items() {
                if rule.field("verbs").is_empty() {
                    errors.required(&rule.field("verbs"), "verbs must contain at least one value");
                }
                if !rule.field("nonResourceURLs").is_empty() {
                    if descriptor.namespaced {
                        errors.invalid(
                            &rule.field("nonResourceURLs"),
                            "namespaced rules cannot apply to non-resource URLs",
                        );
                    }
                    continue;
                }
                if rule.field("apiGroups").is_empty() {
                    errors.required(&rule.field("apiGroups"), "resource rules must supply at least one api group");
                }
                if rule.field("resources").is_empty() {
                    errors.required(&rule.field("resources"), "resource rules must supply at least one resource");
                }
            }
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            let role = object.field("roleRef");
            errors.if_set_one_of(&role.field("apiGroup"), &["rbac.authorization.k8s.io"]);
            let kinds: &[&str] = if descriptor.namespaced { &["ClusterRole", "Role"] } else { &["ClusterRole"] };
            errors.one_of(&role.field("kind"), kinds);
            errors.named(&role.field("name"), names::path_segment_errors);
            for subject in object.field("subjects").items() {
                errors.one_of(&subject.field("kind"), &["Group", "ServiceAccount", "User"]);
                if subject.field("name").is_empty() {
                    errors.required(&subject.field("name"), "");
                }
                let namespace = subject.field("namespace");
                if !descriptor.namespaced && subject.field("kind").text() == "ServiceAccount" && namespace.is_empty() {
                    errors.required(&namespace, "");
                }
            }
        }
        ("policy", "poddisruptionbudgets") => {
            if spec.field("minAvailable").exists() && spec.field("maxUnavailable").exists() {
                errors.invalid(&spec, "minAvailable and maxUnavailable cannot be both set");
            }
            for field in ["minAvailable", "maxUnavailable"].iter().filter(|f| spec.field(f).exists()) {
                super::workload::int_or_percent(&spec.field(field), errors);
            }
            errors.if_set_one_of(&spec.field("unhealthyPodEvictionPolicy"), &["AlwaysAllow", "IfHealthyBudget"]);
            errors.selector(&spec.field("selector"));
        }
        ("coordination.k8s.io", "leases") => {
            errors.positive(&spec.field("leaseDurationSeconds"));
            let holder = spec.field("holderIdentity");
            if holder.exists() && holder.is_empty() {
                errors.invalid(&holder, "must not be empty");
            }
            errors.non_negative(&spec.field("leaseTransitions"));
        }
        _ => {}
    }
}

fn data(object: &At<'_>, errors: &mut Errors) {
    const MAX: usize = 1 << 20;
    let mut size = 0;
    for map in ["data", "binaryData"] {
        for (key, value) in object.field(map).entries() {
            size += value.text().len();
            for why in config_key_errors(key) {
                errors.invalid_value(&value, key, &why);
            }
        }
    }
    // Values of secrets are base64 here: three quarters of it count.
    let is_secret = object.value.get("kind").and_then(Value::as_str) == Some("Secret");
    if (if is_secret { size / 4 * 3 } else { size }) > MAX {
        errors.too_long(&At { value: object.value, path: if is_secret { "data" } else { "" }.into() }, MAX);
    }
}

pub(super) fn update(descriptor: &Descriptor, new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("", "configmaps" | "secrets") => {
            if old.field("immutable").value == &Value::Bool(true) {
                if new.field("immutable").value != &Value::Bool(true) {
                    errors.forbidden(&new.field("immutable"), "field is immutable when `immutable` is set");
                }
                for field in ["data", "binaryData"] {
                    if !same(new.field(field).value, old.field(field).value) {
                        errors.forbidden(&new.field(field), "field is immutable when `immutable` is set");
                    }
                }
            }
            if descriptor.plural == "secrets" {
                errors.immutable(&new.field("type"), &old.field("type"));
            }
        }
        ("", "persistentvolumeclaims") => claim::update(new, old, errors),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings")
            if !same(new.field("roleRef").value, old.field("roleRef").value) =>
        {
            errors.invalid(&new.field("roleRef"), "cannot change roleRef");
        }
        ("storage.k8s.io", "storageclasses") => {
            for (field, what) in [
                ("parameters", "updates to parameters are forbidden."),
                ("provisioner", "updates to provisioner are forbidden."),
                ("reclaimPolicy", "updates to reclaimPolicy are forbidden."),
            ] {
                if !same(new.field(field).value, old.field(field).value) {
                    errors.forbidden(&new.field(field), what);
                }
            }
            errors.immutable(&new.field("volumeBindingMode"), &old.field("volumeBindingMode"));
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            if !same(new.field("value").value, old.field("value").value) {
                errors.forbidden(&new.field("value"), "may not be changed in an update.");
            }
            errors.immutable(&new.field("preemptionPolicy"), &old.field("preemptionPolicy"));
        }
        ("discovery.k8s.io", "endpointslices") => {
            errors.immutable(&new.field("addressType"), &old.field("addressType"))
        }
        _ => {}
    }
}
