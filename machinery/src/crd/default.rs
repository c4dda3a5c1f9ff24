//! Filling in defaults. Source: apiextensions-apiserver `pkg/apiserver/schema/defaulting/algorithm.go`.

use serde_json::Value;

use super::schema::Schema;

fn stands_for_default(value: &Value, schema: &Schema) -> bool {
    value.is_null() && !schema.nullable
}

/// Fills in what is left out, and what is null without being allowed to be.
pub(super) fn fill(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            for (name, of) in &schema.properties {
                if let Some(default) = &of.default
                    && map.get(name).is_none_or(|v| stands_for_default(v, of))
                {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(of) = schema.properties.get(name) {
                    fill(value, of);
                } else if let Some(of) = schema.values() {
                    if let Some(default) = of.default.as_ref().filter(|_| stands_for_default(value, of)) {
                        *value = default.clone();
                    }
                    fill(value, of);
                }
            }
        }
        Value::Array(items) => {
            let Some(of) = &schema.items else { return };
            for item in items {
                if let Some(default) = of.default.as_ref().filter(|_| stands_for_default(item, of)) {
                    *item = default.clone();
                }
                fill(item, of);
            }
        }
        _ => {}
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
        fill(&mut object, &schema);
        assert_eq!(
            object,
            json!({
                "a": { "b": 1 }, "list": [{ "p": "TCP" }, { "p": "UDP" }], "map": { "k": "v", "l": "w" }, "null": null,
            })
        );
        let mut again = object.clone();
        fill(&mut again, &schema);
        assert_eq!(again, object);
    }
}
