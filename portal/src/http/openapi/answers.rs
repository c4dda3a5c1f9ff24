//! Answers whose type says their status.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;

use super::describe::{Gives, Operation};

/// 201: it was made; with its address when it has one.
pub(crate) struct Created<T> {
    location: Option<String>,
    value: T,
}

impl<T> Created<T> {
    /// Made, and found there.
    pub(crate) fn at(location: String, value: T) -> Self {
        Self { location: Some(location), value }
    }

    /// Made; it has no address of its own.
    pub(crate) fn new(value: T) -> Self {
        Self { location: None, value }
    }
}

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        match self.location {
            Some(location) => (StatusCode::CREATED, [(header::LOCATION, location)], Json(self.value)).into_response(),
            None => (StatusCode::CREATED, Json(self.value)).into_response(),
        }
    }
}

impl<T: JsonSchema> Gives for Created<T> {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives::<T>(StatusCode::CREATED, "Made.");
        operation.with_header(StatusCode::CREATED, "Location", "Its address, when it has one.");
        operation.fails(StatusCode::CONFLICT);
    }
}

/// 201: it was made. 200: it would be.
pub(crate) enum Made<T> {
    /// It was.
    Made(Created<T>),
    /// It would be: everything was checked, nothing changed.
    WouldBe(T),
}

impl<T: Serialize> IntoResponse for Made<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Made(created) => created.into_response(),
            Self::WouldBe(value) => Json(value).into_response(),
        }
    }
}

impl<T: JsonSchema> Gives for Made<T> {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives::<T>(StatusCode::OK, "What would be made: nothing was.");
        Created::<T>::gives(operation);
    }
}

/// 202: a job does it.
pub(crate) struct Accepted<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Accepted<T> {
    fn into_response(self) -> Response {
        (StatusCode::ACCEPTED, Json(self.0)).into_response()
    }
}

impl<T: JsonSchema> Gives for Accepted<T> {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives::<T>(StatusCode::ACCEPTED, "A job does it: the answer says which.");
        operation.fails(StatusCode::CONFLICT);
    }
}

/// 200 when it has ended, 202 when a job is still at it.
pub(crate) struct Waited<T> {
    pub(crate) ended: bool,
    pub(crate) value: T,
}

impl<T: Serialize> IntoResponse for Waited<T> {
    fn into_response(self) -> Response {
        let status = if self.ended { StatusCode::OK } else { StatusCode::ACCEPTED };
        (status, Json(self.value)).into_response()
    }
}

impl<T: JsonSchema> Gives for Waited<T> {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives::<T>(StatusCode::OK, "It has ended.");
        Accepted::<T>::gives(operation);
    }
}

/// Marks an answer with a secret that is shown this once and kept nowhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secret;

/// 201: it was made, and its secret is shown this once.
pub(crate) struct ShownOnce<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for ShownOnce<T> {
    fn into_response(self) -> Response {
        let mut response = Created::new(self.0).into_response();
        response.extensions_mut().insert(Secret);
        response
    }
}

impl<T: JsonSchema> Gives for ShownOnce<T> {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives::<T>(StatusCode::CREATED, "Made. Its secret is shown this once.");
        operation.fails(StatusCode::CONFLICT);
    }
}

/// An answer about something that the query names: 404 when that is not there.
pub(crate) struct OfNamed<T>(pub(crate) T);

impl<T: IntoResponse> IntoResponse for OfNamed<T> {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl<T: Gives> Gives for OfNamed<T> {
    fn gives(operation: &mut Operation<'_>) {
        T::gives(operation);
        operation.fails(StatusCode::NOT_FOUND);
    }
}

/// A file.
pub(crate) struct File(pub(crate) Response);

impl IntoResponse for File {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Gives for File {
    fn gives(operation: &mut Operation<'_>) {
        let types = ["application/octet-stream"];
        operation.gives_text(StatusCode::OK, "The file. One that is cut short has no end mark and is refused.", &types);
    }
}

/// The audit trail as a file.
pub(crate) struct TrailFile(pub(crate) Response);

impl IntoResponse for TrailFile {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Gives for TrailFile {
    fn gives(operation: &mut Operation<'_>) {
        let types = ["application/jsonl", "text/csv; charset=utf-8"];
        operation.gives_text(StatusCode::OK, "The entries, one a line.", &types);
    }
}
