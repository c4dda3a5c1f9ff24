//! Makes documents of manifests.
//!
//! Manifests are minijinja templates with `environment.name` and `parameters.NAME`. Values are written as JSON, which is YAML,
//! so that no value can break out of its place: `name: {{ parameters.name }}`. To join text, join inside the braces:
//! `{{ "redis-" ~ environment.name }}`. A name that is not there is an error, never empty text.

use std::collections::BTreeMap;

use minijinja::{Environment, UndefinedBehavior, context, value::Serde};
use serde::Deserialize;
use serde_json::Value;

use super::{Template, TemplateError};

/// Instructions one file may execute.
const FUEL: u64 = 1_000_000;
/// Largest rendered file in bytes.
const OUTPUT_LIMIT: usize = 4 * 1024 * 1024;

/// Renders all manifests; the documents are in the order in which they must be applied.
///
/// # Errors
/// [`TemplateError`] with file, line and column.
pub fn render(
    template: &Template,
    environment: &str,
    parameters: &BTreeMap<String, Value>,
) -> Result<Vec<Value>, TemplateError> {
    let engine = engine(template)?;
    let mut documents = Vec::new();
    for (file, _) in template.files.iter() {
        let mut out = Limited(Vec::new());
        let compiled = engine.get_template(file).map_err(|e| failed(template, file, &e))?;
        let known = context! { environment => context! { name => environment }, parameters => Serde(parameters) };
        if let Err(e) = compiled.render_captured_to(known, &mut out) {
            return Err(describe_render_error(template, file, &e, out.0.len(), parameters));
        }
        let text = String::from_utf8_lossy(&out.0);
        for document in serde_yaml::Deserializer::from_str(&text) {
            let value = Value::deserialize(document).map_err(|e| bad_yaml(template, file, &text, &e))?;
            if value.is_null() {
                continue;
            }
            check_document(&value).map_err(|message| file_error(template, file, message))?;
            documents.push(value);
        }
    }
    documents.sort_by_key(|d| rank(d.get("kind").and_then(Value::as_str).unwrap_or_default()));
    Ok(documents)
}

/// Compiles all manifests.
pub(crate) fn check_syntax(template: &Template) -> Result<(), TemplateError> {
    engine(template).map(|_| ())
}

fn engine(template: &Template) -> Result<Environment<'_>, TemplateError> {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_fuel(Some(FUEL));
    engine.set_auto_escape_callback(|_| minijinja::AutoEscape::Json);
    engine.set_debug(true);
    for (file, text) in template.files.iter() {
        engine.add_template(file, text).map_err(|e| failed(template, file, &e))?;
    }
    Ok(engine)
}

struct Limited(Vec<u8>);

impl std::io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT_LIMIT {
            return Err(std::io::Error::other("too much output"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
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
    TemplateError::Syntax {
        template: template.manifest.name.clone(),
        file: file.to_owned(),
        line: place.line(),
        column: place.column(),
        message: format!("not YAML once rendered (lines as rendered; here {line:?}): {e}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::templates::catalog::read;

    fn template(manifest: &str) -> Template {
        let head = "apiVersion: vctl.dev/v1\nkind: Template\nname: t\nversion: 1.0.0\ntitle: T\n";
        read("t", vec![("template.yaml".into(), head.into()), ("manifests/a.yaml".into(), manifest.into())])
            .expect("template")
    }

    fn parameters(value: Value) -> BTreeMap<String, Value> {
        serde_json::from_value(value).expect("parameters")
    }

    #[test]
    fn values_cannot_break_out_of_their_place() {
        let template = template(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ environment.name ~ '-x' }}\ndata:\n  a: {{ parameters.a }}\n",
        );
        let nasty = "x\"\nkind: Secret\n# {{ 1 }} & <b>";
        let documents = render(&template, "env", &parameters(json!({"a": nasty}))).expect("rendered");
        assert_eq!(
            documents,
            [json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "env-x"}, "data": {"a": nasty}})]
        );
    }

    #[test]
    fn documents_are_ordered_by_what_needs_what() {
        let one = |kind: &str| format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n");
        let text = ["Deployment", "Service", "Secret", "Namespace"].map(one).join("---\n");
        let kinds: Vec<_> = render(&template(&text), "e", &BTreeMap::new())
            .expect("rendered")
            .iter()
            .map(|d| d["kind"].as_str().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(kinds, ["Namespace", "Secret", "Service", "Deployment"]);
    }

    #[test]
    fn errors_name_the_place() {
        let cases = [
            ("a: 1\nb: {{ parameters.nope }}\n", ":2:", "parameters: known"),
            (
                "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
                "a.yaml",
                "endless loop",
            ),
            (
                "{% for i in range(90000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}",
                "a.yaml",
                "bytes",
            ),
            ("a: [1\nb: 2\n", ":2:", "not YAML once rendered"),
            ("apiVersion: v1\nkind: Pod\n", "a.yaml", "a Pod has no metadata.name"),
        ];
        for (text, place, why) in cases {
            let error = render(&template(text), "e", &parameters(json!({"known": 1}))).expect_err(text).to_string();
            assert!(error.contains(place) && error.contains(why), "{error}");
        }
    }
}
