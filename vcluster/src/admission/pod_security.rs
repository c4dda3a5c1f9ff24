//! PodSecurity: the Pod Security Standards, chosen per namespace by labels. What violates the enforced level is refused; what violates
//! the level to warn of is warned of, and what violates the level to audit is noted in the audit trail, for pods and for
//! workloads' templates. Source of rules and texts: `k8s.io/pod-security-admission`.

mod checks;

use std::collections::BTreeMap;

use serde_json::Value;
use vctl_machinery::{status::ApiError, validate::FieldError};

use crate::{
    document::meta,
    objects::{Call, Target},
};

const LABEL: &str = "pod-security.kubernetes.io/";
/// Pods that are looked at when a namespace's level rises.
const MAX_PODS: usize = 3000;

/// How strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// Which minor version's rules; none is the latest.
type Version = Option<u32>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standard {
    level: Level,
    version: Version,
}

impl std::fmt::Display for Standard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Some(minor) => write!(f, "{level}:v1.{minor}"),
            None => write!(f, "{level}:latest"),
        }
    }
}

const PRIVILEGED: Standard = Standard { level: Level::Privileged, version: None };

/// What a namespace asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Policy {
    enforce: Standard,
    audit: Standard,
    warn: Standard,
}

fn level(text: &str) -> Option<Level> {
    Some(match text {
        "privileged" => Level::Privileged,
        "baseline" => Level::Baseline,
        "restricted" => Level::Restricted,
        _ => return None,
    })
}

fn version(text: &str) -> Option<Version> {
    if text == "latest" {
        return Some(None);
    }
    let minor = text.strip_prefix("v1.")?;
    let plain = minor.bytes().all(|b| b.is_ascii_digit()) && (minor == "0" || !minor.starts_with('0'));
    if plain { minor.parse().ok().map(Some) } else { None }
}

/// The policy of a namespace's labels, and what is wrong with them. A level to enforce that is none is taken for the strictest.
fn policy(namespace: &Value) -> (Policy, Vec<FieldError>) {
    let labels = namespace.pointer("/metadata/labels");
    let label = |name: &str| labels.and_then(|l| l.get(format!("{LABEL}{name}"))).and_then(Value::as_str);
    let mut errors = Vec::new();
    let mut wrong = |name: &str, text: &str, why: &str| {
        errors.push(FieldError {
            reason: "FieldValueInvalid",
            field: format!("metadata.labels[{LABEL}{name}]"),
            body: format!("Invalid value: {text:?}: {why}"),
        });
    };
    let mut standards = [PRIVILEGED; 3];
    let mut valid_enforce = false;
    for (i, mode) in ["enforce", "audit", "warn"].into_iter().enumerate() {
        if let Some(text) = label(mode) {
            let read = level(text);
            if read.is_none() {
                wrong(mode, text, "must be one of privileged, baseline, restricted");
            }
            valid_enforce |= i == 0 && read.is_some();
            standards[i].level = read.unwrap_or(if i == 0 { Level::Restricted } else { Level::Privileged });
        }
        let name = format!("{mode}-version");
        if let Some(text) = label(&name) {
            let read = version(text);
            if read.is_none() {
                wrong(&name, text, "must be \"latest\" or \"v1.x\"");
            }
            standards[i].version = read.flatten();
        }
    }
    let [enforce, audit, mut warn] = standards;
    if label("warn").is_none() && valid_enforce && enforce.level > warn.level {
        warn.level = enforce.level;
        if label("warn-version").is_none() {
            warn.version = enforce.version;
        }
    }
    (Policy { enforce, audit, warn }, errors)
}

/// Where the pod is in an object of a kind: its metadata and spec are here.
fn template(target: &Target) -> Option<&'static str> {
    Some(match (&*target.descriptor.group, &*target.descriptor.plural) {
        ("", "pods") => "",
        ("", "podtemplates") => "/template",
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => "/spec/template",
        ("batch", "cronjobs") => "/spec/jobTemplate/spec/template",
        _ => return None,
    })
}

/// Refuses or warns. `old` is the object before an update.
pub(super) async fn check(call: &Call, target: &Target, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
    if target.is("", "namespaces") {
        return if target.subresource.is_empty() { namespace(call, target, old, new).await } else { Ok(()) };
    }
    let Some(at) = template(target) else { return Ok(()) };
    let is_pod = at.is_empty();
    let subresource = target.subresource.as_str();
    let ignored = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];
    if (is_pod && ignored.contains(&subresource)) || (!is_pod && !subresource.is_empty()) {
        return Ok(());
    }
    let Some(pod) = new.pointer(at).filter(|p| p.is_object()) else { return Ok(()) };
    if is_pod && old.is_some_and(|old| !is_significant(old, new)) {
        return Ok(());
    }
    let Some(namespace) = call.plane.object("namespaces", "", &target.namespace).await? else { return Ok(()) };
    let (policy, _) = policy(&namespace);
    if is_pod {
        if call.audit.is_some() {
            call.annotate("pod-security.kubernetes.io/enforce-policy", &policy.enforce.to_string());
        }
        let violations = checks::violations(pod, policy.enforce);
        if !violations.is_empty() {
            let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&violations));
            return Err(target.forbidden(super::name_of(new), &why));
        }
    }
    // Looked for only where it is noted.
    let audited = if call.audit.is_some() { checks::violations(pod, policy.audit) } else { Vec::new() };
    if !audited.is_empty() {
        let why = format!("would violate PodSecurity \"{}\": {}", policy.audit, details(&audited));
        call.annotate("pod-security.kubernetes.io/audit-violations", &why);
    }
    let violations = checks::violations(pod, policy.warn);
    if !violations.is_empty() {
        call.warn(format!("would violate PodSecurity \"{}\": {}", policy.warn, details(&violations)));
    }
    Ok(())
}

fn details(violations: &[checks::Violation]) -> String {
    let text = |v: &checks::Violation| {
        if v.detail.is_empty() { v.reason.to_owned() } else { format!("{} ({})", v.reason, v.detail) }
    };
    violations.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Whether an update changes what is checked: containers come or go, or their images change.
fn is_significant(old: &Value, new: &Value) -> bool {
    let list = |pod: &Value, field: &str| -> Vec<(Value, Value)> {
        let items = pod["spec"][field].as_array();
        items.into_iter().flatten().map(|c| (c["name"].clone(), c["image"].clone())).collect()
    };
    let images = |pod: &Value, field: &str| list(pod, field).into_iter().map(|(_, image)| image).collect::<Vec<_>>();
    let before = list(old, "ephemeralContainers");
    ["containers", "initContainers"].iter().any(|f| images(old, f) != images(new, f))
        || list(new, "ephemeralContainers").iter().any(|c| !before.contains(c))
}

/// Labels of a namespace must be valid, and whoever raises its level is told which pods are below it.
async fn namespace(call: &Call, target: &Target, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
    let (wanted, errors) = policy(new);
    let Some(old) = old else {
        return if errors.is_empty() { Ok(()) } else { Err(target.invalid(&errors)) };
    };
    let (before, old_errors) = policy(old);
    if !errors.is_empty() && errors != old_errors {
        return Err(target.invalid(&errors));
    }
    let relaxed = wanted.enforce.version == before.enforce.version && wanted.enforce.level <= before.enforce.level;
    if wanted.enforce == before.enforce || wanted.enforce.level == Level::Privileged || relaxed {
        return Ok(());
    }
    let pods = prioritized(call.plane.objects("pods", Some(&target.name)).await?);
    let checked = pods.len().min(MAX_PODS);
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in &pods[..checked] {
        let violations = checks::violations(pod, wanted.enforce);
        if !violations.is_empty() {
            let reasons: Vec<&str> = violations.iter().map(|v| v.reason).collect();
            found.entry(reasons.join(", ")).or_default().push(meta(pod, "name").to_owned());
        }
    }
    if checked < pods.len() {
        call.warn(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {} existing pods",
            pods.len()
        ));
    }
    if !found.is_empty() {
        call.warn(format!(
            "existing pods in namespace {:?} violate the new PodSecurity enforce level \"{}\"",
            target.name, wanted.enforce
        ));
    }
    let mut warnings: Vec<String> = found
        .into_iter()
        .map(|(reasons, mut pods)| {
            pods.sort();
            match pods.as_slice() {
                [one] => format!("{one}: {reasons}"),
                [one, _] => format!("{one} (and 1 other pod): {reasons}"),
                [one, rest @ ..] => format!("{one} (and {} other pods): {reasons}", rest.len()),
                [] => reasons,
            }
        })
        .collect();
    warnings.sort();
    for warning in warnings {
        call.warn(warning);
    }
    Ok(())
}

/// One pod of each controller first.
fn prioritized(pods: Vec<Value>) -> Vec<Value> {
    let mut seen = std::collections::HashSet::new();
    let (mut first, more): (Vec<Value>, Vec<Value>) = pods.into_iter().partition(|pod| {
        let owners = pod["metadata"]["ownerReferences"].as_array();
        match owners.into_iter().flatten().find(|o| o["controller"] == true) {
            Some(owner) => seen.insert(owner["uid"].as_str().unwrap_or_default().to_owned()),
            None => true,
        }
    });
    first.extend(more);
    first
}
