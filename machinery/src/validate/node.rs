//! Nodes and events. Source: upstream `pkg/apis/core/validation` (`ValidateNode`, `ValidateNodeUpdate`, `events.go`).

use std::collections::HashSet;

use super::{
    check::{At, Errors},
    service::is_cidr,
};
use crate::names;

/// Longest note of an event, in bytes.
const LONGEST_NOTE: usize = 1024;
/// Longest action, reason and instance.
const LONGEST_WORD: usize = 128;

pub(super) fn node(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let mut seen = HashSet::new();
    for taint in spec.field("taints").items() {
        let (key, value, effect) = (taint.field("key"), taint.field("value"), taint.field("effect"));
        for why in names::qualified_name_errors(key.text()) {
            errors.invalid(&key, &why);
        }
        for why in names::label_value_errors(value.text()) {
            errors.invalid(&value, &why);
        }
        if effect.is_empty() {
            errors.required(&effect, "");
        } else {
            errors.if_set_one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
        if !seen.insert((effect.text(), key.text())) {
            errors.duplicate(&taint);
        }
    }
    let ranges = spec.field("podCIDRs");
    for range in ranges.items().filter(|r| !is_cidr(r.text())) {
        errors.invalid(&range, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    }
}

pub(super) fn node_update(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (new, old) = (new.field("spec"), old.field("spec"));
    for (field, path) in [("podCIDR", "spec.podCIDR"), ("podCIDRs", "spec.podCIDRs"), ("providerID", "spec.providerID")]
    {
        if !old.field(field).is_empty() && new.field(field).value != old.field(field).value {
            let shown = if field == "podCIDRs" { "podCIDR" } else { field };
            let at = At { value: new.field(field).value, path: path.to_owned() };
            errors.forbidden(&at, &format!("node updates may not change {shown} except from \"\" to valid"));
            // Upstream compares the list only when it compares the first.
            if field == "podCIDR" {
                return;
            }
        }
    }
}

/// Events of either group; those of events.k8s.io are told more strictly.
pub(super) fn event(object: &At<'_>, core: bool, errors: &mut Errors) {
    let involved = if core { object.field("involvedObject") } else { object.field("regarding") };
    let (of, namespace) = (involved.field("namespace"), object.field("metadata").field("namespace"));
    let right = if of.is_empty() { matches!(namespace.text(), "" | "default") } else { of.text() == namespace.text() };
    if !right {
        let at = At { value: of.value, path: "involvedObject.namespace".into() };
        errors.invalid_value(&at, of.text(), "does not match event.namespace");
    }
    if !core {
        new_event(object, errors);
    }
}

fn new_event(object: &At<'_>, errors: &mut Errors) {
    if !object.field("eventTime").exists() {
        errors.required(&object.field("eventTime"), "");
    }
    let series = object.field("series");
    if series.exists() {
        if series.field("count").value.as_i64().is_none_or(|n| n < 2) {
            errors.invalid_value(&series.field("count"), "", "should be at least 2");
        }
        if !series.field("lastObservedTime").exists() {
            errors.required(&series.field("lastObservedTime"), "");
        }
    }
    let controller = object.field("reportingController");
    errors.named(&controller, names::qualified_name_errors);
    for field in ["reportingInstance", "action", "reason"] {
        let at = object.field(field);
        if at.is_empty() {
            errors.required(&at, "");
        }
        if at.text().len() > LONGEST_WORD {
            errors.invalid_value(&at, "", &format!("can have at most {LONGEST_WORD} characters"));
        }
    }
    let note = object.field("note");
    if note.text().len() > LONGEST_NOTE {
        let at = At { value: note.value, path: "message".into() };
        errors.invalid_value(&at, "", &format!("can have at most {LONGEST_NOTE} characters"));
    }
    let kind = object.field("type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        errors.invalid_value(&kind, "", &format!("has invalid value: {}", kind.text()));
    }
}
