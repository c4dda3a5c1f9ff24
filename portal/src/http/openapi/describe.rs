//! What handlers take and give, read from their types.

use std::collections::BTreeMap;

use axum::{
    Extension, Form, Json,
    body::Bytes,
    extract::{Path, Query, Request, State},
    response::{Html, NoContent, Redirect, Response, Sse},
};
use http::{HeaderMap, Method, StatusCode};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use crate::http::{body::JsonBody, requester::Requester};

/// One operation of the document, while it is made.
pub(crate) struct Operation<'g> {
    schemas: &'g mut SchemaGenerator,
    /// It changes nothing.
    pub(crate) reads: bool,
    pub(super) parameters: Vec<Value>,
    pub(super) request_body: Option<Value>,
    /// Answers by status; 0 is whatever status there is.
    pub(super) responses: BTreeMap<u16, Value>,
    /// Statuses of problems that only some operations have.
    pub(super) problems: Vec<StatusCode>,
}

impl<'g> Operation<'g> {
    pub(super) fn new(schemas: &'g mut SchemaGenerator, reads: bool) -> Self {
        let (parameters, problems) = (Vec::new(), Vec::new());
        Self { schemas, reads, parameters, request_body: None, responses: BTreeMap::new(), problems }
    }

    /// A parameter in the query or a header.
    pub(crate) fn parameter(&mut self, place: &str, name: &str, description: &str, schema: Value) {
        self.parameters
            .push(json!({"in": place, "name": name, "description": description, "required": false, "schema": schema}));
    }

    /// Every field of a type, as parameters of the query.
    fn query<T: JsonSchema>(&mut self) {
        let schema = T::json_schema(self.schemas).to_value();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let mut property = property.clone();
            let description = property.as_object_mut().and_then(|p| p.remove("description"));
            let description = description.unwrap_or_else(|| "".into());
            self.parameters.push(json!({
                "in": "query", "name": name, "description": description,
                "required": required.contains(&name.as_str()), "schema": not_null(property),
            }));
        }
    }

    /// A body of this media type.
    fn takes_body<T: JsonSchema>(&mut self, media_type: &str) {
        let schema = self.schemas.subschema_for::<T>().to_value();
        self.request_body = Some(json!({"required": true, "content": {media_type: {"schema": schema}}}));
        self.problems.extend([StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE]);
    }

    /// A body that is a file.
    pub(crate) fn takes_file(&mut self) {
        let content = json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}});
        self.request_body = Some(json!({"required": true, "content": content}));
        self.problems.extend([StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE]);
    }

    /// An answer in JSON.
    pub(crate) fn gives<T: JsonSchema>(&mut self, status: StatusCode, description: &str) {
        let schema = self.schemas.subschema_for::<T>().to_value();
        let answer = json!({"description": description, "content": {"application/json": {"schema": schema}}});
        self.responses.insert(status.as_u16(), answer);
    }

    /// Whether an answer of a status is there already.
    pub(crate) fn has(&self, status: StatusCode) -> bool {
        self.responses.contains_key(&status.as_u16())
    }

    /// A header of an answer that is there already.
    pub(crate) fn with_header(&mut self, status: StatusCode, name: &str, description: &str) {
        if let Some(answer) = self.responses.get_mut(&status.as_u16()) {
            answer["headers"][name] = json!({"description": description, "schema": {"type": "string"}});
        }
    }

    /// An answer of these media types, which no schema describes.
    pub(crate) fn gives_text(&mut self, status: StatusCode, description: &str, media_types: &[&str]) {
        let types = media_types.iter().map(|m| ((*m).to_owned(), json!({"schema": {"type": "string"}})));
        let content: serde_json::Map<String, Value> = types.collect();
        self.responses.insert(status.as_u16(), json!({"description": description, "content": content}));
    }

    /// An answer without a body.
    pub(crate) fn gives_nothing(&mut self, status: StatusCode, description: &str) {
        self.responses.insert(status.as_u16(), json!({"description": description}));
    }

    /// A problem that can come of it.
    pub(crate) fn fails(&mut self, status: StatusCode) {
        self.problems.push(status);
    }
}

/// The query has no null: what is absent is absent.
fn not_null(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return schema };
    if fields.get("default").is_some_and(Value::is_null) {
        fields.remove("default");
    }
    if let Some(Value::Array(types)) = fields.get("type") {
        let mut types: Vec<Value> = types.iter().filter(|t| *t != "null").cloned().collect();
        let kept = if types.len() == 1 { types.remove(0) } else { types.into() };
        fields.insert("type".to_owned(), kept);
    }
    if let Some(Value::Array(any)) = fields.get("anyOf")
        && let [one] = any.iter().filter(|one| one["type"] != "null").collect::<Vec<_>>().as_slice()
    {
        return (*one).clone();
    }
    Value::Object(fields)
}

/// What a parameter of a handler takes from a request.
#[diagnostic::on_unimplemented(
    message = "the OpenAPI document does not know what `{Self}` takes from a request",
    note = "derive `schemars::JsonSchema` for a body or query; an extractor of its own implements `Takes`"
)]
pub(crate) trait Takes {
    /// Adds it to the operation; what takes nothing that a caller sends adds nothing.
    fn takes(_: &mut Operation<'_>) {}
}

impl<S> Takes for State<S> {}
impl<T> Takes for Extension<T> {}
impl Takes for HeaderMap {}
impl Takes for Method {}
impl Takes for Request {}
impl Takes for Requester {}
/// Names and places of these are in the path itself.
impl<T> Takes for Path<T> {}

impl Takes for Bytes {
    fn takes(operation: &mut Operation<'_>) {
        operation.takes_file();
    }
}

impl<T: JsonSchema> Takes for JsonBody<T> {
    fn takes(operation: &mut Operation<'_>) {
        operation.takes_body::<T>("application/json");
        operation.fails(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        operation.fails(StatusCode::UNPROCESSABLE_ENTITY);
    }
}

impl<T: JsonSchema> Takes for Form<T> {
    fn takes(operation: &mut Operation<'_>) {
        operation.takes_body::<T>("application/x-www-form-urlencoded");
    }
}

impl<T: JsonSchema> Takes for Query<T> {
    fn takes(operation: &mut Operation<'_>) {
        operation.query::<T>();
        operation.fails(StatusCode::BAD_REQUEST);
        operation.fails(StatusCode::UNPROCESSABLE_ENTITY);
    }
}

impl<T: Takes, E> Takes for Result<T, E> {
    fn takes(operation: &mut Operation<'_>) {
        T::takes(operation);
    }
}

/// What a handler answers when all is well.
#[diagnostic::on_unimplemented(
    message = "the OpenAPI document does not know what `{Self}` answers",
    note = "answer with `Json`, `Created`, `Accepted`, `Tagged` or `Paged` of a type that derives `schemars::JsonSchema`"
)]
pub(crate) trait Gives {
    /// Adds it to the operation.
    fn gives(operation: &mut Operation<'_>);
}

impl<T: JsonSchema> Gives for Json<T> {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives::<T>(StatusCode::OK, "Done.");
    }
}

impl<T: Gives, E> Gives for Result<T, E> {
    fn gives(operation: &mut Operation<'_>) {
        T::gives(operation);
    }
}

impl Gives for NoContent {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives_nothing(StatusCode::NO_CONTENT, "Done.");
    }
}

impl Gives for StatusCode {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives_nothing(Self::OK, "Done.");
    }
}

impl<T> Gives for Html<T> {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives_text(StatusCode::OK, "A page.", &["text/html"]);
    }
}

impl Gives for Redirect {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives_nothing(StatusCode::SEE_OTHER, "Goes on elsewhere.");
    }
}

impl<S> Gives for Sse<S> {
    fn gives(operation: &mut Operation<'_>) {
        let text = "Events, until the client goes or the server stops.";
        operation.gives_text(StatusCode::OK, text, &["text/event-stream"]);
        operation.fails(StatusCode::TOO_MANY_REQUESTS);
    }
}

/// Whatever it is: of what is not the portal's own.
impl Gives for Response {
    fn gives(operation: &mut Operation<'_>) {
        operation.responses.insert(0, json!({"description": "Whatever it answers."}));
    }
}

/// A handler whose parameters and answer are described. `A` are its parameters.
pub(crate) trait Describe<A> {
    /// Adds all of them to the operation.
    fn describe(operation: &mut Operation<'_>);
}

macro_rules! describe {
    ($($parameter:ident),*) => {
        impl<F, Fut, R, $($parameter),*> Describe<($($parameter,)*)> for F
        where
            F: Fn($($parameter),*) -> Fut,
            Fut: Future<Output = R>,
            R: Gives,
            $($parameter: Takes),*
        {
            fn describe(operation: &mut Operation<'_>) {
                R::gives(operation);
                $($parameter::takes(operation);)*
            }
        }
    };
}
describe!();
describe!(A);
describe!(A, B);
describe!(A, B, C);
describe!(A, B, C, D);
describe!(A, B, C, D, E);
describe!(A, B, C, D, E, G);
describe!(A, B, C, D, E, G, H);
describe!(A, B, C, D, E, G, H, I);
