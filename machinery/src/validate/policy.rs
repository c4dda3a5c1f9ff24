//! Admission policies and their bindings. Source of rules and texts: upstream's `pkg/apis/admissionregistration/validation`.

use serde_json::Value;

use super::{
    check::{At, Errors},
    webhook,
};
use crate::{
    cel::{
        self, Environment, Type,
        admission::{self, Declared},
    },
    names,
};

const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// Longest expression of the value of an audit annotation, in bytes.
const MAX_AUDIT_EXPRESSION: usize = 5 << 10;

/// A ValidatingAdmissionPolicy.
pub(super) fn validating(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let mut declared = common(&spec, errors);
    variables(&spec, &mut declared, errors);
    let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.required(&validations, why);
        errors.required(&annotations, why);
        return;
    }
    let environment = declared.environment();
    // What a message says does not depend on what somebody may do.
    let messages = Declared { authorizer: false, ..declared }.environment();
    for validation in validations.items() {
        self::validation(&validation, &environment, &messages, errors);
    }
    let count = annotations.value.as_array().map_or(0, Vec::len);
    if count > MAX_AUDIT_ANNOTATIONS {
        errors.invalid(&annotations, &format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations"));
    }
    let mut seen = Vec::new();
    for annotation in annotations.items() {
        audit_annotation(&annotation, object.value, &environment, errors);
        let key = annotation.field("key");
        if seen.contains(&key.text()) {
            errors.duplicate(&key);
        }
        seen.push(key.text());
    }
}

/// A MutatingAdmissionPolicy.
pub(super) fn mutating(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let mut declared = common(&spec, errors);
    operations(&spec.field("matchConstraints"), errors);
    variables(&spec, &mut declared, errors);
    declared.patches = true;
    let environment = declared.environment();
    let mutations = spec.field("mutations");
    if mutations.is_empty() {
        errors.required(&mutations, "mutations must contain at least one item");
    }
    for mutation in mutations.items() {
        self::mutation(&mutation, &environment, errors);
    }
    errors.one_of(&spec.field("reinvocationPolicy"), &["IfNeeded", "Never"]);
}

/// A binding of a policy.
pub(super) fn binding(object: &At<'_>, mutating: bool, errors: &mut Errors) {
    let spec = object.field("spec");
    errors.named(&spec.field("policyName"), names::dns_subdomain_errors);
    param_ref(&spec.field("paramRef"), errors);
    let matching = spec.field("matchResources");
    if matching.exists() {
        // Upstream's path is misspelt for one of them.
        let path = if mutating { "spec.matchResources" } else { "spec.matchResouces" };
        let matching = At { value: matching.value, path: path.to_owned() };
        match_resources(&matching, errors);
        if mutating {
            operations(&matching, errors);
        }
    }
    if !mutating {
        actions(&spec.field("validationActions"), errors);
    }
}

/// What both policies have in common; returns what their expressions may refer to.
fn common(spec: &At<'_>, errors: &mut Errors) -> Declared {
    errors.one_of(&spec.field("failurePolicy"), &["Fail", "Ignore"]);
    let params = spec.field("paramKind");
    if params.exists() {
        param_kind(&params, errors);
    }
    let matching = spec.field("matchConstraints");
    if matching.exists() {
        match_resources(&matching, errors);
        let rules = matching.field("resourceRules");
        if rules.is_empty() {
            errors.required(&rules, "");
        }
    } else {
        errors.required(&matching, "");
    }
    let declared = Declared { params: params.exists(), authorizer: true, ..Declared::default() };
    webhook::conditions(&spec.field("matchConditions"), &declared, errors);
    declared
}

fn variables(spec: &At<'_>, declared: &mut Declared, errors: &mut Errors) {
    for variable in spec.field("variables").items() {
        let (name, expression) = (variable.field("name"), variable.field("expression"));
        if name.text().trim().is_empty() {
            errors.required(&name, "name is not specified");
        } else if !cel::is_identifier(name.text()) {
            errors.invalid(&name, "name is not a valid CEL identifier");
        }
        if expression.text().trim().is_empty() {
            errors.required(&expression, "expression is not specified");
        } else if let Err(why) = declared.add_variable(name.text(), expression.text()) {
            errors.invalid(&expression, &why);
        }
    }
}

/// Compiles an expression that is there.
pub(super) fn expression(at: &At<'_>, environment: &Environment, wanted: &[Type], errors: &mut Errors) {
    if let Err(why) = admission::compile(environment, at.text(), wanted) {
        errors.invalid(at, &why);
    }
}

fn breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

fn validation(validation: &At<'_>, environment: &Environment, messages: &Environment, errors: &mut Errors) {
    let (rule, made, message) =
        (validation.field("expression"), validation.field("messageExpression"), validation.field("message"));
    if rule.text().trim().is_empty() {
        errors.required(&rule, "expression is not specified");
    } else {
        expression(&rule, environment, &[Type::Bool], errors);
    }
    if !made.is_empty() {
        if made.text().trim().is_empty() {
            errors.invalid(&made, "must be non-empty if specified");
        } else {
            expression(&made, messages, &[Type::String], errors);
        }
    }
    if !message.is_empty() && message.text().trim().is_empty() {
        errors.invalid(&message, "message must be non-empty if specified");
    } else if breaks(message.text().trim()) {
        errors.invalid(&message, "message must not contain line breaks");
    }
    errors
        .if_set_one_of(&validation.field("reason"), &["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"]);
}

fn audit_annotation(annotation: &At<'_>, policy: &Value, environment: &Environment, errors: &mut Errors) {
    let (key, value) = (annotation.field("key"), annotation.field("valueExpression"));
    match policy.pointer("/metadata/name").and_then(Value::as_str) {
        None | Some("") => errors.invalid(&key, "requires metadata.name be non-empty"),
        Some(name) => {
            let full = format!("{name}/{}", key.text());
            for why in names::qualified_name_errors(&full) {
                errors.invalid_value(&key, &full, &why);
            }
        }
    }
    let text = value.text().trim();
    if text.is_empty() {
        errors.required(&value, "valueExpression is not specified");
    } else if text.len() > MAX_AUDIT_EXPRESSION {
        errors.required(&value, &format!("must not exceed {MAX_AUDIT_EXPRESSION} bytes in length"));
    } else if let Err(why) = admission::compile(environment, text, &[Type::String, Type::Null]) {
        errors.invalid(&value, &why);
    }
}

fn mutation(mutation: &At<'_>, environment: &Environment, errors: &mut Errors) {
    let kind = mutation.field("patchType");
    let (patch, apply) = (mutation.field("jsonPatch"), mutation.field("applyConfiguration"));
    let (own, other, wanted) = match kind.text() {
        "" => return errors.required(&kind, ""),
        "JSONPatch" => (patch, apply, admission::json_patch_type()),
        "ApplyConfiguration" => (apply, patch, admission::apply_configuration_type()),
        _ => return errors.if_set_one_of(&kind, &["ApplyConfiguration", "JSONPatch"]),
    };
    if own.exists() {
        let text = own.field("expression");
        if text.text().trim().is_empty() {
            errors.required(&text, "");
        } else if let Err(why) = admission::compile(environment, text.text().trim(), &[wanted]) {
            errors.invalid_value(&text, text.text().trim(), &why);
        }
    } else {
        errors.required(&own, &format!("must be specified when patchType is {}", kind.text()));
    }
    if other.exists() {
        let name = other.path.rsplit('.').next().unwrap_or_default();
        let why = format!("must not be specified when patchType is {}", kind.text());
        errors.invalid_value(&other, &format!("{{{name}}}"), &why);
    }
}

fn param_kind(kind: &At<'_>, errors: &mut Errors) {
    let (version, name) = (kind.field("apiVersion"), kind.field("kind"));
    let text = version.text();
    let (group, own) = text.split_once('/').unwrap_or(("", text));
    if text.is_empty() {
        errors.required(&version, "");
    } else if own.contains('/') {
        errors.invalid(&version, &format!("unexpected GroupVersion string: {text}"));
    } else {
        let wrong = names::dns_subdomain_errors(group);
        if !group.is_empty() && !wrong.is_empty() {
            errors.invalid_value(&version, group, &wrong.join(","));
        }
        let wrong = names::dns_1035_label_errors(own);
        if own.is_empty() {
            errors.invalid(&version, "version must be specified");
        } else if !wrong.is_empty() {
            errors.invalid_value(&version, own, &wrong.join(","));
        }
    }
    let wrong = names::dns_1035_label_errors(&name.text().to_lowercase());
    if name.is_empty() {
        errors.required(&name, "");
    } else if !wrong.is_empty() {
        errors.invalid(&name, &format!("may have mixed case, but should otherwise match: {}", wrong.join(",")));
    }
}

fn match_resources(matching: &At<'_>, errors: &mut Errors) {
    errors.one_of(&matching.field("matchPolicy"), &["Equivalent", "Exact"]);
    for selector in ["namespaceSelector", "objectSelector"] {
        let selector = matching.field(selector);
        if selector.exists() {
            errors.selector(&selector);
        } else {
            errors.required(&selector, "");
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in matching.field(list).items() {
            let mut seen = Vec::new();
            for name in rule.field("resourceNames").items() {
                for why in names::path_segment_errors(name.text()) {
                    errors.invalid(&name, &why);
                }
                if seen.contains(&name.value) {
                    errors.duplicate(&name);
                }
                seen.push(name.value);
            }
            webhook::rule(&rule, errors);
        }
    }
}

/// Only what is created or updated has a body to change.
fn operations(matching: &At<'_>, errors: &mut Errors) {
    let rules = matching.field("resourceRules");
    for rule in rules.items() {
        for operation in rule.field("operations").items() {
            let at = At { value: operation.value, path: format!("{}.operations", rules.path) };
            errors.if_set_one_of(&at, &["CREATE", "UPDATE"]);
        }
    }
}

fn actions(actions: &At<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for action in actions.items() {
        errors.if_set_one_of(&action, &["Audit", "Deny", "Warn"]);
        if seen.contains(&action.text()) {
            errors.duplicate(&action);
        }
        seen.push(action.text());
    }
    if seen.contains(&"Deny") && seen.contains(&"Warn") {
        errors.invalid(
            actions,
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        );
    }
    if seen.is_empty() {
        errors.required(actions, "at least one validation action is required");
    }
}

fn param_ref(reference: &At<'_>, errors: &mut Errors) {
    if !reference.exists() {
        return;
    }
    let (name, selector) = (reference.field("name"), reference.field("selector"));
    if !name.is_empty() {
        for why in names::path_segment_errors(name.text()) {
            errors.invalid(&name, &why);
        }
        if selector.exists() {
            errors.forbidden(&name, "name and selector are mutually exclusive");
        }
    }
    if selector.exists() {
        errors.selector(&selector);
        if !name.is_empty() {
            errors.forbidden(&selector, "name and selector are mutually exclusive");
        }
    }
    if name.is_empty() && !selector.exists() {
        errors.required(reference, "one of name or selector must be specified");
    }
    errors.one_of(&reference.field("parameterNotFoundAction"), &["Deny", "Allow"]);
}
