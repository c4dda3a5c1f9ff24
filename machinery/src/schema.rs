//! Compact schemas of all built-in kinds, generated from facts: field names, types, merge and list keys,
//! defaults, protobuf numbers.

mod decode;
mod facts;
mod json;

use std::{collections::HashMap, sync::OnceLock};

use serde_json::Value;

pub use decode::{Strict, decode, decode_kind};
pub use json::parse_json;

/// Index of a [`Type`] in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeRef(u32);

/// A struct.
#[derive(Debug)]
pub struct Type {
    /// `core.v1.Pod`.
    pub name: &'static str,
    /// Its fields, by name.
    pub fields: Vec<Field>,
    /// Server-side apply takes it as one value (`mapType: atomic`).
    pub atomic: bool,
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// JSON name.
    pub name: &'static str,
    /// What it holds.
    pub kind: FieldType,
    /// Must be there.
    pub required: bool,
    /// How server-side apply merges it, if it is a list.
    pub list: ListType,
    /// Server-side apply takes it as one value (`mapType: atomic`), if it is a map or struct.
    pub atomic_map: bool,
    /// How a strategic merge patch merges it.
    pub patch: PatchStrategy,
    /// Key by which a strategic merge patch tells list items apart.
    pub merge_key: Option<&'static str>,
    /// Protobuf number; 0 when it has none.
    pub number: u32,
    /// Value that is meant when it is left out.
    pub default: Option<Value>,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// Text.
    String,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// Floating-point number.
    Number,
    /// Truth value.
    Bool,
    /// Bytes, as base64 in JSON.
    Bytes,
    /// `resource.Quantity`: text, or a number in JSON.
    Quantity,
    /// `meta/v1 Time`: RFC 3339 with seconds.
    Time,
    /// `meta/v1 MicroTime`: RFC 3339 with microseconds.
    MicroTime,
    /// Number or text.
    IntOrString,
    /// Any object (`runtime.RawExtension`).
    RawExtension,
    /// `meta/v1 FieldsV1`.
    FieldsV1,
    /// Any JSON.
    Any,
    /// A struct.
    Struct(TypeRef),
    /// A list.
    List(Box<FieldType>),
    /// A map by text.
    Map(Box<FieldType>),
}

/// How server-side apply merges a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// As one value (also what is no list).
    Atomic,
    /// By value.
    Set,
    /// By the values of these fields.
    Map(Vec<&'static str>),
}

/// How a strategic merge patch merges a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged: by key, or as a set of plain values.
    pub merge: bool,
    /// The patch replaces it.
    pub replace: bool,
    /// `$retainKeys` names what stays.
    pub retain_keys: bool,
}

impl Type {
    /// The field of this JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|f| f.name.cmp(name)).ok().map(|i| &self.fields[i])
    }
}

/// All types.
#[derive(Debug, Default)]
pub struct Graph {
    types: Vec<Type>,
    kinds: HashMap<(&'static str, &'static str, &'static str), TypeRef>,
    names: HashMap<&'static str, TypeRef>,
}

impl Graph {
    /// A type.
    pub fn get(&self, at: TypeRef) -> &Type {
        &self.types[at.0 as usize]
    }

    /// All types.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// The type of this name, such as `meta.v1.ObjectMeta`.
    pub fn named(&self, name: &str) -> Option<TypeRef> {
        self.names.get(name).copied()
    }

    /// The type of a kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeRef> {
        self.kinds.get(&(group, version, kind)).copied()
    }
}

/// The graph of all built-in types; read from the facts on first use.
pub fn graph() -> &'static Graph {
    static GRAPH: OnceLock<Graph> = OnceLock::new();
    GRAPH.get_or_init(|| facts::read(include_str!("schema/facts.txt")))
}

/// The type of a kind, or none for custom and unknown ones.
pub fn of(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    let graph = graph();
    graph.kind(group, version, kind).map(|at| graph.get(at))
}
