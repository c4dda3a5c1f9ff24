//! Resources that come from CustomResourceDefinitions: rows of the catalog made from the definitions.

use std::sync::Arc;

use serde_json::Value;
use vctl_machinery::catalog::{Descriptor, Subresource};

/// The definitions' own resource.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A row per served version of each established definition.
pub(crate) fn rows(definitions: &[Value]) -> Vec<Arc<Descriptor>> {
    definitions.iter().filter(|d| established(d)).flat_map(rows_of).collect()
}

fn established(definition: &Value) -> bool {
    definition
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .is_some_and(|conditions| conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True"))
}

fn rows_of(definition: &Value) -> Vec<Arc<Descriptor>> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let list = |v: &Value| -> Vec<String> { v.as_array().into_iter().flatten().map(text).collect() };
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let storage_version = versions.iter().find(|v| v["storage"] == true).map(|v| text(&v["name"])).unwrap_or_default();
    let group = text(&spec["group"]);
    versions
        .iter()
        .filter(|v| v["served"] == true)
        .map(|version| {
            let name = text(&version["name"]);
            let mut subresources = Vec::new();
            if version.pointer("/subresources/scale").is_some() {
                subresources.push(Subresource {
                    name: "scale".into(),
                    group: "autoscaling".into(),
                    version: "v1".into(),
                    kind: "Scale".into(),
                    verbs: ["get", "patch", "update"].map(String::from).into(),
                });
            }
            if version.pointer("/subresources/status").is_some() {
                subresources.push(Subresource {
                    name: "status".into(),
                    group: group.clone(),
                    version: name.clone(),
                    kind: text(&names["kind"]),
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
                verbs: ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
                    .map(String::from)
                    .into(),
                short_names: list(&names["shortNames"]),
                categories: list(&names["categories"]),
                subresources,
                storage_version: storage_version.clone(),
                custom: true,
                has_generation: true,
            })
        })
        .collect()
}

/// Fills in names and conditions of a new or changed definition, so that it is served at once. Conflicts of names between
/// definitions are not looked for yet.
pub(crate) fn establish(definition: &mut Value, now: &str) {
    let spec = definition["spec"].clone();
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(names) = definition["spec"]["names"].as_object_mut() {
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
    }
    let stored: Vec<&Value> = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|v| v["storage"] == true)
        .map(|v| &v["name"])
        .collect();
    let mut versions: Vec<Value> =
        definition.pointer("/status/storedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    for version in stored {
        if !versions.contains(version) {
            versions.push(version.clone());
        }
    }
    let condition = |kind: &str, reason: &str, message: &str| {
        let since = definition
            .pointer("/status/conditions")
            .and_then(Value::as_array)
            .and_then(|l| l.iter().find(|c| c["type"] == kind && c["status"] == "True"))
            .map_or_else(|| now.into(), |c| c["lastTransitionTime"].clone());
        serde_json::json!({ "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since })
    };
    let conditions = [
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ];
    definition["status"] = serde_json::json!({
        "acceptedNames": definition["spec"]["names"], "conditions": conditions, "storedVersions": versions,
    });
}
