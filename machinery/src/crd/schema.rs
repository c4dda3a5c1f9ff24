//! A structural schema, read once from `openAPIV3Schema` and then shared.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pattern::Pattern;

/// The JSON type that a schema asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `object`
    Object,
    /// `array`
    Array,
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `boolean`
    Boolean,
}

impl Type {
    /// By its name in OpenAPI.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// Its name in OpenAPI.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// How the items of a list are told apart (`x-kubernetes-list-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListKind {
    /// The list is one value.
    #[default]
    Atomic,
    /// By value.
    Set,
    /// By the fields of `x-kubernetes-list-map-keys`.
    Map,
}

/// `additionalProperties`.
#[derive(Debug)]
pub enum Additional {
    /// `true` or `false`.
    Any(bool),
    /// Of this schema.
    Schema(Box<Schema>),
}

/// One rule of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The CEL expression.
    pub rule: String,
    /// What to say when it is false.
    pub message: String,
    /// A CEL expression that says it.
    pub message_expression: String,
    /// `FieldValueInvalid` and the like; empty: `FieldValueInvalid`.
    pub reason: String,
    /// Where the error is, relative to the rule's place.
    pub field_path: String,
    /// Whether `oldSelf` is optional, so that the rule also runs without an old value.
    pub optional_old_self: Option<bool>,
}

/// A node of a schema. Upstream's `Structural` with its value validations.
#[derive(Debug, Default)]
pub struct Schema {
    /// What it must be; none where `x-kubernetes-int-or-string` or `x-kubernetes-preserve-unknown-fields` says it all.
    pub kind: Option<Type>,
    /// Whether null is a value.
    pub nullable: bool,
    /// What it is when left out.
    pub default: Option<Value>,
    /// Fields of an object.
    pub properties: BTreeMap<String, Schema>,
    /// Fields of an object that have no name of their own.
    pub additional: Option<Additional>,
    /// Items of a list.
    pub items: Option<Box<Schema>>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserves_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`.
    pub list: ListKind,
    /// `x-kubernetes-list-map-keys`.
    pub list_keys: Vec<String>,
    /// `x-kubernetes-map-type: atomic`.
    pub atomic_map: bool,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// Constraints on the value.
    pub checks: Checks,
}

/// Constraints on a value.
#[derive(Debug, Default)]
pub struct Checks {
    /// `format`.
    pub format: String,
    /// `maximum` and whether it is exclusive.
    pub maximum: Option<(f64, bool)>,
    /// `minimum` and whether it is exclusive.
    pub minimum: Option<(f64, bool)>,
    /// `maxLength`, in characters.
    pub max_length: Option<i64>,
    /// `minLength`, in characters.
    pub min_length: Option<i64>,
    /// `pattern`.
    pub pattern: Option<Pattern>,
    /// `maxItems`.
    pub max_items: Option<i64>,
    /// `minItems`.
    pub min_items: Option<i64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `enum`.
    pub allowed: Option<Vec<Value>>,
    /// `maxProperties`.
    pub max_properties: Option<i64>,
    /// `minProperties`.
    pub min_properties: Option<i64>,
    /// `required`.
    pub required: Vec<String>,
    /// `allOf`.
    pub all_of: Vec<Schema>,
    /// `oneOf`.
    pub one_of: Vec<Schema>,
    /// `anyOf`.
    pub any_of: Vec<Schema>,
    /// `not`.
    pub not: Option<Box<Schema>>,
}

fn flag(json: &Value, key: &str) -> bool {
    json.get(key) == Some(&Value::Bool(true))
}

fn text(json: &Value, key: &str) -> String {
    json.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn number(json: &Value, key: &str) -> Option<i64> {
    json.get(key).and_then(Value::as_i64)
}

fn texts(json: &Value, key: &str) -> Vec<String> {
    json.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn schemas(json: &Value, key: &str) -> Vec<Schema> {
    json.get(key).and_then(Value::as_array).into_iter().flatten().map(Schema::parse).collect()
}

impl Schema {
    /// Reads a schema. What is not understood is left out: whether the schema is right is asked when the definition is written.
    pub fn parse(json: &Value) -> Self {
        let limit =
            |key: &str, exclusive: &str| json.get(key).and_then(Value::as_f64).map(|n| (n, flag(json, exclusive)));
        let checks = Checks {
            format: text(json, "format"),
            maximum: limit("maximum", "exclusiveMaximum"),
            minimum: limit("minimum", "exclusiveMinimum"),
            max_length: number(json, "maxLength"),
            min_length: number(json, "minLength"),
            pattern: json.get("pattern").and_then(Value::as_str).filter(|p| !p.is_empty()).map(Pattern::new),
            max_items: number(json, "maxItems"),
            min_items: number(json, "minItems"),
            unique_items: flag(json, "uniqueItems"),
            multiple_of: json.get("multipleOf").and_then(Value::as_f64),
            allowed: json.get("enum").and_then(Value::as_array).filter(|a| !a.is_empty()).cloned(),
            max_properties: number(json, "maxProperties"),
            min_properties: number(json, "minProperties"),
            required: texts(json, "required"),
            all_of: schemas(json, "allOf"),
            one_of: schemas(json, "oneOf"),
            any_of: schemas(json, "anyOf"),
            not: json.get("not").filter(|n| n.is_object()).map(|n| Box::new(Self::parse(n))),
        };
        let properties = json.get("properties").and_then(Value::as_object).into_iter().flatten();
        Self {
            kind: Type::parse(&text(json, "type")),
            nullable: flag(json, "nullable"),
            default: json.get("default").filter(|d| !d.is_null()).cloned(),
            properties: properties.map(|(name, schema)| (name.clone(), Self::parse(schema))).collect(),
            additional: match json.get("additionalProperties") {
                Some(Value::Bool(allowed)) => Some(Additional::Any(*allowed)),
                Some(schema @ Value::Object(_)) => Some(Additional::Schema(Box::new(Self::parse(schema)))),
                _ => None,
            },
            items: json.get("items").filter(|i| i.is_object()).map(|i| Box::new(Self::parse(i))),
            preserves_unknown: flag(json, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(json, "x-kubernetes-embedded-resource"),
            int_or_string: flag(json, "x-kubernetes-int-or-string"),
            list: match json.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("set") => ListKind::Set,
                Some("map") => ListKind::Map,
                _ => ListKind::Atomic,
            },
            list_keys: texts(json, "x-kubernetes-list-map-keys"),
            atomic_map: json.get("x-kubernetes-map-type").is_some_and(|m| m == "atomic"),
            rules: json
                .get("x-kubernetes-validations")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(rule)
                .collect(),
            checks,
        }
    }

    /// The schema of a field, if it has one.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or_else(|| self.values())
    }

    /// The schema of the values of a map.
    pub fn values(&self) -> Option<&Self> {
        match &self.additional {
            Some(Additional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    /// The types it allows: two for `x-kubernetes-int-or-string`.
    pub(super) fn types(&self) -> Vec<&'static str> {
        if self.int_or_string { vec!["integer", "string"] } else { self.kind.map(Type::name).into_iter().collect() }
    }

    /// The name of its type as errors show it.
    pub(super) fn type_name(&self) -> &'static str {
        self.kind.map_or("", Type::name)
    }

    /// Whether it or anything below has rules.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
            || self.properties.values().any(Self::has_rules)
            || self.items.as_deref().is_some_and(Self::has_rules)
            || self.values().is_some_and(Self::has_rules)
            || self.checks.all_of.iter().any(Self::has_rules)
    }
}

fn rule(json: &Value) -> Rule {
    Rule {
        rule: text(json, "rule"),
        message: text(json, "message"),
        message_expression: text(json, "messageExpression"),
        reason: text(json, "reason"),
        field_path: text(json, "fieldPath"),
        optional_old_self: json.get("optionalOldSelf").and_then(Value::as_bool),
    }
}
