//! How large what a schema describes can be. Source: apiserver `pkg/cel/common/schemas.go`.

use std::collections::BTreeMap;

use super::Kind;
use crate::{
    cel::schema::escape,
    crd::schema::{Additional, Schema, Type},
};

/// Largest request, in bytes.
const REQUEST: u64 = 3 << 20;

/// The sizes of what a schema describes.
#[derive(Debug, Clone)]
pub struct Shape {
    pub(super) kind: Kind,
    /// Most characters, octets, items or entries that there can be; 0 for numbers and truth values.
    pub(super) max: u64,
    /// Fewest octets that it takes as JSON.
    smallest: u64,
    pub(super) items: Option<Box<Shape>>,
    pub(super) fields: BTreeMap<String, Shape>,
}

fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

impl Shape {
    fn leaf(kind: Kind, max: u64, smallest: u64) -> Self {
        Self { kind, max, smallest, items: None, fields: BTreeMap::new() }
    }

    /// Of a schema; none for what expressions cannot see. Resources also have their type and names.
    pub fn of(schema: &Schema, resource: bool) -> Option<Self> {
        if schema.int_or_string {
            return Some(Self::leaf(Kind::Unknown, text(schema), 1));
        }
        Some(match schema.kind? {
            Type::Array => {
                let items = Self::of(schema.items.as_deref()?, schema.items.as_ref().is_some_and(|i| i.embedded))?;
                let max = schema.checks.max_items.map_or((REQUEST - 2) / (items.smallest + 1), count);
                Self { items: Some(Box::new(items)), ..Self::leaf(Kind::List, max, 2) }
            }
            Type::Object => match &schema.additional {
                Some(Additional::Schema(values)) => {
                    let items = Self::of(values, values.embedded)?;
                    let max = schema.checks.max_properties.map_or((REQUEST - 2) / (items.smallest + 6), count);
                    Self { items: Some(Box::new(items)), ..Self::leaf(Kind::Map, max, 2) }
                }
                _ => Self::object(schema, resource),
            },
            Type::String => match schema.checks.format.as_str() {
                "byte" => Self::leaf(Kind::Bytes, schema.checks.max_length.map_or(REQUEST - 2, count), 2),
                "duration" => Self::leaf(Kind::Scalar, 32, 3),
                "date" => Self::leaf(Kind::Scalar, 12, 12),
                "date-time" => Self::leaf(Kind::Scalar, 32, 21),
                _ => Self::leaf(Kind::String, text(schema), 2),
            },
            Type::Boolean => Self::leaf(Kind::Scalar, 0, 4),
            Type::Number | Type::Integer => Self::leaf(Kind::Scalar, 0, 1),
        })
    }

    fn object(schema: &Schema, resource: bool) -> Self {
        let mut fields = BTreeMap::new();
        let mut smallest = 2;
        for (name, of) in &schema.properties {
            let Some(shape) = Self::of(of, of.embedded) else { continue };
            if schema.checks.required.contains(name) && of.default.is_none() {
                smallest += name.len() as u64 + shape.smallest + 4;
            }
            if let Some(name) = escape(name) {
                fields.insert(name, shape);
            }
        }
        if resource || schema.embedded {
            let text = || Self::leaf(Kind::String, REQUEST - 2, 2);
            let names = ["name", "generateName"].map(|n| (n.to_owned(), text()));
            let metadata = Self { fields: names.into(), ..Self::leaf(Kind::Object, 0, 2) };
            fields.extend([
                ("apiVersion".to_owned(), text()),
                ("kind".to_owned(), text()),
                ("metadata".to_owned(), metadata),
            ]);
        }
        Self { fields, ..Self::leaf(Kind::Object, 0, smallest) }
    }

    /// How often it can be in one request, where nothing says how often it may be.
    pub fn most(&self) -> u64 {
        REQUEST / (self.smallest + 1)
    }
}

/// Most octets of a text.
fn text(schema: &Schema) -> u64 {
    if let Some(max) = schema.checks.max_length {
        // A character takes up to four.
        return count(max).saturating_mul(4);
    }
    match &schema.checks.allowed {
        Some(allowed) if !schema.int_or_string => {
            allowed.iter().filter_map(|v| v.as_str()).map(|t| t.len() as u64).max().unwrap_or(0)
        }
        _ => REQUEST - 2,
    }
}
