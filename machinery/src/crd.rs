//! CustomResourceDefinitions: schemas of custom resources and what they do, and the rules for the definitions themselves.
//!
//! A [`Version`] is made once of a definition's version and shared by everything that serves it. It prunes, defaults and validates
//! objects with the messages and paths of upstream's `k8s.io/apiextensions-apiserver`, shows them in columns and as scales, and names
//! the fields that can be selected.

mod columns;
mod correlate;
mod default;
pub mod definition;
mod errors;
mod field_path;
mod format;
mod instance;
mod jsonpath;
mod lists;
mod openapi;
mod pattern;
mod prune;
mod rule_cost;
mod rules;
mod scale;
pub mod schema;
mod structural;
mod value;

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use format::{is_request_uri, matches as matches_format, parse_duration};
pub use jsonpath::JsonPath;
pub use pattern::Pattern;
pub(crate) use pattern::{Program as PatternProgram, compile as compile_pattern};
use schema::Schema;

use crate::{status::ApiError, validate::FieldError};

/// One version of a definition, compiled.
pub struct Version {
    id: String,
    schema: Schema,
    source: Value,
    columns: Vec<columns::Column>,
    scale: Option<scale::Scale>,
    selectable: Vec<(String, Option<JsonPath>)>,
    has_status: bool,
    deprecation: Option<String>,
    rules: Option<rules::Rules>,
}

/// By what they were made of.
impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.id)
    }
}

impl Version {
    /// Compiles a version (`spec.versions[i]`) of the `spec` of a definition. `id` tells it apart from all others: it must differ when
    /// anything in it does.
    pub fn new(spec: &Value, version: &Value, id: String) -> Self {
        let source = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| {
            // Only definitions of old have no schema; everything is kept.
            serde_json::json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
        });
        let mut schema = Schema::parse(&source);
        schema.preserves_unknown |= spec.get("preserveUnknownFields") == Some(&Value::Bool(true));
        prune_defaults(&mut schema);
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let deprecation = (version.get("deprecated") == Some(&Value::Bool(true))).then(|| {
            match text(version, "deprecationWarning") {
                none if none.is_empty() => {
                    let kind = spec.pointer("/names/kind").and_then(Value::as_str).unwrap_or_default();
                    format!("{}/{} {kind} is deprecated", text(spec, "group"), text(version, "name"))
                }
                warning => warning,
            }
        });
        let selectable = version.get("selectableFields").and_then(Value::as_array).into_iter().flatten();
        let rules = rules::Rules::new(&schema, true);
        Self {
            id,
            rules,
            schema,
            source,
            columns: columns::Column::all(version),
            scale: version.pointer("/subresources/scale").filter(|s| s.is_object()).map(scale::Scale::parse),
            selectable: selectable
                .map(|field| {
                    let path = text(field, "jsonPath");
                    (path.strip_prefix('.').unwrap_or(&path).to_owned(), JsonPath::parse(&path).ok())
                })
                .collect(),
            has_status: version.pointer("/subresources/status").is_some_and(Value::is_object),
            deprecation,
        }
    }

    /// Its schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Its schema as the definition has it.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Whether there is a status subresource.
    pub fn has_status(&self) -> bool {
        self.has_status
    }

    /// What clients are warned of who use this version.
    pub fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    /// What a request's body becomes: types of embedded resources are checked, nulls that are no values and unknown fields are removed.
    /// Returns the paths of the unknown fields.
    ///
    /// # Errors
    /// Metadata of an embedded resource that is of the wrong type.
    pub fn decode(&self, object: &mut Value) -> Result<Vec<String>, String> {
        let mut unknown = Vec::new();
        prune::coerce_embedded(object, &self.schema, "", false, &mut unknown)?;
        unknown.extend(prune::prune_root(object, &self.schema));
        prune::prune_nulls(object, Some(&self.schema));
        unknown.sort();
        Ok(unknown)
    }

    /// What tells it apart from all others, as given to [`Version::new`].
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What a stored object is today: an object may be older than the schema. Defaults that no object has room for are left out, as in
    /// [`Version::default`]: it can be read, and deleted.
    pub fn read(&self, object: &mut Value) {
        // A lenient read has no errors.
        let _ = prune::coerce_embedded(object, &self.schema, "", true, &mut Vec::new());
        prune::prune_root(object, &self.schema);
        let _ = self.default(object);
    }

    /// Fills in what is left out, in place; idempotent.
    ///
    /// # Errors
    /// 413 when that would make the object too large to be stored; only a part has been filled in then.
    pub fn default(&self, object: &mut Value) -> Result<(), ApiError> {
        prune::prune_nulls(object, Some(&self.schema));
        default::fill(object, &self.schema).map_err(|default::TooLarge| ApiError::object_too_large())
    }

    /// `columnDefinitions` of a table, without the name.
    pub fn columns(&self) -> impl Iterator<Item = Value> + '_ {
        self.columns.iter().map(columns::Column::definition)
    }

    /// The cells of one object, without the name.
    pub fn cells<'v>(&'v self, object: &'v Value, now: Timestamp) -> impl Iterator<Item = Value> + 'v {
        self.columns.iter().map(move |c| c.cell(object, now))
    }

    /// Fields that can be selected besides name and namespace, such as `spec.color`.
    pub fn selectable(&self) -> impl Iterator<Item = &str> {
        self.selectable.iter().map(|(name, _)| name.as_str())
    }

    /// The value of a selectable field as text; empty when there is none.
    pub fn selected(&self, object: &Value, field: &str) -> String {
        let path = self.selectable.iter().find(|(name, _)| name == field).and_then(|(_, path)| path.as_ref());
        match path.and_then(|p| p.find(object).first().copied()) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    /// The `autoscaling/v1 Scale` of an object, and whether it has replicas at all; none without a scale subresource.
    ///
    /// # Errors
    /// A path that leads to something of another type.
    pub fn scale(&self, object: &Value) -> Option<Result<(Value, bool), String>> {
        self.scale.as_ref().map(|s| s.show(object))
    }

    /// The path of the replicas, such as `.spec.replicas`.
    pub fn replicas_path(&self) -> Option<&str> {
        self.scale.as_ref().map(|s| s.spec_replicas.as_str())
    }

    /// Sets the replicas of an object.
    ///
    /// # Errors
    /// A path that leads through something that is no object, and a version without a scale subresource.
    pub fn set_replicas(&self, object: &mut Value, replicas: i64) -> Result<(), String> {
        self.scale.as_ref().map_or_else(|| Err("there is no scale".to_owned()), |s| s.set(object, replicas))
    }

    fn rules(&self, new: &Value, old: Option<&Value>, found: &mut Vec<FieldError>) {
        if let Some(rules) = &self.rules {
            rules.check(new, old, &self.schema, found);
        }
    }
}

/// Defaults do not bring in what would be pruned.
fn prune_defaults(schema: &mut Schema) {
    if let Some(mut default) = schema.default.take() {
        prune::prune_value(&mut default, schema);
        schema.default = Some(default);
    }
    schema.properties.values_mut().for_each(prune_defaults);
    if let Some(items) = &mut schema.items {
        prune_defaults(items);
    }
    if let Some(schema::Additional::Schema(of)) = &mut schema.additional {
        prune_defaults(of);
    }
}
