//! Fields of a pod as text: `fieldRef` and `resourceFieldRef`.

use serde_json::Value;
use vctl_machinery::quantity;

use super::Context;
use crate::json::Json;

/// What a field reference gives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// Known here.
    Text(String),
    /// Known only on the worker: a field path of the agent protocol.
    OnWorker(String),
}

/// Resolves `fieldRef.fieldPath`.
///
/// # Errors
/// The kubelet's text for a path that is not supported.
pub(super) fn resolve(pod: &Value, path: &str) -> Result<Field, String> {
    let text = |pointer: &str| Ok(Field::Text(pod.text(pointer).to_owned()));
    if let Some((map, key)) = subscript(path) {
        return match map {
            "metadata.labels" | "metadata.annotations" => {
                let pointer = if map == "metadata.labels" { "/metadata/labels" } else { "/metadata/annotations" };
                let value = pod.pointer(pointer).and_then(|m| m.get(key)).and_then(Value::as_str);
                Ok(Field::Text(value.unwrap_or_default().to_owned()))
            }
            _ => Err(format!("fieldPath \"{path}\" does not support subscript")),
        };
    }
    match path {
        "metadata.name" => text("/metadata/name"),
        "metadata.namespace" => text("/metadata/namespace"),
        "metadata.uid" => text("/metadata/uid"),
        "metadata.labels" => Ok(Field::Text(map(&pod.entries("/metadata/labels")))),
        "metadata.annotations" => Ok(Field::Text(map(&pod.entries("/metadata/annotations")))),
        "spec.nodeName" => text("/spec/nodeName"),
        "spec.serviceAccountName" => text("/spec/serviceAccountName"),
        "status.podIP" | "status.podIPs" | "status.hostIP" | "status.hostIPs" => Ok(Field::OnWorker(path.to_owned())),
        _ => Err(format!("unsupported fieldPath: {path}")),
    }
}

fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    Some((map, key))
}

/// Labels or annotations as a file holds them: `key="value"` lines with Go's quoting.
fn map(entries: &[(&str, &str)]) -> String {
    let lines: Vec<String> = entries.iter().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    lines.join("\n")
}

/// Text as Go's `%q` prints it.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() && u32::from(c) < 0x80 => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Resolves `resourceFieldRef`; `own` is the container it stands in.
///
/// # Errors
/// The kubelet's text for an unknown container or resource.
pub(super) fn resource(
    pod: &Value,
    own: Option<&Value>,
    reference: &Value,
    context: &Context,
) -> Result<String, String> {
    let named = reference.some_text("/containerName");
    let container = match (named, own) {
        (Some(name), _) => pod
            .items("/spec/containers")
            .iter()
            .chain(pod.items("/spec/initContainers"))
            .find(|c| c.text("/name") == name)
            .ok_or_else(|| format!("container {name} not found"))?,
        (None, Some(own)) => own,
        (None, None) => return Err("container name is required".to_owned()),
    };
    let resource = reference.text("/resource");
    let (kind, name) =
        resource.split_once('.').ok_or_else(|| format!("unsupported container resource : {resource}"))?;
    let known = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !matches!(kind, "limits" | "requests") || !known {
        return Err(format!("unsupported container resource : {resource}"));
    }
    let amount =
        container.pointer("/resources").and_then(|r| r.get(kind)).and_then(|m| m.get(name)).and_then(quantity::of);
    // A limit that is not set is what the node can give.
    let amount = amount.unwrap_or(match (kind, name) {
        ("limits", "cpu") => i128::from(context.node_cpu_millis) * 1_000_000,
        ("limits", "memory") => i128::from(context.node_memory_bytes) * quantity::NANOS,
        _ => 0,
    });
    let divisor = reference.get("divisor").and_then(quantity::of).filter(|d| *d > 0).unwrap_or(quantity::NANOS);
    Ok(quantity::ceil(amount, divisor).to_string())
}
