//! Reading what becomes larger than its text: YAML, whose aliases stand for what they name.

use std::{cell::Cell, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

/// What one or more documents may expand to, and what is left of it. It is spent while they are read: what is beyond it is never built.
#[derive(Debug)]
pub struct Budget {
    values: Cell<usize>,
    bytes: Cell<usize>,
    spent: Cell<bool>,
}

impl Budget {
    /// For so many values (scalars, lists and maps, each time that they appear) and so many bytes of text in them and in keys.
    pub fn new(values: usize, bytes: usize) -> Self {
        Self { values: Cell::new(values), bytes: Cell::new(bytes), spent: Cell::new(false) }
    }

    /// Whether reading failed because there was more.
    pub fn is_spent(&self) -> bool {
        self.spent.get()
    }

    fn take<E: Error>(&self, values: usize, bytes: usize) -> Result<(), E> {
        match (self.values.get().checked_sub(values), self.bytes.get().checked_sub(bytes)) {
            (Some(values), Some(bytes)) => {
                self.values.set(values);
                self.bytes.set(bytes);
                Ok(())
            }
            _ => {
                self.spent.set(true);
                Err(E::custom("document contains excessive aliasing"))
            }
        }
    }
}

/// Reads a JSON value from any format within a budget. Of a key that comes twice the last value counts.
///
/// # Errors
/// The reader's, and [`Budget::is_spent`].
pub fn read_bounded<'de, D: Deserializer<'de>>(reader: D, budget: &Budget) -> Result<Value, D::Error> {
    Node(budget).deserialize(reader)
}

#[derive(Clone, Copy)]
struct Node<'b>(&'b Budget);

impl Node<'_> {
    fn scalar<E: Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        self.0.take(1, 0)?;
        Ok(value.into())
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.scalar(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.scalar(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.scalar(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom(format!("{value} is no number in JSON")))?;
        self.scalar(Value::Number(number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.0.take(1, value.len())?;
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.0.take(1, value.len())?;
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.scalar(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.scalar(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        self.deserialize(reader)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.0.take(1, 0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.0.take(1, 0)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.0.take(0, key.len())?;
            map.insert(key, entries.next_value_seed(self)?);
        }
        Ok(Value::Object(map))
    }
}

/// Bound on the work that a YAML text may take to parse: its bytes times the flow collections (`[`, `{`) that may be open in it. Parsers look
/// at all open ones at every step, so that a megabyte of `{a: {a: ..` would keep them busy for minutes; [`YAML_WORK`] takes a second or so.
pub fn yaml_work(yaml: &[u8]) -> usize {
    collections(yaml).saturating_mul(yaml.len())
}

/// More [`yaml_work`] than that is for nobody to wait for.
pub const YAML_WORK: usize = 1_000_000_000;

/// At most so many flow collections are open at a time: every bracket counts that may open one, whatever it stands in, but not those
/// that are closed again before anything else that means something to YAML.
fn collections(yaml: &[u8]) -> usize {
    let mut count = 0;
    let mut rest = yaml;
    while let Some(at) = rest.iter().position(|b| matches!(b, b'[' | b'{')) {
        let closing = if rest[at] == b'[' { b']' } else { b'}' };
        rest = &rest[at + 1..];
        let end = rest.iter().position(|b| b"[]{}\"'#!&*|>%@`\r\n".contains(b));
        match end {
            Some(end) if rest[end] == closing => rest = &rest[end + 1..],
            _ => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_stay_open_counts() {
        let cases = [
            ("a: {}\nb: []\nc: {x: y, z: 1}\n", 0),
            ("[[[[", 4),
            ("[a, [b], c]", 1),
            ("[\"]\", [\"]\", [", 3),
            ("[ # ]\n[ # ]\n", 2),
            ("[!<]> [!<]> ", 2),
            ("[}[}", 2),
        ];
        for (yaml, count) in cases {
            assert_eq!(collections(yaml.as_bytes()), count, "{yaml}");
        }
    }

    fn read(text: &str, budget: &Budget) -> Result<Value, serde_json::Error> {
        read_bounded(&mut serde_json::Deserializer::from_str(text), budget)
    }

    #[test]
    fn values_and_bytes_are_counted_wherever_they_are() {
        let text = r#"{"key":[1,-2,2.5,true,null,"text"],"a":{}}"#;
        let budget = Budget::new(9, 8);
        assert_eq!(read(text, &budget).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!((budget.values.get(), budget.bytes.get(), budget.is_spent()), (0, 0, false));
        for budget in [Budget::new(8, 8), Budget::new(9, 7)] {
            assert!(read(text, &budget).is_err());
            assert!(budget.is_spent());
        }
        let budget = Budget::new(9, 8);
        assert!(read("{", &budget).is_err());
        assert!(!budget.is_spent());
    }
}
