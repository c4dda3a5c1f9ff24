//! HorizontalPodAutoscalers. Source: upstream `pkg/apis/autoscaling/validation`.

use super::check::{At, Errors};
use crate::{names, quantity};

/// Longest window and period of a policy, in seconds.
const LONGEST_WINDOW: i64 = 3600;
const LONGEST_PERIOD: i64 = 1800;

pub(super) fn autoscaler(spec: &At<'_>, errors: &mut Errors) {
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if min.value.as_i64().is_some_and(|n| n < 1) {
        errors.invalid(&min, "must be greater than or equal to 1");
    }
    if max.value.as_i64().is_none_or(|n| n < 1) {
        errors.invalid(&max, "must be greater than 0");
    } else if min.value.as_i64() > max.value.as_i64() {
        errors.invalid(&max, "must be greater than or equal to `minReplicas`");
    }
    reference(&spec.field("scaleTargetRef"), errors);
    for metric in spec.field("metrics").items() {
        self::metric(&metric, errors);
    }
    for direction in ["scaleUp", "scaleDown"] {
        rules(&spec.field("behavior").field(direction), errors);
    }
}

fn reference(reference: &At<'_>, errors: &mut Errors) {
    for field in ["kind", "name"] {
        let field = reference.field(field);
        errors.named(&field, names::path_segment_errors);
    }
}

fn metric(metric: &At<'_>, errors: &mut Errors) {
    const SOURCES: [(&str, &str); 5] = [
        ("Object", "object"),
        ("Pods", "pods"),
        ("Resource", "resource"),
        ("ContainerResource", "containerResource"),
        ("External", "external"),
    ];
    let kind = metric.field("type");
    if kind.is_empty() {
        errors.required(&kind, "must specify a metric source type");
    }
    errors.if_set_one_of(&kind, &["ContainerResource", "External", "Object", "Pods", "Resource"]);
    let wanted = SOURCES.iter().find(|(k, _)| *k == kind.text()).map(|(_, field)| *field);
    if let Some(field) = wanted.filter(|f| !metric.field(f).exists()) {
        errors.required(&metric.field(field), "must populate information for the given metric source");
    }
    for (_, field) in SOURCES {
        let source = metric.field(field);
        if !source.exists() {
            continue;
        }
        if wanted.is_some_and(|w| w != field) {
            errors.forbidden(&source, "must populate the given metric source only");
            continue;
        }
        match field {
            "object" => {
                reference(&source.field("describedObject"), errors);
                identifier(&source.field("metric"), errors);
                target(&source.field("target"), &["Value", "AverageValue"], errors);
            }
            "pods" | "external" => {
                identifier(&source.field("metric"), errors);
                let both = &["Value", "AverageValue"];
                target(&source.field("target"), if field == "pods" { &["AverageValue"] } else { both }, errors);
            }
            _ => {
                if field == "containerResource" && source.field("container").is_empty() {
                    errors.required(&source.field("container"), "must specify a container");
                }
                if source.field("name").is_empty() {
                    errors.required(&source.field("name"), "must specify a resource name");
                }
                target(&source.field("target"), &["Utilization", "AverageValue"], errors);
            }
        }
    }
}

fn identifier(metric: &At<'_>, errors: &mut Errors) {
    let name = metric.field("name");
    errors.named(&name, names::path_segment_errors);
    if metric.field("selector").exists() {
        errors.selector(&metric.field("selector"));
    }
}

/// `kinds`: what the source takes.
fn target(target: &At<'_>, kinds: &[&str], errors: &mut Errors) {
    let kind = target.field("type");
    if kind.is_empty() {
        errors.required(&kind, "must specify a metric target type");
    } else if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        errors.invalid(&kind, "must be either Utilization, Value, or AverageValue");
    }
    let positive = |at: &At<'_>| at.value.as_str().and_then(quantity::parse).is_none_or(|n| n > 0);
    for field in ["value", "averageValue"] {
        let amount = target.field(field);
        if amount.exists() && !positive(&amount) {
            errors.invalid(&amount, "must be positive");
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.value.as_i64().is_some_and(|n| n < 1) {
        errors.invalid(&utilization, "must be greater than 0");
    }
    let needs = |kind: &str| kinds.contains(&kind);
    if needs("Utilization") {
        match (utilization.exists(), target.field("averageValue").exists()) {
            (false, false) => {
                errors.required(&utilization, "must set either a target raw value or a target utilization");
            }
            (true, true) => errors.forbidden(
                &target.field("averageValue"),
                "may not set both a target raw value and a target utilization",
            ),
            _ => {}
        }
    } else if needs("Value") {
        if !target.field("value").exists() && !target.field("averageValue").exists() {
            errors.required(&target.field("averageValue"), "must set either a target value or averageValue");
        }
    } else if !target.field("averageValue").exists() {
        errors.required(&target.field("averageValue"), "must specify a positive target averageValue");
    }
}

fn rules(rules: &At<'_>, errors: &mut Errors) {
    if !rules.exists() {
        return;
    }
    let window = rules.field("stabilizationWindowSeconds");
    match window.value.as_i64() {
        Some(n) if n < 0 => errors.invalid(&window, "must be greater than or equal to zero"),
        Some(n) if n > LONGEST_WINDOW => {
            errors.invalid(&window, &format!("must be less than or equal to {LONGEST_WINDOW}"));
        }
        _ => {}
    }
    errors.if_set_one_of(&rules.field("selectPolicy"), &["Disabled", "Max", "Min"]);
    let policies = rules.field("policies");
    if policies.is_empty() {
        errors.required(&policies, "must specify at least one Policy");
    }
    for policy in policies.items() {
        let (kind, value, period) = (policy.field("type"), policy.field("value"), policy.field("periodSeconds"));
        errors.if_set_one_of(&kind, &["Percent", "Pods"]);
        if value.value.as_i64().is_none_or(|n| n <= 0) {
            errors.invalid(&value, "must be greater than zero");
        }
        match period.value.as_i64() {
            Some(n) if n > LONGEST_PERIOD => {
                errors.invalid(&period, &format!("must be less than or equal to {LONGEST_PERIOD}"));
            }
            Some(n) if n > 0 => {}
            _ => errors.invalid(&period, "must be greater than zero"),
        }
    }
}
