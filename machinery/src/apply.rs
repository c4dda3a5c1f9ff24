//! Server-side apply and field ownership (`metadata.managedFields`).
//!
//! A manager owns a set of fields per operation, version and subresource. Apply merges what a manager wants into the live object, takes
//! away what it wanted last time and nobody else owns, and refuses to overwrite what another manager owns unless forced. Sources:
//! `structured-merge-diff` (merge/update.go) and apimachinery `pkg/util/managedfields`.

mod compare;
mod managers;
mod merge;
mod set;

use serde_json::{Value, json};

use crate::{catalog::Descriptor, defaults, schema, shape::Shape, status::ApiError};
use managers::{Entry, Managers};
use set::FieldSet;

/// Annotation in which `kubectl apply` keeps what it applied last on the client side.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Manager of fields that were there before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Who changes an object, and how.
#[derive(Debug, Clone)]
pub struct Manager<'a> {
    /// Field manager.
    pub name: &'a str,
    /// Subresource through which, or empty.
    pub subresource: &'a str,
    /// RFC 3339 time with seconds.
    pub now: &'a str,
}

/// Fields that nobody owns.
const UNOWNED: &[&[&str]] = &[
    &["f:apiVersion"],
    &["f:kind"],
    &["f:metadata"],
    &["f:metadata", "f:name"],
    &["f:metadata", "f:namespace"],
    &["f:metadata", "f:creationTimestamp"],
    &["f:metadata", "f:selfLink"],
    &["f:metadata", "f:uid"],
    &["f:metadata", "f:generation"],
    &["f:metadata", "f:managedFields"],
    &["f:metadata", "f:resourceVersion"],
];

fn strip(set: &mut FieldSet, descriptor: &Descriptor, subresource: &str) {
    for path in UNOWNED {
        set.remove(path);
    }
    if descriptor.subresource("status").is_some() {
        match subresource {
            "" => set.remove_tree("f:status"),
            "status" => set.remove_tree("f:spec"),
            _ => {}
        }
    }
}

/// Takes `managedFields` out of an object.
fn take_managed_fields(object: &mut Value) -> Value {
    object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .and_then(|m| m.remove("managedFields"))
        .unwrap_or(Value::Null)
}

fn set_managed_fields(object: &mut Value, fields: Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        if fields.is_null() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".into(), fields);
        }
    }
}

/// Merges an apply configuration into the live object (none: create) and records ownership. Returns the new object, equal to the
/// live one when nothing changes (then also `managedFields` is untouched). The new object is defaulted.
///
/// # Errors
/// 409 Conflict with `FieldManagerConflict` causes unless `force`; 400/422 for configurations that cannot be merged.
pub fn apply(
    descriptor: &Descriptor,
    live: Option<&Value>,
    configuration: &Value,
    manager: &Manager<'_>,
    force: bool,
) -> Result<Value, ApiError> {
    let Some(fields) = configuration.as_object() else {
        return Err(ApiError::bad_request("an apply configuration is an object"));
    };
    let version = configuration["apiVersion"].as_str().unwrap_or_default();
    if version != descriptor.api_version() {
        return Err(ApiError::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {}",
            descriptor.api_version()
        )));
    }
    if configuration["metadata"].get("managedFields").is_some_and(|m| !m.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let root = Shape::root(descriptor);
    // What this endpoint does not write is not merged either.
    let ignored = match manager.subresource {
        _ if descriptor.subresource("status").is_none() => "",
        "" => "status",
        "status" => "spec",
        _ => "",
    };
    let narrowed;
    let wanted = if !ignored.is_empty() && fields.contains_key(ignored) {
        let mut copy = fields.clone();
        copy.remove(ignored);
        narrowed = Value::Object(copy);
        &narrowed
    } else {
        configuration
    };

    let mut base = live.cloned().unwrap_or_else(|| json!({ "metadata": {} }));
    let mut managers = Managers::decode(&take_managed_fields(&mut base));
    if live.is_some() && managers.is_empty() {
        let mut set = compare::compare(&json!({ "metadata": {} }), &base, &root).added;
        strip(&mut set, descriptor, "");
        managers.put(Entry::update(BEFORE_FIRST_APPLY, "", &descriptor.api_version(), manager.now, set));
    }

    let mut config_set = merge::field_set(wanted, &root)
        .map_err(|why| ApiError::bad_request(format!("failed to create typed patch object: {why}")))?;
    strip(&mut config_set, descriptor, manager.subresource);
    let merged = merge::merge(&base, wanted, &root)
        .map_err(|why| ApiError::bad_request(format!("failed to merge config: {why}")))?;
    let last = managers.applied(manager.name, manager.subresource).map(|e| e.set.clone());
    let mut object = match &last {
        Some(last) if !last.is_empty() => {
            let mut owned = config_set.clone();
            for entry in managers.iter().filter(|e| !e.is_applied_by(manager.name, manager.subresource)) {
                owned.extend(&entry.set);
            }
            merge::prune(merged, last, &owned, &root)
        }
        _ => merged,
    };

    let change = compare::compare(&base, &object, &root);
    let mut touched = change.added.clone();
    touched.extend(&change.modified);
    if !force {
        let conflicts: Vec<(&Entry, FieldSet)> = managers
            .iter()
            .filter(|e| !e.is_applied_by(manager.name, manager.subresource))
            .map(|e| (e, e.set.intersection(&touched)))
            .filter(|(_, set)| !set.is_empty())
            .collect();
        if !conflicts.is_empty() {
            let allowed = if manager.name == "kubectl" { client_side(&base, &root) } else { FieldSet::default() };
            let left: Vec<(&Entry, FieldSet)> = conflicts
                .into_iter()
                .map(|(e, set)| (e, set.difference(&allowed)))
                .filter(|(_, set)| !set.is_empty())
                .collect();
            if !left.is_empty() {
                return Err(managers::conflict(&left));
            }
        }
    }
    managers.release(&touched, &change.removed, Some((manager.name, manager.subresource)));
    managers.put(Entry::apply(manager.name, manager.subresource, &descriptor.api_version(), manager.now, config_set));

    if manager.name == "kubectl" {
        refresh_last_applied(&mut object, configuration);
    }
    defaults::apply(descriptor, &mut object)?;
    if let Some(live) = live {
        let old = managers::without_times(&live["metadata"]["managedFields"]);
        let new = managers.encode();
        if old == managers::without_times(&new) && base == object {
            return Ok(live.clone());
        }
        managers.keep_time(&live["metadata"]["managedFields"], base == object);
    }
    let encoded = managers.encode();
    set_managed_fields(&mut object, encoded);
    Ok(object)
}

/// Merges what an expression of a MutatingAdmissionPolicy made into an object, by the rules of apply; nobody owns what it sets. Source:
/// apiserver `pkg/admission/plugin/policy/mutating/patch/smd.go`.
///
/// # Errors
/// Fields that the schema does not know, and lists, maps and structs that are one value: those would be replaced as a whole.
pub fn overlay(descriptor: &Descriptor, object: &Value, configuration: &Value) -> Result<Value, String> {
    let typed = |why: String| format!("failed to convert patch object to typed object: {why}");
    let mut known = configuration.clone();
    let unknown = schema::decode(descriptor, &mut known).map_err(typed)?;
    if !unknown.is_empty() && descriptor.definition.as_ref().is_none_or(|d| !d.schema().preserves_unknown) {
        let path = |text: &String| text.split('"').nth(1).map_or_else(|| text.clone(), |p| format!(".{p}"));
        let all: Vec<String> = unknown.iter().map(|u| format!("{}: field not declared in schema", path(u))).collect();
        return Err(typed(all.join(", ")));
    }
    let root = Shape::root(descriptor);
    merge::field_set(configuration, &root).map_err(typed)?;
    let mut atomics = Vec::new();
    merge::atomics(configuration, &root, "", &mut atomics);
    if !atomics.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ));
    }
    merge::merge(object, configuration, &root).map_err(|why| format!("failed to merge patch: {why}"))
}

/// The fields that `kubectl apply` on the client side owned: its move to the server side may take them over.
fn client_side(live: &Value, root: &Shape<'_>) -> FieldSet {
    live["metadata"]["annotations"][LAST_APPLIED]
        .as_str()
        .and_then(|text| serde_json::from_str::<Value>(text).ok())
        .and_then(|last| merge::field_set(&last, root).ok())
        .map(|mut set| {
            // The annotation itself is of the client side as well.
            set.insert(&["f:metadata", "f:annotations", &format!("f:{LAST_APPLIED}")]);
            set
        })
        .unwrap_or_default()
}

fn refresh_last_applied(object: &mut Value, configuration: &Value) {
    let Some(annotation) = object.pointer_mut("/metadata/annotations").and_then(|a| a.get_mut(LAST_APPLIED)) else {
        return;
    };
    let mut last = configuration.clone();
    if let Some(annotations) = last.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    *annotation = Value::String(format!("{last}\n"));
}

/// Records ownership of what a create, update or patch changed: sets `metadata.managedFields` of `new`, in place.
/// `old` is none on create. `managedFields` that the request itself carries are respected (`[]` and `[{}]` clear them), save through a
/// subresource.
pub fn record_update(descriptor: &Descriptor, old: Option<&Value>, new: &mut Value, manager: &Manager<'_>) {
    let root = Shape::root(descriptor);
    let requested = take_managed_fields(new);
    let before = old.map_or(&Value::Null, |o| &o["metadata"]["managedFields"]);
    let mut managers = if !manager.subresource.is_empty() {
        Managers::decode(before)
    } else if managers::is_reset(&requested) {
        Managers::default()
    } else {
        let asked = Managers::decode(&requested);
        if asked.is_empty() { Managers::decode(before) } else { asked }
    };
    let empty = json!({ "metadata": {} });
    let change = compare::compare(old.unwrap_or(&empty), new, &root);
    let mut own = change.added;
    own.extend(&change.modified);
    managers.release(&own, &change.removed, None);
    strip(&mut own, descriptor, manager.subresource);
    if !own.is_empty() {
        managers.put_union(Entry::update(
            manager.name,
            manager.subresource,
            &descriptor.api_version(),
            manager.now,
            own,
        ));
        managers.cap();
    }
    let encoded = managers.encode();
    let unchanged = !before.is_null() && managers::without_times(before) == managers::without_times(&encoded);
    set_managed_fields(new, if unchanged { before.clone() } else { encoded });
}

#[cfg(test)]
mod tests;
