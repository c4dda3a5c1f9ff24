//! Everything that is wrong with a template, all at once, with the places.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use semver::Version;
use serde_json::Value;
use vctl_api::rest::{EnvironmentKind, Parameter, ParameterType};
use vctl_machinery::schema::{Budget, read_bounded};

use super::{
    Manifest, Template, TemplateError, charts, parameters,
    render::{self, Input},
    renderer::Renderer,
    source::{self, Files},
};
use crate::bindings::secret_name;

/// Longest regular expression of a parameter in bytes.
const PATTERN_LIMIT: usize = 1000;
/// Most values in `template.yaml`, aliases counted as what they stand for.
const VALUES_LIMIT: usize = 100_000;

/// What an inspection has found.
#[derive(Debug, Clone)]
pub struct Inspected {
    /// The template, when `template.yaml` can be read; it can be used when there are no errors.
    pub template: Option<Template>,
    /// What keeps it from being used.
    pub errors: Vec<TemplateError>,
    /// What is probably not meant.
    pub warnings: Vec<TemplateError>,
}

/// Looks for problems in the text of `template.yaml`.
struct Places<'a> {
    template: &'a str,
    text: &'a str,
}

impl Places<'_> {
    /// A problem at the first line that contains all of `words`, after the line that contains `after`; of the whole file when there
    /// is none.
    fn at(&self, after: &str, words: &[&str], message: impl Into<String>) -> TemplateError {
        let (template, file, message) = (self.template.to_owned(), "template.yaml".to_owned(), message.into());
        let begin = self.text.lines().position(|line| line.contains(after)).unwrap_or(0);
        let mut lines = self.text.lines().enumerate().skip(begin);
        match lines.find(|(_, line)| words.iter().all(|w| has_word(line, w))) {
            Some((number, line)) => {
                let column = line.chars().take_while(|c| c.is_whitespace()).count() + 1;
                TemplateError::Syntax { template, file, line: number + 1, column, message }
            }
            None => TemplateError::File { template, file, message },
        }
    }
}

/// Whether a line contains a word that is not part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    line.match_indices(word)
        .any(|(at, _)| !part(line[..at].chars().next_back()) && !part(line[at + word.len()..].chars().next()))
}

/// Inspects the files of a template that is to have this name.
pub fn inspect(name: &str, mut files: Files) -> Inspected {
    let failed =
        |message: String| TemplateError::File { template: name.to_owned(), file: "template.yaml".to_owned(), message };
    let nothing = |error| Inspected { template: None, errors: vec![error], warnings: Vec::new() };
    files.sort();
    let digest = source::digest(&files);
    let Some(at) = files.iter().position(|(file, _)| file == "template.yaml") else {
        return nothing(failed("is missing".to_owned()));
    };
    let (_, text) = files.remove(at);
    // Anchors that stand for gigabytes, before anything is built of them.
    let budget = Budget::new(VALUES_LIMIT, text.len().saturating_mul(2));
    if read_bounded(serde_yaml::Deserializer::from_str(&text), &budget).is_err() && budget.is_spent() {
        return nothing(failed("its aliases expand to too much: write fewer".to_owned()));
    }
    let manifest: Manifest = match serde_yaml::from_str(&text) {
        Ok(manifest) => manifest,
        Err(e) => {
            let error = match e.location() {
                Some(place) => TemplateError::Syntax {
                    template: name.to_owned(),
                    file: "template.yaml".to_owned(),
                    line: place.line(),
                    column: place.column(),
                    message: e.to_string(),
                },
                None => failed(e.to_string()),
            };
            return nothing(error);
        }
    };
    let mut errors = Vec::new();
    let places = Places { template: name, text: &text };
    if manifest.api_version != "vctl.dev/v1" || manifest.kind != "Template" {
        errors.push(places.at("", &["apiVersion"], "must say apiVersion: vctl.dev/v1 and kind: Template"));
    }
    if manifest.name != name {
        let message = format!("says name: {} but its directory is {name:?}: make them equal", manifest.name);
        errors.push(places.at("", &["name"], message));
    }
    if Version::parse(&manifest.version).is_err() {
        let message = format!("{:?} is no semantic version: use one like 1.0.0", manifest.version);
        errors.push(places.at("", &["version"], message));
    }
    let mut names = BTreeSet::new();
    for parameter in &manifest.parameters {
        for wrong in declaration(parameter) {
            let message = format!("parameter {:?}: {wrong}", parameter.name);
            errors.push(places.at("parameters", &["name", &parameter.name], message));
        }
        if !names.insert(parameter.name.as_str()) {
            let message = format!("parameter {:?} is declared twice", parameter.name);
            errors.push(places.at("parameters", &["name", &parameter.name], message));
        }
    }
    let mut bindings = BTreeSet::new();
    for binding in &manifest.bindings {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let named = binding.name.starts_with(|c: char| c.is_ascii_alphabetic()) && binding.name.chars().all(word);
        if !named || !bindings.insert(binding.name.as_str()) {
            let message = format!("binding {:?}: a name is letters, digits and '_', and is there once", binding.name);
            errors.push(places.at("bindings", &["name", &binding.name], message));
        }
    }
    // Facts of both are `bindings.NAME`, and passwords of both are in Secrets whose names are made of theirs.
    let references = manifest.parameters.iter().filter(|p| p.kind == ParameterType::Resource);
    let references = references.map(|p| ("parameters", p.name.as_str()));
    let mut secrets = BTreeMap::new();
    for (list, name) in manifest.bindings.iter().map(|b| ("bindings", b.name.as_str())).chain(references) {
        if let Some(other) =
            secrets.insert(secret_name(name), name).filter(|other| list == "parameters" || *other != name)
        {
            let message = format!(
                "{name:?} is too much like {other:?}: bindings and parameters of type resource share their names"
            );
            errors.push(places.at(list, &["name", name], message));
        }
    }
    for (chart, wrong) in charts::check(&manifest.charts, &files) {
        errors.push(places.at("charts", &["name", &chart], format!("chart {chart:?}: {wrong}")));
    }
    for policy in &manifest.policies {
        for wrong in policy.check() {
            errors.push(places.at("", &["policies"], format!("policies: {wrong}")));
        }
    }
    for wrong in manifest.sleep.as_ref().and_then(|s| crate::sleep::check(s).err()).unwrap_or_default() {
        let field = wrong.split(':').next().unwrap_or_default().to_owned();
        errors.push(places.at("sleep", &[&field], format!("sleep: {wrong}")));
    }
    let template = Template { manifest, files: Arc::from(files), text: Arc::from(text.as_str()), digest };
    let mut warnings = Vec::new();
    let used = render::syntax(&template, &mut errors);
    for parameter in template.manifest.parameters.iter().filter(|p| !used.contains(&p.name)) {
        let message = format!("parameter {:?} is not used by any manifest or values", parameter.name);
        warnings.push(places.at("parameters", &["name", &parameter.name], message));
    }
    Inspected { template: Some(template), errors, warnings }
}

/// Inspects the files, and renders them with the parameters' defaults, or values that their declarations allow.
pub async fn lint(name: &str, files: Files, renderer: &Renderer) -> Inspected {
    let mut found = inspect(name, files);
    if let Some(template) = found.template.as_ref().filter(|_| found.errors.is_empty()) {
        let sample = |p: &Parameter| (p.name.clone(), p.default.clone().unwrap_or_else(|| sample(p)));
        let values: BTreeMap<String, Value> = template.manifest.parameters.iter().map(sample).collect();
        let mut all = vec![values.clone()];
        let is_optional = |p: &&Parameter| p.kind == ParameterType::Resource && !p.required && p.default.is_none();
        let optional = template.manifest.parameters.iter().filter(is_optional).map(|p| (p.name.clone(), Value::Null));
        let optional: Vec<_> = optional.collect();
        if !optional.is_empty() {
            // Without them, too: `bindings` has nothing of a resource that is not given.
            all.push(values.into_iter().chain(optional).collect());
        }
        let kinds = [EnvironmentKind::Mocked, EnvironmentKind::Real];
        for (values, kind) in all.iter().flat_map(|values| kinds.map(|kind| (values, kind))) {
            let bindings = render::stand_ins(template, values);
            let manifests =
                Input { environment: "example", kind, parameters: values, bindings: &bindings, values: None };
            let charts = template.charts(kind).filter_map(|chart| chart.values.as_deref());
            let inputs = charts.map(|file| Input { values: Some(file), ..manifests });
            for input in std::iter::once(manifests).chain(inputs) {
                for error in renderer.render(template, &input).await.err().unwrap_or_default() {
                    if !found.errors.contains(&error) {
                        found.errors.push(error);
                    }
                }
            }
        }
    }
    found
}

/// A value that stands for one that must be given.
fn sample(parameter: &Parameter) -> Value {
    match parameter.kind {
        ParameterType::Number => parameter.minimum.or(parameter.maximum).unwrap_or(1.0).into(),
        ParameterType::Boolean => true.into(),
        ParameterType::Choice => parameter.choices.first().cloned().unwrap_or_default().into(),
        _ => "example".into(),
    }
}

/// What is wrong with the declaration of a parameter.
fn declaration(parameter: &Parameter) -> Vec<String> {
    let mut wrong = Vec::new();
    let word = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !word(&parameter.name) {
        wrong.push("a name is letters, digits and '_', starting with a letter".to_owned());
    }
    if (parameter.kind == ParameterType::Choice) == parameter.choices.is_empty() {
        wrong.push("type choice, and only it, has choices".to_owned());
    }
    let number = parameter.kind == ParameterType::Number;
    if !number && (parameter.minimum.is_some() || parameter.maximum.is_some()) {
        wrong.push("only a number has a minimum or maximum".to_owned());
    }
    if !number && (parameter.integer || parameter.step.is_some()) {
        wrong.push("only a number is an integer or has a step".to_owned());
    }
    if parameter.step.is_some_and(|step| !step.is_finite() || step <= 0.0) {
        wrong.push("a step is greater than 0".to_owned());
    }
    if let (Some(least), Some(most)) = (parameter.minimum, parameter.maximum)
        && least > most
    {
        wrong.push(format!("its minimum {least} is greater than its maximum {most}"));
    }
    if parameter.resource_kind.is_some() && parameter.kind != ParameterType::Resource {
        wrong.push("only a resource has a resourceKind".to_owned());
    }
    if let Some(pattern) = &parameter.pattern {
        if !matches!(parameter.kind, ParameterType::String | ParameterType::Text | ParameterType::Password) {
            wrong.push("only a text has a pattern".to_owned());
        }
        if pattern.len() > PATTERN_LIMIT {
            wrong.push(format!("its pattern has {} bytes; at most {PATTERN_LIMIT} are allowed", pattern.len()));
        } else if let Err(e) = parameters::pattern(pattern) {
            wrong.push(e);
        }
    }
    if wrong.is_empty()
        && let Some(default) = &parameter.default
        && let Err(e) = parameters::check(parameter, default)
    {
        wrong.push(format!("default: {e}"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    const HEAD: &str = "apiVersion: vctl.dev/v1\nkind: Template\nname: t\nversion: 1.0.0\ntitle: T\n";

    #[tokio::test]
    async fn all_problems_are_told_at_once_with_their_lines() {
        let text = "apiVersion: vctl.dev/v1\nkind: Template\nname: other\nversion: '1'\ntitle: T\nparameters:\n  \
                    - {name: size, type: choice}\n  - name: count\n    type: number\n    minimum: 5\n    maximum: 1\n  \
                    - {name: 'a-b', type: string, pattern: '['}\nsleep:\n  schedule: 61 * * * *\n";
        let files = vec![
            file("template.yaml", text),
            file("manifests/a.yaml", "a: {{ parameters.nope }}\n"),
            file("manifests/b.yaml", "a: {{ oh ?? }}\n"),
        ];
        let found: Vec<String> =
            lint("t", files, &Renderer::new(None)).await.errors.iter().map(ToString::to_string).collect();
        let all = found.join("\n");
        for expected in [
            "template.yaml:3:1: says name: other",
            "template.yaml:4:1: \"1\" is no semantic version",
            "template.yaml:7:3: parameter \"size\": type choice",
            "template.yaml:8:3: parameter \"count\": its minimum 5",
            "template.yaml:12:3: parameter \"a-b\": a name is",
            "template.yaml:12:3: parameter \"a-b\": pattern:",
            "template.yaml:14:3: sleep: schedule: end of range (61)",
            "manifests/a.yaml:1:",
            "manifests/b.yaml:1:",
        ] {
            assert!(all.contains(expected), "{expected}\n---\n{all}");
        }
        assert_eq!(found.len(), 9, "{all}");
    }

    #[tokio::test]
    async fn rendering_is_tried_with_defaults_and_samples() {
        let text = format!(
            "{HEAD}parameters:\n  - {{name: n, type: number, required: true, minimum: 2}}\n  - {{name: unused, type: string}}\n"
        );
        let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {n: '{{ parameters.n }}'}\n";
        let found =
            lint("t", vec![file("template.yaml", &text), file("manifests/a.yaml", good)], &Renderer::new(None)).await;
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        assert_eq!(found.warnings.len(), 1);
        assert!(
            found.warnings[0].to_string().contains("template.yaml:8:3: parameter \"unused\""),
            "{:?}",
            found.warnings
        );
        let bad =
            [file("template.yaml", &text), file("manifests/a.yaml", "kind: Pod\n"), file("manifests/b.yaml", "a: [\n")];
        let found = lint("t", bad.to_vec(), &Renderer::new(None)).await;
        assert_eq!(found.errors.len(), 2, "each file is told: {:?}", found.errors);
    }

    #[test]
    fn expressions_are_bounded() {
        let text =
            |pattern: &str| format!("{HEAD}parameters:\n  - name: a\n    type: string\n    pattern: '{pattern}'\n");
        for (pattern, why) in [("(a{1000}){1000}", "size limit"), (&*"a".repeat(1001), "at most 1000")] {
            let found = inspect("t", vec![file("template.yaml", &text(pattern))]);
            assert!(found.errors[0].to_string().contains(why), "{:?}", found.errors);
        }
    }

    #[tokio::test]
    async fn resources_that_are_not_given_are_rendered_too() {
        let lint_with = async |parameters: &str, manifest: &str| {
            let text = format!(
                "{HEAD}parameters:\n  - {parameters}\nbindings:\n  - {{name: db_1, kind: redis, mocked: {{host: h, port: 1, secret: s}}}}\n"
            );
            let files = vec![file("template.yaml", &text), file("manifests/a.yaml", manifest)];
            let found = lint("t", files, &Renderer::new(None)).await;
            found.errors.iter().chain(&found.warnings).map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let object = |text: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n{text}");
        let plain = object("data: {h: '{{ bindings.api.host }}'}\n");
        let guarded = object("{% if parameters.api %}data: {h: '{{ bindings.api.host }}'}{% endif %}\n");
        let of = "{name: api, type: resource, resourceKind: http";
        assert_eq!(lint_with(&format!("{of}, required: true}}"), &plain).await, "");
        assert_eq!(lint_with(&format!("{of}}}"), &guarded).await, "");
        for (parameters, expected) in [
            (format!("{of}}}"), "manifests/a.yaml:4:"),
            ("{name: api, type: string, resourceKind: http}".to_owned(), "only a resource has a resourceKind"),
            (format!("{of}, pattern: x}}"), "only a text has a pattern"),
            (format!("{of}, default: ''}}"), "default: it names no resource"),
            ("{name: Db_1, type: resource}".to_owned(), "\"Db_1\" is too much like \"db_1\""),
        ] {
            let said = lint_with(&parameters, &plain).await;
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}
