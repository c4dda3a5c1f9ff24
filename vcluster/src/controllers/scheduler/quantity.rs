//! `resource.Quantity`: exact, in billionths.

/// Parses a quantity such as `100m`, `1.5`, `64Mi`, `1e3` into billionths (rounded up, as upstream). None when it is not one or too large.
pub(in crate::controllers) fn parse(text: &str) -> Option<i128> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    // value = digits * 10^-fraction.len() * 2^binary * 10^decimal
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
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
    let power = 9 + decimal - i32::try_from(fraction.len()).ok()?;
    let scaled = digits.checked_mul(1_i128 << binary)?;
    let nano = if power >= 0 {
        scaled.checked_mul(10_i128.checked_pow(power.unsigned_abs())?)?
    } else {
        let divisor = 10_i128.checked_pow(power.unsigned_abs())?;
        scaled.checked_add(divisor - 1)? / divisor
    };
    Some(if negative { -nano } else { nano })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_quantities_are_read() {
        for (text, nano) in [
            ("1", Some(1_000_000_000)),
            ("100m", Some(100_000_000)),
            ("0.1", Some(100_000_000)),
            ("1.5Gi", Some(1_610_612_736_000_000_000)),
            ("64Mi", Some(67_108_864_000_000_000)),
            ("1e3", Some(1_000_000_000_000)),
            ("2E", Some(2_000_000_000_000_000_000_000_000_000)),
            ("0.0000000001", Some(1)),
            ("-1", Some(-1_000_000_000)),
            (".5", Some(500_000_000)),
            ("", None),
            ("x", None),
            ("1x", None),
            ("1.2.3", None),
        ] {
            assert_eq!(parse(text), nano, "{text}");
        }
    }
}
