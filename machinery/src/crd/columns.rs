//! Columns of custom resources. Source: apiextensions-apiserver `pkg/registry/customresource/tableconvertor`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::jsonpath::JsonPath;
use crate::table::age;

/// One of `additionalPrinterColumns`.
#[derive(Debug)]
pub(super) struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
    path: Option<JsonPath>,
}

impl Column {
    fn parse(json: &Value) -> Self {
        let text = |key: &str| json.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = text("jsonPath");
        let description = match text("description") {
            none if none.is_empty() => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description,
        };
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description,
            priority: json.get("priority").and_then(Value::as_i64).unwrap_or(0),
            path: JsonPath::parse(&path).ok(),
        }
    }

    /// The columns of a version: those that it names, or the age.
    pub(super) fn all(version: &Value) -> Vec<Self> {
        let named: Vec<Self> = version
            .get("additionalPrinterColumns")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(Self::parse)
            .collect();
        if !named.is_empty() {
            return named;
        }
        vec![Self {
            name: "Age".into(),
            kind: "date".into(),
            format: String::new(),
            description: "When the object was created, by the clock of the server.".into(),
            priority: 0,
            path: JsonPath::parse(".metadata.creationTimestamp").ok(),
        }]
    }

    pub(super) fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": self.description,
            "priority": self.priority,
        })
    }

    /// The cell of an object; null where there is nothing of the column's type.
    pub(super) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.as_ref().and_then(|p| p.find(object).first().copied()) else { return Value::Null };
        match (self.kind.as_str(), value) {
            (_, Value::Null) => Value::Null,
            ("string", Value::String(text)) => text.as_str().into(),
            // Go prints whole floats without a fraction.
            ("string", Value::Number(n)) => {
                match n.as_f64().filter(|f| n.is_f64() && f.fract() == 0.0 && f.abs() < 1e15) {
                    Some(whole) => (whole as i64).to_string().into(),
                    None => n.to_string().into(),
                }
            }
            ("string", other) => other.to_string().into(),
            ("integer", Value::Number(n)) => n.as_i64().or_else(|| n.as_f64().map(|f| f as i64)).into(),
            ("number", Value::Number(n)) => n.as_f64().map_or(Value::Null, Value::from),
            ("boolean", Value::Bool(b)) => (*b).into(),
            ("date", Value::String(text)) => match text.parse::<Timestamp>() {
                Ok(time) => age::human(now.as_second() - time.as_second()).into(),
                Err(_) => "<invalid>".into(),
            },
            _ => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_by_type() {
        let version = json!({ "additionalPrinterColumns": [
            { "name": "S", "type": "string", "jsonPath": ".spec.s" },
            { "name": "I", "type": "integer", "jsonPath": ".spec.i", "priority": 1 },
            { "name": "B", "type": "boolean", "jsonPath": ".spec.b" },
            { "name": "N", "type": "number", "jsonPath": ".spec.n" },
            { "name": "D", "type": "date", "jsonPath": ".spec.d" },
            { "name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status" },
            { "name": "L", "type": "string", "jsonPath": ".spec.l" },
            { "name": "Wrong", "type": "integer", "jsonPath": ".spec.s" },
        ] });
        let object = json!({
            "spec": { "s": "x", "i": 3, "b": true, "n": 2, "d": "2025-12-31T23:58:00Z", "l": ["a", 1] },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let columns = Column::all(&version);
        let cells: Vec<Value> = columns.iter().map(|c| c.cell(&object, now)).collect();
        assert_eq!(Value::from(cells), json!(["x", 3, true, 2.0, "2m", "True", "[\"a\",1]", null]));
        assert_eq!(columns[1].definition()["priority"], 1);
        assert_eq!(
            columns[0].definition()["description"],
            "Custom resource definition column (in JSONPath format): .spec.s"
        );
    }
}
