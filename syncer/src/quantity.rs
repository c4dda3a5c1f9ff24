//! Kubernetes quantities (`100m`, `1.5`, `64Mi`, `2e3`) as exact integers.

use serde_json::Value;

const NANO: i128 = 1_000_000_000;

/// A quantity in billionths; none for text that is no quantity or does not fit.
pub(crate) fn nanos(text: &str) -> Option<i128> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let (numerator, denominator) = factor(suffix)?;
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || digits.contains(['+', '-']) {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut value = whole.checked_mul(NANO)?.checked_mul(numerator)?;
    let mut scale = NANO.checked_mul(numerator)?;
    for digit in fraction.chars() {
        scale /= 10;
        value = value.checked_add(scale.checked_mul(i128::from(digit.to_digit(10)?))?)?;
    }
    let value = ceil(value, denominator);
    Some(if negative { -value } else { value })
}

fn factor(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, NANO),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (NANO, 1),
        "T" => (1_000 * NANO, 1),
        "P" => (1_000_000 * NANO, 1),
        "E" => (NANO * NANO, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10i128.checked_pow(exponent.unsigned_abs().min(18))?;
            if exponent < 0 { (1, power) } else { (power, 1) }
        }
    })
}

/// Division that rounds up, as the API does.
pub(crate) fn ceil(value: i128, divisor: i128) -> i128 {
    let quotient = value.div_euclid(divisor);
    if value.rem_euclid(divisor) == 0 { quotient } else { quotient + 1 }
}

/// A quantity in a document, which may be a number.
pub(crate) fn of(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => nanos(text),
        Value::Number(number) => nanos(&number.to_string()),
        _ => None,
    }
}

/// Thousandths, rounded up.
pub(crate) fn thousandths(value: &Value) -> Option<i64> {
    of(value).and_then(|n| ceil(n, NANO / 1000).try_into().ok())
}

/// Whole units, rounded up.
pub(crate) fn units(value: &Value) -> Option<i64> {
    of(value).and_then(|n| ceil(n, NANO).try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_form() {
        for (text, expected) in [
            ("0", 0),
            ("1", NANO),
            ("100m", NANO / 10),
            ("1.5", NANO * 3 / 2),
            (".5", NANO / 2),
            ("2e3", 2000 * NANO),
            ("1Ki", 1024 * NANO),
            ("1.5Gi", 1536 * (1 << 20) * NANO),
            ("5n", 5),
            ("-2", -2 * NANO),
        ] {
            assert_eq!(nanos(text), Some(expected), "{text}");
        }
        for text in ["", "abc", "1x", "1.2.3", "Mi", "1e", "--1"] {
            assert_eq!(nanos(text), None, "{text}");
        }
        assert_eq!(thousandths(&"250m".into()), Some(250));
        assert_eq!(units(&"1500m".into()), Some(2));
        assert_eq!(units(&serde_json::json!(3)), Some(3));
    }
}
