//! What manifests become, and what is refused.

use serde_json::json;

use super::*;
use crate::templates::catalog::read;

fn template(manifest: &str) -> Template {
    let head = "apiVersion: vctl.dev/v1\nkind: Template\nname: t\nversion: 1.0.0\ntitle: T\nparameters:\n  \
                - {name: a, type: string}\n  - {name: nope, type: string}\n";
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

/// Few lines of aliases that expand to billions of values.
fn bomb() -> String {
    let mut text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let before = format!("*a{}, ", i - 1).repeat(10);
        text.push_str(&format!("a{i}: &a{i} [{before}]\n"));
    }
    text
}

#[test]
fn aliases_that_expand_a_little_are_fine() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {app: x}, annotations: *l}\n";
    assert_eq!(
        render(&template(text), "e", &BTreeMap::new()).expect("rendered")[0]["metadata"]["annotations"]["app"],
        "x"
    );
}

fn tried(text: &str, environment: &str, parameters: &BTreeMap<String, Value>) -> Result<Vec<Value>, TemplateError> {
    let head = "apiVersion: vctl.dev/v1\nkind: Template\nname: t\nversion: 1.0.0\ntitle: T\nparameters:\n  \
                - {name: nope, type: string}\n";
    let files = vec![("template.yaml".into(), head.into()), ("manifests/a.yaml".into(), text.into())];
    render(&read("t", files)?, environment, parameters)
}

#[test]
fn errors_name_the_place() {
    let bomb = bomb();
    // Each alias counts for the limit of repetitions once, and stands for a long text.
    let long = "x".repeat(10_000);
    let anchors = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nlong: &a {long}\nall: [{}]\n",
        "*a, ".repeat(2000)
    );
    let many = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n".repeat(2001);
    let cases = [
        ("a: 1\nb: {{ parameters.nope }}\n", ":2:", "parameters: known"),
        ("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "a.yaml", "endless loop"),
        (
            "{% for i in range(90000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}",
            "a.yaml",
            "bytes",
        ),
        ("a: {{ 'x' * 100000000 }}\n", "a.yaml:1:", "not repeated"),
        (anchors.as_str(), "a.yaml", "aliases expand"),
        ("a: [1\nb: 2\n", ":2:", "not YAML once rendered"),
        (bomb.as_str(), "a.yaml", "repetition limit"),
        (many.as_str(), "a.yaml", "more than 2000 documents"),
        ("apiVersion: v1\nkind: Pod\n", "a.yaml", "a Pod has no metadata.name"),
    ];
    for (text, place, why) in cases {
        let error = tried(text, "e", &parameters(json!({"known": 1}))).expect_err(text).to_string();
        assert!(error.contains(place) && error.contains(why), "{error}");
    }
}

#[test]
fn policies_are_objects_beside_the_manifests() {
    let head = "apiVersion: vctl.dev/v1\nkind: Template\nname: t\nversion: 1.0.0\ntitle: T\npolicies:\n  \
                - {namespace: web, quota: {pods: 2}, podSecurity: restricted}\n";
    let manifest = "apiVersion: v1\nkind: Namespace\nmetadata: {name: web, labels: {a: b}}\n";
    let files = vec![("template.yaml".into(), head.into()), ("manifests/a.yaml".into(), manifest.into())];
    let documents = render(&read("t", files).expect("template"), "e", &BTreeMap::new()).expect("rendered");
    let kinds: Vec<_> = documents.iter().map(|d| d["kind"].as_str().unwrap_or_default()).collect();
    assert_eq!(kinds, ["Namespace", "ResourceQuota"], "one namespace says both");
    let labels = &documents[0]["metadata"]["labels"];
    assert_eq!((&labels["a"], &labels["pod-security.kubernetes.io/enforce"]), (&json!("b"), &json!("restricted")));
}

#[test]
fn values_of_charts_are_rendered_apart() {
    let head = "apiVersion: vctl.dev/v1\nkind: Template\nname: t\nversion: 1.0.0\ntitle: T\nparameters:\n  \
                - {name: a, type: string}\ncharts: [{name: c, chart: charts/c, values: values/c.yaml}]\n";
    let chart = "apiVersion: v2\nname: c\nversion: 0.1.0\n";
    let own = "{{ .Values.a | not jinja }}\n";
    let with = |values: &str| {
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let files = vec![
            file("template.yaml", head),
            file("charts/c/Chart.yaml", chart),
            file("charts/c/templates/a.yaml", own),
            file("values/c.yaml", values),
        ];
        let template = read("t", files).expect("template");
        let parameters = parameters(json!({"a": "x: y"}));
        assert_eq!(render(&template, "e", &parameters).expect("rendered"), Vec::<Value>::new(), "it has no manifests");
        let bindings = stand_ins(&template, &BTreeMap::new());
        let kind = EnvironmentKind::Mocked;
        let values = Some("values/c.yaml");
        render_as(&template, &Input { environment: "e", kind, parameters: &parameters, bindings: &bindings, values })
    };
    assert_eq!(with("a: {{ parameters.a }}\n").expect("rendered"), [json!({"a": "x: y"})]);
    for wrong in ["[]\n", "a: {{ parameters.a }}\n---\nb: c\n"] {
        assert!(with(wrong).expect_err(wrong).to_string().contains("one document, a map"));
    }
}
