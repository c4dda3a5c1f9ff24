//! Makes documents of manifests.
//!
//! Manifests are minijinja templates with `environment.name` and `parameters.NAME`. Values are written as JSON, which is YAML,
//! so that no value can break out of its place: `name: {{ parameters.name }}`. To join text, join inside the braces:
//! `{{ "redis-" ~ environment.name }}`. A name that is not there is an error, never empty text.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::{Environment, UndefinedBehavior, context, value::Serde};
use serde_json::Value;
use vctl_api::rest::{Bindings, EnvironmentKind, Parameter, ParameterType};
use vctl_machinery::schema::{Budget, read_bounded};

use super::{Template, TemplateError, charts::Policy, scan, source};
use crate::bindings::references::{made_up, references};

/// Instructions one file may execute.
const FUEL: u64 = 1_000_000;
/// Most bytes that a template renders to.
const OUTPUT_LIMIT: usize = 4 * 1024 * 1024;
/// Most values (scalars, lists and maps) of a template, aliases counted as what they stand for.
const VALUES_LIMIT: usize = 500_000;
/// Most characters of a rendered line that an error shows.
const SHOWN: usize = 120;
/// Most documents of a template.
const DOCUMENTS_LIMIT: usize = 2000;

/// What manifests are rendered with.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Name of the environment.
    pub environment: &'a str,
    /// What its dependencies are; decides which directories are rendered.
    pub kind: EnvironmentKind,
    /// Parameters by name.
    pub parameters: &'a BTreeMap<String, Value>,
    /// Bindings by name.
    pub bindings: &'a Bindings,
    /// Not the manifests, but this file with values of a chart: one document, a map.
    pub values: Option<&'a str>,
}

/// Renders all manifests of a mocked environment; the documents are in the order in which they must be applied.
///
/// # Errors
/// [`TemplateError`] with file, line and column.
pub fn render(
    template: &Template,
    environment: &str,
    parameters: &BTreeMap<String, Value>,
) -> Result<Vec<Value>, TemplateError> {
    let bindings = stand_ins(template, parameters);
    render_as(
        template,
        &Input { environment, kind: EnvironmentKind::Mocked, parameters, bindings: &bindings, values: None },
    )
}

/// The bindings of a mocked environment; those of resources that parameters name are made up.
pub fn stand_ins(template: &Template, parameters: &BTreeMap<String, Value>) -> Bindings {
    let bindings = template.manifest.bindings.iter().map(|b| (b.name.clone(), crate::bindings::stand_in(b)));
    let named = references(&template.manifest.parameters, parameters);
    bindings.chain(named.map(|(p, resource)| (p.name.clone(), made_up(p, resource)))).collect()
}

/// The same of an environment of any kind.
///
/// # Errors
/// [`TemplateError`] with file, line and column.
pub fn render_as(template: &Template, input: &Input<'_>) -> Result<Vec<Value>, TemplateError> {
    render_all(template, input).map_err(|mut errors| errors.swap_remove(0))
}

/// The same, with what is wrong with each file.
///
/// # Errors
/// At least one, each of another file.
pub fn render_all(template: &Template, input: &Input<'_>) -> Result<Vec<Value>, Vec<TemplateError>> {
    let engine = engine(template);
    let mut output = 0;
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    let (kind, other) = match input.kind {
        EnvironmentKind::Mocked => ("mocked", "real/"),
        EnvironmentKind::Real => ("real", "mocked/"),
    };
    let wanted = |file: &str| match input.values {
        Some(values) => file == values,
        None => source::is_manifest(file) && !file.starts_with(other),
    };
    for (file, _) in template.files.iter().filter(|(file, _)| wanted(file)) {
        let known = context! {
            environment => context! { name => input.environment, kind => kind },
            parameters => Serde(input.parameters),
            bindings => Serde(input.bindings),
        };
        let rendered = render_file(template, &engine, file, known, input, &mut output, documents.len());
        match rendered {
            Ok(more) => documents.extend(more),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if input.values.is_none() {
        add_policies(template, &mut documents);
    }
    documents.sort_by_key(|d| rank(d.get("kind").and_then(Value::as_str).unwrap_or_default()));
    Ok(documents)
}

/// Adds the objects of the template's policies. What a manifest says of the same namespace stays: one object says both.
fn add_policies(template: &Template, documents: &mut Vec<Value>) {
    for document in template.manifest.policies.iter().flat_map(Policy::documents) {
        let name = document.pointer("/metadata/name");
        let same = |d: &&mut Value| {
            d["kind"] == "Namespace" && document["kind"] == "Namespace" && d.pointer("/metadata/name") == name
        };
        let labels = document.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
        match documents.iter_mut().find(same) {
            Some(known) => {
                let metadata = known.get_mut("metadata").and_then(Value::as_object_mut);
                let own = metadata.map(|m| m.entry("labels").or_insert_with(|| Value::Object(serde_json::Map::new())));
                if let Some(Value::Object(own)) = own {
                    own.extend(labels);
                }
            }
            None => documents.push(document),
        }
    }
}

/// Renders one file; `output` counts the bytes of all files, `before` are the documents of those before it.
fn render_file(
    template: &Template,
    engine: &Environment<'_>,
    file: &str,
    known: minijinja::Value,
    input: &Input<'_>,
    output: &mut usize,
    before: usize,
) -> Result<Vec<Value>, TemplateError> {
    let mut out = Limited { bytes: Vec::new(), limit: OUTPUT_LIMIT.saturating_sub(*output) };
    let compiled = engine.get_template(file).map_err(|e| failed(template, file, &e))?;
    if let Err(e) = compiled.render_captured_to(known, &mut out) {
        return Err(describe_render_error(template, file, &e, out.bytes.len(), input.parameters));
    }
    *output += out.bytes.len();
    let text = String::from_utf8_lossy(&out.bytes);
    let mut documents = Vec::new();
    // What is beyond the budget is never built: a few lines of aliases could stand for gigabytes.
    let budget = Budget::new(VALUES_LIMIT, OUTPUT_LIMIT);
    for document in serde_yaml::Deserializer::from_str(&text) {
        let value = read_bounded(document, &budget).map_err(|e| {
            if budget.is_spent() {
                let message = format!("its aliases expand to more than {OUTPUT_LIMIT} bytes or {VALUES_LIMIT} values");
                return file_error(template, file, message);
            }
            bad_yaml(template, file, &text, &e)
        })?;
        if value.is_null() {
            continue;
        }
        let checked =
            if input.values.is_some() { check_values(&value, documents.len()) } else { check_document(&value) };
        checked.map_err(|message| file_error(template, file, message))?;
        documents.push(value);
        if before + documents.len() > DOCUMENTS_LIMIT {
            let message = format!("the template has more than {DOCUMENTS_LIMIT} documents");
            return Err(file_error(template, file, message));
        }
    }
    Ok(documents)
}

/// About as many bytes as a value takes as JSON.
pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + 4 + size(value)).sum::<usize>() + 2,
        _ => 4,
    }
}

/// Compiles all manifests and looks at what they use: adds what is wrong, returns the parameters that are used.
pub(crate) fn syntax(template: &Template, errors: &mut Vec<TemplateError>) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let declared = |name: &str| template.manifest.parameters.iter().any(|p| p.name == name);
    for (file, text) in template.files.iter().filter(|(file, _)| source::is_rendered(file)) {
        if let Some(offset) = scan::scan(text).repeats {
            let message =
                "text that is written in a template is not repeated: write it as long as it is to be".to_owned();
            let line = text[..offset].matches('\n').count() + 1;
            let (template, file, column) = (template.manifest.name.clone(), file.clone(), column_of(text, offset));
            errors.push(TemplateError::Syntax { template, file, line, column, message });
            continue;
        }
        let mut engine = base();
        if let Err(e) = engine.add_template(file, text) {
            errors.push(failed(template, file, &e));
            continue;
        }
        let Ok(compiled) = engine.get_template(file) else { continue };
        let mut names: Vec<String> = compiled.undeclared_variables(true).into_iter().collect();
        names.sort();
        for name in names {
            match name.split_once('.') {
                Some(("parameters", parameter)) if declared(parameter) => {
                    used.insert(parameter.to_owned());
                }
                Some(("parameters", parameter)) => {
                    let message = format!("there is no parameter {parameter:?}: declare it in template.yaml");
                    errors.push(at(template, file, text, &name, message));
                }
                Some(("bindings", rest)) => {
                    let binding = rest.split('.').next().unwrap_or_default();
                    let of_parameter = |p: &&Parameter| p.kind == ParameterType::Resource && p.name == binding;
                    if let Some(parameter) = template.manifest.parameters.iter().find(of_parameter) {
                        used.insert(parameter.name.clone());
                    } else if !template.manifest.bindings.iter().any(|b| b.name == binding) {
                        let message = format!("there is no binding {binding:?}: declare it in template.yaml");
                        errors.push(at(template, file, text, &format!("bindings.{binding}"), message));
                    }
                }
                // All of them, for a loop over the names.
                None if name == "parameters" => {
                    used.extend(template.manifest.parameters.iter().map(|p| p.name.clone()))
                }
                _ => {}
            }
        }
    }
    used
}

/// A problem at the first line with this text.
fn at(template: &Template, file: &str, source: &str, what: &str, message: String) -> TemplateError {
    let Some((number, line)) = source.lines().enumerate().find(|(_, line)| line.contains(what)) else {
        return file_error(template, file, message);
    };
    let column = line.find(what).map_or(1, |at| line[..at].chars().count() + 1);
    TemplateError::Syntax {
        template: template.manifest.name.clone(),
        file: file.to_owned(),
        line: number + 1,
        column,
        message,
    }
}

fn base<'a>() -> Environment<'a> {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_fuel(Some(FUEL));
    engine.set_auto_escape_callback(|_| minijinja::AutoEscape::Json);
    engine.set_debug(true);
    engine
}

/// All manifests, compiled; those that are broken were told by [`syntax`].
fn engine(template: &Template) -> Environment<'_> {
    let mut engine = base();
    for (file, text) in template.files.iter().filter(|(file, _)| source::is_rendered(file)) {
        if let Err(error) = engine.add_template(file, text) {
            tracing::debug!(file, %error, "a manifest does not compile");
        }
    }
    engine
}

/// Output of bounded size.
struct Limited {
    bytes: Vec<u8>,
    limit: usize,
}

impl std::io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(std::io::Error::other("too much output"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Values of a chart are one map.
fn check_values(value: &Value, before: usize) -> Result<(), String> {
    if value.is_object() && before == 0 { Ok(()) } else { Err("values of a chart are one document, a map".to_owned()) }
}

/// An object of Kubernetes has these; everything else about it the API server checks.
fn check_document(value: &Value) -> Result<(), String> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).filter(|t| !t.is_empty());
    let kind = text("/kind").ok_or("a document has no kind")?;
    text("/apiVersion").ok_or_else(|| format!("a {kind} has no apiVersion"))?;
    text("/metadata/name").ok_or_else(|| format!("a {kind} has no metadata.name"))?;
    Ok(())
}

/// What others need comes first; within a rank the order of the files stays.
fn rank(kind: &str) -> u8 {
    match kind {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "PriorityClass" | "StorageClass" | "ResourceQuota" | "LimitRange" => 2,
        "ServiceAccount" | "Secret" | "ConfigMap" => 3,
        "ClusterRole" | "Role" => 4,
        "ClusterRoleBinding" | "RoleBinding" => 5,
        "PersistentVolume" => 6,
        "PersistentVolumeClaim" | "Service" | "NetworkPolicy" => 7,
        _ => 8,
    }
}

fn file_error(template: &Template, file: &str, message: String) -> TemplateError {
    TemplateError::File { template: template.manifest.name.clone(), file: file.to_owned(), message }
}

fn failed(template: &Template, file: &str, e: &minijinja::Error) -> TemplateError {
    let file = e.name().unwrap_or(file);
    let message = e.detail().map_or_else(|| e.kind().to_string(), |detail| format!("{}: {detail}", e.kind()));
    let Some(line) = e.line() else { return file_error(template, file, message) };
    let source = template.files.iter().find(|(name, _)| name == file).map_or("", |(_, text)| text.as_str());
    let column = e.range().map_or(1, |range| column_of(source, range.start));
    TemplateError::Syntax { template: template.manifest.name.clone(), file: file.to_owned(), line, column, message }
}

/// Column of a byte offset, in characters from 1.
fn column_of(source: &str, offset: usize) -> usize {
    let before = source.get(..offset).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.chars().count() + 1
}

fn describe_render_error(
    template: &Template,
    file: &str,
    e: &minijinja::Error,
    written: usize,
    parameters: &BTreeMap<String, Value>,
) -> TemplateError {
    let mut error = failed(template, file, e);
    let extra = match e.kind() {
        minijinja::ErrorKind::OutOfFuel => format!(" (more than {FUEL} steps; is there an endless loop?)"),
        minijinja::ErrorKind::WriteFailure if written > 0 => format!(" (more than {OUTPUT_LIMIT} bytes)"),
        minijinja::ErrorKind::UndefinedError => {
            format!(" (parameters: {})", parameters.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
        }
        _ => String::new(),
    };
    let (TemplateError::Syntax { message, .. } | TemplateError::File { message, .. }) = &mut error;
    message.push_str(&extra);
    error
}

fn bad_yaml(template: &Template, file: &str, text: &str, e: &serde_yaml::Error) -> TemplateError {
    let Some(place) = e.location() else { return file_error(template, file, e.to_string()) };
    let line = text.lines().nth(place.line().saturating_sub(1)).unwrap_or_default().trim();
    let line: String = line.chars().take(SHOWN).collect();
    TemplateError::Syntax {
        template: template.manifest.name.clone(),
        file: file.to_owned(),
        line: place.line(),
        column: place.column(),
        message: format!("not YAML once rendered (lines as rendered; here {line:?}): {e}"),
    }
}

#[cfg(test)]
mod tests;
