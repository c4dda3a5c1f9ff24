//! The OpenAPI document of everything that the router serves.
//!
//! * [`describe`]: what a handler takes and gives, read from the types in its signature.
//! * [`handler`]: a handler with that description, for the table of endpoints.
//! * [`answers`]: answers whose type says their status.
//! * [`document`]: the whole document.
//!
//! Nothing is written by hand twice: a body, query or answer is documented because the handler has its type.

pub(super) mod answers;
pub(super) mod describe;
mod document;
pub(super) mod handler;

use std::sync::OnceLock;

use axum::{
    body::Bytes,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};

use self::describe::{Gives, Operation};
pub use self::document::document;
use crate::Portal;

/// It is the same for everybody and as long as the process lives.
static DOCUMENT: OnceLock<Bytes> = OnceLock::new();

/// The document, as it is sent.
pub(super) struct Document(Response);

impl IntoResponse for Document {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Gives for Document {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives::<serde_json::Map<String, serde_json::Value>>(StatusCode::OK, "This document.");
    }
}

pub(super) async fn serve(State(portal): State<Portal>) -> Document {
    let make = || Bytes::from(document(&portal.inner().config.version).to_string());
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "public, max-age=300")];
    Document((headers, DOCUMENT.get_or_init(make).clone()).into_response())
}
