//! The JSON schema of `template.yaml`, for editors.

use serde_json::{Value, json};
use vctl_api::rest::ResourceKind;

/// The schema (JSON Schema 2020-12). `docs/template.schema.json` is this.
pub fn schema() -> Value {
    let period = json!({ "type": "string", "pattern": "^([0-9]+[smhd])+$", "examples": ["30m", "8h", "7d"] });
    let cron = json!({ "type": "string", "description": "A cron expression, such as 0 20 * * mon-fri" });
    let parameter = json!({
        "type": "object", "required": ["name", "type"], "additionalProperties": false,
        "properties": {
            "name": { "type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_]*$", "description": "As in --set NAME=VALUE and {{ parameters.NAME }}" },
            "type": { "enum": ["string", "text", "number", "boolean", "password", "choice", "resource"],
                "description": "text has several lines; password is never shown again, and made up when it is not given; resource names a registered resource, whose connection facts are bindings.NAME" },
            "help": { "type": "string", "description": "One line for people" },
            "section": { "type": "string", "description": "Heading under which forms show it" },
            "required": { "type": "boolean" },
            "default": true,
            "choices": { "type": "array", "items": { "type": "string" } },
            "minimum": { "type": "number" }, "maximum": { "type": "number" },
            "integer": { "type": "boolean", "description": "Only whole numbers" },
            "step": { "type": "number", "exclusiveMinimum": 0, "description": "Only the minimum (or 0) and whole steps from there" },
            "pattern": { "type": "string", "maxLength": 1000, "description": "Regular expression that the whole text must match" },
            "resourceKind": { "enum": ResourceKind::ALL.map(ResourceKind::as_str), "description": "Only resources of this kind" },
        },
    });
    let binding = json!({
        "type": "object", "required": ["name", "kind", "mocked"], "additionalProperties": false,
        "properties": {
            "name": { "type": "string", "description": "As in --bind NAME=RESOURCE and {{ bindings.NAME.host }}" },
            "kind": { "enum": ResourceKind::ALL.map(ResourceKind::as_str) },
            "help": { "type": "string" },
            "mocked": {
                "type": "object", "required": ["host", "port", "secret"], "additionalProperties": false,
                "description": "Where the stand-in is, that manifests under mocked/ run",
                "properties": {
                    "host": { "type": "string" }, "port": { "type": "integer" }, "user": { "type": "string" },
                    "database": { "type": "string" },
                    "secret": { "type": "string", "description": "Secret whose key password has its password" },
                },
            },
        },
    });
    let chart = json!({
        "type": "object", "required": ["name", "chart"], "additionalProperties": false,
        "properties": {
            "name": { "type": "string", "maxLength": 53, "description": "Name of the release" },
            "chart": { "type": "string", "pattern": "^charts/", "description": "A directory with Chart.yaml, or a .tgz" },
            "namespace": { "type": "string", "default": "default" },
            "values": { "type": "string", "pattern": "^values/", "description": "File with values, in the template language" },
            "kind": { "enum": ["mocked", "real"], "description": "Only in environments of this kind" },
        },
    });
    let policy = json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "namespace": { "type": "string", "default": "default" },
            "quota": { "type": "object", "description": "hard of a ResourceQuota, such as pods: 10" },
            "limits": { "type": "array", "items": { "type": "object" }, "description": "limits of a LimitRange" },
            "podSecurity": { "enum": ["privileged", "baseline", "restricted"] },
            "ingress": { "enum": ["deny", "same-namespace"], "description": "From where pods are reached" },
        },
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "vctl template", "type": "object",
        "required": ["apiVersion", "kind", "name", "version", "title"], "additionalProperties": false,
        "properties": {
            "apiVersion": { "const": "vctl.dev/v1" },
            "kind": { "const": "Template" },
            "name": { "type": "string", "description": "Same as the directory's" },
            "version": { "type": "string", "description": "Semantic version, such as 1.0.0" },
            "title": { "type": "string", "description": "One line for lists" },
            "description": { "type": "string" },
            "parameters": { "type": "array", "items": parameter },
            "bindings": { "type": "array", "items": binding },
            "charts": { "type": "array", "items": chart, "description": "Helm charts that are installed" },
            "policies": { "type": "array", "items": policy, "description": "What holds in namespaces" },
            "kubernetesVersion": { "type": "string", "pattern": "^1\\.[0-9]+$" },
            "auditPolicy": { "type": ["object", "null"], "description": "Policy of audit.k8s.io/v1: what is recorded of requests" },
            "authentication": { "type": ["object", "null"], "description": "AuthenticationConfiguration of apiserver.config.k8s.io/v1" },
            "readyTimeoutSeconds": { "type": "integer", "minimum": 0 },
            "sleep": {
                "type": "object", "additionalProperties": false,
                "properties": {
                    "afterInactivity": period, "schedule": cron, "wakeSchedule": cron,
                    "timeZone": { "type": "string", "description": "IANA name, such as Europe/Berlin; UTC unless it is said" },
                },
            },
            "expiry": {
                "type": "object", "required": ["after"], "additionalProperties": false,
                "properties": { "after": period, "warnBefore": period, "maximum": period },
            },
        },
    })
}

/// The schema as the file holds it.
pub fn text() -> String {
    let mut text = serde_json::to_string_pretty(&schema()).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/template.schema.json");
        let file = std::fs::read_to_string(path).unwrap_or_default();
        let file: Value = serde_json::from_str(&file).unwrap_or_default();
        assert_eq!(file, schema(), "run `vctl template schema > docs/template.schema.json`");
    }

    /// Fields that are in a type of a template, by asking it for one that it cannot know.
    fn fields(text: &str) -> Vec<String> {
        let error = serde_yaml::from_str::<crate::templates::Manifest>(text).expect_err("unknown field").to_string();
        error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn it_has_all_fields() {
        let head = "apiVersion: v\nkind: k\nname: n\nversion: v\ntitle: t\n";
        let cases = [
            ("", "/properties"),
            ("parameters: [{name: n, type: string, '?': 1}]\n", "/properties/parameters/items/properties"),
            ("bindings: [{name: n, kind: redis, '?': 1}]\n", "/properties/bindings/items/properties"),
            ("charts: [{name: n, chart: c, '?': 1}]\n", "/properties/charts/items/properties"),
            ("policies: [{'?': 1}]\n", "/properties/policies/items/properties"),
            ("sleep: {'?': 1}\n", "/properties/sleep/properties"),
            ("expiry: {after: 1h, '?': 1}\n", "/properties/expiry/properties"),
        ];
        for (more, place) in cases {
            let text = if more.is_empty() { format!("{head}'?': 1\n") } else { format!("{head}{more}") };
            let mut known: Vec<String> = fields(&text);
            let schema = schema();
            let mut told: Vec<String> =
                schema.pointer(place).and_then(Value::as_object).expect(place).keys().cloned().collect();
            known.sort();
            told.sort();
            assert_eq!(known, told, "{place}");
        }
    }
}
