//! Webhook configurations. Source of rules and texts: upstream's `pkg/apis/admissionregistration/validation`.

use std::collections::HashSet;

use super::check::{At, Errors};
use crate::{
    cel::{
        Type,
        admission::{self, Declared},
    },
    names,
};

/// A Mutating- or ValidatingWebhookConfiguration.
pub(super) fn configuration(object: &At<'_>, mutating: bool, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for hook in object.field("webhooks").items() {
        webhook(&hook, mutating, errors);
        review_versions(&hook.field("admissionReviewVersions"), errors);
        let name = hook.field("name");
        if !name.is_empty() && !seen.insert(name.text()) {
            errors.duplicate(&name);
        }
    }
}

fn webhook(hook: &At<'_>, mutating: bool, errors: &mut Errors) {
    let name = hook.field("name");
    if name.is_empty() {
        errors.required(&name, "");
    } else {
        let wrong = names::dns_subdomain_errors(name.text());
        if wrong.is_empty() && name.text().split('.').count() < 3 {
            errors.invalid(&name, "should be a domain with at least three segments separated by dots");
        }
        for why in &wrong {
            errors.invalid(&name, why);
        }
    }
    for rule in hook.field("rules").items() {
        self::rule(&rule, errors);
    }
    errors.if_set_one_of(&hook.field("failurePolicy"), &["Fail", "Ignore"]);
    errors.if_set_one_of(&hook.field("matchPolicy"), &["Equivalent", "Exact"]);
    let side_effects = hook.field("sideEffects");
    if side_effects.exists() {
        errors.if_set_one_of(&side_effects, &["None", "NoneOnDryRun"]);
    } else {
        errors.required(&side_effects, "must specify one of None, NoneOnDryRun");
    }
    let timeout = hook.field("timeoutSeconds");
    if timeout.value.as_i64().is_some_and(|t| !(1..=30).contains(&t)) {
        errors.invalid(&timeout, "the timeout value must be between 1 and 30 seconds");
    }
    errors.selector(&hook.field("namespaceSelector"));
    errors.selector(&hook.field("objectSelector"));
    if mutating {
        errors.if_set_one_of(&hook.field("reinvocationPolicy"), &["IfNeeded", "Never"]);
    }
    client(&hook.field("clientConfig"), errors);
    let declared = Declared { authorizer: true, ..Declared::default() };
    conditions(&hook.field("matchConditions"), &declared, errors);
}

/// A rule with operations.
pub(super) fn rule(rule: &At<'_>, errors: &mut Errors) {
    let operations = rule.field("operations");
    wildcard(&operations, "operations", errors);
    for operation in operations.items() {
        errors.if_set_one_of(&operation, &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]);
    }
    wildcard(&rule.field("apiGroups"), "API groups", errors);
    let versions = rule.field("apiVersions");
    wildcard(&versions, "API versions", errors);
    for version in versions.items().filter(At::is_empty) {
        errors.required(&version, "");
    }
    resources(&rule.field("resources"), errors);
    errors.if_set_one_of(&rule.field("scope"), &["*", "Cluster", "Namespaced"]);
}

/// Required, and `*` only alone.
fn wildcard(list: &At<'_>, what: &str, errors: &mut Errors) {
    let items = list.value.as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        errors.required(list, "");
    } else if items.len() > 1 && items.iter().any(|i| i == "*") {
        errors.invalid(list, &format!("if '*' is present, must not specify other {what}"));
    }
}

fn resources(list: &At<'_>, errors: &mut Errors) {
    if list.is_empty() {
        errors.required(list, "");
    }
    let (mut all_subresources, mut all_resources) = (HashSet::new(), HashSet::new());
    let (mut single, mut double, mut plain) = (false, false, false);
    let mut count = 0;
    for item in list.items() {
        count += 1;
        let text = item.text();
        if text.is_empty() {
            errors.required(&item, "");
            continue;
        }
        double |= text == "*/*";
        single |= text == "*";
        let Some((resource, subresource)) = text.split_once('/') else {
            plain = text != "*";
            continue;
        };
        if all_subresources.contains(resource) {
            errors.invalid(&item, &format!("if '{resource}/*' is present, must not specify {text}"));
        }
        if all_resources.contains(subresource) {
            errors.invalid(&item, &format!("if '*/{subresource}' is present, must not specify {text}"));
        }
        if subresource == "*" {
            all_subresources.insert(resource);
        }
        if resource == "*" {
            all_resources.insert(subresource);
        }
    }
    if count > 1 && double {
        errors.invalid(list, "if '*/*' is present, must not specify other resources");
    }
    if single && plain {
        errors.invalid(list, "if '*' is present, must not specify other resources without subresources");
    }
}

fn review_versions(versions: &At<'_>, errors: &mut Errors) {
    if versions.is_empty() {
        errors.required(versions, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        if !seen.insert(version.text()) {
            errors.invalid(&version, "duplicate version");
            continue;
        }
        for why in names::dns_1035_label_errors(version.text()) {
            errors.invalid(&version, &why);
        }
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        errors.invalid(versions, "must include at least one of v1, v1beta1");
    }
}

/// Exactly one of `url` and `service`, and that one well-formed.
fn client(config: &At<'_>, errors: &mut Errors) {
    let (url, service) = (config.field("url"), config.field("service"));
    match (url.exists(), service.exists()) {
        (true, false) => self::url(&url, errors),
        (false, true) => self::service(&service, errors),
        _ => errors.required(config, "exactly one of url or service is required"),
    }
}

fn url(at: &At<'_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let text = at.text();
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    if scheme != "https" {
        errors.invalid_value(at, scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or_default() };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        errors.invalid_value(at, host, &format!("host must be specified{FORM}"));
    }
    if !user.is_empty() {
        errors.invalid_value(at, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        errors.invalid_value(at, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        errors.invalid_value(at, query, "query parameters are not permitted in the URL");
    }
}

fn service(service: &At<'_>, errors: &mut Errors) {
    for field in ["name", "namespace"] {
        let at = service.field(field);
        if at.is_empty() {
            errors.required(&at, "");
        }
    }
    let port = service.field("port");
    if port.exists() && port.value.as_i64().is_none_or(|p| !(1..=65535).contains(&p)) {
        errors.invalid(&port, "port is not valid: must be between 1 and 65535, inclusive");
    }
    let path = service.field("path");
    let text = path.text();
    if matches!(text, "" | "/") {
        return;
    }
    if text == "//" {
        errors.invalid(&path, "segment[0] may not be empty");
        return;
    }
    let Some(steps) = text.strip_prefix('/') else {
        errors.invalid(&path, "must start with a '/'");
        return;
    };
    for (i, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(&path, &format!("segment[{i}] may not be empty"));
            continue;
        }
        for why in names::dns_subdomain_errors(step) {
            errors.invalid(&path, &format!("segment[{i}]: {why}"));
        }
    }
}

/// Match conditions; what they may refer to is `declared`.
pub(super) fn conditions(list: &At<'_>, declared: &Declared, errors: &mut Errors) {
    const MAX: usize = 64;
    if list.value.as_array().is_some_and(|l| l.len() > MAX) {
        errors.too_many(list, MAX);
    }
    let environment = declared.environment();
    let mut seen = HashSet::new();
    for condition in list.items() {
        let (name, expression) = (condition.field("name"), condition.field("expression"));
        let text = expression.text().trim();
        if text.is_empty() {
            errors.required(&expression, "");
        } else if let Err(why) = admission::compile(&environment, text, &[Type::Bool]) {
            errors.invalid_value(&expression, text, &why);
        }
        if name.is_empty() {
            errors.required(&name, "");
            continue;
        }
        for why in names::qualified_name_errors(name.text()) {
            errors.invalid(&name, &why);
        }
        if !seen.insert(name.value.as_str().unwrap_or_default()) {
            errors.duplicate(&name);
        }
    }
}
