//! Component schemas: only those that the document's operations lead to.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::Read as _,
};

use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

use super::{Form, custom};
use crate::{
    catalog::Descriptor,
    schema::{Field, FieldType, ListType, graph},
    version::MinorVersion,
};

/// What the build script took from the `k8s-openapi` crate: lines of `TYPE`, tab, `FIELD` or nothing, tab, text with `\n` escaped.
const DESCRIPTIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.gz"));

/// Types with a JSON form of their own.
const LEAVES: [(&str, &str); 11] = [
    ("quantity", "io.k8s.apimachinery.pkg.api.resource.Quantity"),
    ("intOrString", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
    ("raw", "io.k8s.apimachinery.pkg.runtime.RawExtension"),
    ("time", "io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
    ("microTime", "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"),
    ("fields", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"),
    ("meta.v1.Patch", "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"),
    ("json", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"),
    ("schemaOrArray", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray"),
    ("schemaOrBool", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool"),
    ("schemaOrStrings", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray"),
];

/// Upstream's name of a type (`core.v1.Pod`) or leaf.
fn full_name(name: &str) -> String {
    if let Some((_, full)) = LEAVES.iter().find(|(leaf, _)| *leaf == name) {
        return (*full).to_owned();
    }
    let package = match name.split('.').next().unwrap_or_default() {
        "meta" => "io.k8s.apimachinery.pkg.apis.",
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis.",
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis.",
        "custom" => return name.trim_start_matches("custom.").to_owned(),
        _ => "io.k8s.api.",
    };
    format!("{package}{name}")
}

/// The name of a custom kind: its group backwards, as of Java packages.
fn custom_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.rsplit('.').collect();
    format!("custom.{}.{version}.{kind}", reversed.join("."))
}

/// Collects the types that are referred to.
pub(super) struct Schemas {
    form: Form,
    kubernetes: MinorVersion,
    wanted: BTreeSet<String>,
    custom: BTreeMap<String, Value>,
}

impl Schemas {
    pub(super) fn new(form: Form, kubernetes: MinorVersion) -> Self {
        Self { form, kubernetes, wanted: BTreeSet::new(), custom: BTreeMap::new() }
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// A reference to the schema of a kind.
    pub(super) fn of(&mut self, (group, version, kind): (&str, &str, &str)) -> Value {
        let graph = graph();
        if let Some(at) = graph.kind(group, version, kind) {
            return self.named(graph.get(at).name);
        }
        let name = custom_name(group, version, kind);
        if self.custom.contains_key(&name) {
            return self.reference(&name);
        }
        // A custom resource without a definition.
        let metadata = self.named("meta.v1.ObjectMeta");
        self.custom.entry(name.clone()).or_insert_with(|| {
            json!({
                "type": "object",
                "properties": { "apiVersion": { "type": "string" }, "kind": { "type": "string" }, "metadata": metadata },
                "x-kubernetes-preserve-unknown-fields": true,
                "x-kubernetes-group-version-kind": [{ "group": group, "version": version, "kind": kind }],
            })
        });
        self.reference(&name)
    }

    /// Takes up the schemas of a custom resource and its list, as its definition has them.
    pub(super) fn define(&mut self, row: &Descriptor) {
        let Some(definition) = &row.definition else { return };
        let group_kind = |kind: &str| json!([{ "group": row.group, "version": row.version, "kind": kind }]);
        let kind = custom_name(&row.group, &row.version, &row.kind);
        if self.custom.contains_key(&kind) {
            return;
        }
        let metadata = self.named("meta.v1.ObjectMeta");
        let mut schema = custom::schema(definition.source(), self.form, &metadata);
        schema["x-kubernetes-group-version-kind"] = group_kind(&row.kind);
        let selectable: Vec<Value> = definition.selectable().map(|f| json!({ "fieldPath": f })).collect();
        if !selectable.is_empty() {
            schema["x-kubernetes-selectable-fields"] = selectable.into();
        }
        let item = self.reference(&kind);
        let list_metadata = self.named("meta.v1.ListMeta");
        let mut list = json!({
            "description": format!("{} is a list of {}", row.list_kind, row.kind),
            "type": "object", "required": ["items"],
            "properties": {
                "apiVersion": custom::api_version(), "kind": custom::kind(),
                "items": { "type": "array", "description": format!("The {} of this list.", row.plural), "items": item },
                "metadata": custom::described(&list_metadata, "Metadata of the list.", self.form),
            },
        });
        list["x-kubernetes-group-version-kind"] = group_kind(&row.list_kind);
        self.custom.insert(kind, schema);
        self.custom.insert(custom_name(&row.group, &row.version, &row.list_kind), list);
    }

    /// A reference to a type by its short name.
    pub(super) fn named(&mut self, name: &str) -> Value {
        self.wanted.insert(name.to_owned());
        self.reference(name)
    }

    fn reference(&self, name: &str) -> Value {
        let place = if self.form == Form::V3 { "#/components/schemas/" } else { "#/definitions/" };
        json!({ "$ref": format!("{place}{}", full_name(name)) })
    }

    /// All schemas that were referred to, and what they refer to.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        let texts = descriptions();
        let mut kinds: HashMap<&str, Vec<Value>> = HashMap::new();
        for ((group, version, kind), at) in graph().kinds() {
            let entry = json!({ "group": group, "version": version, "kind": kind });
            kinds.entry(graph().get(at).name).or_default().push(entry);
        }
        let mut done: BTreeMap<String, Value> = BTreeMap::new();
        while let Some(name) = self.wanted.pop_first() {
            if done.contains_key(&name) {
                continue;
            }
            let mut schema = self.schema(&name, &texts);
            if let (Some(entry), Some(schema)) = (kinds.get(&*name), schema.as_object_mut()) {
                schema.insert("x-kubernetes-group-version-kind".into(), entry.clone().into());
            }
            done.insert(name, schema);
            self.wanted.retain(|n| !done.contains_key(n));
        }
        done.into_iter().chain(self.custom).map(|(name, schema)| (full_name(&name), schema)).collect()
    }

    fn schema(&mut self, name: &str, texts: &HashMap<String, String>) -> Value {
        let mut schema = Map::new();
        if let Some(text) = texts.get(&format!("{}\t", full_name(name))) {
            schema.insert("description".into(), text.as_str().into());
        }
        let leaf = match name {
            "quantity" if self.form == Form::V3 => {
                Some(json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }))
            }
            "intOrString" if self.form == Form::V3 => {
                Some(json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] }))
            }
            "quantity" => Some(json!({ "type": "string" })),
            "intOrString" => Some(json!({ "type": "string", "format": "int-or-string" })),
            "time" | "microTime" => Some(json!({ "type": "string", "format": "date-time" })),
            "raw" | "fields" | "meta.v1.Patch" => Some(json!({ "type": "object" })),
            "json" | "schemaOrArray" | "schemaOrBool" | "schemaOrStrings" => Some(json!({})),
            _ => None,
        };
        if let Some(Value::Object(leaf)) = leaf {
            schema.extend(leaf);
            return schema.into();
        }
        schema.insert("type".into(), "object".into());
        let Some(ty) = graph().named(name).map(|at| graph().get(at)) else { return schema.into() };
        let full = full_name(name);
        let mut properties = Map::new();
        let kubernetes = self.kubernetes;
        let fields = || ty.fields.iter().filter(move |f| f.versions.contain(kubernetes));
        for field in fields() {
            properties.insert(field.name.into(), self.property(field, texts.get(&format!("{full}\t{}", field.name))));
        }
        if !properties.is_empty() {
            schema.insert("properties".into(), properties.into());
        }
        let required: Vec<&str> = fields().filter(|f| f.is_required(kubernetes)).map(|f| f.name).collect();
        if !required.is_empty() {
            schema.insert("required".into(), json!(required));
        }
        if ty.atomic {
            schema.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
        schema.into()
    }

    fn property(&mut self, field: &Field, text: Option<&String>) -> Value {
        let mut property = match self.kind(&field.kind) {
            // In v3 nothing may stand beside a reference.
            Value::Object(reference) if self.form == Form::V3 && reference.contains_key("$ref") => {
                Map::from_iter([("allOf".to_owned(), json!([reference]))])
            }
            Value::Object(property) => property,
            _ => Map::new(),
        };
        if let Some(text) = text {
            property.insert("description".into(), text.as_str().into());
        }
        if let Some(default) = &field.default {
            property.insert("default".into(), default.clone());
        }
        match &field.list {
            ListType::Map(keys) => {
                property.insert("x-kubernetes-list-type".into(), "map".into());
                property.insert("x-kubernetes-list-map-keys".into(), json!(keys));
            }
            ListType::Set => {
                property.insert("x-kubernetes-list-type".into(), "set".into());
            }
            ListType::Atomic if matches!(field.kind, FieldType::List(_)) => {
                property.insert("x-kubernetes-list-type".into(), "atomic".into());
            }
            ListType::Atomic => {}
        }
        if field.atomic_map {
            property.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
        let strategies =
            [("merge", field.patch.merge), ("replace", field.patch.replace), ("retainKeys", field.patch.retain_keys)];
        let strategies: Vec<&str> = strategies.into_iter().filter(|s| s.1).map(|s| s.0).collect();
        if !strategies.is_empty() {
            property.insert("x-kubernetes-patch-strategy".into(), strategies.join(",").into());
        }
        if let Some(key) = field.merge_key {
            property.insert("x-kubernetes-patch-merge-key".into(), key.into());
        }
        property.into()
    }

    fn kind(&mut self, kind: &FieldType) -> Value {
        match kind {
            FieldType::String => json!({ "type": "string" }),
            FieldType::Int32 => json!({ "type": "integer", "format": "int32" }),
            FieldType::Int64 => json!({ "type": "integer", "format": "int64" }),
            FieldType::Number => json!({ "type": "number", "format": "double" }),
            FieldType::Bool => json!({ "type": "boolean" }),
            FieldType::Bytes => json!({ "type": "string", "format": "byte" }),
            FieldType::Any => json!({ "type": "object" }),
            FieldType::Quantity => self.named("quantity"),
            FieldType::Time => self.named("time"),
            FieldType::MicroTime => self.named("microTime"),
            FieldType::IntOrString => self.named("intOrString"),
            FieldType::RawExtension => self.named("raw"),
            FieldType::FieldsV1 => self.named("fields"),
            FieldType::Json => self.named("json"),
            FieldType::SchemaOrArray => self.named("schemaOrArray"),
            FieldType::SchemaOrBool => self.named("schemaOrBool"),
            FieldType::SchemaOrStrings => self.named("schemaOrStrings"),
            FieldType::Struct(at) => self.named(graph().get(*at).name),
            FieldType::List(of) => json!({ "type": "array", "items": self.kind(of) }),
            FieldType::Map(of) => json!({ "type": "object", "additionalProperties": self.kind(of) }),
        }
    }
}

/// Descriptions by `TYPE`, tab, `FIELD`. Unpacked for one document and dropped with it: they are used rarely and take megabytes.
fn descriptions() -> HashMap<String, String> {
    let mut text = String::new();
    // The artefact is our own build's, and a test reads it: if it cannot be read, documents lack descriptions and nothing else.
    if GzDecoder::new(DESCRIPTIONS).read_to_string(&mut text).is_err() {
        return HashMap::new();
    }
    text.lines()
        .filter_map(|line| {
            let (key, description) = line.rsplit_once('\t')?;
            Some((key.to_owned(), description.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")))
        })
        .collect()
}
