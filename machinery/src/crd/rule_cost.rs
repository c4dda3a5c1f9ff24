//! What the rules of a definition may cost, told when it is written. Source: apiextensions-apiserver
//! `pkg/apis/apiextensions/validation/{validation,cel_validation}.go`.

use serde_json::Value;

use super::errors;
use crate::validate::FieldError;

/// Most that one rule may cost for one object.
const RULE_LIMIT: u64 = 10_000_000;
/// Most that all rules of a schema may cost together.
const TOTAL_LIMIT: u64 = 100_000_000;
/// How many of the most expensive rules are told.
const TOLD: usize = 4;

/// The costs of a schema's rules.
#[derive(Debug, Default)]
pub(super) struct Costs {
    total: u64,
    /// Rules that are worth telling, the most expensive first.
    expensive: Vec<(String, u64)>,
}

impl Costs {
    /// Adds an expression; one that costs too much by itself is refused.
    pub(super) fn add(&mut self, path: &str, what: &str, cost: u64, found: &mut Vec<FieldError>) {
        if cost > RULE_LIMIT {
            found.push(errors::forbidden(path, &exceeds(what, cost, RULE_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_LIMIT / 100 {
            self.expensive.push((path.to_owned(), cost));
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(TOLD);
        }
    }

    /// Refuses a schema whose rules cost too much together.
    pub(super) fn check(&self, path: &str, found: &mut Vec<FieldError>) {
        if self.total <= TOTAL_LIMIT {
            return;
        }
        for (at, _) in &self.expensive {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            found.push(errors::forbidden(at, why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        found.push(errors::forbidden(path, &exceeds(what, self.total, TOTAL_LIMIT)));
    }
}

fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let shown = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // Never 1.0x.
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// How often there can be something below a schema, given how often there can be something of it.
pub(super) fn cardinality(schema: &Value, above: Option<u64>) -> Option<u64> {
    let limit = |key: &str| schema.get(key).and_then(Value::as_i64).map(|n| u64::try_from(n).unwrap_or(0));
    let times = match schema.get("type").and_then(Value::as_str) {
        Some("object") if schema.get("additionalProperties").is_some_and(|a| !a.is_null()) => limit("maxProperties"),
        Some("array") => limit("maxItems"),
        _ => Some(1),
    };
    Some(above?.saturating_mul(times?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn factors_are_shown_as_upstream_does() {
        let shown = |cost| exceeds("estimated rule cost", cost, RULE_LIMIT);
        assert!(
            shown(10_000_001).starts_with("estimated rule cost exceeds budget by factor of 1.000000x (try simplifying")
        );
        assert!(shown(25_000_000).contains("factor of 2.5x ("));
        assert!(shown(u64::MAX).contains("factor of more than 100x ("));
    }

    #[test]
    fn what_is_below_lists_is_there_more_often() {
        assert_eq!(cardinality(&json!({ "type": "array", "maxItems": 5 }), Some(2)), Some(10));
        assert_eq!(cardinality(&json!({ "type": "array" }), Some(2)), None);
        assert_eq!(cardinality(&json!({ "type": "object", "properties": {} }), Some(2)), Some(2));
        let map = json!({ "type": "object", "additionalProperties": {}, "maxProperties": 3 });
        assert_eq!(cardinality(&map, Some(2)), Some(6));
        assert_eq!(cardinality(&map, None), None);
    }

    #[test]
    fn rules_that_cost_too_much_are_refused() {
        let validate = |schema: &Value| {
            let mut found = Vec::new();
            super::super::openapi::validate(schema, None, false, "spec.validation.openAPIV3Schema", &mut found);
            found.iter().map(|e| format!("{}: {}", e.field, e.body)).collect::<Vec<_>>()
        };
        let list = |max: Option<u64>, rule: &str| {
            let mut list = json!({ "type": "array", "items": { "type": "string", "maxLength": 10 },
                "x-kubernetes-validations": [{ "rule": rule }] });
            if let Some(max) = max {
                list["maxItems"] = max.into();
            }
            json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": { "list": list } } } })
        };
        let quadratic = "self.all(x, self.all(y, x == y || x != y))";
        assert_eq!(validate(&list(Some(100), quadratic)), Vec::<String>::new());
        let refused = validate(&list(None, quadratic));
        assert_eq!(refused.len(), 3, "{refused:?}");
        let at = "spec.validation.openAPIV3Schema.properties[spec].properties[list].x-kubernetes-validations[0].rule";
        assert!(
            refused[0].starts_with(&format!(
                "{at}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x ("
            )),
            "{refused:?}"
        );
        assert_eq!(
            refused[1],
            format!(
                "{at}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            )
        );
        assert!(
            refused[2].starts_with("spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x ("),
            "{refused:?}"
        );
        // What a message costs is counted, too, and what stands inside of unbounded lists is multiplied.
        let nested = json!({ "type": "object", "properties": { "l": { "type": "array", "items": { "type": "object", "properties": {
            "s": { "type": "string", "x-kubernetes-validations": [{ "rule": "self.contains('x')" }] } } } } } });
        assert_eq!(validate(&nested).len(), 3);
    }
}
