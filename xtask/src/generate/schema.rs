//! Joins schemas, descriptors and the supplement into `machinery/facts/schema.txt`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
    fs,
};

use anyhow::{Context, Result, bail};
use prost_types::{DescriptorProto, field_descriptor_proto::Type};
use serde_json::Value;
use vctl_machinery::version::MinorVersion;

use super::{
    descriptors::{Messages, short},
    packages::Packages,
};

/// Types with a JSON form of their own, and their word in the facts.
const LEAVES: [(&str, &str); 11] = [
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "quantity"),
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "intOrString"),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", "raw"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "time"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", "microTime"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "fields"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", "any"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", "json"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", "schemaOrArray"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", "schemaOrBool"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray", "schemaOrStrings"),
];

#[derive(Default)]
struct Supplement {
    pointers: BTreeSet<(String, String)>,
    wrapped: BTreeSet<(String, String)>,
    names: HashMap<(String, String), String>,
    defaults: HashMap<(String, String), String>,
    numbers: HashMap<(String, String), String>,
}

impl Supplement {
    fn parse(text: &str) -> Result<Self> {
        let mut all = Self::default();
        for line in text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
            let mut words = line.splitn(3, ' ');
            let (what, ty, rest) = (words.next(), words.next(), words.next());
            let (Some(what), Some(ty), Some(rest)) = (what, ty, rest) else { bail!("supplement.txt: {line}") };
            let key = |field: &str| (ty.to_owned(), field.to_owned());
            match what {
                "pointer" => all.pointers.extend(rest.split(' ').map(key)),
                "wrapped" => all.wrapped.extend(rest.split(' ').map(key)),
                "named" => {
                    for pair in rest.split(' ') {
                        let (field, name) = pair.split_once('=').with_context(|| format!("supplement.txt: {line}"))?;
                        all.names.insert(key(field), name.to_owned());
                    }
                }
                "default" | "number" => {
                    let (field, value) = rest.split_once(' ').with_context(|| format!("supplement.txt: {line}"))?;
                    let map = if what == "default" { &mut all.defaults } else { &mut all.numbers };
                    map.insert(key(field), value.to_owned());
                }
                _ => bail!("supplement.txt: unknown word {what:?} in: {line}"),
            }
        }
        Ok(all)
    }
}

/// The definitions of one minor version by name.
type Definitions = BTreeMap<String, Value>;

fn definitions(packages: &Packages) -> Result<BTreeMap<u8, Definitions>> {
    let read = |path: &std::path::Path| -> Result<Definitions> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let mut document: Value = serde_json::from_str(&text)?;
        let Value::Object(all) = document["$defs"].take() else { bail!("no $defs: the package's layout has changed") };
        Ok(all.into_iter().filter(|(name, _)| wanted(name)).collect())
    };
    packages.definitions.iter().map(|(minor, path)| Ok((*minor, read(path)?))).collect()
}

/// What there is of something in the versions that have it, and in which it is: as the default version has it, else as the newest does.
fn merged<T: Copy>(found: &BTreeMap<u8, T>, of: &str) -> Result<(T, Range)> {
    let (Some((first, _)), Some((last, newest))) = (found.first_key_value(), found.last_key_value()) else {
        bail!("{of} is in no version");
    };
    if found.len() != usize::from(last - first) + 1 {
        bail!("{of} comes and goes and comes again: the facts have no form for that");
    }
    let chosen = found.get(&MinorVersion::DEFAULT.number()).unwrap_or(newest);
    Ok((*chosen, Range(*first, *last)))
}

/// From which minor version to which.
#[derive(Clone, Copy, PartialEq)]
struct Range(u8, u8);

impl Range {
    const ALL: Self = Self(MinorVersion::OLDEST.number(), MinorVersion::NEWEST.number());

    /// `34-`, `-35` or `34-35`; an end that is not there is that of all versions.
    fn word(self) -> String {
        let end = |own: u8, all: u8| if own == all { String::new() } else { own.to_string() };
        format!("{}-{}", end(self.0, Self::ALL.0), end(self.1, Self::ALL.1))
    }
}

/// The text of schema.txt.
pub(crate) fn render(packages: &Packages, messages: &Messages, supplement: &str) -> Result<String> {
    let supplement = Supplement::parse(supplement)?;
    let versions = definitions(packages)?;
    let names: BTreeSet<&String> = versions.values().flat_map(BTreeMap::keys).collect();

    let mut out = format!("# Generated by `cargo xtask generate`: do not edit. {}\n", packages.sources);
    out.push_str(
        "# type NAME [atomic], then @GROUP/VERSION/KIND, then its fields: NAME NUMBER TYPE and, as they apply,\n\
         # ! required, * pointer in Go, g=Go type, w wrapped in a message, l=list type[:keys], m=map type, p=patch strategies[:merge key],\n\
         # d=default (JSON), v=minor versions that have it (since-until), !since-until required in these\n",
    );
    let mut missing = Vec::new();
    for name in names {
        let ty = short(name);
        let message = messages.get(&ty);
        let definitions: BTreeMap<u8, &Value> =
            versions.iter().filter_map(|(minor, all)| Some((*minor, all.get(name)?))).collect();
        let (definition, _) = merged(&definitions, &ty)?;
        let atomic = if definition["x-kubernetes-map-type"] == "atomic" { " atomic" } else { "" };
        writeln!(out, "type {ty}{atomic}")?;
        if !ty.starts_with("meta.") {
            for kind in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                let part = |key: &str| kind[key].as_str().unwrap_or_default();
                writeln!(out, "@{}/{}/{}", part("group"), part("version"), part("kind"))?;
            }
        }
        let properties = properties(&definitions);
        for (field, found) in &properties {
            let (property, range) = merged(found, &format!("{ty} {field}"))?;
            let key = (ty.clone(), (*field).to_owned());
            let found = message.and_then(|m| number(m, field, &properties, messages));
            let number = supplement.numbers.get(&key).cloned().or_else(|| found.as_ref().map(|f| f.0.clone()));
            // The type's own apiVersion and kind travel in the envelope.
            let meta = matches!(*field, "apiVersion" | "kind") && properties.contains_key("apiVersion");
            if number.is_none() && !meta {
                missing.push(format!("{ty} {field}"));
            }
            write!(out, " {field} {} {}", number.as_deref().unwrap_or("-"), spelled(property)?)?;
            if let Some(required) = required(&definitions, field)? {
                write!(out, " !{}", if required == range { String::new() } else { required.word() })?;
            }
            if supplement.pointers.contains(&key) {
                out.push_str(" *");
            }
            if let Some(name) = supplement.names.get(&key) {
                write!(out, " g={name}")?;
            }
            if found.is_some_and(|f| f.1) || supplement.wrapped.contains(&key) {
                out.push_str(" w");
            }
            let word = |key: &str| property[key].as_str();
            if let Some(list) = word("x-kubernetes-list-type") {
                let keys: Vec<&str> = property["x-kubernetes-list-map-keys"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect();
                write!(out, " l={list}{}{}", if keys.is_empty() { "" } else { ":" }, keys.join(","))?;
            }
            if let Some(map) = word("x-kubernetes-map-type") {
                write!(out, " m={map}")?;
            }
            if word("x-kubernetes-patch-strategy").is_some() || word("x-kubernetes-patch-merge-key").is_some() {
                write!(out, " p={}", word("x-kubernetes-patch-strategy").unwrap_or_default())?;
                if let Some(merge) = word("x-kubernetes-patch-merge-key") {
                    write!(out, ":{merge}")?;
                }
            }
            if let Some(default) = supplement.defaults.get(&key) {
                write!(out, " d={default}")?;
            }
            if range != existence(&definitions) {
                write!(out, " v={}", range.word())?;
            }
            out.push('\n');
        }
    }
    for field in &missing {
        eprintln!("xtask generate: no protobuf number for {field}: add it to supplement.txt");
    }
    Ok(out)
}

/// The minor versions that have the type: what its fields have where they say nothing.
fn existence(definitions: &BTreeMap<u8, &Value>) -> Range {
    let ends = definitions.first_key_value().zip(definitions.last_key_value());
    ends.map_or(Range::ALL, |((first, _), (last, _))| Range(*first, *last))
}

/// The properties of a type by name, and by minor version.
fn properties<'d>(definitions: &BTreeMap<u8, &'d Value>) -> BTreeMap<&'d str, BTreeMap<u8, &'d Value>> {
    let mut all: BTreeMap<&str, BTreeMap<u8, &Value>> = BTreeMap::new();
    for (minor, definition) in definitions {
        for (name, property) in definition["properties"].as_object().into_iter().flatten() {
            all.entry(name).or_default().insert(*minor, property);
        }
    }
    all
}

/// In which of the versions that have the field it is required; none when in none.
fn required(definitions: &BTreeMap<u8, &Value>, field: &str) -> Result<Option<Range>> {
    let in_definition =
        |d: &Value| d["required"].as_array().is_some_and(|names| names.iter().any(|name| name.as_str() == Some(field)));
    let found: BTreeMap<u8, bool> =
        definitions.iter().filter(|(_, d)| in_definition(d)).map(|(minor, _)| (*minor, true)).collect();
    if found.is_empty() {
        return Ok(None);
    }
    let (_, required) = merged(&found, field)?;
    Ok(Some(required))
}

/// General-availability versions are served by default; alpha and, since 1.24, beta versions are not.
fn wanted(name: &str) -> bool {
    let version = name.rsplit('.').nth(1).unwrap_or_default();
    let served = version.starts_with('v') && !version.contains("alpha") && !version.contains("beta");
    served && version != "version" && !LEAVES.iter().any(|(leaf, _)| *leaf == name)
}

/// The word for a property's type.
fn spelled(property: &Value) -> Result<String> {
    if let Some(reference) = property["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return Ok(match LEAVES.iter().find(|(leaf, _)| *leaf == name) {
            Some((_, word)) => (*word).to_owned(),
            None => short(name),
        });
    }
    let kind = match &property["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|k| *k != "null"),
        kind => kind.as_str(),
    };
    Ok(match (kind, property["format"].as_str()) {
        (Some("string"), Some("byte")) => "bytes".into(),
        (Some("string"), _) => "string".into(),
        (Some("integer"), Some("int32")) => "int32".into(),
        (Some("integer"), _) => "int64".into(),
        (Some("number"), _) => "double".into(),
        (Some("boolean"), _) => "bool".into(),
        (Some("array"), _) => format!("[]{}", spelled(&property["items"])?),
        (Some("object"), _) if !property["additionalProperties"].is_null() => {
            format!("{{}}{}", spelled(&property["additionalProperties"])?)
        }
        (Some("object") | None, _) => "any".into(),
        other => bail!("a property of type {other:?}"),
    })
}

fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// The path of numbers to a field (embedded structs are messages of their own), and whether a message wraps the list in it.
fn number(
    message: &DescriptorProto,
    name: &str,
    properties: &BTreeMap<&str, BTreeMap<u8, &Value>>,
    messages: &Messages,
) -> Option<(String, bool)> {
    let wanted = plain(name);
    if let Some(field) = message.field.iter().find(|f| plain(f.name()) == wanted) {
        // map<string, M> where M is a list of strings
        let entry = message.nested_type.iter().find(|n| field.type_name().ends_with(&format!(".{}", n.name())));
        let value = entry.and_then(|e| e.field.iter().find(|f| f.number() == 2)).unwrap_or(field);
        let wraps = value.r#type() == Type::Message
            && messages.get(&short(value.type_name())).is_some_and(
                |m| matches!(m.field.as_slice(), [only] if only.name() == "items" && only.r#type() == Type::String),
            );
        return Some((field.number().to_string(), wraps));
    }
    message.field.iter().find_map(|field| {
        let known = properties.keys().any(|p| plain(p) == plain(field.name()));
        if known || field.r#type() != Type::Message {
            return None;
        }
        let (path, wraps) = number(messages.get(&short(field.type_name()))?, name, properties, messages)?;
        Some((format!("{}.{path}", field.number()), wraps))
    })
}
