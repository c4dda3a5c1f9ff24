//! Compact schemas of all built-in kinds, generated from facts: field names, types, merge and list keys,
//! defaults, protobuf numbers. There is one graph for all versions of Kubernetes; fields say which ones have them.

mod bounded;
mod decode;
mod facts;
mod json;

use std::{collections::HashMap, sync::OnceLock};

use serde_json::Value;

pub use bounded::{Budget, YAML_WORK, read_bounded, yaml_work};
pub(crate) use decode::decode_metadata;
pub use decode::{Strict, decode, decode_kind};
pub(crate) use json::STACK_DEPTH;
pub use json::{check_depth, parse_json};

use crate::version::{MinorVersion, Versions};

/// Kinds of meta/v1 that are registered in every group and version.
const EVERYWHERE: [&str; 8] = [
    "DeleteOptions",
    "Status",
    "WatchEvent",
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "PartialObjectMetadata",
];

/// Types that no schema package states, in the form of `facts/schema.txt`.
const MACHINERY: &str = "type meta.v1.PartialObjectMetadata
@meta.k8s.io/v1/PartialObjectMetadata
 apiVersion - string
 kind - string
 metadata 1 meta.v1.ObjectMeta
type meta.v1.PartialObjectMetadataList
@meta.k8s.io/v1/PartialObjectMetadataList
 apiVersion - string
 items 2 []meta.v1.PartialObjectMetadata !
 kind - string
 metadata 1 meta.v1.ListMeta
";

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
    /// The versions of Kubernetes that have it (of those that have its type).
    pub versions: Versions,
    /// The versions in which it must be there.
    pub required: Option<Versions>,
    /// How server-side apply merges it, if it is a list.
    pub list: ListType,
    /// Server-side apply takes it as one value (`mapType: atomic`), if it is a map or struct.
    pub atomic_map: bool,
    /// How a strategic merge patch merges it.
    pub patch: PatchStrategy,
    /// Key by which a strategic merge patch tells list items apart.
    pub merge_key: Option<&'static str>,
    /// Protobuf numbers, outermost first: structs that Go embeds are messages of their own. Empty: not in protobuf.
    pub numbers: Vec<u32>,
    /// A scalar that is a pointer in Go: its zero is a value, not absence.
    pub pointer: bool,
    /// Name of its Go type where that is a named scalar, such as `v1.RestartPolicy`.
    pub go_type: Option<&'static str>,
    /// In protobuf the strings (of the list, or of each value of the map) lie in a message.
    pub wrapped: bool,
    /// Value that is meant when it is left out.
    pub default: Option<Value>,
}

impl Field {
    /// Whether it must be there.
    pub fn is_required(&self, version: MinorVersion) -> bool {
        self.required.is_some_and(|versions| versions.contain(version))
    }
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
    /// `apiextensions/v1 JSON`: any JSON.
    Json,
    /// `JSONSchemaPropsOrArray`.
    SchemaOrArray,
    /// `JSONSchemaPropsOrBool`.
    SchemaOrBool,
    /// `JSONSchemaPropsOrStringArray`.
    SchemaOrStrings,
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
    /// The field of this JSON name, in a version of Kubernetes.
    pub fn field_in(&self, name: &str, version: MinorVersion) -> Option<&Field> {
        self.field(name).filter(|f| f.versions.contain(version))
    }

    /// The field of this JSON name, whatever version has it.
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

    /// The type of a kind; `DeleteOptions`, `Status` and the like are in every group.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeRef> {
        let own = self.kinds.get(&(group, version, kind)).copied();
        own.or_else(|| EVERYWHERE.contains(&kind).then(|| self.named(&format!("meta.v1.{kind}"))).flatten())
    }

    /// Group, version and kind of a type that is one.
    pub fn kinds(&self) -> impl Iterator<Item = ((&'static str, &'static str, &'static str), TypeRef)> {
        self.kinds.iter().map(|(kind, at)| (*kind, *at))
    }
}

/// The graph of all built-in types; read from the facts on first use.
pub fn graph() -> &'static Graph {
    static GRAPH: OnceLock<Graph> = OnceLock::new();
    GRAPH.get_or_init(|| facts::read(&[include_str!("../facts/schema.txt"), MACHINERY]))
}

/// The type of a kind, or none for custom and unknown ones.
pub fn of(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    let graph = graph();
    graph.kind(group, version, kind).map(|at| graph.get(at))
}
