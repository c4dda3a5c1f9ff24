//! Validation per kind, with upstream's field paths, reasons and messages.

mod aggregation;
mod autoscaling;
mod check;
mod claim;
mod classes;
mod cluster;
mod flow_control;
mod metadata;
mod network;
mod node;
mod placement;
mod pod;
mod policy;
mod quota;
mod resources;
mod secret;
mod security;
mod service;
mod storage;
mod volume;
mod webhook;
mod workload;

use serde_json::Value;

use crate::{catalog::Descriptor, crd};
use check::{At, Errors};

/// One field that is not right: `field.Error` of apimachinery.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// `FieldValueRequired`, `FieldValueInvalid`, `FieldValueNotSupported`, `FieldValueForbidden`, `FieldValueTooLong`,
    /// `FieldValueTooMany`, `FieldValueDuplicate`, `FieldValueNotFound`, `FieldValueTypeInvalid`, `InternalError`.
    pub reason: &'static str,
    /// Path: `spec.containers[0].name`.
    pub field: String,
    /// The text after `path: `, such as `Required value` or `Invalid value: "x": must be ..`.
    pub body: String,
}

impl FieldError {
    /// The message without the path, as in `causes[].message`.
    pub fn body(&self) -> &str {
        &self.body
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// Checks a new object (after defaulting, with its metadata filled in).
pub fn create(descriptor: &Descriptor, object: &Value) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let root = At::root(object);
    metadata::create(descriptor, &root, &mut errors);
    if let Some(definition) = &descriptor.definition {
        definition.validate_create(object, &mut errors.0);
    } else if !descriptor.custom {
        kind(descriptor, &root, &mut errors);
        let ephemeral = root.field("spec").field("ephemeralContainers");
        if descriptor.group.is_empty() && descriptor.plural == "pods" && !ephemeral.is_empty() {
            errors.forbidden(&ephemeral, "cannot be set on create");
        }
    }
    if is_definition(descriptor) {
        crd::definition::validate_create(object, &mut errors.0);
    }
    errors.0
}

/// Checks a change: the new object by itself, and what must not change. `subresource` is "" or "status", "scale", ..
pub fn update(descriptor: &Descriptor, subresource: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let documents = (new, old);
    let (new, old) = (At::root(new), At::root(old));
    metadata::update(&new, &old, &mut errors);
    if let Some(definition) = &descriptor.definition {
        definition.validate_update(subresource, documents.0, documents.1, &mut errors.0);
    }
    if subresource == "ephemeralcontainers" {
        classes::ephemeral_containers(&new, &old, &mut errors);
    }
    if subresource.is_empty() && !descriptor.custom {
        // Only what changes is checked: an object that is there must be able to lose its finalizers.
        if !check::same(new.field("spec").value, old.field("spec").value) || !new.field("spec").exists() {
            kind(descriptor, &new, &mut errors);
        }
        if descriptor.group.is_empty() && descriptor.plural == "pods" {
            pod::update(&new, &old, &mut errors);
        }
        match (descriptor.group.as_str(), descriptor.plural.as_str()) {
            ("", "services") => service::update(&new.field("spec"), &old.field("spec"), &mut errors),
            ("", "resourcequotas") => quota::quota_update(&new.field("spec"), &old.field("spec"), &mut errors),
            ("", "nodes") => node::node_update(&new, &old, &mut errors),
            _ => {}
        }
        storage::update(descriptor, &new, &old, &mut errors);
        workload::update(descriptor, &new, &old, &mut errors);
        cluster::update(descriptor, &new, &old, &mut errors);
        classes::update(descriptor, &new, &old, &mut errors);
        if is_definition(descriptor) && !check::same(new.field("spec").value, old.field("spec").value) {
            crd::definition::validate_update(documents.0, documents.1, &mut errors.0);
        }
    }
    errors.0
}

fn is_definition(descriptor: &Descriptor) -> bool {
    descriptor.group == "apiextensions.k8s.io" && descriptor.plural == "customresourcedefinitions"
}

/// Checks the metadata of a resource that lies inside of another one (`x-kubernetes-embedded-resource`), or what a
/// conversion webhook made of an object's metadata.
pub fn embedded_metadata(metadata: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Errors::default();
    metadata::embedded(&At { value: metadata, path: path.to_owned() }, &mut errors);
    errors.0
}

fn kind(descriptor: &Descriptor, object: &At<'_>, errors: &mut Errors) {
    if descriptor.group.is_empty() && descriptor.plural == "pods" {
        pod::spec(&object.field("spec"), &["Always", "OnFailure", "Never"], errors);
    }
    if descriptor.group == "apiregistration.k8s.io" {
        aggregation::api_service(object, errors);
    }
    if descriptor.group == "admissionregistration.k8s.io" {
        match descriptor.plural.as_str() {
            "mutatingwebhookconfigurations" => webhook::configuration(object, true, errors),
            "validatingwebhookconfigurations" => webhook::configuration(object, false, errors),
            "validatingadmissionpolicies" => policy::validating(object, errors),
            "mutatingadmissionpolicies" => policy::mutating(object, errors),
            "validatingadmissionpolicybindings" => policy::binding(object, false, errors),
            "mutatingadmissionpolicybindings" => policy::binding(object, true, errors),
            _ => {}
        }
    }
    let spec = object.field("spec");
    match (descriptor.group.as_str(), descriptor.plural.as_str()) {
        ("", "services") => service::service(&spec, errors),
        ("", "nodes") => node::node(object, errors),
        ("", "resourcequotas") => quota::quota(&spec, errors),
        ("", "limitranges") => quota::limit_range(&spec, errors),
        ("", "endpoints") => network::endpoints(object, errors),
        ("discovery.k8s.io", "endpointslices") => network::endpoint_slice(object, errors),
        ("networking.k8s.io", "ingresses") => network::ingress(&spec, errors),
        ("networking.k8s.io", "networkpolicies") => network::policy(&spec, errors),
        ("networking.k8s.io", "ipaddresses") => network::ip_address(object, errors),
        ("networking.k8s.io", "servicecidrs") => network::service_cidr(&spec, errors),
        ("autoscaling", "horizontalpodautoscalers") => autoscaling::autoscaler(&spec, errors),
        ("" | "events.k8s.io", "events") => node::event(object, descriptor.group.is_empty(), errors),
        _ => {}
    }
    storage::common(descriptor, object, errors);
    workload::common(descriptor, object, errors);
    cluster::common(descriptor, object, errors);
    classes::common(descriptor, object, errors);
}

#[cfg(test)]
mod tests;
