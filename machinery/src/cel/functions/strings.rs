//! Text: the standard functions, cel-go's `ext.Strings` and Kubernetes' `find` and `findAll`.

use std::sync::Arc;

use super::NO_OVERLOAD;
use crate::{
    cel::value::Value,
    crd::{PatternProgram as Program, compile_pattern},
};

/// Longest text that a function makes: what `join` and `replace` could blow up to is not made.
const MAX_LENGTH: usize = 10 << 20;

pub(in crate::cel) fn call(function: &str, member: bool, values: &[Value]) -> Option<Result<Value, String>> {
    let text = |t: String| Ok(Value::String(t.into()));
    Some(match (function, values) {
        ("matches", [Value::String(of), Value::String(pattern)]) => {
            compile_pattern(pattern).map(|p| Value::Bool(p.is_match(of)))
        }
        ("strings.quote", [Value::String(of)]) => text(format!("{of:?}")),
        ("jsonpatch.escapeKey", [Value::String(of)]) => text(of.replace('~', "~0").replace('/', "~1")),
        _ if !member => return None,
        ("contains", [Value::String(of), Value::String(part)]) => Ok(Value::Bool(of.contains(&**part))),
        ("startsWith", [Value::String(of), Value::String(part)]) => Ok(Value::Bool(of.starts_with(&**part))),
        ("endsWith", [Value::String(of), Value::String(part)]) => Ok(Value::Bool(of.ends_with(&**part))),
        ("charAt", [Value::String(of), Value::Int(at)]) => {
            let count = of.chars().count() as i64;
            match usize::try_from(*at) {
                Ok(_) if *at == count => text(String::new()),
                Ok(i) if *at < count => text(of.chars().skip(i).take(1).collect()),
                _ => Err(format!("index out of range: {at}")),
            }
        }
        ("indexOf", [Value::String(of), Value::String(part)]) => Ok(find(of, part, 0)),
        ("indexOf", [Value::String(of), Value::String(part), Value::Int(from)]) => match usize::try_from(*from) {
            Ok(from) if from <= of.chars().count() => Ok(find(of, part, from)),
            _ => Err(format!("index out of range: {from}")),
        },
        ("lastIndexOf", [Value::String(of), Value::String(part)]) => Ok(find_last(of, part, usize::MAX)),
        ("lastIndexOf", [Value::String(of), Value::String(part), Value::Int(from)]) => match usize::try_from(*from) {
            Ok(from) if from < of.chars().count().max(1) => Ok(find_last(of, part, from)),
            _ => Err(format!("index out of range: {from}")),
        },
        ("lowerAscii", [Value::String(of)]) => text(of.to_ascii_lowercase()),
        ("upperAscii", [Value::String(of)]) => text(of.to_ascii_uppercase()),
        ("replace", [Value::String(of), Value::String(old), Value::String(new)]) => {
            if new.len() > old.len() && of.len().saturating_mul(new.len() + 1) > MAX_LENGTH {
                Err("result of replace is too long".to_owned())
            } else {
                text(of.replace(&**old, new))
            }
        }
        ("replace", [Value::String(of), Value::String(old), Value::String(new), Value::Int(n)]) => {
            match usize::try_from(*n) {
                Ok(n) => text(of.replacen(&**old, new, n)),
                Err(_) => text(of.replace(&**old, new)),
            }
        }
        ("split", [Value::String(of), Value::String(by)]) => Ok(split(of, by, -1)),
        ("split", [Value::String(of), Value::String(by), Value::Int(n)]) => Ok(split(of, by, *n)),
        ("substring", [Value::String(of), Value::Int(from)]) => substring(of, *from, of.chars().count() as i64),
        ("substring", [Value::String(of), Value::Int(from), Value::Int(to)]) => substring(of, *from, *to),
        ("trim", [Value::String(of)]) => text(of.trim().to_owned()),
        ("join", [Value::List(list)]) => join(&list.items, ""),
        ("join", [Value::List(list), Value::String(by)]) => join(&list.items, by),
        ("format", [Value::String(of), Value::List(list)]) => format(of, &list.items),
        ("find", [Value::String(of), Value::String(pattern)]) => {
            regex(pattern).map(|p| Value::string(p.find(of).unwrap_or_default()))
        }
        ("findAll", [Value::String(of), Value::String(pattern), limit @ ..]) => regex(pattern).map(|p| {
            let limit = match limit {
                [Value::Int(n)] => usize::try_from(*n).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            Value::list(p.find_all(of, limit).into_iter().map(Value::string).collect())
        }),
        _ => return None,
    })
}

fn regex(pattern: &str) -> Result<Arc<Program>, String> {
    compile_pattern(pattern).map_err(|e| format!("Illegal regex: {e}"))
}

fn find(of: &str, part: &str, from: usize) -> Value {
    let start = of.char_indices().nth(from).map_or(of.len(), |(i, _)| i);
    let at = of[start..].find(part).map(|i| of[..start + i].chars().count() as i64);
    Value::Int(at.unwrap_or(-1))
}

fn find_last(of: &str, part: &str, from: usize) -> Value {
    let places = of.char_indices().map(|(i, _)| i).chain([of.len()]).enumerate();
    let at = places.take_while(|(n, _)| *n <= from).filter(|(_, i)| of[*i..].starts_with(part)).last();
    Value::Int(at.map_or(-1, |(n, _)| n as i64))
}

fn split(of: &str, by: &str, limit: i64) -> Value {
    let parts: Vec<Value> = match limit {
        0 => Vec::new(),
        _ if by.is_empty() => of.chars().map(|c| Value::String(c.to_string().into())).collect(),
        n if n > 0 => of.splitn(n as usize, by).map(Value::string).collect(),
        _ => of.split(by).map(Value::string).collect(),
    };
    Value::list(parts)
}

fn substring(of: &str, from: i64, to: i64) -> Result<Value, String> {
    let count = of.chars().count() as i64;
    if from < 0 || from > count {
        return Err(format!("index out of range: {from}"));
    }
    if to < 0 || to > count {
        return Err(format!("index out of range: {to}"));
    }
    if from > to {
        return Err(format!("invalid substring range. start: {from}, end: {to}"));
    }
    Ok(Value::String(of.chars().skip(from as usize).take((to - from) as usize).collect::<String>().into()))
}

fn join(items: &[Value], by: &str) -> Result<Value, String> {
    let parts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let parts = parts.ok_or(NO_OVERLOAD)?;
    if parts.iter().map(|p| p.len() + by.len()).sum::<usize>() > MAX_LENGTH {
        return Err("result of join is too long".to_owned());
    }
    Ok(Value::String(parts.join(by).into()))
}

/// Go's shortest form of a double.
pub(in crate::cel) fn double(n: f64) -> String {
    if n.is_nan() {
        return "NaN".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if n != 0.0 && (n.abs() >= 1e21 || n.abs() < 1e-4) {
        let text = format!("{n:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = exponent.strip_prefix('-').map_or(("+", exponent), |d| ("-", d));
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    n.to_string()
}

/// `'%s is %d'.format([a, b])`
fn format(template: &str, items: &[Value]) -> Result<Value, String> {
    let mut out = String::new();
    let mut items = items.iter().enumerate();
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut precision = None;
        if chars.peek() == Some(&'.') {
            chars.next();
            let mut digits = String::new();
            while let Some(d) = chars.peek().filter(|d| d.is_ascii_digit()) {
                digits.push(*d);
                chars.next();
            }
            precision = digits.parse::<usize>().ok().map(|p| p.min(100));
        }
        let Some(verb) = chars.next() else {
            return Err("could not parse formatting clause: unexpected end of string".into());
        };
        if verb == '%' {
            out.push('%');
            continue;
        }
        let (index, item) = match items.next() {
            Some(next) => next,
            None => return Err("error during formatting: index out of range".to_owned()),
        };
        let wrong = || {
            format!("error during formatting: unsupported argument {index} of type {} for %{verb}", item.type_name())
        };
        match (verb, item) {
            ('s', value) => out.push_str(&value.to_string()),
            ('d', Value::Int(_) | Value::Uint(_)) => out.push_str(&item.to_string()),
            ('f', Value::Double(n)) => out.push_str(&format!("{n:.0$}", precision.unwrap_or(6))),
            ('e', Value::Double(n)) => {
                let text = format!("{n:.0$e}", precision.unwrap_or(6));
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let (sign, digits) = exponent.strip_prefix('-').map_or(("+", exponent), |d| ("-", d));
                out.push_str(&format!("{mantissa}e{sign}{digits:0>2}"));
            }
            ('b', Value::Int(n)) => out.push_str(&format!("{n:b}")),
            ('b', Value::Bool(b)) => out.push(if *b { '1' } else { '0' }),
            ('x', Value::Int(n)) => out.push_str(&format!("{n:x}")),
            ('X', Value::Int(n)) => out.push_str(&format!("{n:X}")),
            ('x', Value::String(text)) => text.bytes().for_each(|b| out.push_str(&format!("{b:02x}"))),
            ('X', Value::String(text)) => text.bytes().for_each(|b| out.push_str(&format!("{b:02X}"))),
            ('o', Value::Int(n)) => out.push_str(&format!("{n:o}")),
            ('d' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o', _) => return Err(wrong()),
            _ => return Err(format!("could not parse formatting clause: unrecognized formatting clause \"{verb}\"")),
        }
        if out.len() > MAX_LENGTH {
            return Err("result of format is too long".to_owned());
        }
    }
    Ok(Value::String(Arc::from(out)))
}
