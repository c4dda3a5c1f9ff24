//! `IntOrString` fields that are a number or a percentage of one.

use serde_json::Value;

/// The number itself, or the percentage of `total`; 0 when absent or neither.
pub(super) fn scaled(value: &Value, total: i64, round_up: bool) -> i64 {
    match value {
        Value::String(percent) => {
            let percent: i64 = percent.trim_end_matches('%').parse().unwrap_or(0);
            let product = percent.saturating_mul(total);
            if round_up { (product + 99) / 100 } else { product / 100 }
        }
        number => number.as_i64().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentages_round_as_asked() {
        assert_eq!((scaled(&json!("25%"), 10, true), scaled(&json!("25%"), 10, false)), (3, 2));
        assert_eq!((scaled(&json!(4), 10, true), scaled(&Value::Null, 10, true)), (4, 0));
    }
}
