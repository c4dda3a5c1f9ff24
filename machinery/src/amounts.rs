//! `resource.Quantity` with its form, for sums that are shown to people. Source: apimachinery `pkg/api/resource`.

use std::{cmp::Ordering, collections::BTreeMap, fmt};

use crate::quantity::{NANOS, ceil, parse};
use serde_json::Value;

/// Which suffixes a quantity is printed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `m`, `k`, `M`, ..
    Decimal,
    /// `Ki`, `Mi`, ..
    Binary,
    /// `e3`, `e6`, ..
    Exponent,
}

/// An exact amount in billionths, printed in canonical form.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    form: Form,
}

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, form: Form::Decimal };

    /// A whole number.
    pub fn count(n: usize) -> Self {
        Self { nanos: i128::try_from(n).unwrap_or(i128::MAX / NANOS).saturating_mul(NANOS), form: Form::Decimal }
    }

    /// Billionths, such as of a processor.
    pub fn nanos(nanos: i64) -> Self {
        Self { nanos: nanos.into(), form: Form::Decimal }
    }

    /// Thousandths.
    pub fn millis(millis: i64) -> Self {
        Self { nanos: i128::from(millis).saturating_mul(NANOS / 1000), form: Form::Decimal }
    }

    /// Bytes of memory.
    pub fn bytes(bytes: i64) -> Self {
        Self { nanos: i128::from(bytes).saturating_mul(NANOS), form: Form::Binary }
    }

    /// A text or number of a document.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let form = if text.ends_with('i') {
            Form::Binary
        } else if text.ends_with(|c: char| c.is_ascii_digit()) && text.contains(['e', 'E']) {
            Form::Exponent
        } else {
            Form::Decimal
        };
        parse(text).map(|nanos| Self { nanos, form })
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is less than nothing.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The next whole number.
    #[must_use]
    pub fn round_up(self) -> Self {
        let rest = self.nanos.rem_euclid(NANOS);
        if rest == 0 { self } else { Self { nanos: self.nanos.saturating_add(NANOS - rest), ..self } }
    }

    /// In thousandths, rounded up; nothing of what is negative.
    pub fn millis_up(self) -> u64 {
        self.in_units_of(NANOS / 1000)
    }

    /// In whole units, rounded up; nothing of what is negative.
    pub fn units_up(self) -> u64 {
        self.in_units_of(NANOS)
    }

    fn in_units_of(self, unit: i128) -> u64 {
        u64::try_from(ceil(self.nanos.max(0), unit)).unwrap_or(u64::MAX)
    }

    /// The sum, in the form of the first (of the second if the first is zero).
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let form = if self.is_zero() { other.form } else { self.form };
        Self { nanos: self.nanos.saturating_add(other.nanos), form }
    }

    /// The difference, but not below zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos).max(0), form: self.form }
    }

    /// How many times `other` this is.
    pub fn ratio(self, other: Self) -> f64 {
        self.nanos as f64 / other.nanos as f64
    }

    /// The amount itself.
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.form == Form::Binary && self.nanos.abs() >= 1024 * NANOS {
            let mut number = self.round_up().nanos / NANOS;
            let mut power = 0;
            while number % 1024 == 0 && power + 1 < BINARY.len() {
                number /= 1024;
                power += 1;
            }
            return write!(f, "{number}{}", BINARY[power]);
        }
        let (mut number, mut power) = (self.nanos, 0);
        while number % 1000 == 0 && power + 1 < DECIMAL.len() {
            number /= 1000;
            power += 1;
        }
        if self.form == Form::Exponent && power != 3 {
            return write!(f, "{number}e{}", 3 * power as i32 - 9);
        }
        write!(f, "{number}{}", DECIMAL[power])
    }
}

/// The quantities of a document's map; what is none is left out (validation refuses it).
pub fn amounts(map: &Value) -> Amounts {
    map.as_object().into_iter().flatten().filter_map(|(k, v)| Some((k.clone(), Quantity::of(v)?))).collect()
}

/// Adds every amount of `more`.
pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let slot = sum.entry(name.clone()).or_insert(Quantity::ZERO);
        *slot = slot.plus(*amount);
    }
}

/// Raises every amount to at least that of `other`.
pub fn raise(amounts: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let slot = amounts.entry(name.clone()).or_insert(*amount);
        if *amount > *slot {
            *slot = *amount;
        }
    }
}

/// As a document's map.
pub fn document(amounts: &Amounts) -> Value {
    Value::Object(amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect())
}

/// `a=1,b=2`.
pub fn listed(amounts: &Amounts) -> String {
    amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_print_in_canonical_form() {
        for (text, printed) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("2000m", "2"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1536Mi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1000k", "1M"),
            ("1e3", "1e3"),
            ("1500Gi", "1500Gi"),
            ("100", "100"),
            ("1u", "1u"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn sums_keep_the_form_of_the_first() {
        let q = |t| Quantity::parse(t).unwrap();
        assert_eq!(q("1Gi").plus(q("1000000")).to_string(), "1074741824");
        assert_eq!(q("0").plus(q("64Mi")).to_string(), "64Mi");
        assert_eq!(q("500m").plus(q("1")).to_string(), "1500m");
        assert_eq!(q("1").minus(q("2")), Quantity::ZERO);
        assert_eq!(q("0.1").round_up().to_string(), "1");
    }
}
