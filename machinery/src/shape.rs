//! How lists and maps merge: by key, as a set, or as a whole. Strategic merge patch (`patchStrategy`, `patchMergeKey`) and server-side
//! apply (`listType`, `listMapKeys`, `mapType`) have different answers for the same field; both come from the schema graph. In custom
//! resources only `metadata` is known: their other lists are atomic and their maps are merged.

use serde_json::Value;

use crate::{
    catalog::Descriptor,
    schema::{self, Field, FieldType, Type},
};

/// How server-side apply merges a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListType {
    /// As one value.
    Atomic,
    /// By value.
    Set,
    /// By the values of these fields.
    Map(&'static [&'static str]),
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
enum Content {
    /// No schema says.
    Unknown,
    /// A custom resource itself.
    Custom,
    /// A struct, or a list of such.
    Struct(&'static Type),
    /// A map, or a list of such.
    Map(&'static FieldType),
}

impl Content {
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
    content: Content,
    field: Option<&'static Field>,
    custom: bool,
    parent: &'a str,
    name: &'a str,
    depth: u8,
}

impl<'a> Shape<'a> {
    /// The object itself.
    pub(crate) fn root(descriptor: &'a Descriptor) -> Self {
        let content = if descriptor.custom {
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
            Content::Custom if name == "metadata" => {
                let graph = schema::graph();
                let metadata = graph.named("meta.v1.ObjectMeta").map(|at| Content::Struct(graph.get(at)));
                (metadata.unwrap_or(Content::Unknown), None)
            }
            Content::Custom | Content::Unknown => (Content::Unknown, None),
        };
        Self { content, field, custom: self.custom, parent: self.name, name, depth: self.depth.saturating_add(1) }
    }

    /// The list type here.
    pub(crate) fn list_type(&self) -> ListType {
        match self.field.map(|f| &f.list) {
            Some(schema::ListType::Map(keys)) => ListType::Map(keys),
            Some(schema::ListType::Set) => ListType::Set,
            Some(schema::ListType::Atomic) | None => ListType::Atomic,
        }
    }

    /// What a key field of the items here is when it is left out.
    pub(crate) fn key_default(&self, key: &str) -> Option<Value> {
        match self.content {
            Content::Struct(kind) => kind.field(key).and_then(|f| f.default.clone()),
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
        self.field.is_some_and(|f| f.atomic_map) || matches!(self.content, Content::Struct(kind) if kind.atomic)
    }

    /// Whether a map here is a value of a Go struct type that is not a pointer, so that it is there even when empty and nobody owns it as such.
    pub(crate) fn is_embedded(&self) -> bool {
        match self.name {
            "metadata" => true,
            "spec" | "status" => {
                self.depth == 1 || matches!(self.parent, "template" | "jobTemplate" | "volumeClaimTemplate")
            }
            "template" | "jobTemplate" | "strategy" | "updateStrategy" | "resources" => !self.custom,
            _ => false,
        }
    }
}
