//! The type of a resource's objects, for checking expressions against what they will see. Source: apiserver
//! `pkg/cel/common/schemas.go`.

use super::{
    schema::{escape, object_type},
    types::Type,
};
use crate::{
    catalog::Descriptor,
    schema::{self, FieldType},
};

/// Types that contain themselves end here.
const MAX_DEPTH: usize = 24;

/// The type of the objects of a resource; none when no schema says.
pub fn resource_type(descriptor: &Descriptor) -> Option<Type> {
    let Some(definition) = &descriptor.definition else {
        let kind = schema::of(&descriptor.group, &descriptor.version, &descriptor.kind)?;
        return Some(structure(kind, 0));
    };
    let Type::Object(object) = object_type(definition.schema(), true, &descriptor.kind)? else { return None };
    let graph = schema::graph();
    let metadata = graph.named("meta.v1.ObjectMeta").map_or(Type::Dyn, |at| structure(graph.get(at), 1));
    let fields = object.fields.iter().filter(|(name, _)| *name != "metadata");
    let fields = fields.map(|(name, kind)| (name.clone(), kind.clone()));
    Some(Type::object(&descriptor.kind, fields.chain([("metadata".to_owned(), metadata)])))
}

fn structure(kind: &schema::Type, depth: usize) -> Type {
    let fields = kind.fields.iter().filter_map(|f| Some((escape(f.name)?, field(&f.kind, depth + 1))));
    Type::object(kind.name, fields)
}

fn field(kind: &FieldType, depth: usize) -> Type {
    if depth > MAX_DEPTH {
        return Type::Dyn;
    }
    match kind {
        FieldType::String | FieldType::Quantity => Type::String,
        FieldType::Int32 | FieldType::Int64 => Type::Int,
        FieldType::Number => Type::Double,
        FieldType::Bool => Type::Bool,
        FieldType::Bytes => Type::Bytes,
        FieldType::Time | FieldType::MicroTime => Type::Timestamp,
        FieldType::Struct(at) if schema::graph().get(*at).name.starts_with("apiextensions.v1.JSONSchema") => Type::Dyn,
        FieldType::Struct(at) => structure(schema::graph().get(*at), depth),
        FieldType::List(of) => Type::list(field(of, depth)),
        FieldType::Map(of) => Type::map(Type::String, field(of, depth)),
        // What has no one type, or none that a schema says.
        FieldType::IntOrString
        | FieldType::RawExtension
        | FieldType::FieldsV1
        | FieldType::Any
        | FieldType::Json
        | FieldType::SchemaOrArray
        | FieldType::SchemaOrBool
        | FieldType::SchemaOrStrings => Type::Dyn,
    }
}
