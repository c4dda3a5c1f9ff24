//! JSON patch (RFC 6902).

use json_patch::{Patch, PatchOperation, jsonptr::Pointer};
use serde_json::Value;

use super::unprocessable;
use crate::{schema::STACK_DEPTH, status::ApiError};

/// Operations that one patch may have (upstream's `maxJSONPatchOperations`).
pub const MAX_OPERATIONS: usize = 10_000;

/// By how many bytes all `copy` operations of one patch may make the object larger (upstream's `AccumulatedCopySizeLimit`): copies of
/// copies grow exponentially.
const MAX_COPIED: usize = 3 << 20;
/// Values that all operations of one patch may look at or push aside.
const MAX_WORK: usize = 50_000_000;

/// Applies a JSON patch: all operations or none. The outcome is nested no deeper than what is read from a body.
///
/// # Errors
/// 422 for a failed `test`, a path that does not apply, or a patch that makes the object too large or too deep, 400 for a patch that is none, 413 for too many operations.
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
    let patch: Patch = serde_json::from_value(patch.clone())
        .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?;
    let mut patched = object.clone();
    let mut cost = Cost::default();
    for (index, operation) in patch.0.iter().enumerate() {
        cost.of(&patched, operation).map_err(|why| unprocessable(format!("operation '/{index}' failed: {why}")))?;
        // Without undoing: the copy is dropped.
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation)).map_err(|mut e| {
            e.operation = index;
            unprocessable(e)
        })?;
    }
    Ok(patched)
}

/// What a patch has cost so far.
#[derive(Default)]
struct Cost {
    copied: usize,
    work: usize,
}

impl Cost {
    /// Adds up an operation before it is carried out.
    fn of(&mut self, object: &Value, operation: &PatchOperation) -> Result<(), String> {
        match operation {
            PatchOperation::Add(add) => self.place(object, &add.path, &add.value),
            PatchOperation::Replace(replace) => self.place(object, &replace.path, &replace.value),
            PatchOperation::Move(moved) => {
                self.shift(object, &moved.from)?;
                let Some(value) = object.pointer(moved.from.as_str()) else { return Ok(()) };
                self.place(object, &moved.path, value)
            }
            PatchOperation::Copy(copy) => {
                let Some(value) = object.pointer(copy.from.as_str()) else { return Ok(()) };
                self.copied += bytes(value);
                if self.copied > MAX_COPIED {
                    return Err(format!("all copies together are larger than the limit of {MAX_COPIED} bytes"));
                }
                self.place(object, &copy.path, value)
            }
            PatchOperation::Remove(remove) => self.shift(object, &remove.path),
            PatchOperation::Test(_) => Ok(()),
        }
    }

    /// A value comes to a place.
    fn place(&mut self, object: &Value, path: &Pointer, value: &Value) -> Result<(), String> {
        self.shift(object, path)?;
        if path.count() + self.levels(value) > STACK_DEPTH {
            return Err(format!("the object would be nested deeper than {STACK_DEPTH} levels"));
        }
        self.work(0)
    }

    /// Items of a list make room or move up.
    fn shift(&mut self, object: &Value, path: &Pointer) -> Result<(), String> {
        let list = path.parent().and_then(|parent| object.pointer(parent.as_str())).and_then(Value::as_array);
        self.work(list.map_or(0, Vec::len))
    }

    fn work(&mut self, more: usize) -> Result<(), String> {
        self.work += more;
        if self.work > MAX_WORK { Err("the patch takes too long; send less at a time".to_owned()) } else { Ok(()) }
    }

    /// Levels of arrays and objects. The value is part of an object or patch, which are at most [`STACK_DEPTH`] deep.
    fn levels(&mut self, value: &Value) -> usize {
        self.work += 1;
        match value {
            Value::Array(items) => 1 + items.iter().map(|item| self.levels(item)).max().unwrap_or(0),
            Value::Object(fields) => 1 + fields.values().map(|field| self.levels(field)).max().unwrap_or(0),
            _ => 0,
        }
    }
}

/// About how long a value is as JSON.
fn bytes(value: &Value) -> usize {
    match value {
        Value::Array(items) => 2 + items.iter().map(|item| 1 + bytes(item)).sum::<usize>(),
        Value::Object(fields) => 2 + fields.iter().map(|(name, field)| 4 + name.len() + bytes(field)).sum::<usize>(),
        Value::String(text) => 2 + text.len(),
        _ => 4,
    }
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

    fn refusal(object: &Value, patch: &Value) -> String {
        let error = json(object, patch).unwrap_err();
        assert_eq!(error.code, 422);
        error.details["causes"][0]["message"].as_str().unwrap().to_owned()
    }

    #[test]
    fn copies_of_copies_end_at_a_limit() {
        let doubled = |i: usize| value!({ "op": "copy", "from": "/x", "path": format!("/x/{i}") });
        let patch: Vec<Value> = (0..40).map(doubled).collect();
        let why = refusal(&value!({ "x": { "a": "b" } }), &patch.into());
        assert!(why.contains("larger than the limit of 3145728 bytes"), "{why}");
    }

    /// Deep enough to overflow the stack of whoever looks at it, or drops it.
    #[test]
    fn nothing_is_built_that_is_too_deep() {
        let mut patch = vec![value!({ "op": "add", "path": "/x", "value": { "a": {} } })];
        let mut levels = 1;
        while levels < 100_000 {
            let path = format!("/x{}", "/a".repeat(levels + 1));
            patch.push(value!({ "op": "copy", "from": "/x", "path": path }));
            levels = 2 * levels + 1;
        }
        assert!(refusal(&value!({}), &patch.into()).contains("deeper than 120 levels"));
        let step = [
            value!({ "op": "add", "path": "/y", "value": {} }),
            value!({ "op": "move", "from": "/x", "path": "/y/a" }),
            value!({ "op": "move", "from": "/y", "path": "/x" }),
        ];
        let patch: Vec<Value> = std::iter::repeat_n(step, 1000).flatten().collect();
        assert!(refusal(&value!({ "x": {} }), &patch.into()).contains("deeper than 120 levels"));
    }

    #[test]
    fn a_patch_that_moves_long_lists_about_ends_at_a_limit() {
        let insert = value!({ "op": "add", "path": "/x/0", "value": null });
        let patch: Vec<Value> = std::iter::repeat_n(insert, 9_000).collect();
        let object = value!({ "x": vec![Value::Null; 100_000] });
        assert!(refusal(&object, &patch.into()).contains("takes too long"));
    }
}
