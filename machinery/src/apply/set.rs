//! Sets of fields as trees, in the wire form of `fieldsV1`: `f:name`, `k:{"key":..}`, `v:value`; `.` marks the node itself as a member.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet(BTreeMap<String, Node>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.0.is_empty()
    }
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert<S: AsRef<str>>(&mut self, path: &[S]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.node(first.as_ref());
        if rest.is_empty() {
            node.member = true;
        } else {
            node.below.insert(rest);
        }
    }

    fn node(&mut self, element: &str) -> &mut Node {
        if !self.0.contains_key(element) {
            self.0.insert(element.to_owned(), Node::default());
        }
        self.0.entry(element.to_owned()).or_default()
    }

    pub(super) fn remove(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        if let Some(node) = self.0.get_mut(*first) {
            if rest.is_empty() {
                node.member = false;
            } else {
                node.below.remove(rest);
            }
            if node.is_empty() {
                self.0.remove(*first);
            }
        }
    }

    pub(super) fn remove_tree(&mut self, first: &str) {
        self.0.remove(first);
    }

    pub(super) fn has(&self, element: &str) -> bool {
        self.0.get(element).is_some_and(|n| n.member)
    }

    pub(super) fn below(&self, element: &str) -> Option<&Self> {
        self.0.get(element).map(|n| &n.below).filter(|s| !s.is_empty())
    }

    pub(super) fn extend(&mut self, other: &Self) {
        for (element, node) in &other.0 {
            let mine = self.node(element);
            mine.member |= node.member;
            mine.below.extend(&node.below);
        }
    }

    fn combine(&self, other: &Self, member: fn(bool, bool) -> bool, keep_alone: bool) -> Self {
        let mut result = BTreeMap::new();
        for (element, node) in &self.0 {
            let combined = match other.0.get(element) {
                Some(theirs) => Node {
                    member: member(node.member, theirs.member),
                    below: node.below.combine(&theirs.below, member, keep_alone),
                },
                None if keep_alone => node.clone(),
                None => continue,
            };
            if !combined.is_empty() {
                result.insert(element.clone(), combined);
            }
        }
        Self(result)
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a && b, false)
    }

    pub(super) fn difference(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a && !b, true)
    }

    /// With every named field that has members below it as a member itself (upstream's `EnsureNamedFieldsAreMembers`).
    pub(super) fn with_named_fields(&self) -> Self {
        Self(
            self.0
                .iter()
                .map(|(element, node)| {
                    let member = node.member || (element.starts_with("f:") && !node.below.is_empty());
                    (element.clone(), Node { member, below: node.below.with_named_fields() })
                })
                .collect(),
        )
    }

    /// From `fieldsV1`.
    pub(super) fn decode(fields: &Value) -> Self {
        let mut set = Self::default();
        for (element, below) in fields.as_object().into_iter().flatten() {
            if element == "." || element.as_bytes().get(1) != Some(&b':') {
                continue;
            }
            let inner = Self::decode(below);
            let member = inner.is_empty() || below.get(".").is_some();
            set.0.insert(canonical(element), Node { member, below: inner });
        }
        set
    }

    /// To `fieldsV1`.
    pub(super) fn encode(&self) -> Value {
        let mut map = Map::new();
        for (element, node) in &self.0 {
            let mut below = node.below.encode();
            if let (true, Value::Object(inner)) = (node.member && !node.below.is_empty(), &mut below) {
                let rest = std::mem::take(inner);
                inner.insert(".".into(), Value::Object(Map::new()));
                inner.extend(rest);
            }
            map.insert(element.clone(), below);
        }
        Value::Object(map)
    }

    /// All paths, printed as Go prints them (`.spec.containers[name="a"].image`).
    pub(super) fn paths(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.collect("", &mut all);
        all
    }

    fn collect(&self, prefix: &str, all: &mut Vec<String>) {
        for (element, node) in &self.0 {
            let path = format!("{prefix}{}", printed(element));
            if node.member {
                all.push(path.clone());
            }
            node.below.collect(&path, all);
        }
    }
}

/// `k:{..}` with sorted keys and no blanks, so that equal elements are equal texts.
fn canonical(element: &str) -> String {
    match element.split_at(2) {
        ("k:", json) => match serde_json::from_str::<BTreeMap<String, Value>>(json) {
            Ok(keys) => key_element(&keys),
            Err(_) => element.to_owned(),
        },
        ("v:", json) => match serde_json::from_str::<Value>(json) {
            Ok(value) => format!("v:{value}"),
            Err(_) => element.to_owned(),
        },
        _ => element.to_owned(),
    }
}

/// The element of a list item with these keys.
pub(super) fn key_element(keys: &BTreeMap<String, Value>) -> String {
    let mut text = String::from("k:{");
    for (index, (key, value)) in keys.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&format!("{}:{value}", Value::from(key.as_str())));
    }
    text.push('}');
    text
}

fn printed(element: &str) -> String {
    match element.split_at(2) {
        ("f:", name) => format!(".{name}"),
        ("k:", json) => {
            let keys: BTreeMap<String, Value> = serde_json::from_str(json).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
            format!("[{}]", keys.join(","))
        }
        ("v:", json) => format!("[={json}]"),
        (_, index) => format!("[{index}]"),
    }
}
