//! Quantities of resources (`100m`, `1.5Gi`, `2e3`). Source: apimachinery `pkg/api/resource`.

/// The value in billionths, or none for what is no quantity (or too large for 128 bits).
pub fn parse(text: &str) -> Option<i128> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let scale: i128 = match suffix {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => NANOS,
        "k" => NANOS * 1_000,
        "M" => NANOS * 1_000_000,
        "G" => NANOS * 1_000_000_000,
        "T" => NANOS * 1_000_000_000_000,
        "P" => NANOS * 1_000_000_000_000_000,
        "E" => NANOS * 1_000_000_000_000_000_000,
        "Ki" => NANOS << 10,
        "Mi" => NANOS << 20,
        "Gi" => NANOS << 30,
        "Ti" => NANOS << 40,
        "Pi" => NANOS << 50,
        "Ei" => NANOS << 60,
        other => {
            let exponent: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            match u32::try_from(exponent + 9) {
                Ok(power) => 10_i128.checked_pow(power)?,
                Err(_) => return None,
            }
        }
    };
    let mut value = if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()?.checked_mul(scale)? };
    let mut place = scale;
    for digit in fraction.bytes() {
        place /= 10;
        value = value.checked_add(i128::from(digit - b'0') * place)?;
    }
    Some(if negative { -value } else { value })
}

const NANOS: i128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (text, nanos) in [
            ("1", Some(NANOS)),
            ("100m", Some(NANOS / 10)),
            ("1.5Gi", Some(NANOS * 3 * (1 << 29))),
            ("2e3", Some(NANOS * 2000)),
            ("-1k", Some(-NANOS * 1000)),
            (".5", Some(NANOS / 2)),
            ("0", Some(0)),
            ("", None),
            ("x", None),
            ("1.2.3", None),
            ("1 Gi", None),
            ("1KB", None),
            ("-", None),
        ] {
            assert_eq!(parse(text), nanos, "{text}");
        }
    }
}
