//! Filling in defaults. Source: apiextensions-apiserver `pkg/apiserver/schema/defaulting/algorithm.go`.

use serde_json::Value;

use super::schema::Schema;
use crate::status::MAX_OBJECT_BYTES;

/// There is more to fill in than any object that can be stored has room for: a default of a few bytes of the object's may be as large as
/// the definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Fills in what is left out, and what is null without being allowed to be.
///
/// # Errors
/// When all that is filled in takes more than [`MAX_OBJECT_BYTES`]; what is beyond them is not filled in.
pub(super) fn fill(value: &mut Value, schema: &Schema) -> Result<(), TooLarge> {
    Room { left: MAX_OBJECT_BYTES }.fill(value, schema)
}

fn stands_for_default(value: &Value, schema: &Schema) -> bool {
    value.is_null() && !schema.nullable
}

/// How many bytes may still be filled in.
struct Room {
    left: usize,
}

impl Room {
    /// A copy of a default for which there is room.
    fn copy(&mut self, name: &str, default: &Value) -> Result<Value, TooLarge> {
        self.left = self.left.checked_sub(name.len() + size(default)).ok_or(TooLarge)?;
        Ok(default.clone())
    }

    fn fill(&mut self, value: &mut Value, schema: &Schema) -> Result<(), TooLarge> {
        match value {
            Value::Object(map) => {
                for (name, of) in &schema.properties {
                    if let Some(default) = &of.default
                        && map.get(name).is_none_or(|v| stands_for_default(v, of))
                    {
                        map.insert(name.clone(), self.copy(name, default)?);
                    }
                }
                for (name, value) in map.iter_mut() {
                    if let Some(of) = schema.properties.get(name) {
                        self.fill(value, of)?;
                    } else if let Some(of) = schema.values() {
                        self.fill_in_place(value, of)?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(of) = &schema.items else { return Ok(()) };
                for item in items {
                    self.fill_in_place(item, of)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn fill_in_place(&mut self, value: &mut Value, of: &Schema) -> Result<(), TooLarge> {
        if let Some(default) = of.default.as_ref().filter(|_| stands_for_default(value, of)) {
            *value = self.copy("", default)?;
        }
        self.fill(value, of)
    }
}

/// Bytes that a value takes as JSON, at least.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 1,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + size(value) + 4).sum::<usize>() + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_filled_in_at_every_level() {
        let schema = Schema::parse(&json!({ "type": "object", "properties": {
            "a": { "type": "object", "default": {}, "properties": { "b": { "type": "integer", "default": 1 } } },
            "list": { "type": "array", "items": { "type": "object", "properties": { "p": { "type": "string", "default": "TCP" } } } },
            "map": { "type": "object", "additionalProperties": { "type": "string", "default": "v" } },
            "null": { "type": "string", "nullable": true, "default": "d" },
            "no": { "type": "object", "properties": { "c": { "type": "integer", "default": 2 } } },
        } }));
        let mut object = json!({ "list": [{}, { "p": "UDP" }], "map": { "k": null, "l": "w" }, "null": null });
        assert_eq!(fill(&mut object, &schema), Ok(()));
        assert_eq!(
            object,
            json!({
                "a": { "b": 1 }, "list": [{ "p": "TCP" }, { "p": "UDP" }], "map": { "k": "v", "l": "w" }, "null": null,
            })
        );
        let mut again = object.clone();
        assert_eq!(fill(&mut again, &schema), Ok(()));
        assert_eq!(again, object);
    }

    #[test]
    fn defaults_do_not_fill_memory() {
        let large = "x".repeat(100_000);
        let property = json!({ "type": "object", "properties": { "p": { "type": "string", "default": large } } });
        let schema = Schema::parse(&json!({ "type": "object", "properties": {
            "list": { "type": "array", "items": property }, "map": { "type": "object", "additionalProperties": property },
            "nulls": { "type": "array", "items": { "type": "string", "default": large } },
        } }));
        for (object, fits) in [
            (json!({ "list": vec![json!({}); 15] }), true),
            (json!({ "list": vec![json!({}); 10_000] }), false),
            (json!({ "nulls": vec![Value::Null; 10_000] }), false),
            (
                json!({ "map": (0..10_000).map(|i| (i.to_string(), json!({}))).collect::<serde_json::Map<_, _>>() }),
                false,
            ),
        ] {
            let mut filled = object.clone();
            assert_eq!(fill(&mut filled, &schema).is_ok(), fits);
            let added = filled.to_string().len() - object.to_string().len();
            assert!((1_400_000..=MAX_OBJECT_BYTES + 1_000).contains(&added), "{added}");
        }
    }
}
