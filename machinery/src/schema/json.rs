//! Parsing JSON with an eye on duplicate keys and depth.

use std::{
    cell::{Cell, RefCell},
    fmt,
};

use serde::{
    Deserialize as _,
    de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

use super::Strict;

/// Deepest nesting of arrays and objects that is read; Go's encoding/json has the same limit.
const MAX_DEPTH: usize = 10_000;
/// Deepest nesting of an object that is taken. What is stored is read back by serde_json, which refuses more than 127 levels, and
/// `managedFields` need a few more than the fields that they describe.
pub(crate) const STACK_DEPTH: usize = 120;
/// Notes that are kept of one body.
const MAX_NOTES: usize = 100;

/// Parses JSON, noting duplicate keys (`duplicate field "a.b"`). The last value of a key counts.
///
/// # Errors
/// The parser's message; nesting deeper than 120, which no Kubernetes object has, is refused before it is read.
pub fn parse_json(bytes: &[u8]) -> Result<(Value, Strict), String> {
    let depth = depth(bytes);
    if depth > MAX_DEPTH {
        return Err("exceeded max depth".to_owned());
    }
    if depth > STACK_DEPTH {
        return Err(format!("the document is nested {depth} levels deep; at most {STACK_DEPTH} are read"));
    }
    // Hardly any document has a key twice: where that is needs to be known only of those.
    let twice = Cell::new(false);
    let value = read(Plain { twice: &twice }, bytes)?;
    if !twice.get() {
        return Ok((value, Vec::new()));
    }
    let notes = RefCell::new(Vec::new());
    let path = RefCell::new(Vec::new());
    let value = read(Node { notes: &notes, path: &path }, bytes)?;
    Ok((value, notes.into_inner()))
}

fn read<'de>(seed: impl DeserializeSeed<'de, Value = Value>, bytes: &'de [u8]) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = seed.deserialize(&mut reader).map_err(|e| e.to_string())?;
    reader.end().map_err(|e| e.to_string())?;
    Ok(value)
}

/// Checks the nesting of what was not parsed by [`parse_json`], such as YAML or the outcome of a patch. `managedFields` do not count.
///
/// # Errors
/// The same text as [`parse_json`] for what is nested too deeply.
pub fn check_depth(object: &Value) -> Result<(), String> {
    let fits = match object.as_object() {
        Some(fields) => fields.iter().all(|(name, value)| match value.as_object() {
            Some(metadata) if name == "metadata" => {
                metadata.iter().all(|(name, value)| name == "managedFields" || within(value, STACK_DEPTH - 2))
            }
            _ => within(value, STACK_DEPTH - 1),
        }),
        None => within(object, STACK_DEPTH),
    };
    if fits { Ok(()) } else { Err(format!("the document is nested too deeply; at most {STACK_DEPTH} levels are read")) }
}

/// Whether a value has at most so many levels of arrays and objects. Looks no deeper than that.
fn within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| within(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|field| within(field, levels - 1)),
        _ => true,
    }
}

/// Deepest nesting of brackets outside of strings.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut at) = (0_usize, 0, 0);
    while let Some(b) = bytes.get(at) {
        match b {
            b'"' => at = closing_quote(bytes, at + 1),
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    deepest
}

/// Where the string ends whose content begins at `at`; the end of all for one that does not.
fn closing_quote(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return at;
        }
        at += 2;
    }
    bytes.len()
}

/// The part of a visitor for values that have nothing inside.
macro_rules! scalars {
    () => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON value")
        }

        fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
            Ok(value.into())
        }

        fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
            Ok(value.into())
        }

        fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
            Ok(value.into())
        }

        fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
            Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number"))
        }

        fn visit_str<E>(self, value: &str) -> Result<Value, E> {
            Ok(value.into())
        }

        fn visit_string<E>(self, value: String) -> Result<Value, E> {
            Ok(value.into())
        }

        fn visit_unit<E>(self) -> Result<Value, E> {
            Ok(Value::Null)
        }
    };
}

/// One value, of which is only noted whether it has a key twice anywhere.
#[derive(Clone, Copy)]
struct Plain<'a> {
    twice: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for Plain<'_> {
    type Value = Value;
    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Plain<'_> {
    type Value = Value;

    scalars!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self)?;
            if map.insert(key, value).is_some() {
                self.twice.set(true);
            }
        }
        Ok(Value::Object(map))
    }
}

/// One value; `path` leads to it.
struct Node<'a> {
    notes: &'a RefCell<Strict>,
    path: &'a RefCell<Vec<String>>,
}

impl Node<'_> {
    fn again(&self) -> Self {
        Node { notes: self.notes, path: self.path }
    }

    fn at<T>(&self, step: String, read: impl FnOnce() -> T) -> T {
        self.path.borrow_mut().push(step);
        let value = read();
        self.path.borrow_mut().pop();
        value
    }

    /// `a.b[0].c`
    fn name(&self, key: &str) -> String {
        let mut name = String::new();
        for step in self.path.borrow().iter().map(String::as_str).chain([key]) {
            if !name.is_empty() && !step.starts_with('[') {
                name.push('.');
            }
            name.push_str(step);
        }
        name
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;
    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    scalars!();

    fn visit_some<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        Value::deserialize(reader).map_err(D::Error::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = self.at(format!("[{}]", list.len()), || items.next_element_seed(self.again()))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = self.at(key.clone(), || entries.next_value_seed(self.again()))?;
            if map.contains_key(&key) {
                let note = format!("duplicate field \"{}\"", self.name(&key));
                let mut notes = self.notes.borrow_mut();
                if notes.len() < MAX_NOTES && !notes.contains(&note) {
                    notes.push(note);
                }
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicates_are_noted_and_the_last_counts() {
        let (value, notes) = parse_json(br#"{"a":{"b":1,"b":2},"l":[{"c":1,"c":1}],"n":null,"s":"[[["}"#).unwrap();
        assert_eq!(value, json!({ "a": { "b": 2 }, "l": [{ "c": 1 }], "n": null, "s": "[[[" }));
        assert_eq!(notes, ["duplicate field \"a.b\"", "duplicate field \"l[0].c\""]);
    }

    #[test]
    fn the_depth_of_values_is_checked_as_that_of_texts() {
        let nested = |levels: usize| {
            let text = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
            serde_json::from_str::<Value>(&text).unwrap()
        };
        assert!(check_depth(&nested(STACK_DEPTH)).is_ok());
        assert!(check_depth(&nested(STACK_DEPTH + 1)).is_err());
        assert!(check_depth(&serde_json::json!([nested(STACK_DEPTH)])).is_err());
        assert!(check_depth(&serde_json::json!({ "metadata": { "managedFields": nested(122) } })).is_ok());
        assert!(check_depth(&serde_json::json!({ "metadata": { "labels": nested(STACK_DEPTH - 1) } })).is_err());
    }

    #[test]
    fn deep_nesting_is_refused_without_using_the_stack() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(parse_json(deep.as_bytes()).unwrap_err(), "exceeded max depth");
        let open = "{\"a\":".repeat(5_000);
        assert!(parse_json(open.as_bytes()).is_err());
        assert!(parse_json(b"{} x").is_err());
    }
}
