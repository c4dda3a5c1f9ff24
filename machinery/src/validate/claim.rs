//! What must not change in a PersistentVolumeClaim. Source: upstream `pkg/apis/core/validation` (`ValidatePersistentVolumeClaimUpdate`).

use serde_json::Value;

use super::check::{At, Errors, same};
use crate::quantity;

/// A claim keeps its spec: it may be bound (`volumeName`), and when it is, grow. It may ask for less again as long as that is more than
/// its volume has, so that growing that cannot succeed can be taken back.
pub(super) fn update(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, was) = (new.field("spec"), old.field("spec"));
    let bound = old.field("status").field("phase").text() == "Bound";
    let (size, before) = (requested(&spec), requested(&was));
    let kept = |value: &Value| {
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("volumeAttributesClassName");
            if was.field("volumeName").is_empty() {
                fields.remove("volumeName");
            }
            // A default class may be filled in later.
            if was.field("storageClassName").value.is_null() {
                fields.remove("storageClassName");
            }
        }
        // The same amount may be written in another way.
        if (bound || size == before)
            && let Some(requests) = value.pointer_mut("/resources/requests").and_then(Value::as_object_mut)
        {
            requests.remove("storage");
        }
        value
    };
    if !same(&kept(spec.value), &kept(was.value)) {
        errors.forbidden(
            &spec,
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
    let has = quantity::of(old.field("status").field("capacity").field("storage").value).unwrap_or_default();
    if size < before && size <= has {
        errors.forbidden(
            &spec.field("resources").field("requests").field("storage"),
            "field can not be less than status.capacity",
        );
    }
}

/// In billionths of a byte.
fn requested(spec: &At<'_>) -> i128 {
    quantity::of(spec.field("resources").field("requests").field("storage").value).unwrap_or_default()
}
