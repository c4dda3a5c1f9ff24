//! Messages that expressions make: `Object{spec: Object.spec{replicas: 3}}` and `JSONPatch{op: "remove", path: "/a"}`. The fields of
//! `Object` may be called anything; that a value's type says the path at which it stands is asked when it has been made. Source:
//! apiserver `pkg/cel/mutation`.

use std::{collections::BTreeMap, sync::Arc};

use super::{types::Type, value::Value};

/// A message that an expression has made.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The name of its type.
    pub name: Arc<str>,
    /// Its fields.
    pub fields: BTreeMap<Arc<str>, Value>,
}

/// Whether there are messages of this name.
pub(super) fn is_declared(name: &str) -> bool {
    name == "JSONPatch" || name == "Object" || name.starts_with("Object.")
}

/// The type of a field of a message; none when there is no such field.
pub(super) fn field_type(name: &str, field: &str) -> Option<Type> {
    match (name, field) {
        ("JSONPatch", "op" | "path" | "from") => Some(Type::String),
        ("JSONPatch", "value") => Some(Type::Dyn),
        ("JSONPatch", _) => None,
        _ => Some(Type::Dyn),
    }
}

impl Message {
    /// Checks that what is inside is of the types that the places ask for: `Object.spec` under `spec` of `Object`.
    ///
    /// # Errors
    /// All types that are not, one a line.
    pub fn check_names(&self) -> Result<(), String> {
        let mut wrong = Vec::new();
        self.walk(&self.name, &mut wrong);
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    fn walk(&self, path: &str, wrong: &mut Vec<String>) {
        if *path != *self.name {
            wrong.push(format!(
                "unexpected type name {:?}, expected {path:?}, which matches field name path from root Object type",
                &*self.name
            ));
        }
        for (field, value) in &self.fields {
            inside(value, &format!("{path}.{field}"), wrong);
        }
    }
}

/// Lists and maps have no names of their own.
fn inside(value: &Value, path: &str, wrong: &mut Vec<String>) {
    match value {
        Value::Message(message) => message.walk(path, wrong),
        Value::List(list) => list.items.iter().for_each(|item| inside(item, path, wrong)),
        Value::Map(map) => map.values().for_each(|value| inside(value, path, wrong)),
        _ => {}
    }
}
