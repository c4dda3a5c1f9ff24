//! How lists and maps merge: by key, as a set, or as a whole. Strategic merge patch (`patchStrategy`, `patchMergeKey`) and server-side
//! apply (`listType`, `listMapKeys`, `mapType`) have different answers for the same field; both come from the schema graph. For custom
//! resources the schema of their definition says it; what that does not know are atomic lists and maps that are merged.

use serde_json::Value;

use crate::{
    catalog::Descriptor,
    crd::schema::{ListKind, Schema},
    schema::{self, Field, FieldType, Type},
};

/// How server-side apply merges a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListType<'a> {
    /// As one value.
    Atomic,
    /// By value.
    Set,
    /// By the values of these fields.
    Map(Keys<'a>),
}

/// Names of key fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys<'a> {
    /// From the facts.
    BuiltIn(&'static [&'static str]),
    /// From a definition.
    Custom(&'a [String]),
}

impl<'a> Keys<'a> {
    /// The names, in the order of the schema.
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a str> {
        let (facts, custom): (&'static [&'static str], &'a [String]) = match self {
            Self::BuiltIn(keys) => (keys, &[]),
            Self::Custom(keys) => (&[], keys),
        };
        facts.iter().copied().chain(custom.iter().map(String::as_str))
    }
}

/// How a strategic merge patch merges a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchList {
    /// The patch's list takes the place of the list.
    Replace,
    /// Values that are missing are added.
    MergeValues,
    /// Items with the same value of this field are merged.
    Merge(&'static str),
}

/// What stands at a place.
#[derive(Debug, Clone, Copy)]
enum Content<'a> {
    /// No schema says.
    Unknown,
    /// A custom resource itself, of which no definition is known.
    Custom,
    /// Of this schema of a definition. The root, and what is marked as such, is a resource.
    Schema(&'a Schema, bool),
    /// A struct, or a list of such.
    Struct(&'static Type),
    /// A map, or a list of such.
    Map(&'static FieldType),
}

impl Content<'_> {
    fn of(kind: &'static FieldType) -> Self {
        match kind {
            FieldType::Struct(at) => Self::Struct(schema::graph().get(*at)),
            FieldType::Map(element) => Self::Map(element),
            FieldType::List(element) => Self::of(element),
            _ => Self::Unknown,
        }
    }
}

/// A place in an object. The items of a list are at the place of the list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    content: Content<'a>,
    field: Option<&'static Field>,
    custom: bool,
    parent: &'a str,
    name: &'a str,
    depth: u8,
}

impl<'a> Shape<'a> {
    /// The object itself.
    pub(crate) fn root(descriptor: &'a Descriptor) -> Self {
        let content = if let Some(definition) = &descriptor.definition {
            Content::Schema(definition.schema(), true)
        } else if descriptor.custom {
            Content::Custom
        } else {
            schema::of(&descriptor.group, &descriptor.version, &descriptor.kind)
                .map_or(Content::Custom, Content::Struct)
        };
        Self { content, field: None, custom: descriptor.custom, parent: "", name: "", depth: 0 }
    }

    /// A field of the map here, or of an item of the list here.
    pub(crate) fn field(&self, name: &'a str) -> Self {
        let (content, field) = match self.content {
            Content::Struct(kind) => match kind.field(name) {
                Some(field) => (Content::of(&field.kind), Some(field)),
                None => (Content::Unknown, None),
            },
            Content::Map(element) => (Content::of(element), None),
            Content::Schema(schema, resource) if name != "metadata" || !(resource || innermost(schema).embedded) => {
                match innermost(schema).field(name) {
                    Some(of) => (Content::Schema(of, false), None),
                    None => (Content::Unknown, None),
                }
            }
            Content::Custom | Content::Schema(..) if name == "metadata" => {
                let graph = schema::graph();
                let metadata = graph.named("meta.v1.ObjectMeta").map(|at| Content::Struct(graph.get(at)));
                (metadata.unwrap_or(Content::Unknown), None)
            }
            Content::Custom | Content::Schema(..) | Content::Unknown => (Content::Unknown, None),
        };
        Self { content, field, custom: self.custom, parent: self.name, name, depth: self.depth.saturating_add(1) }
    }

    /// The list type here.
    pub(crate) fn list_type(&self) -> ListType<'a> {
        if let Content::Schema(schema, _) = self.content {
            return match schema.list {
                ListKind::Atomic => ListType::Atomic,
                ListKind::Set => ListType::Set,
                ListKind::Map => ListType::Map(Keys::Custom(&schema.list_keys)),
            };
        }
        match self.field.map(|f| &f.list) {
            Some(schema::ListType::Map(keys)) => ListType::Map(Keys::BuiltIn(keys)),
            Some(schema::ListType::Set) => ListType::Set,
            Some(schema::ListType::Atomic) | None => ListType::Atomic,
        }
    }

    /// What a key field of the items here is when it is left out.
    pub(crate) fn key_default(&self, key: &str) -> Option<Value> {
        match self.content {
            Content::Struct(kind) => kind.field(key).and_then(|f| f.default.clone()),
            Content::Schema(schema, _) => innermost(schema).field(key).and_then(|f| f.default.clone()),
            _ => None,
        }
    }

    /// The patch strategy of a list here.
    pub(crate) fn patch_list(&self) -> PatchList {
        match self.field {
            Some(field) if field.patch.merge => field.merge_key.map_or(PatchList::MergeValues, PatchList::Merge),
            _ => PatchList::Replace,
        }
    }

    /// Whether a strategic merge patch replaces a map here.
    pub(crate) fn patch_map_replaces(&self) -> bool {
        self.field.is_some_and(|f| f.patch.replace)
    }

    /// Whether server-side apply takes a map here (or the items of a list here) as one value (`mapType: atomic`).
    pub(crate) fn map_is_atomic(&self) -> bool {
        if let Content::Schema(schema, _) = self.content {
            return innermost(schema).atomic_map;
        }
        self.field.is_some_and(|f| f.atomic_map) || matches!(self.content, Content::Struct(kind) if kind.atomic)
    }

    /// Whether a map here is a value of a Go struct type that is not a pointer, so that it is there even when empty and nobody owns it as such.
    pub(crate) fn is_embedded(&self) -> bool {
        match self.name {
            "metadata" => true,
            // Of custom resources nothing is a struct.
            "spec" | "status" if !self.custom => {
                self.depth == 1 || matches!(self.parent, "template" | "jobTemplate" | "volumeClaimTemplate")
            }
            "template" | "jobTemplate" | "strategy" | "updateStrategy" | "resources" => !self.custom,
            _ => false,
        }
    }
}

/// The schema of the items of a list, or else the schema itself.
fn innermost(schema: &Schema) -> &Schema {
    let mut of = schema;
    while let Some(items) = &of.items {
        of = items;
    }
    of
}
