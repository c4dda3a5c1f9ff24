//! Reads JSON bodies and writes JSON answers with entity tags.

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{FromRequest, Request, rejection::BytesRejection},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use super::BODY_LIMIT;
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

/// A JSON answer with an entity tag: 304 when the caller has it already.
pub(crate) fn tagged<T: Serialize>(value: &T, revision: Option<u64>, request: &HeaderMap) -> Result<Response, Error> {
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
    Ok(response)
}

/// The revision that `If-Match` asks for.
pub(crate) fn if_match(request: &HeaderMap) -> Result<Option<u64>, Error> {
    let Some(value) = request.get(header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let revision = text.trim_matches('"').split('-').next().and_then(|r| r.parse().ok());
    revision.map(Some).ok_or_else(|| Error::BadRequest("If-Match must be the ETag of the environment".to_owned()))
}
