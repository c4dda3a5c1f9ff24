//! What calls cost, and how large their results are.

use super::{Estimate, Expression, Kind, Known, LIST, Node, REGEX_FACTOR, STRING_FACTOR, Size, Value};
use crate::cel::{declarations, types::Type};

/// Longest expression of a named format.
const FORMAT_REGEX: f64 = 128.0;

impl<'s> Estimate<'s> {
    pub(super) fn call(
        &mut self,
        function: &str,
        target: Option<&Expression>,
        arguments: &[Expression],
    ) -> (u64, Known<'s>) {
        let target = target.map(|t| self.cost(t));
        let arguments_known: Vec<(u64, Known<'s>)> = arguments.iter().map(|a| self.cost(a)).collect();
        let paid = arguments_known.iter().chain(&target).fold(0_u64, |sum, (cost, _)| sum.saturating_add(*cost));
        match (function, arguments_known.as_slice()) {
            ("dyn", [(cost, known)]) => return (cost.saturating_add(1), *known),
            ("_&&_" | "_||_", [..]) => return (paid, Known::of(Kind::Scalar)),
            ("_?_:_", [(condition, _), (yes, a), (no, b)]) => {
                let entries = a.entries.zip(b.entries).map(|(a, b)| a.union(b));
                let kind = if a.kind == b.kind { a.kind } else { Kind::Unknown };
                let known = Known { entries, ..Known::sized(kind, a.size().union(b.size())) };
                return (condition.saturating_add(*yes.max(no)), known);
            }
            _ => {}
        }
        // As methods and as functions: the first one is what it is about.
        let mut all: Vec<Known<'s>> = target.iter().map(|(_, known)| *known).collect();
        all.extend(arguments_known.iter().map(|(_, known)| *known));
        let (own, known) = own(function, &all, arguments);
        (paid.saturating_add(own), known)
    }
}

/// Whether every way to call a function makes something of a constant size.
fn result_kind(function: &str) -> Kind {
    let overloads = declarations::all().get(function).map(Vec::as_slice).unwrap_or_default();
    let scalar = |t: &Type| {
        matches!(t, Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Timestamp | Type::Duration | Type::Null)
    };
    match overloads {
        [] => Kind::Unknown,
        all if all.iter().all(|o| scalar(&o.result)) => Kind::Scalar,
        all if all.iter().all(|o| o.result == Type::String) => Kind::String,
        all if all.iter().all(|o| matches!(o.result, Type::List(_))) => Kind::List,
        _ => Kind::Unknown,
    }
}

/// The cost of the call itself, and what is known of its result.
fn own<'s>(function: &str, of: &[Known<'s>], arguments: &[Expression]) -> (u64, Known<'s>) {
    let first = of.first().copied().unwrap_or_else(|| Known::of(Kind::Unknown));
    let second = of.get(1).copied().unwrap_or_else(|| Known::of(Kind::Unknown));
    let size = first.size();
    let result = result_kind(function);
    let walk = |times: f64| size.cost(times * STRING_FACTOR);
    let is_text = |k: &Known<'_>| matches!(k.kind, Kind::String | Kind::Bytes);
    match function {
        "_==_" | "_!=_" => (compare(size, second.size()), Known::of(Kind::Scalar)),
        "_<_" | "_<=_" | "_>_" | "_>=_" => {
            let numbers = first.kind == Kind::Scalar || second.kind == Kind::Scalar;
            (if numbers { 1 } else { compare(size, second.size()).max(1) }, Known::of(Kind::Scalar))
        }
        "_+_" => plus(first, second),
        "_[_]" | "_[?_]" => (1, first.entry()),
        "@in" => match second.kind {
            Kind::Map => (1, Known::of(Kind::Scalar)),
            _ => (second.size().cost(1.0), Known::of(Kind::Scalar)),
        },
        "matches" => (regex(size, second.size()), Known::of(Kind::Scalar)),
        "find" | "findAll" => (regex(size, second.size()), Known::sized(result, Size { min: 0, max: size.max })),
        "contains" => {
            (size.cost(STRING_FACTOR).saturating_mul(second.size().cost(STRING_FACTOR)), Known::of(Kind::Scalar))
        }
        "startsWith" | "endsWith" => (second.size().cost(STRING_FACTOR), Known::of(Kind::Scalar)),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
            if is_text(&first) {
                return (walk(1.0), Known::of(Kind::Scalar));
            }
            let item = first.entry();
            let one = if is_text(&item) { item.size().cost(STRING_FACTOR).saturating_add(1) } else { 1 };
            let known = if matches!(function, "max" | "min") { item } else { Known::of(Kind::Scalar) };
            (size.max.saturating_mul(one), known)
        }
        "url" | "jsonpatch.escapeKey" | "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            (walk(1.0), Known::sized(result, size))
        }
        "replace" => (walk(2.0), Known::sized(Kind::String, replaced(size, second.size(), of.get(2)))),
        "split" => {
            let limit = match arguments.get(1).map(|a| &a.node) {
                Some(Node::Literal(Value::Int(n))) => u64::try_from(*n).unwrap_or(size.max),
                _ => size.max,
            };
            (walk(2.0), Known::sized(Kind::List, Size { min: 0, max: limit }))
        }
        "join" => {
            let mut joined = size.times(first.entry().size());
            if of.len() > 1 {
                let gaps = Size { min: size.min.saturating_sub(1), max: size.max.saturating_sub(1) };
                joined = joined.plus(second.size().times(gaps));
            }
            (joined.cost(STRING_FACTOR), Known::sized(Kind::String, joined))
        }
        "format" => (walk(1.0), Known::of(Kind::String)),
        "strings.quote" => {
            let quoted = Size { min: size.min.saturating_add(2), max: size.max.saturating_mul(2).saturating_add(2) };
            (walk(1.0), Known::sized(Kind::String, quoted))
        }
        "bytes" if first.kind == Kind::String => {
            (walk(1.0), Known::sized(Kind::Bytes, Size { min: size.min, max: size.max.saturating_mul(4) }))
        }
        "string" if first.kind == Kind::Bytes => {
            (walk(1.0), Known::sized(Kind::String, Size { min: size.min / 4, max: size.max }))
        }
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            (walk(1.0), Known::of(result))
        }
        "ip.isCanonical" => (walk(2.0), Known::of(Kind::Scalar)),
        "containsIP" | "containsCIDR" => {
            // Up to 16 octets are compared, and masked.
            let addresses = if function == "containsIP" { 4 } else { 7 };
            let parsed = if is_text(&second) { second.size().cost(STRING_FACTOR) } else { 0 };
            (parsed.saturating_add(addresses), Known::of(Kind::Scalar))
        }
        "validate" => {
            let text = second.size().cost(STRING_FACTOR);
            (super::by_factor(text, FORMAT_REGEX * REGEX_FACTOR), Known::of(Kind::Unknown))
        }
        "sets.contains" | "sets.intersects" | "sets.equivalent" => {
            let factor = if function == "sets.equivalent" { 2 } else { 1 };
            let product = size.max.saturating_mul(second.size().max).saturating_mul(factor);
            (product.saturating_add(1), Known::of(Kind::Scalar))
        }
        "distinct" | "sort" => {
            let cost = size.max.saturating_mul(size.max).saturating_mul(2).saturating_add(LIST + 1);
            (cost, Known { entries: first.entries, ..Known::sized(Kind::List, size) })
        }
        "slice" | "flatten" | "reverse" => {
            (size.max.saturating_add(LIST + 1), Known { entries: first.entries, ..Known::sized(Kind::List, size) })
        }
        "lists.range" => match arguments.first().map(|a| &a.node) {
            Some(Node::Literal(Value::Int(n))) => {
                let count = u64::try_from(*n).unwrap_or(0);
                (count.saturating_add(LIST + 1), Known::sized(Kind::List, Size::exactly(count)))
            }
            _ => (u64::MAX, Known::of(Kind::List)),
        },
        // What is inside of an optional is what it was made of.
        "optional.of" | "optional.ofNonZeroValue" | "value" | "or" | "orValue" => {
            let known = Known { shape: None, size: None, entries: None, ..first };
            (1, if first.kind == Kind::Scalar { known } else { Known::of(first.kind) })
        }
        _ => (1, Known::of(result)),
    }
}

/// Two values are compared as far as the shorter one goes.
fn compare(a: Size, b: Size) -> u64 {
    super::by_factor(a.max.min(b.max), STRING_FACTOR)
}

/// A regular expression takes as long as its text is long, times its own length.
fn regex(text: Size, pattern: Size) -> u64 {
    text.plus(Size::exactly(1)).cost(STRING_FACTOR).saturating_mul(pattern.cost(REGEX_FACTOR))
}

fn plus<'s>(a: Known<'s>, b: Known<'s>) -> (u64, Known<'s>) {
    let size = a.size().plus(b.size());
    let text = size.cost(STRING_FACTOR);
    let kinds = [a.kind, b.kind];
    if let Some(kind) = kinds.into_iter().find(|k| matches!(k, Kind::String | Kind::Bytes)) {
        return (text, Known::sized(kind, size));
    }
    if kinds.contains(&Kind::List) {
        let entries = a.entries.zip(b.entries).map(|(a, b)| a.union(b));
        return (1, Known { entries, ..Known::sized(Kind::List, size) });
    }
    if kinds.contains(&Kind::Scalar) {
        return (1, Known::of(Kind::Scalar));
    }
    (text.max(1), Known::sized(Kind::Unknown, size))
}

/// The length of a text in which something has been replaced by something else.
fn replaced(text: Size, old: Size, new: Option<&Known<'_>>) -> Size {
    let new = new.map_or(Size::UNKNOWN, Known::size);
    let (count_max, kept_max) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (text.max.div_ceil(old.min), 0)
    };
    let (count_min, kept_min) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (text.min.div_ceil(old.max), 0)
    };
    Size { min: count_min, max: count_max }.times(new).plus(Size { min: kept_min, max: kept_max })
}
