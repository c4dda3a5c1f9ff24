//! Names and conditions of definitions. Sources: apiextensions-apiserver `pkg/controller/{status,establish}` and
//! `pkg/registry/customresourcedefinition`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vctl_machinery::status::ApiError;

use super::DEFINITIONS;
use crate::{
    document::{finalizers, meta, set_meta},
    objects::Call,
};

/// The finalizer under which the objects of a deleted definition are deleted first.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Whether a condition is true.
pub(crate) fn is_true(definition: &Value, condition: &str) -> bool {
    find(definition, condition).is_some_and(|c| c["status"] == "True")
}

fn find<'v>(definition: &'v Value, condition: &str) -> Option<&'v Value> {
    definition.pointer("/status/conditions")?.as_array()?.iter().find(|c| c["type"] == condition)
}

/// Sets a condition; its time changes with its status only.
pub(crate) fn set_condition(definition: &mut Value, kind: &str, status: bool, reason: &str, message: &str, now: &str) {
    let status = if status { "True" } else { "False" };
    let since = find(definition, kind)
        .filter(|c| c["status"] == status)
        .map_or_else(|| now.into(), |c| c["lastTransitionTime"].clone());
    let condition =
        json!({ "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since });
    if !definition["status"]["conditions"].is_array() {
        definition["status"]["conditions"] = json!([]);
    }
    if let Some(conditions) = definition["status"]["conditions"].as_array_mut() {
        match conditions.iter_mut().find(|c| c["type"] == kind) {
            Some(there) => *there = condition,
            None => conditions.push(condition),
        }
    }
}

/// Fills in names and conditions of a new or changed definition, so that it is served at once when its names are free.
pub(crate) async fn establish(call: &Call, definition: &mut Value) -> Result<(), ApiError> {
    let others = call.plane.objects(DEFINITIONS, None).await?;
    accept(definition, &others, &call.now());
    Ok(())
}

/// Names that other definitions of the group have.
fn taken(definition: &Value, others: &[Value]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    let same_group = others
        .iter()
        .filter(|o| o["spec"]["group"] == definition["spec"]["group"] && meta(o, "name") != meta(definition, "name"));
    for other in same_group {
        let names = &other["status"]["acceptedNames"];
        let add = |set: &mut BTreeSet<String>, value: &Value| set.extend(value.as_str().map(str::to_owned));
        add(&mut resources, &names["plural"]);
        add(&mut resources, &names["singular"]);
        names["shortNames"].as_array().into_iter().flatten().for_each(|s| add(&mut resources, s));
        add(&mut kinds, &names["kind"]);
        add(&mut kinds, &names["listKind"]);
    }
    (resources, kinds)
}

/// Decides which of the names that a definition asks for it gets, given the other definitions, and what its conditions say.
pub(crate) fn accept(definition: &mut Value, others: &[Value], now: &str) {
    let asked = definition["spec"]["names"].clone();
    let mut accepted = definition["status"]["acceptedNames"].clone();
    if !accepted.is_object() {
        accepted = json!({ "plural": "", "kind": "" });
    }
    let (resources, kinds) = taken(definition, others);
    let mut conflict = None;
    let free = |name: &str, set: &BTreeSet<String>| !set.contains(name);
    for (field, set, reason) in [
        ("plural", &resources, "PluralConflict"),
        ("singular", &resources, "SingularConflict"),
        ("shortNames", &resources, "ShortNamesConflict"),
        ("kind", &kinds, "KindConflict"),
        ("listKind", &kinds, "ListKindConflict"),
    ] {
        if asked[field] == accepted[field] {
            continue;
        }
        let wanted: Vec<&str> = match &asked[field] {
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            name => name.as_str().into_iter().collect(),
        };
        let mine: Vec<String> =
            accepted[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let refused: Vec<String> = wanted
            .iter()
            .filter(|n| !mine.iter().any(|m| m == *n) && !free(n, set))
            .map(|n| format!("{n:?} is already in use"))
            .collect();
        match refused.as_slice() {
            [] if asked[field].is_null() => {
                accepted.as_object_mut().map(|a| a.remove(field));
            }
            [] => accepted[field] = asked[field].clone(),
            [one] => conflict = Some((reason, one.clone())),
            many => conflict = Some((reason, format!("[{}]", many.join(", ")))),
        }
    }
    match &asked["categories"] {
        Value::Null => drop(accepted.as_object_mut().map(|a| a.remove("categories"))),
        categories => accepted["categories"] = categories.clone(),
    }
    if !definition["status"].is_object() {
        definition["status"] = json!({});
    }
    definition["status"]["acceptedNames"] = accepted;
    match &conflict {
        Some((reason, message)) => set_condition(definition, "NamesAccepted", false, reason, message, now),
        None => set_condition(definition, "NamesAccepted", true, "NoConflicts", "no conflicts found", now),
    }
    if !is_true(definition, "Established") {
        let (reason, message) = match conflict {
            Some(_) => ("NotAccepted", "not all names are accepted"),
            None => ("InitialNamesAccepted", "the initial names have been accepted"),
        };
        let established = conflict.is_none();
        set_condition(definition, "Established", established, reason, message, now);
    }
    store_versions(definition);
}

/// Every version that objects are stored in stays on the list.
fn store_versions(definition: &mut Value) {
    let mut versions: Vec<Value> =
        definition.pointer("/status/storedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    for version in definition["spec"]["versions"].as_array().into_iter().flatten().filter(|v| v["storage"] == true) {
        if !versions.contains(&version["name"]) {
            versions.push(version["name"].clone());
        }
    }
    definition["status"]["storedVersions"] = versions.into();
}

/// What a deletion does to a definition: its objects go first.
pub(crate) fn mark_for_deletion(definition: &mut Value, now: &str) {
    let mut kept: Vec<String> = finalizers(definition).into_iter().map(str::to_owned).collect();
    if !kept.iter().any(|f| f == CLEANUP) {
        kept.push(CLEANUP.to_owned());
    }
    set_meta(definition, "finalizers", Some(json!(kept)));
    set_condition(
        definition,
        "Terminating",
        true,
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        now,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn definition(plural: &str, kind: &str, short: &[&str]) -> Value {
        json!({
            "metadata": { "name": format!("{plural}.example.com") },
            "spec": {
                "group": "example.com",
                "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"), "shortNames": short },
                "versions": [{ "name": "v1", "storage": true, "served": true }],
            },
        })
    }

    #[test]
    fn names_that_are_taken_are_not_given_twice() {
        let mut first = definition("things", "Thing", &["th"]);
        accept(&mut first, &[], NOW);
        assert!(is_true(&first, "NamesAccepted") && is_true(&first, "Established"));
        assert_eq!(first["status"]["storedVersions"], json!(["v1"]));

        let mut second = definition("others", "Thing", &["th", "ot"]);
        accept(&mut second, std::slice::from_ref(&first), NOW);
        let names = find(&second, "NamesAccepted").unwrap();
        assert_eq!(names["status"], "False");
        assert_eq!(names["reason"], "ListKindConflict");
        assert_eq!(names["message"], "\"ThingList\" is already in use");
        assert_eq!(find(&second, "Established").unwrap()["reason"], "NotAccepted");
        assert_eq!(second["status"]["acceptedNames"]["plural"], "others");
        assert_eq!(second["status"]["acceptedNames"]["kind"], "");

        accept(&mut second, &[], "2026-01-02T00:00:00Z");
        assert!(is_true(&second, "Established"));
        assert_eq!(second["status"]["acceptedNames"], second["spec"]["names"]);
        assert_eq!(find(&second, "Established").unwrap()["lastTransitionTime"], "2026-01-02T00:00:00Z");
    }

    #[test]
    fn an_established_definition_keeps_being_served_when_a_new_name_is_taken() {
        let mut first = definition("things", "Thing", &["th"]);
        accept(&mut first, &[], NOW);
        let mut second = definition("others", "Other", &["ot"]);
        accept(&mut second, std::slice::from_ref(&first), NOW);
        second["spec"]["names"]["shortNames"] = json!(["ot", "th"]);
        accept(&mut second, std::slice::from_ref(&first), NOW);
        assert!(is_true(&second, "Established") && !is_true(&second, "NamesAccepted"));
        assert_eq!(find(&second, "NamesAccepted").unwrap()["reason"], "ShortNamesConflict");
        assert_eq!(second["status"]["acceptedNames"]["shortNames"], json!(["ot"]));
    }
}
