//! `metadata` of every kind. Source: apimachinery `pkg/api/validation/objectmeta.go`.

use serde_json::Value;

use super::check::{At, Errors};
use crate::{catalog::Descriptor, names};

const MAX_ANNOTATIONS: usize = 256 << 10;

fn name_form(descriptor: &Descriptor) -> fn(&str) -> Vec<String> {
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("", "namespaces") => names::dns_label_errors,
        // Since 1.36 a service's name may start with a digit.
        ("", "services") => names::dns_label_errors,
        ("rbac.authorization.k8s.io" | "certificates.k8s.io", _) => names::path_segment_errors,
        _ => names::dns_subdomain_errors,
    }
}

fn common(metadata: &At<'_>, errors: &mut Errors) {
    errors.labels(&metadata.field("labels"));
    let annotations = metadata.field("annotations");
    let mut size = 0;
    for (key, value) in annotations.entries() {
        size += key.len() + value.text().len();
        for why in names::qualified_name_errors(&key.to_lowercase()) {
            errors.invalid_value(&annotations, key, &why);
        }
    }
    if size > MAX_ANNOTATIONS {
        errors.too_long(&annotations, MAX_ANNOTATIONS);
    }
    let owners = metadata.field("ownerReferences");
    let mut controller = None;
    for owner in owners.items() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.field(field).is_empty() {
                errors.required(&owner.field(field), "must not be empty");
            }
        }
        if owner.field("apiVersion").text() == "v1" && owner.field("kind").text() == "Event" {
            errors.invalid(&owner, "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.field("controller").value == &Value::Bool(true) {
            let name = format!("{}/{}", owner.field("kind").text(), owner.field("name").text());
            match &controller {
                None => controller = Some(name),
                Some(first) => errors.invalid(
                    &owners,
                    &format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"),
                ),
            }
        }
    }
}

fn finalizers(metadata: &At<'_>, errors: &mut Errors) {
    let finalizers = metadata.field("finalizers");
    for finalizer in finalizers.items() {
        for why in names::qualified_name_errors(finalizer.text()) {
            errors.invalid_value(&finalizers, finalizer.text(), &why);
        }
    }
    let has = |name: &str| finalizers.items().any(|f| f.text() == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.invalid(&finalizers, "finalizer orphan and foregroundDeletion cannot be both set");
    }
}

pub(super) fn create(descriptor: &Descriptor, object: &At<'_>, errors: &mut Errors) {
    let metadata = object.field("metadata");
    let (name, generate) = (metadata.field("name"), metadata.field("generateName"));
    let form = name_form(descriptor);
    if !generate.is_empty() {
        // What is appended makes a trailing separator right.
        let masked = match generate.text().strip_suffix('-') {
            Some(base) => format!("{base}a"),
            None => generate.text().to_owned(),
        };
        for why in form(&masked) {
            errors.invalid(&generate, &why);
        }
    }
    if name.is_empty() {
        errors.required(&name, "name or generateName is required");
    } else {
        for why in form(name.text()) {
            errors.invalid(&name, &why);
        }
    }
    let namespace = metadata.field("namespace");
    match (descriptor.namespaced, namespace.is_empty()) {
        (true, true) => errors.required(&namespace, ""),
        (true, false) => {
            for why in names::dns_label_errors(namespace.text()) {
                errors.invalid(&namespace, &why);
            }
        }
        (false, false) => errors.forbidden(&namespace, "not allowed on this type"),
        (false, true) => {}
    }
    common(&metadata, errors);
    finalizers(&metadata, errors);
}

pub(super) fn update(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (new, old) = (new.field("metadata"), old.field("metadata"));
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        errors.immutable(&new.field(field), &old.field(field));
    }
    if old.field("deletionTimestamp").exists() {
        let before = old.field("finalizers");
        let added: Vec<String> = new
            .field("finalizers")
            .items()
            .filter(|f| !before.items().any(|b| b.value == f.value))
            .map(|f| format!("{:?}", f.text()))
            .collect();
        if !added.is_empty() {
            errors.forbidden(
                &new.field("finalizers"),
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.join(", ")
                ),
            );
        }
    }
    common(&new, errors);
    finalizers(&new, errors);
}

/// Metadata of an embedded resource: what is there must be right, nothing is required.
pub(super) fn embedded(metadata: &At<'_>, errors: &mut Errors) {
    for field in ["name", "generateName"] {
        let at = metadata.field(field);
        if !at.is_empty() {
            for why in names::path_segment_errors(at.text()) {
                errors.invalid(&at, &why);
            }
        }
    }
    let namespace = metadata.field("namespace");
    if !namespace.is_empty() {
        for why in names::dns_label_errors(namespace.text()) {
            errors.invalid(&namespace, &why);
        }
    }
    common(metadata, errors);
    finalizers(metadata, errors);
}
