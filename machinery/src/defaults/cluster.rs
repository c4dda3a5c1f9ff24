//! Services, volumes, RBAC and the configuration of the cluster itself.

use serde_json::{Value, json};

use super::{
    fill::{Fields, ensure, has, items, object, set, set_number, text},
    pod,
};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn service(fields: &mut Fields) {
    if let Some(spec) = ensure(fields, "spec") {
        set(spec, "sessionAffinity", "None");
        set(spec, "type", "ClusterIP");
        match text(spec, "sessionAffinity") {
            "ClientIP" => {
                if let Some(ip) = ensure(spec, "sessionAffinityConfig").and_then(|config| ensure(config, "clientIP")) {
                    set(ip, "timeoutSeconds", 10800);
                }
            }
            _ => {
                spec.remove("sessionAffinityConfig");
            }
        }
        for port in items(spec, "ports") {
            set(port, "protocol", "TCP");
            let unset = match port.get("targetPort") {
                None | Some(Value::Null) => true,
                Some(Value::String(text)) => text.is_empty(),
                Some(value) => value.as_i64() == Some(0),
            };
            if let (true, Some(number)) = (unset, port.get("port").cloned()) {
                port.insert("targetPort".into(), number);
            }
        }
        let kind = text(spec, "type").to_owned();
        let external_ips = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|l| !l.is_empty());
        if matches!(&*kind, "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && external_ips) {
            set(spec, "externalTrafficPolicy", "Cluster");
        }
        if matches!(&*kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
            set(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            set(spec, "allocateLoadBalancerNodePorts", true);
        }
    }
    if let Some(status) = ensure(fields, "status") {
        ensure(status, "loadBalancer");
    }
}

pub(super) fn secret(fields: &mut Fields) {
    set(fields, "type", "Opaque");
}

pub(super) fn namespace(fields: &mut Fields) {
    // The label tells selectors a namespace's name; a name that is still to be generated comes in the second pass.
    if let Some(metadata) = object(fields, "metadata") {
        let name = text(metadata, "name").to_owned();
        if !name.is_empty()
            && let Some(labels) = ensure(metadata, "labels")
        {
            labels.insert("kubernetes.io/metadata.name".into(), name.into());
        }
    }
    ensure(fields, "spec");
    if let Some(status) = ensure(fields, "status") {
        set(status, "phase", "Active");
    }
}

pub(super) fn node(fields: &mut Fields) {
    ensure(fields, "spec");
    if let Some(status) = ensure(fields, "status")
        && let Some(capacity) = status.get("capacity").filter(|c| c.is_object()).cloned()
    {
        set(status, "allocatable", capacity);
    }
}

pub(super) fn endpoints(fields: &mut Fields) {
    for subset in items(fields, "subsets") {
        for port in items(subset, "ports") {
            set(port, "protocol", "TCP");
        }
    }
}

pub(super) fn endpoint_slice(fields: &mut Fields) {
    for port in items(fields, "ports") {
        if !has(port, "name") {
            port.insert("name".into(), "".into());
        }
        set(port, "protocol", "TCP");
    }
}

pub(super) fn persistent_volume(fields: &mut Fields) {
    if let Some(spec) = ensure(fields, "spec") {
        set(spec, "persistentVolumeReclaimPolicy", "Retain");
        set(spec, "volumeMode", "Filesystem");
        pod::volume_source(spec);
    }
    if let Some(status) = ensure(fields, "status") {
        set(status, "phase", "Pending");
    }
}

pub(super) fn limit_range(fields: &mut Fields) {
    let Some(spec) = ensure(fields, "spec") else { return };
    for item in items(spec, "limits").filter(|i| text(i, "type") == "Container") {
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let Some(values) = item.get(from).and_then(Value::as_object).cloned().filter(|v| !v.is_empty()) else {
                continue;
            };
            if let Some(target) = ensure(item, to) {
                for (name, quantity) in values {
                    set(target, &name, quantity);
                }
            }
        }
    }
}

pub(super) fn network_policy(fields: &mut Fields) {
    let Some(spec) = ensure(fields, "spec") else { return };
    ensure(spec, "podSelector");
    for direction in ["ingress", "egress"] {
        for rule in items(spec, direction) {
            for port in items(rule, "ports") {
                set(port, "protocol", "TCP");
            }
        }
    }
    if spec.get("policyTypes").is_none_or(|t| t.as_array().is_none_or(Vec::is_empty)) {
        let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|e| !e.is_empty());
        spec.insert("policyTypes".into(), if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    }
}

pub(super) fn ingress_class(fields: &mut Fields) {
    if let Some(parameters) = object(fields, "spec").and_then(|spec| object(spec, "parameters")) {
        set(parameters, "scope", "Cluster");
    }
}

pub(super) fn binding(fields: &mut Fields) {
    if let Some(role) = object(fields, "roleRef") {
        set(role, "apiGroup", RBAC);
    }
    for subject in items(fields, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            set(subject, "apiGroup", RBAC);
        }
    }
}

pub(super) fn storage_class(fields: &mut Fields) {
    set(fields, "reclaimPolicy", "Delete");
    set(fields, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(fields: &mut Fields) {
    let Some(spec) = ensure(fields, "spec") else { return };
    set(spec, "attachRequired", true);
    for name in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        set(spec, name, false);
    }
    set(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec.get("volumeLifecycleModes").is_none_or(|m| m.as_array().is_none_or(Vec::is_empty)) {
        spec.insert("volumeLifecycleModes".into(), json!(["Persistent"]));
    }
}

pub(super) fn priority_class(fields: &mut Fields) {
    set(fields, "preemptionPolicy", "PreemptLowerPriority");
}

fn service_port(config: Option<&mut Fields>) {
    if let Some(service) = config.and_then(|c| object(c, "service")) {
        set_number(service, "port", 443);
    }
}

pub(super) fn webhooks(fields: &mut Fields, mutating: bool) {
    for hook in items(fields, "webhooks") {
        set(hook, "failurePolicy", "Fail");
        set(hook, "matchPolicy", "Equivalent");
        ensure(hook, "namespaceSelector");
        ensure(hook, "objectSelector");
        set(hook, "timeoutSeconds", 10);
        if mutating {
            set(hook, "reinvocationPolicy", "Never");
        }
        for rule in items(hook, "rules") {
            set(rule, "scope", "*");
        }
        service_port(object(hook, "clientConfig"));
    }
}

pub(super) fn admission_policy(fields: &mut Fields) {
    let Some(spec) = ensure(fields, "spec") else { return };
    set(spec, "failurePolicy", "Fail");
    match_resources(object(spec, "matchConstraints"));
}

pub(super) fn admission_policy_binding(fields: &mut Fields) {
    match_resources(ensure(fields, "spec").and_then(|spec| object(spec, "matchResources")));
}

fn match_resources(matching: Option<&mut Fields>) {
    if let Some(matching) = matching {
        set(matching, "matchPolicy", "Equivalent");
        ensure(matching, "namespaceSelector");
        ensure(matching, "objectSelector");
        for list in ["resourceRules", "excludeResourceRules"] {
            for rule in items(matching, list) {
                set(rule, "scope", "*");
            }
        }
    }
}

pub(super) fn definition(fields: &mut Fields) {
    let Some(spec) = ensure(fields, "spec") else { return };
    if let Some(names) = ensure(spec, "names") {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            set(names, "singular", kind.to_lowercase());
            set(names, "listKind", format!("{kind}List"));
        }
    }
    if let Some(conversion) = ensure(spec, "conversion") {
        set(conversion, "strategy", "None");
        service_port(object(conversion, "webhook").and_then(|w| object(w, "clientConfig")));
    }
}

pub(super) fn api_service(fields: &mut Fields) {
    service_port(object(fields, "spec"));
}
