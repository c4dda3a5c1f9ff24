//! Validation of the definitions themselves. Source: apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go`. Paths are
//! those of upstream's internal form: what all versions say alike stands once, at `spec.validation` and the like.

use serde_json::Value;

use super::{errors, field_path, openapi, pattern::budget, schema::Schema};
use crate::{names, validate::FieldError};

/// Selectable fields that a version may have.
const MAX_SELECTABLE: i64 = 8;
const APPROVAL: &str = "api-approved.kubernetes.io";

/// Checks a new definition; its metadata has been checked as every object's.
pub fn validate_create(definition: &Value, found: &mut Vec<FieldError>) {
    let name = text(&definition["metadata"], "name");
    let spec = &definition["spec"];
    let wanted = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    if name != wanted {
        found.push(errors::invalid("metadata.name", &name.into(), "must be spec.names.plural+\".\"+spec.group"));
    }
    budget::within(|| validate_spec(spec, None, found));
    stored_versions(definition, found);
    approval(definition, None, found);
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        found.push(errors::invalid(
            "spec.preserveUnknownFields",
            &Value::Bool(true),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
}

/// Checks a changed definition. What it had before is let be where upstream does.
pub fn validate_update(new: &Value, old: &Value, found: &mut Vec<FieldError>) {
    let (spec, was) = (&new["spec"], &old["spec"]);
    budget::within(|| validate_spec(spec, Some(was), found));
    let established = old
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .is_some_and(|conditions| conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
    let mut immutable = |pointer: &str, path: &str| {
        let (value, before) = (spec.pointer(pointer), was.pointer(pointer));
        if value != before {
            found.push(errors::invalid(path, value.unwrap_or(&Value::Null), "field is immutable"));
        }
    };
    if established {
        immutable("/scope", "spec.scope");
        immutable("/names/kind", "spec.names.kind");
    }
    immutable("/group", "spec.group");
    immutable("/names/plural", "spec.names.plural");
    stored_versions(new, found);
    approval(new, Some(old), found);
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn validate_spec(spec: &Value, was: Option<&Value>, found: &mut Vec<FieldError>) {
    let group = text(spec, "group");
    let wrong = names::dns_subdomain_errors(group);
    if group.is_empty() {
        found.push(errors::required("spec.group", ""));
    } else if !wrong.is_empty() {
        found.push(errors::invalid("spec.group", &group.into(), &wrong.join(",")));
    } else if !group.contains('.') {
        found.push(errors::invalid("spec.group", &group.into(), "should be a domain with at least one dot"));
    }
    one_of(spec, "scope", "spec.scope", &["Cluster", "Namespaced"], found);

    let versions = list(spec, "versions");
    let schema_of = |v: &Value| v.pointer("/schema/openAPIV3Schema").filter(|s| s.is_object()).cloned();
    let had_all = was.is_none_or(|w| list(w, "versions").iter().all(|v| schema_of(v).is_some()));
    for (i, version) in versions.iter().enumerate() {
        if had_all && schema_of(version).is_none() {
            found.push(errors::required(&format!("spec.versions[{i}].schema.openAPIV3Schema"), ""));
        }
    }
    // What all versions say alike stands once.
    let alike = |key: &str| {
        let mut values = versions.iter().map(|v| v.get(key).filter(|x| !x.is_null()));
        let first = values.next().flatten();
        first.is_some() && values.all(|v| v == first)
    };
    let hoisted: Vec<&str> = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"]
        .into_iter()
        .filter(|k| alike(k))
        .collect();
    let mut seen: Vec<&str> = Vec::new();
    let mut repeated = false;
    for (i, version) in versions.iter().enumerate() {
        let name = text(version, "name");
        let wrong = names::dns_1035_label_errors(name);
        if !wrong.is_empty() {
            found.push(errors::invalid(&format!("spec.versions[{i}].name"), &name.into(), &wrong.join(",")));
        }
        repeated |= seen.contains(&name);
        seen.push(name);
        let at = |key: &str| match (hoisted.contains(&key), key) {
            (true, "schema") => "spec.validation".to_owned(),
            (true, key) => format!("spec.{key}"),
            (false, key) => format!("spec.versions[{i}].{key}"),
        };
        // What is said alike is told of the first only.
        let tells = |key: &str| i == 0 || !hoisted.contains(&key);
        deprecation(version, &format!("spec.versions[{i}]"), found);
        let schema = schema_of(version);
        if let Some(schema) = schema.as_ref().filter(|_| tells("schema")) {
            let status = version.pointer("/subresources/status").is_some_and(Value::is_object);
            let before =
                was.and_then(|w| list(w, "versions").iter().find(|v| text(v, "name") == name).and_then(schema_of));
            openapi::validate(schema, before.as_ref(), status, &format!("{}.openAPIV3Schema", at("schema")), found);
        }
        if let Some(scale) = version.pointer("/subresources/scale").filter(|s| s.is_object() && tells("subresources")) {
            scale_paths(scale, &at("subresources"), found);
        }
        if tells("additionalPrinterColumns") {
            for (n, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
                self::column(column, &format!("{}[{n}]", at("additionalPrinterColumns")), found);
            }
        }
        if tells("selectableFields") {
            selectable(list(version, "selectableFields"), schema.as_ref(), &at("selectableFields"), found);
        }
    }
    let all = || spec.get("versions").cloned().unwrap_or(Value::Null);
    if repeated {
        found.push(errors::invalid("spec.versions", &all(), "must contain unique version names"));
    }
    if versions.iter().filter(|v| v.get("storage") == Some(&Value::Bool(true))).count() != 1 {
        found.push(errors::invalid("spec.versions", &all(), "must have exactly one version marked as storage version"));
    }
    validate_names(&spec["names"], found);
    conversion(&spec["conversion"], found);
}

fn one_of(of: &Value, key: &str, path: &str, allowed: &[&str], found: &mut Vec<FieldError>) {
    let value = text(of, key);
    if value.is_empty() {
        found.push(errors::required(path, ""));
    } else if !allowed.contains(&value) {
        found.push(errors::not_supported(path, &value.into(), allowed.iter().map(|a| (*a).into())));
    }
}

fn validate_names(of: &Value, found: &mut Vec<FieldError>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(of, field).is_empty() {
            found.push(errors::required(&format!("spec.names.{field}"), ""));
        }
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let name = text(of, field);
        let mixed = matches!(field, "kind" | "listKind");
        let wrong = names::dns_1035_label_errors(&if mixed { name.to_lowercase() } else { name.to_owned() });
        if !name.is_empty() && !wrong.is_empty() {
            let start = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            let why = format!("{start}{}", wrong.join(","));
            found.push(errors::invalid(&format!("spec.names.{field}"), &name.into(), &why));
        }
    }
    for field in ["shortNames", "categories"] {
        for (i, name) in list(of, field).iter().enumerate() {
            let wrong = names::dns_1035_label_errors(name.as_str().unwrap_or_default());
            if !wrong.is_empty() {
                found.push(errors::invalid(&format!("spec.names.{field}[{i}]"), name, &wrong.join(",")));
            }
        }
    }
    let kind = text(of, "kind");
    if !kind.is_empty() && kind == text(of, "listKind") {
        found.push(errors::invalid("spec.names.listKind", &kind.into(), "kind and listKind may not be the same"));
    }
}

fn deprecation(version: &Value, path: &str, found: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let at = format!("{path}.deprecationWarning");
    let mut fail = |why: &str| found.push(errors::invalid(&at, &warning.into(), why));
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        return fail("can only be set for deprecated versions");
    }
    if warning.len() > 256 {
        fail("must be <= 256 characters long");
    }
    if warning.is_empty() {
        fail("must not be an empty string");
    }
    if let Some((i, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        fail(&format!("must only contain printable UTF-8 characters; non-printable character found at index {i}"));
    }
}

fn simple_path(path: &str, at: &str, found: &mut Vec<FieldError>) -> bool {
    if path.starts_with('.') {
        return true;
    }
    found.push(errors::invalid(at, &path.into(), "must be a simple json path starting with ."));
    false
}

fn scale_paths(scale: &Value, path: &str, found: &mut Vec<FieldError>) {
    for (field, prefix, why) in [
        ("specReplicasPath", ".spec.", "should be a json path under .spec"),
        ("statusReplicasPath", ".status.", "should be a json path under .status"),
    ] {
        let (at, value) = (format!("{path}.scale.{field}"), text(scale, field));
        if value.is_empty() {
            found.push(errors::required(&at, ""));
        } else if simple_path(value, &at, found) && !value.starts_with(prefix) {
            found.push(errors::invalid(&at, &value.into(), why));
        }
    }
    let (at, value) = (format!("{path}.scale.labelSelectorPath"), text(scale, "labelSelectorPath"));
    if !value.is_empty()
        && simple_path(value, &at, found)
        && !value.starts_with(".spec.")
        && !value.starts_with(".status.")
    {
        found.push(errors::invalid(&at, &value.into(), "should be a json path under either .spec or .status"));
    }
}

fn column(column: &Value, path: &str, found: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 9] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "name", "password"];
    if text(column, "name").is_empty() {
        found.push(errors::required(&format!("{path}.name"), ""));
    }
    let (kind, format, json_path) = (text(column, "type"), text(column, "format"), text(column, "jsonPath"));
    let one_of = |all: &[&str]| format!("must be one of {}", all.join(","));
    if kind.is_empty() {
        found.push(errors::required(&format!("{path}.type"), &one_of(&TYPES)));
    } else if !TYPES.contains(&kind) {
        found.push(errors::invalid(&format!("{path}.type"), &kind.into(), &one_of(&TYPES)));
    }
    if !format.is_empty() && !FORMATS.contains(&format) {
        found.push(errors::invalid(&format!("{path}.format"), &format.into(), &one_of(&FORMATS)));
    }
    if json_path.is_empty() {
        found.push(errors::required(&format!("{path}.JSONPath"), ""));
    } else {
        simple_path(json_path, &format!("{path}.JSONPath"), found);
    }
}

fn selectable(fields: &[Value], schema: Option<&Value>, path: &str, found: &mut Vec<FieldError>) {
    let Some(schema) = schema.map(Schema::parse) else { return };
    let mut seen: Vec<String> = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        let (at, value) = (format!("{path}[{i}].jsonPath"), text(field, "jsonPath"));
        if value.is_empty() {
            found.push(errors::required(&at, ""));
            continue;
        }
        let (name, of) = match field_path::resolve(value, &schema, false) {
            Ok(resolved) => resolved,
            Err(why) => {
                found.push(errors::invalid(&at, &value.into(), &format!("is an invalid path: {why}")));
                continue;
            }
        };
        if name.split(['.', '[']).next() == Some("metadata") {
            found.push(errors::invalid(&at, &value.into(), "must not point to fields in metadata"));
        }
        if !matches!(of.type_name(), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            found.push(errors::invalid(&at, &value.into(), why));
        }
        if seen.contains(&name) {
            found.push(errors::duplicate(&at, &value.into()));
        } else {
            seen.push(name);
        }
    }
    if seen.len() as i64 > MAX_SELECTABLE {
        found.push(errors::too_many(path, seen.len(), MAX_SELECTABLE));
    }
}

fn conversion(conversion: &Value, found: &mut Vec<FieldError>) {
    if !conversion.is_object() {
        return;
    }
    one_of(conversion, "strategy", "spec.conversion.strategy", &["None", "Webhook"], found);
    let webhook = conversion.get("webhook").filter(|w| w.is_object());
    let client = webhook.and_then(|w| w.get("clientConfig")).filter(|c| c.is_object());
    let versions = webhook.map(|w| list(w, "conversionReviewVersions")).unwrap_or_default();
    let (client_at, versions_at) = ("spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions");
    if text(conversion, "strategy") != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        found.extend(client.map(|_| errors::forbidden(client_at, why)));
        found.extend((!versions.is_empty()).then(|| errors::forbidden(versions_at, why)));
        return;
    }
    match client {
        None => found.push(errors::required(client_at, "required when strategy is set to Webhook")),
        Some(client) => {
            let (url, service) = (client.get("url").is_some(), client.get("service").is_some());
            if url == service {
                found.push(errors::required(client_at, "exactly one of url or service is required"));
            } else if url && !text(client, "url").starts_with("https://") {
                let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                found.push(errors::invalid(&format!("{client_at}.url"), &text(client, "url").into(), why));
            } else if service {
                for field in ["name", "namespace"] {
                    if text(&client["service"], field).is_empty() {
                        let why = format!("service {field} is required");
                        found.push(errors::required(&format!("{client_at}.service.{field}"), &why));
                    }
                }
            }
        }
    }
    if versions.is_empty() {
        found.push(errors::required(versions_at, ""));
    } else if !versions.iter().any(|v| v == "v1" || v == "v1beta1") {
        found.push(errors::invalid(versions_at, &versions.into(), "must include at least one of v1, v1beta1"));
    }
}

fn stored_versions(definition: &Value, found: &mut Vec<FieldError>) {
    let stored = list(&definition["status"], "storedVersions");
    if stored.is_empty() {
        found.push(errors::invalid("status.storedVersions", &stored.into(), "must have at least one stored version"));
        return;
    }
    let versions = list(&definition["spec"], "versions");
    for (i, name) in stored.iter().enumerate() {
        if !versions.iter().any(|v| v.get("name") == Some(name)) {
            let name_text = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {name_text} was previously a storage version, and must remain in spec.versions until a \
                 storage migration ensures no data remains persisted in {name_text} and removes {name_text} from status.storedVersions"
            );
            found.push(errors::invalid(&format!("status.storedVersions[{i}]"), name, &why));
        }
    }
}

/// Groups of the community need an approval.
fn approval(new: &Value, old: Option<&Value>, found: &mut Vec<FieldError>) {
    let group = text(&new["spec"], "group");
    if !(group.ends_with(".k8s.io")
        || group == "k8s.io"
        || group.ends_with(".kubernetes.io")
        || group == "kubernetes.io")
    {
        return;
    }
    let of = |d: &Value| {
        d.pointer("/metadata/annotations").and_then(|a| a.get(APPROVAL)).and_then(Value::as_str).map(str::to_owned)
    };
    let annotation = of(new);
    if old.is_some_and(|o| of(o) == annotation) {
        return;
    }
    let at = format!("metadata.annotations[{APPROVAL}]");
    let more = "see https://github.com/kubernetes/enhancements/pull/1111";
    match annotation.as_deref() {
        None | Some("") => {
            let why = format!("protected groups must have approval annotation {APPROVAL:?}, {more}");
            found.push(errors::required(&at, &why));
        }
        Some(text) if text.starts_with("unapproved") || (text.contains("://") && super::is_request_uri(text)) => {}
        Some(text) => {
            let why = format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \"unapproved\", {more}"
            );
            found.push(errors::invalid(&at, &text.into(), &why));
        }
    }
}

#[cfg(test)]
#[path = "definition/tests.rs"]
mod tests;
