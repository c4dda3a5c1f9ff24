//! JSONPath as `kubectl` and printer columns understand it: client-go `util/jsonpath`, without ranges over text.

use std::cmp::Ordering;

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// `.a`, `['a']`
    Field(String),
    /// `.*`, `[*]`
    All,
    /// `..`
    Descend,
    /// `[1]`, `[-1]`
    Index(i64),
    /// `[1:3]`, `[::2]`
    Slice(Option<i64>, Option<i64>, Option<i64>),
    /// `[0,2]`, `['a','b']`
    Union(Vec<Step>),
    /// `[?(@.a == 'x')]`
    Filter(Operand, Option<(Comparison, Operand)>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// Relative to the item.
    Path(JsonPath),
    Literal(Value),
}

impl JsonPath {
    /// Parses a path that starts at the object: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`.
    ///
    /// # Errors
    /// What is not understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { rest: text.trim() };
        let steps = parser.steps()?;
        if parser.rest.is_empty() {
            Ok(Self { steps })
        } else {
            Err(format!("unrecognized character in action: {:?}", parser.rest))
        }
    }

    /// Everything that the path leads to; missing keys lead nowhere.
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        self.steps.iter().fold(vec![value], |found, step| {
            let mut next = Vec::new();
            for value in found {
                step.take(value, &mut next);
            }
            next
        })
    }
}

impl Step {
    fn take<'v>(&self, value: &'v Value, out: &mut Vec<&'v Value>) {
        match (self, value) {
            (Self::Field(name), Value::Object(map)) => out.extend(map.get(name)),
            // A field of a list is that field of its items.
            (Self::All, Value::Object(map)) => out.extend(map.values()),
            (Self::All, Value::Array(items)) => out.extend(items),
            (Self::Descend, value) => descend(value, out),
            (Self::Index(index), Value::Array(items)) => {
                let at = if *index < 0 { *index + items.len() as i64 } else { *index };
                out.extend(usize::try_from(at).ok().and_then(|at| items.get(at)));
            }
            (Self::Slice(from, to, step), Value::Array(items)) => {
                let length = items.len() as i64;
                let bound = |n: i64| if n < 0 { n + length } else { n }.clamp(0, length);
                let (from, to) = (bound(from.unwrap_or(0)), bound(to.unwrap_or(length)));
                let step = usize::try_from(step.unwrap_or(1)).unwrap_or(1).max(1);
                if from < to {
                    out.extend(items[from as usize..to as usize].iter().step_by(step));
                }
            }
            (Self::Union(steps), value) => steps.iter().for_each(|s| s.take(value, out)),
            (Self::Filter(left, right), Value::Array(items)) => {
                out.extend(items.iter().filter(|item| holds(item, left, right.as_ref())));
            }
            (Self::Filter(left, right), Value::Object(map)) => {
                out.extend(map.values().filter(|item| holds(item, left, right.as_ref())));
            }
            _ => {}
        }
    }
}

fn descend<'v>(value: &'v Value, out: &mut Vec<&'v Value>) {
    out.push(value);
    match value {
        Value::Object(map) => map.values().for_each(|v| descend(v, out)),
        Value::Array(items) => items.iter().for_each(|v| descend(v, out)),
        _ => {}
    }
}

fn holds(item: &Value, left: &Operand, right: Option<&(Comparison, Operand)>) -> bool {
    let value = |operand: &Operand| match operand {
        Operand::Literal(value) => Some(value.clone()),
        Operand::Path(path) => path.find(item).first().map(|v| (*v).clone()),
    };
    let Some(left) = value(left) else { return false };
    let Some((comparison, right)) = right else { return true };
    let Some(right) = value(right) else { return false };
    let order = match (&left, &right) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (a, b) => (a == b).then_some(Ordering::Equal),
    };
    match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    }
}

struct Parser<'t> {
    rest: &'t str,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        self.rest.strip_prefix(token).map(|rest| self.rest = rest).is_some()
    }

    fn steps(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        loop {
            if self.eat("..") {
                steps.push(Step::Descend);
                if self.rest.starts_with('[') || self.rest.is_empty() {
                    continue;
                }
                steps.push(self.field()?);
            } else if self.eat(".") {
                // A lone dot is the object itself.
                if !self.rest.is_empty() && !self.rest.starts_with(['[', ')', ' ']) {
                    steps.push(self.field()?);
                }
            } else if self.eat("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn field(&mut self) -> Result<Step, String> {
        if self.eat("*") {
            return Ok(Step::All);
        }
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((i, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                '.' | '[' | ']' | '(' | ')' | ' ' | '=' | '!' | '<' | '>' | ',' => {
                    end = i;
                    break;
                }
                other => name.push(other),
            }
        }
        self.rest = &self.rest[end..];
        if name.is_empty() { Err("unexpected empty field name".to_owned()) } else { Ok(Step::Field(name)) }
    }

    fn bracket(&mut self) -> Result<Step, String> {
        if self.eat("?(") {
            return self.filter();
        }
        let mut union = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            union.push(self.subscript()?);
            self.rest = self.rest.trim_start();
            if self.eat("]") {
                break;
            }
            if !self.eat(",") {
                return Err("unterminated array".to_owned());
            }
        }
        Ok(if union.len() == 1 { union.remove(0) } else { Step::Union(union) })
    }

    fn subscript(&mut self) -> Result<Step, String> {
        if self.eat("*") {
            return Ok(Step::All);
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(Step::Field);
        }
        let mut parts: Vec<Option<i64>> = Vec::new();
        loop {
            let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(end);
            self.rest = rest;
            parts.push(if number.is_empty() {
                None
            } else {
                Some(number.parse().map_err(|_| format!("invalid array index {number}"))?)
            });
            if !self.eat(":") {
                break;
            }
        }
        match parts.as_slice() {
            [Some(index)] => Ok(Step::Index(*index)),
            [from, to] => Ok(Step::Slice(*from, *to, None)),
            [from, to, step] => Ok(Step::Slice(*from, *to, *step)),
            _ => Err(format!("invalid array index {}", self.rest)),
        }
    }

    fn quoted(&mut self) -> Result<String, String> {
        let mut chars = self.rest.char_indices();
        let Some((_, quote)) = chars.next() else { return Err("unterminated quoted string".into()) };
        let mut text = String::new();
        while let Some((i, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c if c == quote => {
                    self.rest = &self.rest[i + 1..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    fn filter(&mut self) -> Result<Step, String> {
        let left = self.operand()?;
        self.rest = self.rest.trim_start();
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let right = match comparisons.into_iter().find(|(token, _)| self.eat(token)) {
            Some((_, comparison)) => Some((comparison, self.operand()?)),
            None => None,
        };
        self.rest = self.rest.trim_start();
        if self.eat(")]") { Ok(Step::Filter(left, right)) } else { Err("unterminated filter".to_owned()) }
    }

    fn operand(&mut self) -> Result<Operand, String> {
        self.rest = self.rest.trim_start();
        if self.eat("@") {
            return Ok(Operand::Path(JsonPath { steps: self.steps()? }));
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(|text| Operand::Literal(text.into()));
        }
        let end = self.rest.find([' ', ')', '=', '!', '<', '>']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        serde_json::from_str::<Value>(word)
            .ok()
            .filter(|v| !v.is_object() && !v.is_array())
            .map(Operand::Literal)
            .ok_or_else(|| format!("unrecognized filter operand {word:?}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_where_kubectl_leads() {
        let object = json!({
            "a": { "b.c": 1, "d": [10, 20, 30, 40] },
            "conditions": [{ "type": "Ready", "status": "True", "n": 3 }, { "type": "Synced", "status": "False", "n": 5 }],
        });
        for (path, found) in [
            (".a.d[0]", json!([10])),
            (".a.d[-1]", json!([40])),
            (".a.d[1:3]", json!([20, 30])),
            (".a.d[::2]", json!([10, 30])),
            (".a.d[0,2]", json!([10, 30])),
            (".a.d[*]", json!([10, 20, 30, 40])),
            (r".a.b\.c", json!([1])),
            (".a['b.c']", json!([1])),
            (".conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".conditions[?(@.n > 3)].type", json!(["Synced"])),
            (".conditions[?(@.type != 'Ready')].n", json!([5])),
            ("..type", json!(["Ready", "Synced"])),
            (".missing.x", json!([])),
        ] {
            let got: Vec<Value> = JsonPath::parse(path).unwrap().find(&object).into_iter().cloned().collect();
            assert_eq!(Value::from(got), found, "{path}");
        }
        for wrong in [".a[", ".a[x]", ".a['b", ".a[?(@.b]", ".a b"] {
            assert!(JsonPath::parse(wrong).is_err(), "{wrong}");
        }
    }
}
