//! Pods and their templates. Source: upstream `pkg/apis/core/validation/validation.go`.

use core::net::IpAddr;
use std::collections::HashSet;

use serde_json::Value;

use super::{
    check::{At, Errors, port_name_errors, same},
    placement::placement,
    resources, volume,
};
use crate::names;

/// Of a pod's own resolver configuration.
const MOST_NAMESERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;

/// The spec of a pod or template; `policies` are the restart policies that may be.
pub(super) fn spec(spec: &At<'_>, policies: &[&str], errors: &mut Errors) {
    let volumes = volume::volumes(&spec.field("volumes"), errors);
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
    resources::whole_pod(spec, errors);
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
    placement(spec, errors);
    details(spec, errors);
}

/// Names, addresses and switches of a pod.
fn details(spec: &At<'_>, errors: &mut Errors) {
    errors.if_named(&spec.field("serviceAccountName"), names::dns_subdomain_errors);
    errors.if_named(&spec.field("nodeName"), names::dns_subdomain_errors);
    errors.if_named(&spec.field("hostname"), names::dns_label_errors);
    errors.if_named(&spec.field("subdomain"), names::dns_label_errors);
    errors.if_named(&spec.field("runtimeClassName"), names::dns_subdomain_errors);
    for alias in spec.field("hostAliases").items() {
        let ip = alias.field("ip");
        if ip.text().parse::<IpAddr>().is_err() {
            errors.invalid(&ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
        for name in alias.field("hostnames").items() {
            for why in names::dns_subdomain_errors(name.text()) {
                errors.invalid(&name, &why);
            }
        }
    }
    for gate in spec.field("readinessGates").items() {
        let kind = gate.field("conditionType");
        for why in names::qualified_name_errors(kind.text()) {
            errors.invalid(&kind, &why);
        }
    }
    for secret in spec.field("imagePullSecrets").items() {
        if secret.field("name").is_empty() {
            errors.required(&secret.field("name"), "");
        }
    }
    let both =
        |a: &str, b: &str| spec.field(a).value == &Value::Bool(true) && spec.field(b).value == &Value::Bool(true);
    if both("shareProcessNamespace", "hostPID") {
        errors
            .invalid(&spec.field("shareProcessNamespace"), "ShareProcessNamespace and HostPID cannot both be enabled");
    }
    let os = spec.field("os");
    if os.exists() {
        errors.one_of(&os.field("name"), &["linux", "windows"]);
    }
    let config = spec.field("dnsConfig");
    let (servers, searches) = (config.field("nameservers"), config.field("searches"));
    if servers.items().count() > MOST_NAMESERVERS {
        errors.invalid(&servers, &format!("must not have more than {MOST_NAMESERVERS} nameservers"));
    }
    for server in servers.items().filter(|s| s.text().parse::<IpAddr>().is_err()) {
        errors.invalid(&server, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
    if searches.items().count() > MOST_SEARCHES {
        errors.invalid(&searches, &format!("must not have more than {MOST_SEARCHES} search paths"));
    }
    for option in config.field("options").items() {
        if option.field("name").is_empty() {
            errors.required(&option.field("name"), "must not be empty");
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
    environment(container, errors);
    mounts(container, volumes, errors);
    resources::container(&container.field("resources"), errors);
    super::security::container(&container.field("securityContext"), errors);
    hooks(container, list, errors);
}

fn environment(container: &At<'_>, errors: &mut Errors) {
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
        if !source.exists() {
            continue;
        }
        for (kind, at) in source.entries().filter(|(_, at)| at.exists()) {
            let at = At { value: at.value, path: format!("{}.{kind}", source.path) };
            match kind.as_str() {
                "fieldRef" => volume::field_ref(&at, volume::ENV_FIELDS, errors),
                "resourceFieldRef" => volume::resource_field_ref(&at, false, errors),
                "configMapKeyRef" | "secretKeyRef" => volume::key_selector(&at, errors),
                _ => {}
            }
        }
        let given = source.entries().filter(|(_, at)| at.exists()).count();
        if given == 0 {
            errors.invalid_value(
                &source,
                "",
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            );
        } else if !value.is_empty() {
            errors.invalid_value(&source, "", "may not be specified when `value` is not empty");
        } else if given > 1 {
            errors.invalid_value(&source, "", "may not have more than one field specified at a time");
        }
    }
    for from in container.field("envFrom").items() {
        let sources = ["configMapRef", "secretRef"].map(|s| from.field(s));
        let given = sources.iter().filter(|s| s.exists()).count();
        for source in sources.iter().filter(|s| s.exists() && s.field("name").is_empty()) {
            errors.required(&source.field("name"), "");
        }
        if given == 0 {
            errors.invalid_value(&from, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if given > 1 {
            errors.invalid_value(&from, "", "may not have more than one field specified at a time");
        }
    }
}

fn mounts(container: &At<'_>, volumes: &HashSet<&str>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for mount in container.field("volumeMounts").items() {
        used(&mount, "mountPath", "must be unique", volumes, &mut seen, errors);
        for field in ["subPath", "subPathExpr"] {
            volume::local_descending_path(&mount.field(field), errors);
        }
        if !mount.field("subPath").is_empty() && !mount.field("subPathExpr").is_empty() {
            errors.invalid(&mount.field("subPathExpr"), "subPathExpr and subPath are mutually exclusive");
        }
        let propagation = ["Bidirectional", "HostToContainer", "None"];
        errors.if_set_one_of(&mount.field("mountPropagation"), &propagation);
    }
    for device in container.field("volumeDevices").items() {
        used(&device, "devicePath", "must not already exist in volumeMounts", volumes, &mut seen, errors);
    }
}

/// The volume that a container uses, and where: `seen` are the places that are taken, `taken` is what to say of one of them.
fn used<'v>(
    at: &At<'v>,
    place: &str,
    taken: &str,
    volumes: &HashSet<&str>,
    seen: &mut HashSet<&'v str>,
    errors: &mut Errors,
) {
    let (name, path) = (at.field("name"), at.field(place));
    if name.is_empty() {
        errors.required(&name, "");
    } else if !volumes.contains(name.text()) {
        errors.not_found(&name);
    }
    if path.is_empty() {
        errors.required(&path, "");
    } else if !seen.insert(path.text()) {
        errors.invalid(&path, taken);
    }
}

/// Probes and lifecycle.
fn hooks(container: &At<'_>, list: &str, errors: &mut Errors) {
    if list == "ephemeralContainers" {
        for field in ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources"] {
            if !container.field(field).is_empty() {
                errors.forbidden(&container.field(field), "cannot be set for an Ephemeral Container");
            }
        }
        return;
    }
    let plain_init = list == "initContainers" && container.field("restartPolicy").text() != "Always";
    for name in ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
        let at = container.field(name);
        if plain_init && at.exists() {
            errors.forbidden(&at, "may not be set for init containers without restartPolicy=Always");
        } else if at.exists() && name == "lifecycle" {
            for name in ["postStart", "preStop"].iter().filter(|n| at.field(n).exists()) {
                handler(&at.field(name), errors);
            }
        } else if at.exists() {
            probe(name, &at, errors);
        }
    }
}

fn probe(name: &str, probe: &At<'_>, errors: &mut Errors) {
    handler(probe, errors);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        errors.non_negative(&probe.field(field));
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if name == "readinessProbe" {
        if grace.exists() {
            errors.invalid(&grace, "must not be set for readinessProbes");
        }
        return;
    }
    errors.positive(&grace);
    if probe.field("successThreshold").value.as_i64().unwrap_or(1) != 1 {
        errors.invalid(&probe.field("successThreshold"), "must be 1");
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
            continue;
        }
        match kind {
            "exec" if action.field("command").is_empty() => errors.required(&action.field("command"), ""),
            "httpGet" => {
                if action.field("path").is_empty() {
                    errors.required(&action.field("path"), "");
                }
                errors.port_or_name(&action.field("port"));
                errors.if_set_one_of(&action.field("scheme"), &["HTTP", "HTTPS"]);
            }
            "tcpSocket" => errors.port_or_name(&action.field("port")),
            "grpc" => errors.port(&action.field("port")),
            "sleep" => errors.non_negative(&action.field("seconds")),
            _ => {}
        }
    }
    if count == 0 {
        errors.required(handler, "must specify a handler type");
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
