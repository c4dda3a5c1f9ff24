//! JSON patch (RFC 6902).

use serde_json::Value;

use super::unprocessable;
use crate::status::ApiError;

/// Operations that one patch may have (upstream's `maxJSONPatchOperations`).
pub const MAX_OPERATIONS: usize = 10_000;

/// Applies a JSON patch: all operations or none.
///
/// # Errors
/// 422 for a failed `test` or a path that does not apply, 400 for a patch that is none, 413 for too many operations.
pub fn json(object: &Value, patch: &Value) -> Result<Value, ApiError> {
    let operations = patch.as_array().ok_or_else(|| {
        ApiError::bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        )
    })?;
    if operations.len() > MAX_OPERATIONS {
        return Err(ApiError::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let patch: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?;
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &patch).map_err(unprocessable)?;
    Ok(patched)
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    #[test]
    fn operations_apply_in_order() {
        let object = value!({ "a": 1, "list": [1, 3], "m": { "x": "y" } });
        let patch = value!([
            { "op": "test", "path": "/a", "value": 1 },
            { "op": "replace", "path": "/a", "value": 2 },
            { "op": "add", "path": "/list/1", "value": 2 },
            { "op": "add", "path": "/list/-", "value": 4 },
            { "op": "remove", "path": "/m/x" },
            { "op": "copy", "from": "/a", "path": "/m/b~1c" },
            { "op": "move", "from": "/a", "path": "/d" },
        ]);
        assert_eq!(json(&object, &patch).unwrap(), value!({ "list": [1, 2, 3, 4], "m": { "b/c": 2 }, "d": 2 }));
    }

    #[test]
    fn what_does_not_apply_changes_nothing() {
        let object = value!({ "a": 1 });
        for patch in [
            value!([{ "op": "replace", "path": "/a", "value": 2 }, { "op": "test", "path": "/a", "value": 1 }]),
            value!([{ "op": "remove", "path": "/b" }]),
            value!([{ "op": "add", "path": "/b/c", "value": 1 }]),
        ] {
            assert_eq!(json(&object, &patch).unwrap_err().code, 422, "{patch}");
        }
        assert_eq!(json(&object, &value!({ "op": "add" })).unwrap_err().code, 400);
        assert_eq!(json(&object, &value!([{ "op": "grow", "path": "/a" }])).unwrap_err().code, 400);
        let many: Vec<Value> =
            (0..=MAX_OPERATIONS).map(|_| value!({ "op": "test", "path": "/a", "value": 1 })).collect();
        assert_eq!(json(&object, &many.into()).unwrap_err().code, 413);
    }
}
