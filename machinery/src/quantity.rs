//! Quantities of resources (`100m`, `1.5Gi`, `2e3`) as exact integers. Source: apimachinery `pkg/api/resource`.

use serde_json::Value;

/// One, in the unit of [`parse`]: a billion billionths.
pub const NANOS: i128 = 1_000_000_000;

/// Digits behind the point that count; what follows only rounds.
const MOST_DECIMALS: usize = 18;

/// The value in billionths, rounded away from zero; none for what is no quantity (or too large for 128 bits).
pub fn parse(text: &str) -> Option<i128> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let (binary, decimal): (u32, i32) = match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        exponent => (0, exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    let fraction = fraction.trim_end_matches('0');
    let (fraction, cut) = fraction.split_at_checked(MOST_DECIMALS).unwrap_or((fraction, ""));
    // The value is digits * 2^binary * 10^power.
    let digits: i128 = match format!("{whole}{fraction}") {
        nothing if nothing.is_empty() => 0,
        digits => digits.parse().ok()?,
    };
    if digits == 0 && cut.is_empty() {
        return Some(0);
    }
    let scaled = digits.checked_mul(1 << binary)?;
    let power = i64::from(decimal) + 9 - fraction.len() as i64;
    let places = 10_i128.checked_pow(u32::try_from(power.unsigned_abs()).ok()?);
    let (value, rest) = match places {
        Some(places) if power >= 0 => (scaled.checked_mul(places)?, 0),
        Some(places) => (scaled / places, scaled % places),
        None if power >= 0 => return None,
        // Far below a billionth.
        None => (0, 1),
    };
    let value = if rest == 0 && cut.is_empty() { value } else { value.checked_add(1)? };
    Some(if negative { -value } else { value })
}

/// The quantity of a document, which may be a number, in billionths.
pub fn of(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => parse(text),
        Value::Number(number) => parse(&number.to_string()),
        _ => None,
    }
}

/// Division that rounds up, as the API does. The divisor is positive.
pub fn ceil(value: i128, divisor: i128) -> i128 {
    value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) != 0)
}

/// The quantity of a document in thousandths, rounded up.
pub fn thousandths(value: &Value) -> Option<i64> {
    ceil(of(value)?, NANOS / 1000).try_into().ok()
}

/// The quantity of a document in whole units, rounded up.
pub fn units(value: &Value) -> Option<i64> {
    ceil(of(value)?, NANOS).try_into().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms() {
        for (text, nanos) in [
            ("1", Some(NANOS)),
            ("100m", Some(NANOS / 10)),
            ("0.1", Some(NANOS / 10)),
            ("1.5Gi", Some(NANOS * 3 * (1 << 29))),
            ("64Mi", Some(NANOS << 26)),
            ("1Ki", Some(NANOS << 10)),
            ("2e3", Some(NANOS * 2000)),
            ("2E+3", Some(NANOS * 2000)),
            ("1e-3", Some(NANOS / 1000)),
            ("2E", Some(2 * NANOS * NANOS * NANOS)),
            ("-1k", Some(-NANOS * 1000)),
            ("-2", Some(-2 * NANOS)),
            ("+2", Some(2 * NANOS)),
            (".5", Some(NANOS / 2)),
            ("5.", Some(5 * NANOS)),
            ("5n", Some(5)),
            ("0", Some(0)),
            ("", None),
            ("x", None),
            ("abc", None),
            ("1x", None),
            ("1.2.3", None),
            ("1 Gi", None),
            ("1KB", None),
            ("Mi", None),
            ("1e", None),
            ("-", None),
            ("--1", None),
            (".", None),
        ] {
            assert_eq!(parse(text), nanos, "{text}");
        }
    }

    #[test]
    fn what_is_too_precise_is_rounded_away_from_zero() {
        for (text, nanos) in [
            ("0.0000000001", 1),
            ("-0.0000000001", -1),
            ("0.1n", 1),
            ("1.0000000000000000000000000000000000000000001", NANOS + 1),
            ("1.0000000000000000000000000000000000000000000", NANOS),
            ("0.00000000000000000000000000000000000000000000000001Ei", 1),
            ("1e-2147483648", 1),
            ("1e-40", 1),
        ] {
            assert_eq!(parse(text), Some(nanos), "{text}");
        }
    }

    #[test]
    fn what_is_too_large_is_none() {
        for text in ["1e2147483647", "1e30", "1e2147483648", &"9".repeat(40), "999999999999Ei"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("0e2147483647"), Some(0));
    }

    #[test]
    fn documents_have_texts_and_numbers() {
        assert_eq!(of(&json!(1.5)), Some(NANOS * 3 / 2));
        assert_eq!(of(&json!(null)), None);
        assert_eq!(thousandths(&json!("250m")), Some(250));
        assert_eq!(thousandths(&json!("-1500u")), Some(-1));
        assert_eq!(units(&json!("1500m")), Some(2));
        assert_eq!(units(&json!(3)), Some(3));
        assert_eq!(units(&json!("20E")), None);
    }
}
