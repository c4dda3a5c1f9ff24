//! Reads JSON bodies and writes JSON answers with entity tags.

use std::{marker::PhantomData, time::Duration};

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request, rejection::BytesRejection},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    BODY_LIMIT,
    openapi::describe::{Gives, Operation, Takes},
};
use crate::error::Error;

/// How long a body may take to arrive.
const TIME_LIMIT: Duration = Duration::from_mins(1);

/// A JSON body; a wrong one says where it is wrong.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let json =
            request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).is_some_and(|v| {
                v.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
            });
        if !json {
            return Err(Error::BadRequest("send the body as application/json".to_owned()));
        }
        let bytes = tokio::time::timeout(TIME_LIMIT, Bytes::from_request(request, state))
            .await
            .map_err(|_| Error::BadRequest(format!("the body did not arrive within {} s", TIME_LIMIT.as_secs())))?
            .map_err(|e| rejected(&e))?;
        serde_json::from_slice(&bytes).map(Self).map_err(|e| Error::BadRequest(format!("the body cannot be read: {e}")))
    }
}

fn rejected(e: &BytesRejection) -> Error {
    if e.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Error::TooLarge { limit: BODY_LIMIT };
    }
    Error::BadRequest(format!("the body did not arrive whole: {}", e.body_text()))
}

/// A JSON answer with an entity tag, or 304.
pub(crate) struct Tagged<T> {
    response: Response,
    value: PhantomData<T>,
}

impl<T> Tagged<T> {
    /// What is sent.
    pub(crate) fn response_mut(&mut self) -> &mut Response {
        &mut self.response
    }
}

impl<T> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        self.response
    }
}

impl<T: JsonSchema> Gives for Tagged<T> {
    fn gives(operation: &mut Operation<'_>) {
        operation.gives::<T>(StatusCode::OK, "Done.");
        operation.with_header(
            StatusCode::OK,
            "ETag",
            "Changes with what is answered; for `If-None-Match` and `If-Match`.",
        );
        operation.gives_nothing(StatusCode::NOT_MODIFIED, "It is what `If-None-Match` says.");
        let text = "The `ETag` of an answer that is there already: 304 when it is still the same.";
        operation.parameter("header", "If-None-Match", text, json!({"type": "string"}));
    }
}

/// A JSON answer with an entity tag: 304 when the caller has it already.
pub(crate) fn tagged<T: Serialize>(value: &T, revision: Option<u64>, request: &HeaderMap) -> Result<Tagged<T>, Error> {
    let body = serde_json::to_vec(value).map_err(|e| Error::Internal(e.to_string()))?;
    let hash = hex::encode(&Sha256::digest(&body)[..8]);
    let tag = revision.map_or_else(|| format!("\"{hash}\""), |revision| format!("\"{revision}-{hash}\""));
    let known = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
    let unchanged = known.flat_map(|v| v.split(',')).any(|t| {
        let t = t.trim();
        t == "*" || t.strip_prefix("W/").unwrap_or(t) == tag
    });
    let mut response = if unchanged {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
    };
    response
        .headers_mut()
        .insert(header::ETAG, HeaderValue::from_str(&tag).map_err(|e| Error::Internal(e.to_string()))?);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(Tagged { response, value: PhantomData })
}

/// The revision that `If-Match` asks for, when it asks for one.
pub(crate) struct IfMatch(pub(crate) Option<u64>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        if_match(&parts.headers).map(Self)
    }
}

impl Takes for IfMatch {
    fn takes(operation: &mut Operation<'_>) {
        let text = "The `ETag` of what it is based on: 412, with what is there now, when that has changed.";
        operation.parameter(
            "header",
            "If-Match",
            text,
            json!({"type": "string", "pattern": "^(\\*|\"[0-9]+(-[0-9A-Za-z]+)?\")$"}),
        );
        operation.fails(StatusCode::BAD_REQUEST);
        operation.fails(StatusCode::PRECONDITION_FAILED);
    }
}

/// A change that was refused because of `If-Match` says what is there now, so that both can be merged.
///
/// # Errors
/// What `changed` says; [`Error::Stale`] instead of [`Error::Changed`].
pub(crate) async fn or_current<T, V: Serialize>(
    changed: Result<T, Error>,
    now: impl Future<Output = Result<V, Error>>,
) -> Result<T, Error> {
    let Err(Error::Changed { current }) = changed else { return changed };
    let now = match now.await {
        Ok(now) => serde_json::to_value(now).map_err(|e| Error::Internal(e.to_string()))?,
        Err(Error::NotFound { .. }) => return Err(Error::Changed { current }),
        Err(e) => return Err(e),
    };
    Err(Error::Stale { current, now: Box::new(now) })
}

/// The revision that `If-Match` asks for.
fn if_match(request: &HeaderMap) -> Result<Option<u64>, Error> {
    let Some(value) = request.get(header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let tag = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default();
    let (revision, hash) = tag.split_once('-').unwrap_or((tag, "0"));
    let known = !hash.is_empty()
        && hash.bytes().all(|b| b.is_ascii_alphanumeric())
        && revision.bytes().all(|b| b.is_ascii_digit());
    let revision = revision.parse().ok().filter(|_| known);
    revision
        .map(Some)
        .ok_or_else(|| Error::BadRequest("If-Match must be `*` or one ETag, as an answer had it".to_owned()))
}
