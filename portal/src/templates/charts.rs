//! Helm charts of a template, and its policies: what `template.yaml` says of them.

use std::{fs, io, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vctl_api::rest::EnvironmentKind;

use super::Template;

/// Longest name of a release, as Helm has it.
const RELEASE_LIMIT: usize = 53;
/// The namespace that is meant when none is said.
const DEFAULT_NAMESPACE: &str = "default";

fn default_namespace() -> String {
    DEFAULT_NAMESPACE.to_owned()
}

/// A Helm chart that a template installs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Chart {
    /// Name of the release.
    pub name: String,
    /// Where it is in the template: a directory (`charts/redis`) or an archive (`charts/redis-1.0.0.tgz`).
    pub chart: String,
    /// Namespace of the release; made when it is not there.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// File with its values (`values/redis.yaml`), in the template language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<String>,
    /// Only in environments of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<EnvironmentKind>,
}

/// What holds in a namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// The namespace; made when it is not there.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// `hard` of a ResourceQuota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Value>,
    /// `limits` of a LimitRange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Value>,
    /// What PodSecurity admission enforces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_security: Option<PodSecurity>,
    /// From where its pods are reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Ingress>,
}

/// A level of the Pod Security Standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PodSecurity {
    /// Everything.
    Privileged,
    /// Nothing that is known to break out.
    Baseline,
    /// Hardened pods only.
    Restricted,
}

/// From where pods are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ingress {
    /// From nowhere.
    Deny,
    /// From pods of the same namespace.
    SameNamespace,
}

/// Name of the objects that a policy makes.
const POLICY: &str = "template-policy";

impl Policy {
    /// The objects that say so. The namespace comes first; `default` and its like are there anyway, and are only labelled.
    pub(crate) fn documents(&self) -> Vec<Value> {
        let metadata = json!({ "name": POLICY, "namespace": self.namespace });
        let mut labels = serde_json::Map::new();
        if let Some(level) = self.pod_security {
            labels.insert("pod-security.kubernetes.io/enforce".to_owned(), json!(level));
            labels.insert("pod-security.kubernetes.io/warn".to_owned(), json!(level));
        }
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.namespace, "labels": labels },
        });
        let mut documents = vec![namespace];
        if let Some(hard) = &self.quota {
            let spec = json!({ "hard": hard });
            documents.push(json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec }));
        }
        if let Some(limits) = &self.limits {
            let spec = json!({ "limits": limits });
            documents.push(json!({ "apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec }));
        }
        if let Some(ingress) = self.ingress {
            let from = match ingress {
                Ingress::Deny => json!([]),
                Ingress::SameNamespace => json!([{ "from": [{ "podSelector": {} }] }]),
            };
            let spec = json!({ "podSelector": {}, "policyTypes": ["Ingress"], "ingress": from });
            documents.push(json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec,
            }));
        }
        documents
    }

    /// What is wrong with it.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if !is_label(&self.namespace, 63) {
            wrong.push(format!("namespace {:?} is no DNS label", self.namespace));
        }
        if self.quota.as_ref().is_some_and(|hard| !hard.is_object()) {
            wrong.push("quota is a map, such as {pods: 10, requests.cpu: 2}".to_owned());
        }
        if self.limits.as_ref().is_some_and(|limits| !limits.is_array()) {
            wrong.push("limits is a list, such as [{type: Container, default: {memory: 128Mi}}]".to_owned());
        }
        wrong
    }
}

fn is_label(text: &str, limit: usize) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.len() <= limit
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// What is wrong with the charts of a template, each with the name of its chart.
pub(crate) fn check(charts: &[Chart], files: &[(String, String)]) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let is_file = |name: &str| files.iter().any(|(file, _)| file == name);
    for (at, chart) in charts.iter().enumerate() {
        let mut say = |message: String| wrong.push((chart.name.clone(), message));
        if !is_label(&chart.name, RELEASE_LIMIT) {
            say(format!("its name is one of a release: at most {RELEASE_LIMIT} lower-case letters, digits and '-'"));
        }
        if !is_label(&chart.namespace, 63) {
            say(format!("namespace {:?} is no DNS label", chart.namespace));
        }
        // One without a kind is there for all of them.
        let together = |a: &Chart, b: &Chart| a.kind.is_none() || b.kind.is_none() || a.kind == b.kind;
        let same = |other: &Chart| other.name == chart.name && other.namespace == chart.namespace;
        if charts.iter().take(at).any(|other| same(other) && together(other, chart)) {
            say("it is there twice".to_owned());
        }
        let archive = chart.chart.ends_with(".tgz") && is_file(&chart.chart);
        if !chart.chart.starts_with("charts/") || !archive && !is_file(&format!("{}/Chart.yaml", chart.chart)) {
            say(format!(
                "{:?} is neither a directory with a Chart.yaml under charts/ nor a .tgz there: charts come with the template",
                chart.chart
            ));
        }
        if let Some(values) = chart.values.as_ref().filter(|file| !file.starts_with("values/") || !is_file(file)) {
            say(format!("there is no file {values:?} under values/"));
        }
    }
    for (file, text) in files.iter().filter(|(file, _)| file.ends_with("/values.schema.json")) {
        // Helm would ask somebody else for it. Nobody looks into archives: they are rendered without a network or not at all.
        match serde_json::from_str(text) {
            Ok(schema) if refers_elsewhere(&schema) => {
                wrong.push((
                    String::new(),
                    format!("{file} refers to a schema that is elsewhere: put it into the file"),
                ));
            }
            Ok(_) => {}
            Err(e) => wrong.push((String::new(), format!("{file} is no JSON: {e}"))),
        }
    }
    wrong
}

/// The languages of schemas that Helm knows without asking.
const DRAFTS: [&str; 6] = [
    "json-schema.org/schema",
    "json-schema.org/draft-04/schema",
    "json-schema.org/draft-06/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft/2020-12/schema",
];

fn refers_elsewhere(schema: &Value) -> bool {
    let leads_away = |name: &str, to: &str| match name {
        "$ref" | "$dynamicRef" | "$recursiveRef" => !to.starts_with('#'),
        "$schema" => {
            let plain = to.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('#');
            !DRAFTS.contains(&plain)
        }
        _ => false,
    };
    match schema {
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| value.as_str().is_some_and(|to| leads_away(name, to)) || refers_elsewhere(value)),
        Value::Array(items) => items.iter().any(refers_elsewhere),
        _ => false,
    }
}

impl Template {
    /// The charts of an environment of a kind.
    pub(crate) fn charts(&self, kind: EnvironmentKind) -> impl Iterator<Item = &Chart> {
        self.manifest.charts.iter().filter(move |chart| chart.kind.is_none_or(|only| only == kind))
    }

    /// Everything of a chart: what changes when it does.
    pub(crate) fn chart_files(&self, chart: &Chart) -> impl Iterator<Item = &(String, String)> {
        let directory = format!("{}/", chart.chart);
        self.files.iter().filter(move |(file, _)| *file == chart.chart || file.starts_with(&directory))
    }

    /// Writes a chart under a directory, where it lies as in the template. Names have been checked when the template was read.
    pub(crate) fn write_chart(&self, chart: &Chart, directory: &Path) -> io::Result<()> {
        for (file, text) in self.chart_files(chart) {
            let path = directory.join(file);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            if is_archive(file) {
                fs::write(path, STANDARD.decode(text).map_err(io::Error::other)?)?;
            } else {
                fs::write(path, text)?;
            }
        }
        Ok(())
    }
}

/// Whether a file of a template is an archive, whose bytes are kept in base64.
pub(crate) fn is_archive(file: &str) -> bool {
    file.strip_prefix("charts/").is_some_and(|name| name.ends_with(".tgz") && !name.contains('/'))
}

/// Whether this is a place for a file of a chart: no way out of the directory.
pub(crate) fn is_chart_file(file: &str) -> bool {
    let Some(inside) = file.strip_prefix("charts/") else { return false };
    let part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']) && part.len() <= 255;
    inside.split('/').all(part) && inside.split('/').count() <= 12 && (is_archive(file) || inside.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_charts_stay_inside() {
        for good in
            ["charts/a/Chart.yaml", "charts/a/templates/_helpers.tpl", "charts/a/.helmignore", "charts/a-1.0.0.tgz"]
        {
            assert!(is_chart_file(good), "{good}");
        }
        for bad in [
            "charts/../a/b",
            "charts/a/../../b",
            "charts/a//b",
            "charts/a",
            "/charts/a/b",
            "charts/a\\..\\b/c",
            "charts/./a",
        ] {
            assert!(!is_chart_file(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_wrong_with_charts_is_told() {
        let chart = |name: &str, chart: &str, values: Option<&str>| Chart {
            name: name.to_owned(),
            chart: chart.to_owned(),
            namespace: default_namespace(),
            values: values.map(str::to_owned),
            kind: None,
        };
        let files = [
            ("charts/a/Chart.yaml".to_owned(), String::new()),
            ("charts/a/values.schema.json".to_owned(), json!({"a": [{"$ref": "https://elsewhere"}]}).to_string()),
            ("values/a.yaml".to_owned(), String::new()),
        ];
        assert_eq!(check(&[chart("a", "charts/a", Some("values/a.yaml"))], &files[..1]).len(), 1, "values are missing");
        assert!(
            check(&[chart("a", "charts/a", Some("values/a.yaml"))], &[files[0].clone(), files[2].clone()]).is_empty()
        );
        let all = check(&[chart("A", "charts/b", None), chart("a", "a", None), chart("a", "charts/a", None)], &files);
        let all: Vec<String> = all.into_iter().map(|(name, message)| format!("{name}: {message}")).collect();
        for expected in [
            "A: its name",
            "A: \"charts/b\"",
            "a: \"a\" is neither",
            "a: it is there twice",
            ": charts/a/values.schema.json",
        ] {
            assert!(all.iter().any(|m| m.starts_with(expected)), "{expected}: {all:?}");
        }
    }

    #[test]
    fn schemas_of_charts_lead_nowhere() {
        let wrong = |schema: &str| {
            let file = ("charts/a/charts/b/values.schema.json".to_owned(), schema.to_owned());
            check(&[], &[file]).into_iter().map(|(_, message)| message).collect::<Vec<_>>()
        };
        for good in [
            r##"{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$ref": "#/$defs/a"}}}"##,
            r#"{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}"#,
            // A property of that name is not a reference.
            r#"{"properties": {"$ref": {"type": "string"}}}"#,
        ] {
            assert_eq!(wrong(good), [""; 0], "{good}");
        }
        for bad in [
            r#"{"$ref": "http://127.0.0.1/a"}"#,
            r#"{"allOf": [{"$dynamicRef": "http://127.0.0.1/a"}]}"#,
            r#"{"$recursiveRef": "b.json"}"#,
            r#"{"$schema": "http://127.0.0.1/meta"}"#,
            r#"{"$defs": {"a": {"$schema": "http://json-schema.org.example.com/draft-07/schema#"}}}"#,
        ] {
            assert!(wrong(bad)[0].contains("refers to a schema that is elsewhere"), "{bad}");
        }
        // Helm reads what begins with a byte order mark.
        assert!(wrong("\u{feff}{\"$ref\": \"http://127.0.0.1/a\"}")[0].contains("is no JSON"));
    }

    #[test]
    fn a_policy_is_objects_of_its_namespace() {
        let policy: Policy = serde_json::from_value(json!({
            "namespace": "web", "quota": {"pods": 3}, "limits": [{"type": "Container"}], "podSecurity": "baseline", "ingress": "deny",
        }))
        .expect("policy");
        assert!(policy.check().is_empty());
        let kinds: Vec<_> =
            policy.documents().iter().map(|d| d["kind"].as_str().unwrap_or_default().to_owned()).collect();
        assert_eq!(kinds, ["Namespace", "ResourceQuota", "LimitRange", "NetworkPolicy"]);
        let wrong = Policy { quota: Some(json!([])), limits: Some(json!({})), namespace: "A".to_owned(), ..policy };
        assert_eq!(wrong.check().len(), 3);
    }
}
