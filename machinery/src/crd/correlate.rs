//! Which old value belongs to a new one, so that what has not changed is not refused (ratcheting). Source: apiserver
//! `pkg/cel/common/equality.go`.

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

impl Correlated<'_> {
    /// A field that both have and that the schema knows.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        Some(Self { new, old, schema: self.schema.field(name)? })
    }

    /// An item of the new list and the old one with the same keys.
    pub(super) fn item(&self, index: usize) -> Option<Self> {
        let new = self.new.as_array()?.get(index)?;
        let old = old_item(self.schema, new, self.old)?;
        Some(Self { new, old, schema: self.schema.items.as_deref()? })
    }

    /// Whether nothing changed.
    pub(super) fn is_equal(&self) -> bool {
        self.new == self.old
    }
}

/// The item of an old list that has the keys of a new item.
pub(super) fn old_item<'v>(schema: &Schema, new: &Value, old: &'v Value) -> Option<&'v Value> {
    if schema.list != ListKind::Map || !new.is_object() {
        return None;
    }
    let keys = lists::keys_of(new, schema);
    old.as_array()?.iter().find(|item| item.is_object() && lists::keys_of(item, schema) == keys)
}
