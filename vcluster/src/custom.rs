//! Resources that come from CustomResourceDefinitions: rows of the catalog made from the definitions.

pub(crate) mod conversion;
pub(crate) mod names;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use serde_json::Value;
use sha2::{Digest, Sha256};
use vctl_machinery::{
    catalog::{Descriptor, Subresource},
    crd::Version,
    version::MinorVersion,
};

/// The definitions' own resource.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A row per served version of each established definition: groups by name, their newest stable version first, resources by name.
pub(crate) fn rows(definitions: &[Value]) -> Vec<Arc<Descriptor>> {
    let established = |d: &&Value| names::is_true(d, "Established");
    let mut rows: Vec<Arc<Descriptor>> = definitions.iter().filter(established).flat_map(rows_of).collect();
    rows.sort_by(|a, b| {
        a.group
            .cmp(&b.group)
            .then_with(|| priority(&b.version).cmp(&priority(&a.version)).then_with(|| a.version.cmp(&b.version)))
            .then_with(|| a.plural.cmp(&b.plural))
    });
    rows
}

/// Order of versions: `v2` before `v1` before `v2beta1` before `v1alpha1` before anything else. Source: apimachinery `pkg/version`.
fn priority(version: &str) -> (u8, u32, u32) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u32 = rest[..digits].parse().ok()?;
        let (level, minor) = match &rest[digits..] {
            "" => (3, ""),
            other => match (other.strip_prefix("beta"), other.strip_prefix("alpha")) {
                (Some(minor), _) => (2, minor),
                (_, Some(minor)) => (1, minor),
                _ => return None,
            },
        };
        Some((level, major, if minor.is_empty() { 0 } else { minor.parse().ok()? }))
    };
    parse().unwrap_or((0, 0, 0))
}

/// The compiled version, shared by all clusters that define the same.
fn compiled(spec: &Value, version: &Value) -> Arc<Version> {
    static SHARED: OnceLock<Mutex<HashMap<String, Weak<Version>>>> = OnceLock::new();
    let mut hash = Sha256::new();
    for part in [&spec["group"], &spec["names"]["kind"], &spec["preserveUnknownFields"], version] {
        hash.update(part.to_string().as_bytes());
        hash.update([0]);
    }
    let mut id = String::with_capacity(64);
    for byte in hash.finalize() {
        id.push_str(&format!("{byte:02x}"));
    }
    let shared = || SHARED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(version) = shared().get(&id).and_then(Weak::upgrade) {
        return version;
    }
    // It takes its time, and others want theirs meanwhile.
    let version = Arc::new(Version::new(spec, version, id.clone()));
    let mut shared = shared();
    if let Some(version) = shared.get(&id).and_then(Weak::upgrade) {
        return version;
    }
    shared.retain(|_, version| version.strong_count() > 0);
    shared.insert(id, Arc::downgrade(&version));
    version
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn rows_of(definition: &Value) -> Vec<Arc<Descriptor>> {
    let spec = &definition["spec"];
    let accepted = &definition["status"]["acceptedNames"];
    let names = if accepted["plural"].is_string() { accepted } else { &spec["names"] };
    let list = |v: &Value| -> Vec<String> { v.as_array().into_iter().flatten().map(text).collect() };
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let storage_version = versions.iter().find(|v| v["storage"] == true).map(|v| text(&v["name"])).unwrap_or_default();
    let group = text(&spec["group"]);
    let terminating = names::is_true(definition, "Terminating");
    let verbs: Vec<String> = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        .into_iter()
        // Nothing new comes while everything goes.
        .filter(|v| !terminating || *v != "create")
        .map(String::from)
        .collect();
    versions
        .iter()
        .filter(|v| v["served"] == true)
        .map(|version| {
            let name = text(&version["name"]);
            let mut subresources = Vec::new();
            if version.pointer("/subresources/status").is_some_and(Value::is_object) {
                subresources.push(Subresource {
                    name: "status".into(),
                    group: group.clone(),
                    version: name.clone(),
                    kind: text(&names["kind"]),
                    verbs: ["get", "patch", "update"].map(String::from).into(),
                });
            }
            if version.pointer("/subresources/scale").is_some_and(Value::is_object) {
                subresources.push(Subresource {
                    name: "scale".into(),
                    group: "autoscaling".into(),
                    version: "v1".into(),
                    kind: "Scale".into(),
                    verbs: ["get", "patch", "update"].map(String::from).into(),
                });
            }
            Arc::new(Descriptor {
                group: group.clone(),
                version: name,
                kind: text(&names["kind"]),
                list_kind: text(&names["listKind"]),
                plural: text(&names["plural"]),
                singular: text(&names["singular"]),
                namespaced: spec["scope"] == "Namespaced",
                verbs: verbs.clone(),
                short_names: list(&names["shortNames"]),
                categories: list(&names["categories"]),
                subresources,
                storage_version: storage_version.clone(),
                custom: true,
                has_generation: true,
                kubernetes: MinorVersion::DEFAULT,
                definition: Some(compiled(spec, version)),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_order_of_stability() {
        let mut versions = ["v1alpha1", "foo", "v2", "v10beta3", "v1", "v10", "v11alpha2", "v2beta1"];
        versions.sort_by_key(|v| std::cmp::Reverse(priority(v)));
        assert_eq!(versions, ["v10", "v2", "v1", "v10beta3", "v2beta1", "v11alpha2", "v1alpha1", "foo"]);
    }

    #[test]
    fn what_is_the_same_is_compiled_once() {
        let spec = serde_json::json!({ "group": "example.com", "names": { "kind": "Thing" } });
        let version = serde_json::json!({ "name": "v1", "schema": { "openAPIV3Schema": { "type": "object" } } });
        let first = compiled(&spec, &version);
        assert!(Arc::ptr_eq(&first, &compiled(&spec, &version)));
        let other = serde_json::json!({ "name": "v2", "schema": { "openAPIV3Schema": { "type": "object" } } });
        assert!(!Arc::ptr_eq(&first, &compiled(&spec, &other)));
    }
}
