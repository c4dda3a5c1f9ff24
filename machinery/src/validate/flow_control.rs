//! FlowSchemas and PriorityLevelConfigurations. Source: `pkg/apis/flowcontrol/validation`.

use serde_json::Value;

use super::check::{At, Errors, same};
use crate::{
    flow_control::{EXEMPT, bootstrap},
    names,
};

/// In the order in which messages list them.
const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// Most queues of a level.
const MAX_QUEUES: i64 = 10_000_000;
/// Bits of the hash that deals queues to flows.
const HASH_BITS: u32 = 60;

pub(super) fn flow_schema(object: &At<'_>, errors: &mut Errors) {
    let (spec, name) = (object.field("spec"), object.field("metadata").field("name"));
    let precedence = spec.field("matchingPrecedence");
    match precedence.value.as_i64().unwrap_or_default() {
        n if n < 1 => errors.invalid_number(&precedence, n, "must be a positive value"),
        n if n > 10_000 => errors.invalid(&precedence, "must not be greater than 10000"),
        1 if name.text() != EXEMPT => {
            errors.invalid(&precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
        }
        _ => {}
    }
    let method = spec.field("distinguisherMethod");
    if method.exists() {
        let kind = method.field("type");
        if !matches!(kind.text(), "ByNamespace" | "ByUser") {
            errors.not_supported(&kind, &format!("{:?}", kind.text()), &["ByNamespace", "ByUser"]);
        }
    }
    let level = spec.field("priorityLevelConfiguration").field("name");
    if level.text().is_empty() {
        errors.required(&level, "must reference a priority level");
    }
    errors.if_named(&level, names::dns_subdomain_errors);
    spec.field("rules").items().for_each(|rule| policy_rule(&rule, errors));
    fixed(name.text(), &spec, &bootstrap::mandatory_schemas(), errors);
    conditions(object, errors);
}

fn policy_rule(rule: &At<'_>, errors: &mut Errors) {
    let subjects = rule.field("subjects");
    if subjects.is_empty() {
        errors.required(&subjects, "subjects must contain at least one value");
    }
    subjects.items().for_each(|s| subject(&s, errors));
    let (resources, paths) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.is_empty() && paths.is_empty() {
        errors.required(rule, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for rule in resources.items() {
        verbs(&rule, errors);
        list(&rule.field("apiGroups"), "resource rules must supply at least one api group", "api groups", errors);
        list(&rule.field("resources"), "resource rules must supply at least one resource", "resources", errors);
        let namespaces = rule.field("namespaces");
        if namespaces.is_empty() {
            if rule.field("clusterScope").value != true {
                let why = "resource rules that are not cluster scoped must supply at least one namespace";
                errors.required(&namespaces, why);
            }
        } else if !wildcard(&namespaces, "namespaces", errors) {
            for namespace in namespaces.items() {
                for why in names::dns_label_errors(namespace.text()) {
                    errors.invalid(
                        &namespace,
                        &format!("each member of this list must be '*' or a DNS-1123 label; {why}"),
                    );
                }
            }
        }
    }
    for rule in paths.items() {
        verbs(&rule, errors);
        let urls = rule.field("nonResourceURLs");
        if urls.is_empty() {
            errors.required(&urls, "nonResourceURLs must contain at least one value");
        } else if !wildcard(&urls, "non-resource URLs", errors) {
            urls.items().for_each(|url| path(&url, errors));
        }
    }
}

fn subject(subject: &At<'_>, errors: &mut Errors) {
    const KINDS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.field("kind");
    let Some((kind, own)) = KINDS.iter().find(|(k, _)| *k == kind.text()) else {
        errors.not_supported(&kind, &format!("{:?}", kind.text()), &["Group", "ServiceAccount", "User"]);
        return;
    };
    let at = subject.field(own);
    if at.exists() {
        let name = at.field("name");
        if name.text().is_empty() {
            errors.required(&name, "");
        } else if *kind == "ServiceAccount" && name.text() != "*" {
            errors.if_named(&name, names::dns_subdomain_errors);
        }
        if *kind == "ServiceAccount" {
            let namespace = at.field("namespace");
            if namespace.text().is_empty() {
                errors.required(&namespace, "must specify namespace for service account");
            }
            errors.if_named(&namespace, names::dns_label_errors);
        }
    } else {
        errors.required(&at, &format!("{own} is required when subject kind is '{kind}'"));
    }
    for (of, other) in KINDS.iter().filter(|(_, other)| other != own) {
        let at = subject.field(other);
        if at.exists() {
            errors.forbidden(&at, &format!("{other} is forbidden when subject kind is not '{of}'"));
        }
    }
}

fn verbs(rule: &At<'_>, errors: &mut Errors) {
    let verbs = rule.field("verbs");
    if verbs.is_empty() {
        errors.required(&verbs, "verbs must contain at least one value");
    } else if !wildcard(&verbs, "verbs", errors) && verbs.items().any(|v| !VERBS.contains(&v.text())) {
        let given: Vec<String> = verbs.items().map(|v| format!("{:?}", v.text())).collect();
        errors.not_supported(&verbs, &format!("[{}]", given.join(",")), VERBS);
    }
}

fn list(at: &At<'_>, none: &str, what: &str, errors: &mut Errors) {
    if at.is_empty() {
        errors.required(at, none);
    } else {
        wildcard(at, what, errors);
    }
}

/// Whether `*` is among them; then it must be alone.
fn wildcard(at: &At<'_>, what: &str, errors: &mut Errors) -> bool {
    let all = at.items().any(|item| item.text() == "*");
    if all && at.items().count() > 1 {
        errors.invalid(at, &format!("if '*' is present, must not specify other {what}"));
    }
    all
}

fn path(at: &At<'_>, errors: &mut Errors) {
    let path = at.text();
    let stars = path.matches('*').count();
    let why = match path {
        "/" => return,
        "" => "must not be empty",
        _ if !path.starts_with('/') => "must start with slash",
        _ if path.contains(' ') => "must not contain white-space",
        _ if path.contains("//") => "must not contain double slash",
        _ if stars > 1 || (stars == 1 && !path.ends_with("/*")) => "wildcard can only do suffix matching",
        _ => return,
    };
    errors.invalid(at, why);
}

pub(super) fn priority_level(object: &At<'_>, errors: &mut Errors) {
    let (spec, name) = (object.field("spec"), object.field("metadata").field("name"));
    let kind = spec.field("type");
    if (name.text() == EXEMPT) != (kind.text() == "Exempt") {
        errors.invalid_value(&kind, kind.text(), "type must be 'Exempt' if and only if name is 'exempt'");
    }
    let (exempt, limited) = (spec.field("exempt"), spec.field("limited"));
    match kind.text() {
        "Exempt" => {
            if limited.exists() {
                errors.forbidden(&limited, "must be nil if the type is not Limited");
            }
            if exempt.exists() {
                shares(&exempt, errors);
            }
        }
        "Limited" => {
            if exempt.exists() {
                errors.forbidden(&exempt, "must be nil if the type is Limited");
            }
            if limited.exists() {
                limits(&limited, errors);
            } else {
                errors.required(&limited, "must not be empty when type is Limited");
            }
        }
        other => errors.not_supported(&kind, &format!("{other:?}"), &["Exempt", "Limited"]),
    }
    if name.text() == EXEMPT {
        // Its shares may be changed.
        if limited.exists() || kind.text() != "Exempt" {
            errors.invalid(&spec, "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value");
        }
    } else {
        fixed(name.text(), &spec, &bootstrap::mandatory_levels(), errors);
    }
    conditions(object, errors);
}

fn shares(at: &At<'_>, errors: &mut Errors) {
    let shares = at.field("nominalConcurrencyShares");
    if shares.value.as_i64().is_some_and(|n| n < 0) {
        errors.invalid(&shares, "must be a non-negative integer");
    }
    let lendable = at.field("lendablePercent");
    if lendable.value.as_i64().is_some_and(|n| !(0..=100).contains(&n)) {
        errors.invalid(&lendable, "must be between 0 and 100, inclusive");
    }
}

fn limits(limited: &At<'_>, errors: &mut Errors) {
    shares(limited, errors);
    let response = limited.field("limitResponse");
    let (kind, queuing) = (response.field("type"), response.field("queuing"));
    match kind.text() {
        "Reject" if queuing.exists() => {
            errors.forbidden(&queuing, "must be nil if limited.limitResponse.type is not Limited")
        }
        "Reject" => {}
        "Queue" if queuing.exists() => queues(&queuing, errors),
        "Queue" => errors.required(&queuing, "must not be empty if limited.limitResponse.type is Limited"),
        other => errors.not_supported(&kind, &format!("{other:?}"), &["Queue", "Reject"]),
    }
    let borrowing = limited.field("borrowingLimitPercent");
    if borrowing.value.as_i64().is_some_and(|n| n < 0) {
        errors.invalid(&borrowing, "if specified, must be a non-negative integer");
    }
}

fn queues(queuing: &At<'_>, errors: &mut Errors) {
    let number = |name: &str| queuing.field(name).value.as_i64().unwrap_or_default();
    let (length, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    if length <= 0 {
        errors.invalid_number(&queuing.field("queueLengthLimit"), length, "must be positive");
    }
    if queues <= 0 {
        errors.invalid_number(&queuing.field("queues"), queues, "must be positive");
    } else if queues > MAX_QUEUES {
        errors.invalid(&queuing.field("queues"), &format!("must not be greater than {MAX_QUEUES}"));
    }
    let at = queuing.field("handSize");
    if hand <= 0 {
        errors.invalid_number(&at, hand, "must be positive");
    } else if hand > queues {
        errors.invalid_number(&at, hand, &format!("should not be greater than queues ({queues})"));
    } else {
        let bits = entropy(queues, hand);
        if bits > HASH_BITS {
            let why = format!(
                "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
            );
            errors.invalid_number(&at, hand, &why);
        }
    }
}

/// Bits of a hash that deal a hand of so many queues evenly (`shufflesharding.RequiredEntropyBits`).
fn entropy(queues: i64, hand: i64) -> u32 {
    // More than fit into a hash in any case; saves the multiplication of millions.
    let hand = hand.min(64);
    let bits: f64 = (0..hand).map(|i| ((queues - i) as f64).log2()).sum();
    bits.ceil() as u32
}

/// The mandatory objects are as they are.
fn fixed(name: &str, spec: &At<'_>, mandatory: &[Value], errors: &mut Errors) {
    let wanted = mandatory.iter().find(|m| m["metadata"]["name"] == name);
    if wanted.is_some_and(|w| !same(&w["spec"], spec.value)) {
        errors.invalid(spec, &format!("spec of '{name}' must equal the fixed value"));
    }
}

fn conditions(object: &At<'_>, errors: &mut Errors) {
    let conditions = object.field("status").field("conditions");
    let mut seen = Vec::new();
    for condition in conditions.items() {
        let kind = condition.field("type");
        if kind.text().is_empty() {
            errors.required(&kind, "must not be empty");
        } else if seen.contains(&kind.text().to_owned()) {
            errors.duplicate(&kind);
        }
        seen.push(kind.text().to_owned());
    }
}

#[cfg(test)]
mod tests;
