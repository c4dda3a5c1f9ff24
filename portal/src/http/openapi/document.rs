//! The document: every endpoint of the table, with what its handler takes and gives, who may call it, and what can go wrong.

use std::collections::BTreeSet;

use http::StatusCode;
use schemars::{JsonSchema as _, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use vctl_api::rest::{Change, Problem};

use super::describe::Operation;
use crate::http::{Access, At, Endpoint, endpoints, guard::CSRF_HEADER, problem};

/// The OpenAPI 3.1 document of a server of this version.
pub fn document(version: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.definitions_path = "/components/schemas".into();
        s.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    // Not in the signature of any handler: errors, and what events carry.
    let _ = (schemas.subschema_for::<Problem>(), schemas.subschema_for::<Change>());
    let mut paths = Map::new();
    for endpoint in endpoints() {
        let operation = operation(&endpoint, &mut schemas);
        let path = path(endpoint.path);
        let method = endpoint.method.to_lowercase();
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[method] = operation;
    }
    let problem = json!({
        "description": "What happened and what to do next (RFC 9457).",
        "content": {problem::MEDIA_TYPE: {"schema": {"$ref": format!("#/components/schemas/{}", Problem::schema_name())}}},
    });
    let mut document = json!({
        "openapi": "3.1.1",
        "info": {
            "title": "vctl",
            "version": version,
            "summary": "Self-service virtual Kubernetes clusters.",
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The server that this document comes from."}],
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "responses": {"Problem": problem},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An access token of `vctl login`, an API key, or the token in admin.token in the server's data dir."},
                "session": {"type": "apiKey", "in": "cookie", "name": crate::http::guard::COOKIE, "description": "A browser session."},
                "csrf": {"type": "apiKey", "in": "header", "name": CSRF_HEADER, "description": "Comes with every change that a browser session makes; `GET /api/v1/session` tells it."},
            },
        },
    });
    bound(&mut document);
    document
}

/// Says how large the numbers of a format can be, which JSON Schema cannot know.
fn bound(value: &mut Value) {
    if let Value::Object(fields) = value {
        let largest = match fields.get("format").and_then(Value::as_str) {
            Some("uint8") => Some(u64::from(u8::MAX)),
            Some("uint16") => Some(u64::from(u16::MAX)),
            Some("uint32") => Some(u64::from(u32::MAX)),
            Some("uint" | "uint64") => Some(u64::MAX),
            Some("int64") => Some(i64::MAX.unsigned_abs()),
            _ => None,
        };
        if let Some(largest) = largest {
            fields.entry("maximum").or_insert_with(|| largest.into());
        }
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(bound),
        Value::Array(items) => items.iter_mut().for_each(bound),
        _ => {}
    }
}

const DESCRIPTION: &str = "Errors are `application/problem+json`. Every answer has an `X-Request-Id`. Lists are pages: `limit`, `cursor` \
    and `sort`; `next` and the `Link` header say where the next one is. What can be edited has an `ETag`; a change with `If-Match` is \
    refused with 412, and what is there now, when somebody else was faster; with `If-None-Match: *` it only makes what is not there yet. \
    What is answered can be sent back whole: fields that only the server tells are taken as they were told, and refused with 422 otherwise. A `POST` with an `Idempotency-Key` is done once. \
    `x-permission` is what the caller needs, `x-permission-at` where.";

/// A path as OpenAPI writes it.
fn path(path: &str) -> String {
    path.replace("{*", "{")
}

fn operation(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let mut operation = Operation::new(schemas, endpoint.method == "GET");
    (endpoint.describe)(&mut operation);
    let names = parameters(endpoint.path);
    let api = endpoint.path.starts_with("/api/v1/");
    if api && endpoint.method == "POST" && endpoint.is_idempotent() {
        let text = "The same key with the same request gives the same answer for 24 hours; with another request 422.";
        let schema = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[\\x21-\\x7e]+$"});
        operation.parameter("header", "Idempotency-Key", text, schema);
        let problems = [StatusCode::BAD_REQUEST, StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY];
        operation.problems.extend(problems);
    }
    let Operation { parameters, request_body, responses, problems, .. } = operation;
    let parameters: Vec<Value> =
        names.iter().map(|name| parameter(name, tag(endpoint.path))).chain(parameters).collect();
    let mut problems: BTreeSet<u16> = problems.iter().map(StatusCode::as_u16).collect();
    if api {
        problems.extend(usual(endpoint, !names.is_empty()));
    }
    let mut answers = Map::new();
    for (status, answer) in responses {
        answers.insert(if status == 0 { "default".to_owned() } else { status.to_string() }, answer);
    }
    for status in problems {
        let name = status.to_string();
        answers.entry(name).or_insert_with(|| json!({"$ref": "#/components/responses/Problem"}));
    }
    let mut value = json!({
        "operationId": id(endpoint),
        "tags": [tag(endpoint.path)],
        "summary": summary(endpoint),
        "parameters": parameters,
        "responses": answers,
        "security": security(endpoint),
    });
    if let Some(body) = request_body {
        value["requestBody"] = body;
    }
    if let Access::Needs(permission, at) = endpoint.access {
        value["x-permission"] = permission.as_str().into();
        value["x-permission-at"] = format!("{at:?}").to_lowercase().into();
    }
    value
}

/// What can go wrong with nearly everything.
fn usual(endpoint: &Endpoint, named: bool) -> Vec<u16> {
    let mut statuses = vec![503];
    if endpoint.access != Access::Public {
        statuses.extend([401, 403]);
    }
    if named || matches!(endpoint.access, Access::Needs(_, At::Body)) {
        statuses.extend([400, 404]);
    }
    if endpoint.method != "GET" {
        // 404 also where the body names something.
        statuses.extend([404, 409, 422]);
    }
    if matches!(endpoint.access, Access::Needs(_, At::Environment)) {
        // It is not in a state for that.
        statuses.push(409);
    }
    statuses
}

fn security(endpoint: &Endpoint) -> Value {
    match endpoint.access {
        Access::Public => json!([]),
        Access::Page => json!([{"session": []}]),
        _ if endpoint.method == "GET" => json!([{"bearer": []}, {"session": []}]),
        _ => json!([{"bearer": []}, {"session": [], "csrf": []}]),
    }
}

/// Names of the parameters of a path, in its order.
fn parameters(path: &str) -> Vec<&str> {
    let inside = path.split('{').skip(1).filter_map(|part| part.split('}').next());
    inside.collect()
}

fn parameter(name: &str, tag: &str) -> Value {
    let (text, name) = match name.strip_prefix('*') {
        Some(name) => ("The rest of the path, with its slashes.", name),
        None if name == "id" => ("Its id.", name),
        None if name == "version" => ("Its version (semver).", name),
        None if name == "user" => ("Id of the user.", name),
        None => ("Its name.", name),
    };
    let mut schema = json!({"type": "string", "minLength": 1});
    if matches!(name, "name" | "rule") && tag != "templates" {
        schema["pattern"] = vctl_api::names::PATTERN.into();
    }
    let mut parameter = json!({"in": "path", "name": name, "required": true, "description": text, "schema": schema});
    let example = match (tag, name) {
        ("environments", "name") => Some("my-env"),
        ("projects", "name") => Some("default"),
        ("templates", "name") => Some("blank"),
        ("templates", "version") => Some("1.0.0"),
        ("roles", "name") => Some("viewer"),
        ("teams", "name") => Some("shop"),
        ("resources", "name") => Some("orders"),
        ("users", "id") | ("environments", "user") => Some("corp:alice"),
        _ => None,
    };
    if let Some(example) = example {
        parameter["example"] = example.into();
    }
    parameter
}

/// Stable and unique: the method and the path.
fn id(endpoint: &Endpoint) -> String {
    let mut id = endpoint.method.to_lowercase();
    let path = endpoint.path.strip_prefix("/api/v1").unwrap_or_else(|| {
        id.push_str("Page");
        endpoint.path
    });
    for word in path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let (first, rest) = word.split_at(1);
        id.push_str(&first.to_uppercase());
        id.push_str(rest);
    }
    id
}

/// What it belongs to: the first part of its path.
fn tag(path: &str) -> &str {
    let first = path.strip_prefix("/api/v1/").unwrap_or(path.trim_start_matches('/')).split('/').next();
    first.filter(|first| !first.is_empty()).unwrap_or("console")
}

/// One line: what it needs says what it does, and its path with what.
fn summary(endpoint: &Endpoint) -> String {
    let path = endpoint.path.strip_prefix("/api/v1/").unwrap_or(endpoint.path);
    match endpoint.access {
        Access::Needs(permission, _) => format!("{path}: {}", permission.help()),
        Access::SignedIn => format!("{path}: about whoever asks."),
        Access::Public => format!("{path}: for everybody."),
        Access::Page => format!("{path}: a page."),
    }
}
