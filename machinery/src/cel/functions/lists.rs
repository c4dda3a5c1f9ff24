//! Lists: Kubernetes' list library, and cel-go's `ext.Lists` and `ext.Sets`.

use std::cmp::Ordering;

use super::NO_OVERLOAD;
use crate::cel::value::Value;

/// Longest list that a function makes.
const MAX_LENGTH: i64 = 1_000_000;

pub(in crate::cel) fn call(function: &str, member: bool, values: &[Value]) -> Option<Result<Value, String>> {
    let number = |at: Option<usize>| Ok(Value::Int(at.map_or(-1, |i| i as i64)));
    Some(match (function, values) {
        ("sets.contains", [Value::List(a), Value::List(b)]) => {
            Ok(Value::Bool(b.items.iter().all(|i| a.items.contains(i))))
        }
        ("sets.equivalent", [Value::List(a), Value::List(b)]) => {
            Ok(Value::Bool(b.items.iter().all(|i| a.items.contains(i)) && a.items.iter().all(|i| b.items.contains(i))))
        }
        ("sets.intersects", [Value::List(a), Value::List(b)]) => {
            Ok(Value::Bool(b.items.iter().any(|i| a.items.contains(i))))
        }
        ("lists.range", [Value::Int(n)]) if *n > MAX_LENGTH => Err("size of the range is too large".to_owned()),
        ("lists.range", [Value::Int(n)]) => Ok(Value::list((0..*n).map(Value::Int).collect())),
        _ if !member => return None,
        ("isSorted", [Value::List(list)]) => sorted(&list.items),
        ("min", [Value::List(list)]) => extreme("min", &list.items, Ordering::Less),
        ("max", [Value::List(list)]) => extreme("max", &list.items, Ordering::Greater),
        ("sum", [Value::List(list)]) => sum(&list.items),
        ("indexOf", [Value::List(list), item]) => number(list.items.iter().position(|i| i == item)),
        ("lastIndexOf", [Value::List(list), item]) => number(list.items.iter().rposition(|i| i == item)),
        ("includes", [Value::List(list), item]) => Ok(Value::Bool(list.items.contains(item))),
        ("slice", [Value::List(list), Value::Int(from), Value::Int(to)]) => slice(&list.items, *from, *to),
        ("flatten", [Value::List(list)]) => Ok(Value::list(flatten(&list.items, 1))),
        ("flatten", [Value::List(list), Value::Int(depth)]) => match usize::try_from(*depth) {
            Ok(depth) => Ok(Value::list(flatten(&list.items, depth.min(64)))),
            Err(_) => Err("level must be non-negative".to_owned()),
        },
        ("distinct", [Value::List(list)]) => {
            let mut seen: Vec<Value> = Vec::new();
            for item in &list.items {
                if !seen.contains(item) {
                    seen.push(item.clone());
                }
            }
            Ok(Value::list(seen))
        }
        ("reverse", [Value::List(list)]) => Ok(Value::list(list.items.iter().rev().cloned().collect())),
        ("sort", [Value::List(list)]) => sorted(&list.items).map(|_| {
            let mut items = list.items.clone();
            items.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
            Value::list(items)
        }),
        ("first", [Value::List(list)]) => Ok(list.items.first().cloned().map_or_else(Value::none, Value::some)),
        ("last", [Value::List(list)]) => Ok(list.items.last().cloned().map_or_else(Value::none, Value::some)),
        _ => return None,
    })
}

fn sorted(items: &[Value]) -> Result<Value, String> {
    let mut in_order = true;
    for pair in items.windows(2) {
        in_order &= pair[0].compare(&pair[1]).ok_or(NO_OVERLOAD)? != Ordering::Greater;
    }
    Ok(Value::Bool(in_order))
}

fn extreme(name: &str, items: &[Value], wanted: Ordering) -> Result<Value, String> {
    let mut items = items.iter();
    let mut best = items.next().ok_or_else(|| format!("{name} called on empty list"))?;
    for item in items {
        if item.compare(best).ok_or(NO_OVERLOAD)? == wanted {
            best = item;
        }
    }
    Ok(best.clone())
}

fn sum(items: &[Value]) -> Result<Value, String> {
    let mut items = items.iter();
    let mut total = match items.next() {
        Some(first @ (Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_))) => first.clone(),
        Some(_) => return super::no_overload(),
        // The sum of nothing is 0, which equals the zero of every kind of number.
        None => return Ok(Value::Int(0)),
    };
    for item in items {
        total = super::call("_+_", false, &[total, item.clone()])?;
    }
    Ok(total)
}

fn slice(items: &[Value], from: i64, to: i64) -> Result<Value, String> {
    match (usize::try_from(from), usize::try_from(to)) {
        _ if from < 0 || to < 0 => Err(format!("cannot slice({from}, {to}), negative indexes not supported")),
        _ if from > to => {
            Err(format!("cannot slice({from}, {to}), start index must be less than or equal to end index"))
        }
        (Ok(from), Ok(to)) if to <= items.len() => Ok(Value::list(items[from..to].to_vec())),
        _ => Err(format!("cannot slice({from}, {to}), list is length {}", items.len())),
    }
}

fn flatten(items: &[Value], depth: usize) -> Vec<Value> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Value::List(list) if depth > 0 => out.extend(flatten(&list.items, depth - 1)),
            other => out.push(other.clone()),
        }
    }
    out
}
