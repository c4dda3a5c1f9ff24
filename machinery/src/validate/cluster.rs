//! Services, configuration, storage, RBAC and the rest.

use std::{collections::HashSet, net::IpAddr};

use serde_json::Value;

use super::check::{At, Errors, same};
use crate::{catalog::Descriptor, names};

pub(super) fn common(descriptor: &Descriptor, object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("", "services") => service(&spec, errors),
        ("", "configmaps") => {
            data(object, errors);
            super::secret::config_map(object, errors);
        }
        ("", "secrets") => {
            data(object, errors);
            super::secret::secret(object, errors);
        }
        ("", "persistentvolumeclaims") => {
            modes(&spec, errors);
            let storage = spec.field("resources").field("requests").field("storage");
            if storage.exists() {
                errors.quantity(&storage);
            } else {
                let at = At { value: storage.value, path: "spec.resources[storage]".into() };
                errors.required(&at, "");
            }
        }
        ("", "persistentvolumes") => {
            modes(&spec, errors);
            if spec.field("capacity").is_empty() {
                errors.required(&spec.field("capacity"), "");
            }
            errors.if_set_one_of(&spec.field("persistentVolumeReclaimPolicy"), &["Delete", "Recycle", "Retain"]);
        }
        ("", "resourcequotas") => {
            for (_, amount) in spec.field("hard").entries() {
                errors.quantity(&amount);
            }
        }
        ("", "limitranges") => {
            for item in spec.field("limits").items() {
                for map in ["min", "max", "default", "defaultRequest"] {
                    for (_, amount) in item.field(map).entries() {
                        errors.quantity(&amount);
                    }
                }
            }
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
            errors.non_negative(&spec.field("minAvailable"));
            errors.non_negative(&spec.field("maxUnavailable"));
            errors.selector(&spec.field("selector"));
        }
        ("autoscaling", "horizontalpodautoscalers") => {
            let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
            if min.value.as_i64().is_some_and(|n| n < 1) {
                errors.invalid(&min, "must be greater than or equal to 1");
            }
            if max.value.as_i64().is_none_or(|n| n < 1) {
                errors.invalid(&max, "must be greater than 0");
            } else if min.value.as_i64() > max.value.as_i64() {
                errors.invalid(&max, "must be greater than or equal to `minReplicas`");
            }
            for field in ["kind", "name"] {
                if spec.field("scaleTargetRef").field(field).is_empty() {
                    errors.required(&spec.field("scaleTargetRef").field(field), "");
                }
            }
        }
        ("networking.k8s.io", "ingresses") => {
            if spec.field("rules").is_empty() && !spec.field("defaultBackend").exists() {
                errors.invalid(&spec, "either `defaultBackend` or `rules` must be specified");
            }
            for rule in spec.field("rules").items() {
                let host = rule.field("host");
                if host.text().parse::<IpAddr>().is_ok() {
                    errors.invalid(&host, "must be a DNS name, not an IP address");
                } else {
                    let bare = host.text().strip_prefix("*.").unwrap_or(host.text());
                    if !bare.is_empty() {
                        for why in names::dns_subdomain_errors(bare) {
                            errors.invalid(&host, &why);
                        }
                    }
                }
                for path in rule.field("http").field("paths").items() {
                    let kind = path.field("pathType");
                    if !kind.exists() {
                        errors.required(&kind, "pathType must be specified");
                    } else {
                        errors.if_set_one_of(&kind, &["Exact", "ImplementationSpecific", "Prefix"]);
                    }
                    let text = path.field("path");
                    if kind.text() != "ImplementationSpecific" && !text.text().starts_with('/') {
                        errors.invalid(&text, "must be an absolute path");
                    }
                }
            }
        }
        ("networking.k8s.io", "networkpolicies") => {
            errors.selector(&spec.field("podSelector"));
            for kind in spec.field("policyTypes").items() {
                errors.if_set_one_of(&kind, &["Egress", "Ingress"]);
            }
        }
        ("storage.k8s.io", "storageclasses") => {
            let provisioner = object.field("provisioner");
            if provisioner.is_empty() {
                errors.required(&provisioner, "");
            }
            errors.if_set_one_of(&object.field("reclaimPolicy"), &["Delete", "Retain"]);
            errors.if_set_one_of(&object.field("volumeBindingMode"), &["Immediate", "WaitForFirstConsumer"]);
        }
        ("discovery.k8s.io", "endpointslices") => {
            errors.one_of(&object.field("addressType"), &["FQDN", "IPv4", "IPv6"]);
            for endpoint in object.field("endpoints").items() {
                if endpoint.field("addresses").is_empty() {
                    errors.required(&endpoint.field("addresses"), "must contain at least 1 address");
                }
            }
        }
        ("coordination.k8s.io", "leases") => {
            errors.positive(&spec.field("leaseDurationSeconds"));
            errors.non_negative(&spec.field("leaseTransitions"));
        }
        _ => {}
    }
}

fn modes(spec: &At<'_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.required(&modes, "at least 1 access mode is required");
    }
    for mode in modes.items() {
        let at = At { value: mode.value, path: modes.path.clone() };
        errors.if_set_one_of(&at, &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]);
    }
}

fn data(object: &At<'_>, errors: &mut Errors) {
    const MAX: usize = 1 << 20;
    let mut size = 0;
    for map in ["data", "binaryData"] {
        for (key, value) in object.field(map).entries() {
            size += value.text().len();
            let whole = key.len() <= 253 && !key.is_empty();
            if !whole
                || matches!(&**key, "." | "..")
                || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            {
                errors.invalid_value(
                    &value,
                    key,
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  \
                     or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                );
            }
        }
    }
    // Values of secrets are base64 here: three quarters of it count.
    let is_secret = object.value.get("kind").and_then(Value::as_str) == Some("Secret");
    if (if is_secret { size / 4 * 3 } else { size }) > MAX {
        errors.too_long(&At { value: object.value, path: if is_secret { "data" } else { "" }.into() }, MAX);
    }
}

fn service(spec: &At<'_>, errors: &mut Errors) {
    let kind = spec.field("type");
    errors.one_of(&kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    errors.one_of(&spec.field("sessionAffinity"), &["ClientIP", "None"]);
    errors.labels(&spec.field("selector"));
    let (ports, headless) = (spec.field("ports"), spec.field("clusterIP").text() == "None");
    if kind.text() == "ExternalName" {
        let name = spec.field("externalName");
        if name.is_empty() {
            errors.required(&name, "");
        } else {
            for why in names::dns_subdomain_errors(name.text().trim_end_matches('.')) {
                errors.invalid(&name, &why);
            }
        }
    } else if ports.is_empty() && !headless {
        errors.required(&ports, "");
    }
    let (mut seen, mut pairs) = (HashSet::new(), HashSet::new());
    let many = ports.items().count() > 1;
    for port in ports.items() {
        let (name, number, protocol) = (port.field("name"), port.field("port"), port.field("protocol"));
        if name.is_empty() {
            if many {
                errors.required(&name, "");
            }
        } else {
            errors.if_named(&name, names::dns_label_errors);
            if !seen.insert(name.text()) {
                errors.duplicate(&name);
            }
        }
        errors.port(&number);
        errors.one_of(&protocol, &["SCTP", "TCP", "UDP"]);
        if kind.text() != "ExternalName" {
            errors.port_or_name(&port.field("targetPort"));
        }
        if kind.text() == "ClusterIP" && port.field("nodePort").value.as_i64().unwrap_or(0) != 0 {
            errors.forbidden(&port.field("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
        if !pairs.insert((number.value.as_i64(), protocol.text())) {
            errors.duplicate(&port);
        }
    }
}

pub(super) fn update(descriptor: &Descriptor, new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, was) = (new.field("spec"), old.field("spec"));
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
        ("", "persistentvolumeclaims") => claim(&spec, &was, errors),
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

/// A claim keeps its spec: it may be bound (`volumeName`) and grow.
fn claim(spec: &At<'_>, was: &At<'_>, errors: &mut Errors) {
    let strip = |value: &Value, bound: bool| {
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("resources");
            fields.remove("volumeAttributesClassName");
            if !bound {
                fields.remove("volumeName");
            }
            // A default class may be filled in later.
            if was.field("storageClassName").value.is_null() {
                fields.remove("storageClassName");
            }
        }
        value
    };
    let bound = !was.field("volumeName").is_empty();
    if !same(&strip(spec.value, bound), &strip(was.value, bound)) {
        errors.forbidden(
            spec,
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
}
