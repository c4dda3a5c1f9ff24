//! Paths and their operations.

use serde_json::{Map, Value, json};

use super::{Form, path_of, schemas::Schemas};
use crate::catalog::Descriptor;

const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const ENCODINGS: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Where an operation is and what it is about.
struct Operation<'a> {
    row: &'a Descriptor,
    /// Of the kind in `x-kubernetes-group-version-kind`, and of body and answer.
    kind: (&'a str, &'a str, &'a str),
    answer: (&'a str, &'a str, &'a str),
    subresource: &'a str,
}

/// Adds the paths of a resource.
pub(super) fn add(row: &Descriptor, schemas: &mut Schemas, paths: &mut Map<String, Value>) {
    schemas.define(row);
    let root = format!("/{}", path_of(row));
    let all = format!("{root}/{}", row.plural);
    let within = if row.namespaced { format!("{root}/namespaces/{{namespace}}/{}", row.plural) } else { all.clone() };
    let kind = (&*row.group, &*row.version, &*row.kind);
    let list = (&*row.group, &*row.version, &*row.list_kind);
    let has = |verb: &str| row.verbs.iter().any(|v| v == verb);
    let one = Operation { row, kind, answer: kind, subresource: "" };
    let many = Operation { row, kind, answer: list, subresource: "" };

    let mut collection = Map::new();
    if has("list") {
        collection.insert("get".into(), many.list(schemas));
    }
    if has("create") {
        collection.insert("post".into(), one.write("post", schemas));
    }
    if has("deletecollection") {
        collection.insert("delete".into(), one.delete("deletecollection", schemas));
    }
    item(paths, &within, collection, schemas.form());
    if row.namespaced && has("list") {
        let everywhere = Map::from_iter([("get".to_owned(), many.list(schemas))]);
        item(paths, &all, everywhere, schemas.form());
    }

    let mut object = Map::new();
    for (verb, method) in [("get", "get"), ("update", "put"), ("patch", "patch")] {
        if has(verb) {
            object.insert(method.into(), one.write(method, schemas));
        }
    }
    if has("delete") {
        object.insert("delete".into(), one.delete("delete", schemas));
    }
    item(paths, &format!("{within}/{{name}}"), object, schemas.form());

    for sub in &row.subresources {
        let kind = (&*sub.group, &*sub.version, &*sub.kind);
        let operation = Operation { row, kind, answer: kind, subresource: &sub.name };
        let mut methods = Map::new();
        for verb in &sub.verbs {
            let method = match verb.as_str() {
                "create" => "post",
                "update" => "put",
                "get" => "get",
                "patch" => "patch",
                _ => continue,
            };
            methods.insert(method.into(), operation.write(method, schemas));
        }
        item(paths, &format!("{within}/{{name}}/{}", sub.name), methods, schemas.form());
    }
}

fn item(paths: &mut Map<String, Value>, path: &str, mut methods: Map<String, Value>, form: Form) {
    if methods.is_empty() {
        return;
    }
    let parameters: Vec<Value> = [("{name}", "name"), ("{namespace}", "namespace")]
        .into_iter()
        .filter(|(mark, _)| path.contains(mark))
        .map(|(_, name)| parameter(name, "path", "string", form))
        .chain([parameter("pretty", "query", "string", form)])
        .collect();
    methods.insert("parameters".into(), parameters.into());
    paths.insert(path.into(), methods.into());
}

fn parameter(name: &str, place: &str, kind: &str, form: Form) -> Value {
    let mut parameter = json!({ "name": name, "in": place, "uniqueItems": true });
    if form == Form::V3 {
        parameter = json!({ "name": name, "in": place, "schema": { "type": kind, "uniqueItems": true } });
    } else {
        parameter["type"] = kind.into();
    }
    if place == "path" {
        parameter["required"] = true.into();
    }
    parameter
}

impl Operation<'_> {
    fn operation(&self, action: &str, method: &str, queries: &[(&str, &str)], form: Form) -> Map<String, Value> {
        let (group, version, kind) = self.kind;
        let camel = |text: &str| {
            let mut chars = text.chars();
            chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect::<String>()
        };
        let first = self.row.group.split('.').next().unwrap_or_default();
        let group_name = camel(if first.is_empty() { "core" } else { first });
        let scope = if self.row.namespaced { "Namespaced" } else { "" };
        let version_name = camel(&self.row.version);
        let verb = match (action, method) {
            ("post" | "connect", "post") => "create",
            (_, "put") => "replace",
            ("get" | "connect", "get") => "read",
            _ => action,
        };
        let id = format!("{verb}{group_name}{version_name}{scope}{}{}", self.row.kind, camel(self.subresource));
        let parameters: Vec<Value> = queries.iter().map(|(name, kind)| parameter(name, "query", kind, form)).collect();
        let mut operation = Map::new();
        operation.insert("tags".into(), json!([format!("{}_{}", group_name.to_ascii_lowercase(), self.row.version)]));
        operation.insert("operationId".into(), id.into());
        operation.insert("parameters".into(), parameters.into());
        operation.insert("x-kubernetes-action".into(), action.into());
        operation.insert(
            "x-kubernetes-group-version-kind".into(),
            json!({ "group": group, "version": version, "kind": kind }),
        );
        if form == Form::V2 {
            operation.insert("produces".into(), json!(ENCODINGS));
            operation.insert("schemes".into(), json!(["https"]));
        }
        operation
    }

    fn answer(operation: &mut Map<String, Value>, codes: &[&str], schema: &Value, form: Form) {
        let mut responses = Map::new();
        for code in codes {
            let description = match *code {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            let body = if form == Form::V2 {
                json!({ "description": description, "schema": schema })
            } else {
                let content: Map<String, Value> =
                    ENCODINGS.iter().map(|e| ((*e).to_owned(), json!({ "schema": schema }))).collect();
                json!({ "description": description, "content": content })
            };
            responses.insert((*code).into(), body);
        }
        responses.insert("401".into(), json!({ "description": "Unauthorized" }));
        operation.insert("responses".into(), responses.into());
    }

    fn list(&self, schemas: &mut Schemas) -> Value {
        let queries = [
            ("allowWatchBookmarks", "boolean"),
            ("continue", "string"),
            ("fieldSelector", "string"),
            ("labelSelector", "string"),
            ("limit", "integer"),
            ("resourceVersion", "string"),
            ("resourceVersionMatch", "string"),
            ("sendInitialEvents", "boolean"),
            ("timeoutSeconds", "integer"),
            ("watch", "boolean"),
        ];
        let mut operation = self.operation("list", "get", &queries, schemas.form());
        let schema = schemas.of(self.answer);
        Self::answer(&mut operation, &["200"], &schema, schemas.form());
        operation.into()
    }

    /// get, post, put and patch of one object.
    fn write(&self, method: &str, schemas: &mut Schemas) -> Value {
        let form = schemas.form();
        let queries: &[(&str, &str)] = match method {
            "get" => &[],
            "patch" => {
                &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")]
            }
            _ => &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")],
        };
        let streams = matches!(self.subresource, "exec" | "attach" | "portforward" | "proxy");
        let action = if streams { "connect" } else { method };
        let mut operation = self.operation(action, method, queries, form);
        let schema = if streams { json!({ "type": "string" }) } else { schemas.of(self.answer) };
        if method != "get" && !streams {
            let body = if method == "patch" { schemas.named("meta.v1.Patch") } else { schema.clone() };
            let media: &[&str] = match method {
                "patch" if self.row.custom => &PATCHES[..3],
                "patch" => &PATCHES,
                _ => &["*/*"],
            };
            if form == Form::V3 {
                let content: Map<String, Value> =
                    media.iter().map(|m| ((*m).to_owned(), json!({ "schema": body }))).collect();
                operation.insert("requestBody".into(), json!({ "content": content, "required": true }));
            } else {
                operation.insert("consumes".into(), json!(media));
                if let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) {
                    parameters.insert(0, json!({ "name": "body", "in": "body", "required": true, "schema": body }));
                }
            }
        }
        let codes: &[&str] = match method {
            "post" => &["200", "201", "202"],
            "put" | "patch" => &["200", "201"],
            _ => &["200"],
        };
        Self::answer(&mut operation, codes, &schema, form);
        operation.into()
    }

    fn delete(&self, action: &str, schemas: &mut Schemas) -> Value {
        let form = schemas.form();
        let queries = [
            ("dryRun", "string"),
            ("gracePeriodSeconds", "integer"),
            ("orphanDependents", "boolean"),
            ("propagationPolicy", "string"),
        ];
        let mut operation = self.operation(action, "delete", &queries, form);
        let options = schemas.named("meta.v1.DeleteOptions");
        if form == Form::V3 {
            operation.insert("requestBody".into(), json!({ "content": { "*/*": { "schema": options } } }));
        } else if let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) {
            parameters.insert(0, json!({ "name": "body", "in": "body", "schema": options }));
        }
        let status = schemas.named("meta.v1.Status");
        Self::answer(&mut operation, &["200", "202"], &status, form);
        operation.into()
    }
}
