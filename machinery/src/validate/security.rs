//! Security contexts of pods and containers. Source: `ValidatePodSecurityContext`, `ValidateSecurityContext`.

use super::check::{At, Errors};

const SYSCTL: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

fn id(at: &At<'_>, errors: &mut Errors) {
    if at.value.as_i64().is_some_and(|n| !(0..=i64::from(i32::MAX)).contains(&n)) {
        errors.invalid(at, "must be between 0 and 2147483647, inclusive");
    }
}

pub(super) fn pod(context: &At<'_>, errors: &mut Errors) {
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        id(&context.field(field), errors);
    }
    for group in context.field("supplementalGroups").items() {
        id(&group, errors);
    }
    let mut seen = std::collections::HashSet::new();
    for sysctl in context.field("sysctls").items() {
        let name = sysctl.field("name");
        if name.is_empty() {
            errors.required(&name, "");
        } else if !is_sysctl(name.text()) {
            errors.invalid(&name, &format!("must have at most 253 characters and match regex {SYSCTL}"));
        } else if !seen.insert(name.text().replace('/', ".")) {
            errors.duplicate(&name);
        }
    }
}

/// Segments of lower case letters, digits, `-` and `_`, that begin and end with a letter or digit, between dots or slashes.
fn is_sysctl(name: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= 253
        && name.split(['.', '/']).all(|segment| {
            let bytes = segment.as_bytes();
            edge(bytes.first())
                && edge(bytes.last())
                && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
        })
}

pub(super) fn container(context: &At<'_>, errors: &mut Errors) {
    for field in ["runAsUser", "runAsGroup"] {
        id(&context.field(field), errors);
    }
    if context.field("allowPrivilegeEscalation").value == &serde_json::Value::Bool(false) {
        if context.field("privileged").value == &serde_json::Value::Bool(true) {
            errors.invalid(context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
        }
        if context.field("capabilities").field("add").items().any(|c| c.text() == "CAP_SYS_ADMIN") {
            errors.invalid(
                context,
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            );
        }
    }
}
