//! Kubernetes' quantities.

use std::fmt;

use crate::{
    cel::value::Value,
    quantity::{self, NANOS},
};

/// A quantity in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(pub(in crate::cel) i128);

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 % NANOS, self.0 % (NANOS / 1000)) {
            (0, _) => write!(f, "{}", self.0 / NANOS),
            (_, 0) => write!(f, "{}m", self.0 / (NANOS / 1000)),
            _ => write!(f, "{}n", self.0),
        }
    }
}

pub(in crate::cel) fn call(function: &str, member: bool, values: &[Value]) -> Option<Result<Value, String>> {
    let overflow = || "quantity overflow".to_owned();
    let with_int = |n: &i64| i128::from(*n) * NANOS;
    Some(match (function, values) {
        ("quantity", [Value::String(text)]) => {
            quantity::parse(text).map(|n| Value::Quantity(Quantity(n))).ok_or_else(|| {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned()
            })
        }
        ("isQuantity", [Value::String(text)]) => Ok(Value::Bool(quantity::parse(text).is_some())),
        _ if !member => return None,
        ("isInteger", [Value::Quantity(q)]) => Ok(Value::Bool(q.0 % NANOS == 0 && i64::try_from(q.0 / NANOS).is_ok())),
        ("asInteger", [Value::Quantity(q)]) => match i64::try_from(q.0 / NANOS) {
            Ok(n) if q.0 % NANOS == 0 => Ok(Value::Int(n)),
            _ => Err("cannot convert value to integer".to_owned()),
        },
        ("asApproximateFloat", [Value::Quantity(q)]) => Ok(Value::Double(q.0 as f64 / NANOS as f64)),
        ("sign", [Value::Quantity(q)]) => Ok(Value::Int(q.0.signum() as i64)),
        ("isGreaterThan", [Value::Quantity(a), Value::Quantity(b)]) => Ok(Value::Bool(a > b)),
        ("isLessThan", [Value::Quantity(a), Value::Quantity(b)]) => Ok(Value::Bool(a < b)),
        ("compareTo", [Value::Quantity(a), Value::Quantity(b)]) => Ok(Value::Int(a.cmp(b) as i64)),
        ("add", [Value::Quantity(a), Value::Quantity(b)]) => {
            a.0.checked_add(b.0).map(|n| Value::Quantity(Quantity(n))).ok_or_else(overflow)
        }
        ("add", [Value::Quantity(a), Value::Int(b)]) => {
            a.0.checked_add(with_int(b)).map(|n| Value::Quantity(Quantity(n))).ok_or_else(overflow)
        }
        ("sub", [Value::Quantity(a), Value::Quantity(b)]) => {
            a.0.checked_sub(b.0).map(|n| Value::Quantity(Quantity(n))).ok_or_else(overflow)
        }
        ("sub", [Value::Quantity(a), Value::Int(b)]) => {
            a.0.checked_sub(with_int(b)).map(|n| Value::Quantity(Quantity(n))).ok_or_else(overflow)
        }
        _ => return None,
    })
}
