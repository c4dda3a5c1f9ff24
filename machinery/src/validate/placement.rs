//! Where pods may run: affinity, spread, tolerations, gates. Source: upstream `pkg/apis/core/validation/validation.go`.

use std::collections::HashSet;

use super::check::{At, Errors};
use crate::names;

/// Everything in a pod's spec that a scheduler reads.
pub(super) fn placement(spec: &At<'_>, errors: &mut Errors) {
    errors.labels(&spec.field("nodeSelector"));
    affinity(&spec.field("affinity"), errors);
    for toleration in spec.field("tolerations").items() {
        self::toleration(&toleration, errors);
    }
    spread(&spec.field("topologySpreadConstraints"), errors);
    let mut gates = HashSet::new();
    for gate in spec.field("schedulingGates").items() {
        let name = gate.field("name");
        errors.named(&name, names::qualified_name_errors);
        if !name.is_empty() && !gates.insert(name.text()) {
            errors.duplicate(&gate);
        }
    }
    errors.if_named(&spec.field("priorityClassName"), names::dns_subdomain_errors);
    errors.if_set_one_of(&spec.field("preemptionPolicy"), &["Never", "PreemptLowerPriority"]);
}

fn toleration(toleration: &At<'_>, errors: &mut Errors) {
    let (key, operator, value) = (toleration.field("key"), toleration.field("operator"), toleration.field("value"));
    errors.if_named(&key, names::qualified_name_errors);
    if key.is_empty() && operator.text() != "Exists" {
        errors.invalid(
            &operator,
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    let (effect, seconds) = (toleration.field("effect"), toleration.field("tolerationSeconds"));
    if seconds.exists() && effect.text() != "NoExecute" {
        errors.invalid(&effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator.text() {
        "" | "Equal" => {
            for why in names::label_value_errors(value.text()) {
                errors.invalid_value(&operator, value.text(), &why);
            }
        }
        "Exists" if !value.is_empty() => errors.invalid(&operator, "value must be empty when `operator` is 'Exists'"),
        "Exists" => {}
        _ => errors.if_set_one_of(&operator, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        errors.if_set_one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}

fn affinity(affinity: &At<'_>, errors: &mut Errors) {
    let node = affinity.field("nodeAffinity");
    let required = node.field("requiredDuringSchedulingIgnoredDuringExecution");
    if required.exists() {
        node_selector(&required, errors);
    }
    for preferred in node.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
        weight(&preferred.field("weight"), errors);
        node_term(&preferred.field("preference"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(kind);
        for term in pods.field("requiredDuringSchedulingIgnoredDuringExecution").items() {
            pod_term(&term, errors);
        }
        for preferred in pods.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
            weight(&preferred.field("weight"), errors);
            pod_term(&preferred.field("podAffinityTerm"), errors);
        }
    }
}

fn weight(weight: &At<'_>, errors: &mut Errors) {
    let n = weight.value.as_i64().unwrap_or_default();
    if !(1..=100).contains(&n) {
        errors.invalid_number(weight, n, "must be in the range 1-100");
    }
}

/// A `core/v1 NodeSelector`, as also volumes have one.
pub(super) fn node_selector(selector: &At<'_>, errors: &mut Errors) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&terms, "must have at least one node selector term");
    }
    for term in terms.items() {
        node_term(&term, errors);
    }
}

fn node_term(term: &At<'_>, errors: &mut Errors) {
    for requirement in term.field("matchExpressions").items() {
        let (operator, values) = (requirement.field("operator"), requirement.field("values"));
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Gt" | "Lt" if values.items().count() != 1 => {
                errors.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => errors.invalid(&operator, "not a valid selector operator"),
        }
        label_name(&requirement.field("key"), errors);
    }
    for requirement in term.field("matchFields").items() {
        let (key, operator, values) =
            (requirement.field("key"), requirement.field("operator"), requirement.field("values"));
        match operator.text() {
            "In" | "NotIn" if values.items().count() != 1 => errors
                .required(&values, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"),
            "In" | "NotIn" => {}
            _ => errors.invalid(&operator, "not a valid selector operator"),
        }
        if key.text() == "metadata.name" {
            for value in values.items() {
                errors.if_named(&value, names::dns_subdomain_errors);
            }
        } else {
            errors.invalid(&key, "not a valid field selector key");
        }
    }
}

fn label_name(key: &At<'_>, errors: &mut Errors) {
    for why in names::qualified_name_errors(key.text()) {
        errors.invalid(key, &why);
    }
}

fn pod_term(term: &At<'_>, errors: &mut Errors) {
    for selector in ["labelSelector", "namespaceSelector"] {
        if term.field(selector).exists() {
            errors.selector(&term.field(selector));
        }
    }
    for name in term.field("namespaces").items() {
        let at = At { value: name.value, path: term.field("namespace").path };
        for why in names::dns_label_errors(name.text()) {
            errors.invalid(&at, &why);
        }
    }
    topology_key(&term.field("topologyKey"), errors);
}

fn topology_key(key: &At<'_>, errors: &mut Errors) {
    if key.is_empty() {
        errors.required(key, "can not be empty");
    } else {
        label_name(key, errors);
    }
}

fn spread(constraints: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for constraint in constraints.items() {
        let (skew, key, when) =
            (constraint.field("maxSkew"), constraint.field("topologyKey"), constraint.field("whenUnsatisfiable"));
        let n = skew.value.as_i64().unwrap_or_default();
        if n <= 0 {
            errors.invalid_number(&skew, n, "must be greater than zero");
        }
        if key.is_empty() {
            errors.required(&key, "can not be empty");
        } else {
            label_name(&key, errors);
        }
        errors.if_set_one_of(&At { value: when.value, path: when.path.clone() }, &["DoNotSchedule", "ScheduleAnyway"]);
        if !seen.insert((key.text(), when.text())) {
            errors.duplicate_value(&constraint, &format!("{{{}, {}}}", key.text(), when.text()));
        }
        let domains = constraint.field("minDomains");
        if let Some(n) = domains.value.as_i64() {
            if n <= 0 {
                errors.invalid(&domains, "must be greater than zero");
            } else if when.text() != "DoNotSchedule" {
                errors.invalid(
                    &domains,
                    &format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", when.text()),
                );
            }
        }
        errors.if_set_one_of(&constraint.field("nodeAffinityPolicy"), &["Honor", "Ignore"]);
        errors.if_set_one_of(&constraint.field("nodeTaintsPolicy"), &["Honor", "Ignore"]);
        if constraint.field("labelSelector").exists() {
            errors.selector(&constraint.field("labelSelector"));
        }
    }
}
