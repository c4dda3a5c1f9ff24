//! Operators, conversions between types and optional values.

use std::{cmp::Ordering, sync::Arc};

use super::{NO_OVERLOAD, duration, no_overload};
use crate::cel::value::{Key, Value};

pub(in crate::cel) fn call(function: &str, member: bool, values: &[Value]) -> Option<Result<Value, String>> {
    Some(match (function, values) {
        ("!_", [Value::Bool(b)]) => Ok(Value::Bool(!b)),
        ("_==_", [a, b]) => Ok(Value::Bool(a == b)),
        ("_!=_", [a, b]) => Ok(Value::Bool(a != b)),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => order(function, a, b),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic(function, a, b),
        ("-_", [Value::Int(n)]) => n.checked_neg().map(Value::Int).ok_or_else(overflow),
        ("-_", [Value::Double(n)]) => Ok(Value::Double(-n)),
        ("_[_]" | "_[?_]", [of, index]) => element(of, index, function == "_[?_]"),
        ("@in", [item, Value::List(list)]) => Ok(Value::Bool(list.items.contains(item))),
        ("@in", [key, Value::Map(map)]) => Ok(Value::Bool(Key::of(key).is_some_and(|k| map.contains_key(&k)))),
        ("size", [Value::String(text)]) => Ok(Value::Int(text.chars().count() as i64)),
        ("size", [value @ (Value::Bytes(_) | Value::List(_) | Value::Map(_))]) => Ok(Value::Int(value.size() as i64)),
        ("dyn", [value]) if !member => Ok(value.clone()),
        ("type", [value]) if !member => Ok(Value::Type(value.type_name().into())),
        ("int" | "uint" | "double" | "bool" | "string" | "bytes", [value]) if !member => convert(function, value),
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(if is_zero(value) { Value::none() } else { Value::some(value.clone()) })
        }
        ("optional.none", []) => Ok(Value::none()),
        ("hasValue", [Value::Optional(value)]) => Ok(Value::Bool(value.is_some())),
        ("value", [Value::Optional(value)]) => {
            value.as_deref().cloned().ok_or_else(|| "optional.none() dereference".to_owned())
        }
        ("or" | "orValue", [Value::Optional(None), other]) => Ok(other.clone()),
        _ => return None,
    })
}

fn overflow() -> String {
    "integer overflow".to_owned()
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null
        | Value::Bool(false)
        | Value::Int(0)
        | Value::Uint(0)
        | Value::Duration(0)
        | Value::Optional(None) => true,
        Value::Double(n) => *n == 0.0,
        Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => value.size() == 0,
        _ => false,
    }
}

fn order(function: &str, a: &Value, b: &Value) -> Result<Value, String> {
    let order = match (a, b) {
        // Nothing is less than what is no number.
        (Value::Double(n), _) | (_, Value::Double(n)) if n.is_nan() => return Ok(Value::Bool(false)),
        (Value::Quantity(_) | Value::Semver(_), _) => return no_overload(),
        _ => a.compare(b).ok_or(NO_OVERLOAD)?,
    };
    Ok(Value::Bool(match function {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn arithmetic(function: &str, a: &Value, b: &Value) -> Result<Value, String> {
    let zero = || Err(if function == "_%_" { "modulus by zero" } else { "division by zero" }.to_owned());
    match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) if matches!(function, "_/_" | "_%_") => {
            zero()
        }
        (Value::Int(a), Value::Int(b)) => match function {
            "_+_" => a.checked_add(*b),
            "_-_" => a.checked_sub(*b),
            "_*_" => a.checked_mul(*b),
            "_/_" => a.checked_div(*b),
            _ => a.checked_rem(*b),
        }
        .map(Value::Int)
        .ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => match function {
            "_+_" => a.checked_add(*b),
            "_-_" => a.checked_sub(*b),
            "_*_" => a.checked_mul(*b),
            "_/_" => a.checked_div(*b),
            _ => a.checked_rem(*b),
        }
        .map(Value::Uint)
        .ok_or_else(|| "unsigned integer overflow".to_owned()),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(match function {
            "_+_" => a + b,
            "_-_" => a - b,
            "_*_" => a * b,
            "_/_" => a / b,
            _ => return no_overload(),
        })),
        (Value::String(a), Value::String(b)) if function == "_+_" => Ok(Value::String(format!("{a}{b}").into())),
        (Value::Bytes(a), Value::Bytes(b)) if function == "_+_" => Ok(Value::Bytes([&**a, &**b].concat().into())),
        (Value::List(a), Value::List(b)) if function == "_+_" => Ok(Value::List(Arc::new(a.plus(b)))),
        (Value::Duration(a), Value::Duration(b)) => match function {
            "_+_" => a.checked_add(*b),
            "_-_" => a.checked_sub(*b),
            _ => return no_overload(),
        }
        .map(Value::Duration)
        .ok_or_else(|| "duration overflow".to_owned()),
        (Value::Timestamp(at), Value::Duration(by)) | (Value::Duration(by), Value::Timestamp(at)) => {
            let by = jiff::SignedDuration::from_nanos(*by);
            match function {
                "_+_" => at.checked_add(by),
                "_-_" if matches!(a, Value::Timestamp(_)) => at.checked_sub(by),
                _ => return no_overload(),
            }
            .map(Value::Timestamp)
            .map_err(|_| "timestamp overflow".to_owned())
        }
        (Value::Timestamp(a), Value::Timestamp(b)) if function == "_-_" => {
            i64::try_from(a.as_nanosecond() - b.as_nanosecond())
                .map(Value::Duration)
                .map_err(|_| "duration overflow".to_owned())
        }
        _ => no_overload(),
    }
}

fn element(of: &Value, index: &Value, optional: bool) -> Result<Value, String> {
    let found = match (of, index) {
        (Value::Optional(None), _) => return Ok(Value::none()),
        (Value::Optional(Some(inner)), _) => return element(inner, index, true),
        (Value::List(list), index) => {
            let at = match index {
                Value::Int(n) => *n,
                Value::Uint(n) => i64::try_from(*n).unwrap_or(i64::MAX),
                Value::Double(n) if n.fract() == 0.0 => *n as i64,
                _ => return no_overload(),
            };
            let found = usize::try_from(at).ok().and_then(|at| list.items.get(at));
            found.cloned().ok_or_else(|| format!("index out of bounds: {at}"))
        }
        (Value::Map(map), key) => {
            let key = Key::of(key).ok_or(NO_OVERLOAD)?;
            map.get(&key).cloned().ok_or_else(|| format!("no such key: {}", key.value()))
        }
        _ => return no_overload(),
    };
    if optional { Ok(found.map_or_else(|_| Value::none(), Value::some)) } else { found }
}

fn convert(to: &str, value: &Value) -> Result<Value, String> {
    let range = || Err(if to == "uint" { "unsigned integer overflow".to_owned() } else { overflow() });
    let syntax = |text: &str, to: &str| Err(format!("type conversion error from 'string' to '{to}': {text:?}"));
    match (to, value) {
        ("int", Value::Int(_))
        | ("uint", Value::Uint(_))
        | ("double", Value::Double(_))
        | ("bool", Value::Bool(_))
        | ("string", Value::String(_))
        | ("bytes", Value::Bytes(_)) => Ok(value.clone()),
        ("int", Value::Uint(n)) => i64::try_from(*n).map(Value::Int).or_else(|_| range()),
        ("int", Value::Double(n)) if n.is_finite() && n.abs() < 9.223_372_036_854_775e18 => Ok(Value::Int(*n as i64)),
        ("int", Value::Double(_)) => range(),
        ("int", Value::String(text)) => text.parse().map(Value::Int).or_else(|_| syntax(text, "int")),
        ("int", Value::Timestamp(at)) => Ok(Value::Int(at.as_second())),
        ("int", Value::Duration(nanos)) => Ok(Value::Int(*nanos)),
        ("uint", Value::Int(n)) => u64::try_from(*n).map(Value::Uint).or_else(|_| range()),
        ("uint", Value::Double(n)) if *n >= 0.0 && *n < 1.844_674_407_370_955e19 => Ok(Value::Uint(*n as u64)),
        ("uint", Value::Double(_)) => range(),
        ("uint", Value::String(text)) => text.parse().map(Value::Uint).or_else(|_| syntax(text, "uint")),
        ("double", Value::Int(n)) => Ok(Value::Double(*n as f64)),
        ("double", Value::Uint(n)) => Ok(Value::Double(*n as f64)),
        ("double", Value::String(text)) => text.parse().map(Value::Double).or_else(|_| syntax(text, "double")),
        ("bool", Value::String(text)) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            other => syntax(other, "bool"),
        },
        ("string", Value::Bytes(bytes)) => std::str::from_utf8(bytes)
            .map(Value::string)
            .map_err(|_| "invalid UTF-8 in bytes, cannot convert to string".to_owned()),
        (
            "string",
            Value::Null | Value::List(_) | Value::Map(_) | Value::Optional(_) | Value::Type(_) | Value::Opaque(_),
        ) => no_overload(),
        ("string", other) => Ok(Value::String(other.to_string().into())),
        ("bytes", Value::String(text)) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => no_overload(),
    }
}

/// `duration(x)` and `timestamp(x)`.
pub(in crate::cel) fn moment(function: &str, value: &Value) -> Result<Value, String> {
    match (function, value) {
        ("duration", Value::Duration(_)) | ("timestamp", Value::Timestamp(_)) => Ok(value.clone()),
        ("duration", Value::String(text)) => duration(text).map(Value::Duration),
        ("duration", Value::Int(nanos)) => Ok(Value::Duration(*nanos)),
        ("timestamp", Value::String(text)) => text.parse().map(Value::Timestamp).map_err(|_| {
            format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\"")
        }),
        ("timestamp", Value::Int(seconds)) => {
            jiff::Timestamp::from_second(*seconds).map(Value::Timestamp).map_err(|_| "timestamp overflow".to_owned())
        }
        _ => no_overload(),
    }
}
