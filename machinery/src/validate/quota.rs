//! ResourceQuotas and LimitRanges. Source: upstream `pkg/apis/core/validation` (`ValidateResourceQuotaSpec`, `ValidateLimitRange`).

use std::collections::HashSet;

use super::check::{At, Errors};
use crate::{
    names,
    quantity::{self, NANOS},
};

/// What a quota may bound without a domain in the name.
const STANDARD: &[&str] = &[
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// Counts, of which there are no fractions.
const COUNTS: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// What the pods of a scope have; `BestEffort` pods have nothing but their number.
const OF_PODS: &[&str] = &["cpu", "limits.cpu", "limits.memory", "memory", "pods", "requests.cpu", "requests.memory"];
const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

pub(super) fn quota(spec: &At<'_>, errors: &mut Errors) {
    let hard = spec.field("hard");
    for (name, amount) in hard.entries() {
        for why in names::qualified_name_errors(name) {
            errors.invalid_value(&amount, name, &why);
        }
        if !name.contains('/') && !STANDARD.contains(&name.as_str()) && !is_huge_pages(name) {
            errors.invalid_value(&amount, name, "must be a standard resource for quotas");
        }
        errors.quantity(&amount);
        let counted = COUNTS.contains(&name.as_str()) || name.starts_with("count/");
        let value = amount.value.as_str().and_then(quantity::parse);
        if counted && value.is_some_and(|n| n % NANOS != 0) {
            errors.invalid(&amount, "must be an integer");
        }
    }
    let scopes = spec.field("scopes");
    let set: HashSet<&str> = scopes.items().map(|s| s.value.as_str().unwrap_or_default()).collect();
    for scope in scopes.items() {
        let at = At { value: scopes.value, path: scopes.path.clone() };
        if !SCOPES.contains(&scope.text()) {
            errors.invalid(&at, "unsupported scope");
        }
        if hard.entries().any(|(name, _)| !applies(scope.text(), name)) {
            errors.invalid(&at, "unsupported scope applied to resource");
        }
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|s| set.contains(s)) {
            errors.invalid(&scopes, "conflicting scopes");
        }
    }
    let expressions = spec.field("scopeSelector").field("matchExpressions");
    for expression in expressions.items() {
        let (name, operator, values) =
            (expression.field("scopeName"), expression.field("operator"), expression.field("values"));
        if !SCOPES.contains(&name.text()) {
            errors.invalid(&name, "unsupported scope");
        }
        let plain = !matches!(name.text(), "PriorityClass" | "VolumeAttributesClass");
        if plain && operator.text() != "Exists" && SCOPES.contains(&name.text()) {
            errors.invalid(
                &operator,
                "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                 ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            );
        }
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(
                    &values,
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
                );
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.invalid(
                    &values,
                    "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.invalid(&operator, "not a valid selector operator"),
        }
    }
}

fn applies(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            OF_PODS.contains(&resource)
                || matches!(resource, "ephemeral-storage" | "requests.ephemeral-storage" | "limits.ephemeral-storage")
        }
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

pub(super) fn quota_update(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let set = |spec: &At<'_>| -> HashSet<String> {
        spec.field("scopes").items().map(|s| s.value.as_str().unwrap_or_default().to_owned()).collect()
    };
    if set(new) != set(old) {
        errors.invalid(&new.field("scopes"), "field is immutable");
    }
}

pub(super) fn limit_range(spec: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for limit in spec.field("limits").items() {
        let kind = limit.field("type");
        for why in names::qualified_name_errors(kind.text()) {
            errors.invalid(&kind, &why);
        }
        if !kind.text().contains('/') && !matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim") {
            errors.invalid(&kind, "must be a standard limit type or fully qualified");
        }
        if !seen.insert(kind.text()) {
            errors.duplicate(&kind);
        }
        for map in ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"] {
            for (_, amount) in limit.field(map).entries() {
                errors.quantity(&amount);
            }
        }
        if kind.text() == "Pod" {
            for map in ["default", "defaultRequest"].iter().filter(|m| !limit.field(m).is_empty()) {
                errors.forbidden(&limit.field(map), "may not be specified when `type` is 'Pod'");
            }
        }
        if kind.text() == "PersistentVolumeClaim" {
            let storage = |map: &str| limit.field(map).field("storage").exists();
            if !storage("min") && !storage("max") {
                let at = At { value: limit.value, path: format!("{}.limits", spec.path) };
                errors.required(&at, "either minimum or maximum storage value is required, but neither was provided");
            }
        }
        for (_, ratio) in limit.field("maxLimitRequestRatio").entries() {
            if ratio.value.as_str().and_then(quantity::parse).is_some_and(|n| n < NANOS) {
                let text = ratio.value.as_str().unwrap_or_default();
                errors.invalid_value(&ratio, text, &format!("ratio {text} is less than 1"));
            }
        }
        bounds(&limit, errors);
    }
}

/// Defaults lie between the bounds, and the bounds are in order.
fn bounds(limit: &At<'_>, errors: &mut Errors) {
    let read = |at: &At<'_>| quantity::of(at.value);
    let shown = |at: &At<'_>| at.value.as_str().map_or_else(|| at.value.to_string(), str::to_owned);
    let (min, max) = (limit.field("min"), limit.field("max"));
    for (map, what) in [("default", "default"), ("defaultRequest", "default request")] {
        for (name, at) in limit.field(map).entries() {
            let (least, most) = (min.field(name), max.field(name));
            let Some(value) = read(&at) else { continue };
            let text = shown(&at);
            if read(&least).is_some_and(|least| least > value) {
                let why = format!("min value {} is greater than {what} value {text}", shown(&least));
                errors.invalid_value(&at, &text, &why);
            }
            if read(&most).is_some_and(|most| value > most) {
                let why = format!("{what} value {text} is greater than max value {}", shown(&most));
                errors.invalid_value(&at, &text, &why);
            }
        }
    }
    for (name, at) in min.entries() {
        let most = max.field(name);
        if let (Some(least), Some(limit)) = (read(&at), read(&most))
            && least > limit
        {
            let why = format!("min value {} is greater than max value {}", shown(&at), shown(&most));
            errors.invalid_value(&at, &shown(&at), &why);
        }
    }
}
