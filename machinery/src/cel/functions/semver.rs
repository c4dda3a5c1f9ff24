//! Semantic versions. Source: <https://semver.org/spec/v2.0.0.html>.

use std::{cmp::Ordering, fmt, sync::Arc};

use crate::cel::value::Value;

/// A semantic version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Semver {
    numbers: [u64; 3],
    pre: Vec<String>,
    build: String,
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre.join("."))?;
        }
        if self.build.is_empty() { Ok(()) } else { write!(f, "+{}", self.build) }
    }
}

/// Without what was built.
impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        let pre = |a: &[String], b: &[String]| match (a.is_empty(), b.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                for (a, b) in a.iter().zip(b) {
                    let order = match (a.parse::<u64>(), b.parse::<u64>()) {
                        (Ok(a), Ok(b)) => a.cmp(&b),
                        (Ok(_), Err(_)) => Ordering::Less,
                        (Err(_), Ok(_)) => Ordering::Greater,
                        (Err(_), Err(_)) => a.cmp(b),
                    };
                    if order != Ordering::Equal {
                        return order;
                    }
                }
                a.len().cmp(&b.len())
            }
        };
        self.numbers.cmp(&other.numbers).then_with(|| pre(&self.pre, &other.pre))
    }
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn parse(text: &str, normalize: bool) -> Result<Semver, String> {
    let whole = text;
    let text = if normalize { text.strip_prefix('v').unwrap_or(text) } else { text };
    let (text, build) = text.split_once('+').unwrap_or((text, ""));
    let (core, pre) = text.split_once('-').unwrap_or((text, ""));
    let mut parts: Vec<&str> = core.split('.').collect();
    if normalize {
        parts.resize(parts.len().max(3), "0");
    }
    let [a, b, c] = parts.as_slice() else { return Err("No Major.Minor.Patch elements found".to_owned()) };
    let number = |part: &str, name: &str| {
        let part = if normalize { part.trim_start_matches('0') } else { part };
        let part = if part.is_empty() && normalize { "0" } else { part };
        if !normalize && part.len() > 1 && part.starts_with('0') {
            return Err(format!("{name} number must not contain leading zeroes {part:?}"));
        }
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("Invalid character(s) found in {} number {part:?}", name.to_lowercase()));
        }
        part.parse::<u64>().map_err(|_| format!("number {part:?} of {whole:?} is too large"))
    };
    let identifiers = |text: &str| {
        text.split('.').all(|i| !i.is_empty() && i.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
    };
    if (whole.contains('-') && !pre.is_empty() && !identifiers(pre)) || (!build.is_empty() && !identifiers(build)) {
        return Err(format!("Invalid character(s) found in prerelease {pre:?}"));
    }
    Ok(Semver {
        numbers: [number(a, "Major")?, number(b, "Minor")?, number(c, "Patch")?],
        pre: pre.split('.').filter(|p| !p.is_empty()).map(str::to_owned).collect(),
        build: build.to_owned(),
    })
}

pub(in crate::cel) fn call(function: &str, member: bool, values: &[Value]) -> Option<Result<Value, String>> {
    let part = |version: &Semver, i: usize| Ok(Value::Int(i64::try_from(version.numbers[i]).unwrap_or(i64::MAX)));
    Some(match (function, values) {
        ("semver", [Value::String(text)]) => parse(text, false).map(|v| Value::Semver(Arc::new(v))),
        ("semver", [Value::String(text), Value::Bool(n)]) => parse(text, *n).map(|v| Value::Semver(Arc::new(v))),
        ("isSemver", [Value::String(text)]) => Ok(Value::Bool(parse(text, false).is_ok())),
        ("isSemver", [Value::String(text), Value::Bool(n)]) => Ok(Value::Bool(parse(text, *n).is_ok())),
        _ if !member => return None,
        ("major", [Value::Semver(v)]) => part(v, 0),
        ("minor", [Value::Semver(v)]) => part(v, 1),
        ("patch", [Value::Semver(v)]) => part(v, 2),
        ("isGreaterThan", [Value::Semver(a), Value::Semver(b)]) => Ok(Value::Bool(a > b)),
        ("isLessThan", [Value::Semver(a), Value::Semver(b)]) => Ok(Value::Bool(a < b)),
        ("compareTo", [Value::Semver(a), Value::Semver(b)]) => Ok(Value::Int(a.cmp(b) as i64)),
        _ => return None,
    })
}
