//! Pods and their templates. Source: upstream `pkg/apis/core/validation/validation.go`.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{At, Errors, port_name_errors, same};
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

/// The spec of a pod or template; `policies` are the restart policies that may be.
pub(super) fn spec(spec: &At<'_>, policies: &[&str], errors: &mut Errors) {
    let mut volumes = HashSet::new();
    for volume in spec.field("volumes").items() {
        let name = volume.field("name");
        errors.named(&name, names::dns_label_errors);
        if !name.is_empty() && !volumes.insert(name.text()) {
            errors.duplicate(&name);
        }
        let mut sources: Vec<&str> = volume
            .value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(k, v)| *k != "name" && !v.is_null())
            .map(|(k, _)| k.as_str())
            .collect();
        sources.sort_by_key(|s| SOURCES.iter().position(|known| known == s));
        match sources.as_slice() {
            [] => errors.required(&volume, "must specify a volume type"),
            [_, more @ ..] => {
                for source in more {
                    errors.forbidden(&volume.field(source), "may not specify more than 1 volume type");
                }
            }
        }
        let path = volume.field("hostPath");
        if path.exists() && path.field("path").is_empty() {
            errors.required(&path.field("path"), "");
        }
        for (source, field) in [("secret", "secretName"), ("persistentVolumeClaim", "claimName")] {
            let source = volume.field(source);
            if source.exists() && source.field(field).is_empty() {
                errors.required(&source.field(field), "");
            }
        }
    }
    let containers_at = spec.field("containers");
    if containers_at.is_empty() {
        errors.required(&containers_at, "");
    }
    let mut seen = HashSet::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for item in spec.field(list).items() {
            let name = item.field("name");
            if !name.is_empty() && !seen.insert(name.text()) {
                errors.duplicate(&name);
            }
            container(&item, &volumes, list, errors);
        }
    }
    errors.one_of(&spec.field("restartPolicy"), policies);
    errors.one_of(&spec.field("dnsPolicy"), &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]);
    errors.non_negative(&spec.field("terminationGracePeriodSeconds"));
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.value.as_i64().is_some_and(|n| !(1..=i64::from(i32::MAX)).contains(&n)) {
        errors.invalid(&deadline, "must be between 1 and 2147483647, inclusive");
    }
    if spec.field("dnsPolicy").text() == "None" {
        let config = spec.field("dnsConfig");
        if !config.exists() {
            errors.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
        } else if config.field("nameservers").is_empty() {
            errors.required(
                &config.field("nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            );
        }
    }
    super::security::pod(&spec.field("securityContext"), errors);
    errors.labels(&spec.field("nodeSelector"));
    errors.if_named(&spec.field("serviceAccountName"), names::dns_subdomain_errors);
    errors.if_named(&spec.field("nodeName"), names::dns_subdomain_errors);
    errors.if_named(&spec.field("hostname"), names::dns_label_errors);
    errors.if_named(&spec.field("subdomain"), names::dns_label_errors);
    for toleration in spec.field("tolerations").items() {
        let (key, operator) = (toleration.field("key"), toleration.field("operator"));
        errors.if_named(&key, names::qualified_name_errors);
        if key.is_empty() && operator.text() != "Exists" {
            errors.invalid(
                &operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if operator.text() == "Exists" && !toleration.field("value").is_empty() {
            errors.invalid(&operator, "value must be empty when `operator` is 'Exists'");
        }
        let effect = toleration.field("effect");
        if !effect.is_empty() {
            errors.if_set_one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
    }
}

fn container(container: &At<'_>, volumes: &HashSet<&str>, list: &str, errors: &mut Errors) {
    errors.named(&container.field("name"), names::dns_label_errors);
    let image = container.field("image");
    if image.is_empty() {
        errors.required(&image, "");
    } else if image.text().trim() != image.text() {
        errors.invalid(&image, "must not have leading or trailing whitespace");
    }
    errors.one_of(&container.field("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    errors.if_set_one_of(&container.field("terminationMessagePolicy"), &["FallbackToLogsOnError", "File"]);
    let mut names_seen = HashSet::new();
    for port in container.field("ports").items() {
        let name = port.field("name");
        if !name.is_empty() {
            let wrong = port_name_errors(name.text());
            if wrong.is_empty() && !names_seen.insert(name.text()) {
                errors.duplicate(&name);
            }
            for why in wrong {
                errors.invalid(&name, &why);
            }
        }
        let number = port.field("containerPort");
        if number.value.as_i64().unwrap_or_default() == 0 {
            errors.required(&number, "");
        } else {
            errors.port(&number);
        }
        if port.field("hostPort").value.as_i64().unwrap_or_default() != 0 {
            errors.port(&port.field("hostPort"));
        }
        errors.one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"]);
    }
    for env in container.field("env").items() {
        let (name, value, source) = (env.field("name"), env.field("value"), env.field("valueFrom"));
        if name.is_empty() {
            errors.required(&name, "");
        } else if name.text().contains('=') || !name.text().bytes().all(|b| (0x20..0x7f).contains(&b)) {
            errors.invalid(
                &name,
                "a valid environment variable name must consist only of printable ASCII characters other than '='",
            );
        }
        if source.exists() {
            let given = source.value.as_object().map_or(0, |m| m.values().filter(|v| !v.is_null()).count());
            if !value.is_empty() {
                errors.invalid_value(&source, "", "may not be specified when `value` is not empty");
            } else if given == 0 {
                errors.invalid_value(&source, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`");
            } else if given > 1 {
                errors.invalid_value(&source, "", "may not have more than one field specified at a time");
            }
        }
    }
    let mut mounts = HashSet::new();
    for mount in container.field("volumeMounts").items() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        if name.is_empty() {
            errors.required(&name, "");
        } else if !volumes.contains(name.text()) {
            errors.not_found(&name);
        }
        if path.is_empty() {
            errors.required(&path, "");
        } else if !mounts.insert(path.text()) {
            errors.invalid(&path, "must be unique");
        }
    }
    resources(&container.field("resources"), errors);
    super::security::container(&container.field("securityContext"), errors);
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(name);
        if !probe.exists() {
            continue;
        }
        let restartable = container.field("restartPolicy").text() == "Always";
        if list == "ephemeralContainers" || (list == "initContainers" && !restartable) {
            errors.forbidden(&probe, "may not be set for init containers without restartPolicy=Always");
            continue;
        }
        handler(&probe, errors);
        for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            errors.non_negative(&probe.field(field));
        }
        if name != "readinessProbe" && probe.field("successThreshold").value.as_i64().unwrap_or(1) != 1 {
            errors.invalid(&probe.field("successThreshold"), "must be 1");
        }
    }
    let lifecycle = container.field("lifecycle");
    for name in ["postStart", "preStop"] {
        if lifecycle.field(name).exists() {
            handler(&lifecycle.field(name), errors);
        }
    }
}

fn handler(handler: &At<'_>, errors: &mut Errors) {
    let mut count = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = handler.field(kind);
        if !action.exists() {
            continue;
        }
        count += 1;
        if count > 1 {
            errors.forbidden(&action, "may not specify more than 1 handler type");
        } else if kind == "exec" && action.field("command").is_empty() {
            errors.required(&action.field("command"), "");
        } else if matches!(kind, "httpGet" | "tcpSocket") {
            errors.port_or_name(&action.field("port"));
        }
    }
    if count == 0 {
        errors.required(handler, "must specify a handler type");
    }
}

/// Limits and requests.
pub(super) fn resources(resources: &At<'_>, errors: &mut Errors) {
    let limits = resources.field("limits");
    for map in [&limits, &resources.field("requests")] {
        for (name, amount) in map.entries() {
            for why in names::qualified_name_errors(name) {
                errors.invalid_value(&amount, name, &why);
            }
            let standard = matches!(&**name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
            if !name.contains('/') && !standard {
                errors.invalid_value(&amount, name, "must be a standard resource type or fully qualified");
                errors.invalid_value(&amount, name, "must be a standard resource for containers");
            }
            errors.quantity(&amount);
        }
    }
    let read = |v: &Value| match v {
        Value::String(text) => quantity::parse(text),
        Value::Number(number) => quantity::parse(&number.to_string()),
        _ => None,
    };
    let requests = resources.field("requests");
    for (name, request) in requests.entries() {
        let Some(limit) = limits.value.get(name) else { continue };
        if let (Some(wanted), Some(most)) = (read(request.value), read(limit))
            && wanted > most
        {
            let shown = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
            let at = At { value: request.value, path: requests.path.clone() };
            errors.invalid(&at, &format!("must be less than or equal to {name} limit of {shown}"));
        }
    }
}

const MUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What must not change in a pod that exists.
pub(super) fn update(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (new, old) = (new.field("spec"), old.field("spec"));
    for list in ["containers", "initContainers"] {
        let count = |spec: &At<'_>| spec.field(list).items().count();
        if count(&new) != count(&old) {
            errors.forbidden(&new.field(list), "pod updates may not add or remove containers");
            return;
        }
    }
    for (before, after) in old.field("tolerations").items().zip(new.field("tolerations").items()) {
        if before.field("key").value != after.field("key").value {
            errors.forbidden(
                &new.field("tolerations"),
                "existing toleration can not be modified except its tolerationSeconds",
            );
            return;
        }
    }
    let mut munged = new.value.clone();
    let Some(fields) = munged.as_object_mut() else { return };
    let mut keep = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if old.field("terminationGracePeriodSeconds").value.as_i64().is_some_and(|n| n < 0) {
        keep.push("terminationGracePeriodSeconds");
    }
    if !old.field("schedulingGates").is_empty() {
        keep.extend(["nodeSelector", "affinity"]);
    }
    for key in keep {
        fields.insert(key.to_owned(), old.field(key).value.clone());
    }
    for list in ["containers", "initContainers"] {
        let olds = old.field(list);
        let items = fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (item, before) in items.zip(olds.items()) {
            if let Some(item) = item.as_object_mut() {
                item.insert("image".into(), before.field("image").value.clone());
            }
        }
    }
    if !same(&munged, old.value) {
        errors.forbidden(&new, MUTABLE);
    }
}
