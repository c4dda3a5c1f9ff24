//! The functions, by name and the values they are called with. Errors are those of cel-go and of Kubernetes' libraries.

pub(super) mod lists;
pub(super) mod named;
pub(super) mod network;
pub(super) mod operators;
pub(super) mod quantity;
pub(super) mod semver;
pub(super) mod strings;
pub(super) mod time;
pub(super) mod url;

use super::value::Value;
use crate::crd::parse_duration;

/// What every wrong call says.
pub(super) const NO_OVERLOAD: &str = "no such overload";

pub(super) fn no_overload<T>() -> Result<T, String> {
    Err(NO_OVERLOAD.to_owned())
}

/// `duration('1h')`, in nanoseconds.
pub(super) fn duration(text: &str) -> Result<i64, String> {
    parse_duration(text).ok_or_else(|| format!("time: invalid duration {text:?}"))
}

/// Calls a function; with `member` the first value is the target.
pub(super) fn call(function: &str, member: bool, values: &[Value]) -> Result<Value, String> {
    if let (true, Some(Value::Opaque(target))) = (member, values.first()) {
        return target.call(function, &values[1..]);
    }
    for library in [
        operators::call,
        strings::call,
        lists::call,
        time::call,
        quantity::call,
        url::call,
        network::call,
        semver::call,
        named::call,
    ] {
        if let Some(result) = library(function, member, values) {
            return result;
        }
    }
    no_overload()
}

/// A tenth of a length, rounded up.
fn tenth(length: u64) -> u64 {
    length.div_ceil(10)
}

/// Cost of walking through a value.
fn traversal(value: &Value) -> u64 {
    match value {
        Value::List(list) => list
            .items
            .iter()
            .map(|i| 1 + if matches!(i, Value::String(_) | Value::Bytes(_)) { tenth(i.size()) } else { 0 })
            .sum(),
        other => tenth(other.size()),
    }
}

/// What a call costs before it is made.
pub(super) fn cost(function: &str, values: &[Value]) -> u64 {
    let size = |i: usize| values.get(i).map_or(0, Value::size);
    if let Some(Value::Opaque(target)) = values.first() {
        return target.cost(function);
    }
    let of = |i: usize| values.get(i).map_or(0, traversal);
    let pattern = |text: u64, pattern: u64| tenth(1 + text).max(1) * pattern.div_ceil(4).max(1);
    match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" | "distinct" | "reverse"
        | "flatten" => of(0),
        "sort" => of(0).saturating_mul(2),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => 1 + size(0).saturating_mul(size(1)),
        "@in" => match values.get(1) {
            Some(Value::List(list)) => 1 + list.items.len() as u64,
            _ => 1,
        },
        "lists.range" => match values.first() {
            Some(Value::Int(n)) => u64::try_from(*n).unwrap_or(0),
            _ => 1,
        },
        "matches" | "find" | "findAll" => pattern(size(0), size(1)),
        "contains" => tenth(size(0)).max(1) * tenth(size(1)).max(1),
        "startsWith" | "endsWith" => tenth(size(1)).max(1),
        "replace" | "split" => tenth(size(0).saturating_mul(2)),
        "_+_" => match values.first() {
            Some(Value::String(_) | Value::Bytes(_)) => tenth(size(0) + size(1)).max(1),
            _ => 1,
        },
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => match values.first() {
            Some(Value::String(_) | Value::Bytes(_)) => tenth(size(0).min(size(1))).max(1),
            Some(list @ (Value::List(_) | Value::Map(_))) => 1 + traversal(list),
            _ => 1,
        },
        "validate" => pattern(size(1), 64),
        "containsIP" | "containsCIDR" => 1 + tenth(size(1)),
        "string"
        | "bytes"
        | "url"
        | "isURL"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver"
        | "cidr"
        | "isCIDR"
        | "isIP"
        | "ip"
        | "timestamp"
        | "duration"
        | "ip.isCanonical"
        | "jsonpatch.escapeKey"
        | "strings.quote" => tenth(size(0)).max(1),
        _ => 1,
    }
}

/// What a result costs.
pub(super) fn result_cost(function: &str, result: &Value) -> u64 {
    match function {
        "join" | "format" => tenth(result.size().saturating_mul(2)),
        _ => 0,
    }
}
