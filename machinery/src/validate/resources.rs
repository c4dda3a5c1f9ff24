//! What containers, and pods as a whole, request and may use at most. Sources: upstream `pkg/apis/core/validation`
//! (`validateResourceRequirements`, `validatePodResources`) and KEP-2837.

use super::check::{At, Errors};
use crate::{
    amounts::{Quantity, amounts},
    names,
    pod_resources::{HUGE_PAGES, is_of_a_whole_pod, of_containers},
};

/// What a pod can ask for as a whole, as messages list it.
const OF_A_WHOLE_POD: &[&str] = &["cpu", HUGE_PAGES, "memory"];

/// `resources` of a container.
pub(super) fn container(resources: &At<'_>, errors: &mut Errors) {
    requirements(resources, false, errors);
}

/// `resources` of the pod: no less than its containers request together, and no less than any of them may use.
pub(super) fn whole_pod(spec: &At<'_>, errors: &mut Errors) {
    let resources = spec.field("resources");
    if !resources.exists() {
        return;
    }
    if spec.field("os").field("name").text() == "windows" {
        errors.forbidden(&resources, "may not be set for a windows pod");
        return;
    }
    let claims = resources.field("claims");
    if claims.exists() {
        errors.forbidden(&claims, "claims cannot be set for Resources at pod-level");
    }
    requirements(&resources, true, errors);
    let (requests, limits) = (amounts(resources.field("requests").value), amounts(resources.field("limits").value));
    let mut less = |map: &str, name: &str, whole: Quantity, what: String| {
        let at = At { value: resources.value, path: format!("{}.{map}[{name}]", resources.path) };
        errors.invalid_value(&at, &whole.to_string(), &what);
    };
    for (name, together) in of_containers(spec.value, "requests") {
        if let Some(whole) = requests.get(&name).filter(|whole| together > **whole) {
            let what = format!("must be greater than or equal to aggregate container requests of {together}");
            less("requests", &name, *whole, what);
        }
    }
    // Other limits may add up to more: not all containers need all of theirs at once.
    for (name, together) in of_containers(spec.value, "limits").iter().filter(|(name, _)| name.starts_with(HUGE_PAGES))
    {
        if let Some(whole) = limits.get(name).filter(|whole| together > *whole) {
            let what = format!("must be greater than or equal to aggregate container limits of {together}");
            less("limits", name, *whole, what);
        }
    }
    for (i, container) in spec.field("containers").items().enumerate() {
        for (name, limit) in amounts(container.field("resources").field("limits").value) {
            if let Some(whole) = limits.get(&name).filter(|whole| limit > **whole) {
                // The path is upstream's.
                let path = format!("{}.containers[{i}][{name}].limits", resources.path);
                let at = At { value: resources.value, path };
                errors.invalid_value(
                    &at,
                    &limit.to_string(),
                    &format!("must be less than or equal to pod limits of {whole}"),
                );
            }
        }
    }
}

/// Limits and requests.
fn requirements(resources: &At<'_>, of_pod: bool, errors: &mut Errors) {
    let (limits, requests) = (resources.field("limits"), resources.field("requests"));
    for map in [&limits, &requests] {
        for (name, amount) in map.entries() {
            resource_name(name, &amount, of_pod, errors);
            errors.quantity(&amount);
        }
    }
    for (name, request) in requests.entries() {
        let at = At { value: request.value, path: requests.path.clone() };
        match (Quantity::of(request.value), limits.value.get(name).map(Quantity::of)) {
            (Some(wanted), Some(Some(most))) if wanted != most && !is_overcommitted(name) => {
                errors.invalid_value(&at, &wanted.to_string(), &format!("must be equal to {name} limit of {most}"));
            }
            (Some(wanted), Some(Some(most))) if wanted > most => {
                let what = format!("must be less than or equal to {name} limit of {most}");
                errors.invalid_value(&at, &wanted.to_string(), &what);
            }
            (_, None) if !is_overcommitted(name) => {
                errors.required(&limits, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    let names = || limits.entries().chain(requests.entries()).map(|(name, _)| name.as_str());
    if names().any(|name| name.starts_with(HUGE_PAGES)) && !names().any(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(resources, "HugePages require cpu or memory");
    }
}

/// Whether a container may be given more of a resource than it requests: not of huge pages and devices.
fn is_overcommitted(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    native && !name.starts_with(HUGE_PAGES)
}

fn resource_name(name: &str, amount: &At<'_>, of_pod: bool, errors: &mut Errors) {
    let wrong = names::qualified_name_errors(name);
    for why in &wrong {
        errors.invalid_value(amount, name, why);
    }
    if !wrong.is_empty() {
        return;
    }
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with(HUGE_PAGES);
    if !name.contains('/') && !standard {
        errors.invalid_value(amount, name, "must be a standard resource type or fully qualified");
        if !of_pod {
            errors.invalid_value(amount, name, "must be a standard resource for containers");
        }
    } else if of_pod && !is_of_a_whole_pod(name) {
        errors.not_supported(amount, &format!("{name:?}"), OF_A_WHOLE_POD);
    }
}
