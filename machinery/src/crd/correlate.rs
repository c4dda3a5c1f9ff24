//! Which old value belongs to a new one, so that what has not changed is not refused (ratcheting). Source: apiserver
//! `pkg/cel/common/equality.go`.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    lists,
    schema::{ListKind, Schema},
};

/// A new value, the old value at its place, and their schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Correlated<'v> {
    pub(super) new: &'v Value,
    pub(super) old: &'v Value,
    pub(super) schema: &'v Schema,
}

impl<'v> Correlated<'v> {
    /// A field that both have and that the schema knows.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        Some(Self { new, old, schema: self.schema.field(name)? })
    }

    /// The items of the old list.
    pub(super) fn items(&self) -> OldItems<'v> {
        OldItems::new(self.schema, self.old)
    }

    /// An item of the new list and the old one with the same keys.
    pub(super) fn item(&self, index: usize, old: &OldItems<'v>) -> Option<Self> {
        let new = self.new.as_array()?.get(index)?;
        Some(Self { new, old: old.like(new)?, schema: self.schema.items.as_deref()? })
    }

    /// Whether nothing changed.
    pub(super) fn is_equal(&self) -> bool {
        self.new == self.old
    }
}

/// The items of an old list by their keys, made once for a list: an object may have a hundred thousand of them.
#[derive(Debug)]
pub(super) struct OldItems<'v> {
    schema: &'v Schema,
    items: HashMap<Value, &'v Value>,
}

impl<'v> OldItems<'v> {
    /// Of a list that has no keys there are none.
    pub(super) fn new(schema: &'v Schema, old: &'v Value) -> Self {
        let mut items = HashMap::new();
        if schema.list == ListKind::Map {
            for item in old.as_array().into_iter().flatten().filter(|item| item.is_object()) {
                items.entry(lists::keys_of(item, schema)).or_insert(item);
            }
        }
        Self { schema, items }
    }

    /// The first item that has the keys of a new one.
    pub(super) fn like(&self, new: &Value) -> Option<&'v Value> {
        if self.items.is_empty() || !new.is_object() {
            return None;
        }
        self.items.get(&lists::keys_of(new, self.schema)).copied()
    }
}
