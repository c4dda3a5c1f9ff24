//! Reads JSON bodies and writes JSON answers with entity tags.

mod fields;
pub(super) mod told;

use std::{marker::PhantomData, time::Duration};

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request, rejection::BytesRejection},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use schemars::JsonSchema;
use serde::{
    Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    BODY_LIMIT,
    openapi::describe::{Gives, Operation, Takes},
};
use crate::{
    documents::{ANY, NEVER},
    error::Error,
};

/// How long a body may take to arrive.
pub(super) const TIME_LIMIT: Duration = Duration::from_mins(1);

/// A JSON body; a wrong one says where it is wrong.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Serialize + JsonSchema> FromRequest<S> for JsonBody<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let json =
            request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).is_some_and(|v| {
                v.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
            });
        if !json {
            return Err(Error::UnsupportedMediaType("send the body as application/json"));
        }
        let encoding = request.headers().get(header::CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(Error::UnsupportedMediaType("send the body as it is, without a Content-Encoding"));
        }
        let reading = told::Reading::of(&request);
        let bytes = tokio::time::timeout(TIME_LIMIT, Bytes::from_request(request, state))
            .await
            .map_err(|_| Error::BadRequest(format!("the body did not arrive within {} s", TIME_LIMIT.as_secs())))?
            .map_err(|e| rejected(&e))?;
        match without_told::<T>(&bytes, reading).await? {
            Some(rest) => read(&rest).map(Self),
            None => read(&bytes).map(Self),
        }
    }
}

/// The body without what only the server tells, when it has some of that.
async fn without_told<T: JsonSchema>(bytes: &[u8], reading: Option<told::Reading>) -> Result<Option<Vec<u8>>, Error> {
    let (Some(reading), Ok(Value::Object(mut sent))) = (reading, serde_json::from_slice(bytes)) else {
        return Ok(None);
    };
    let unknown = fields::unknown_of::<T>(&sent);
    if unknown.is_empty() || !told::take_out(&mut sent, unknown, reading).await? {
        return Ok(None);
    }
    serde_json::to_vec(&sent).map(Some).map_err(|e| Error::Internal(e.to_string()))
}

/// Reads a body. What is no JSON is a bad request; what is JSON and not what is asked for cannot be processed (RFC 9110, 15.5.21).
fn read<T: DeserializeOwned + Serialize + JsonSchema>(bytes: &[u8]) -> Result<T, Error> {
    let wrong = |why: String| Error::invalid("invalid-body", format!("the body is not what this takes: {why}"));
    let sent: Option<Value> = serde_json::from_slice(bytes).ok();
    if let Some(sent) = &sent {
        fields::check::<T>(sent)?;
    }
    let value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(e) => {
            if std::str::from_utf8(bytes).is_err() {
                return Err(Error::BadRequest("the body is not JSON: it is not UTF-8".to_owned()));
            }
            if let Err(e) = serde_json::from_slice::<IgnoredAny>(bytes) {
                return Err(Error::BadRequest(format!("the body is not JSON that can be read: {e}")));
            }
            if !e.is_data() {
                return Err(Error::BadRequest(format!("the body cannot be read: {e}")));
            }
            let again = whole_numbers(bytes).and_then(|bytes| serde_json::from_slice(&bytes).ok());
            again.ok_or_else(|| wrong(e.to_string()))?
        }
    };
    if let Some(sent) = sent {
        let read = serde_json::to_value(&value).map_err(|e| Error::Internal(e.to_string()))?;
        if let Some(misread) = misread(&sent, &read) {
            return Err(wrong(misread));
        }
    }
    Ok(value)
}

/// Where something was read as what it is not: a list as the fields of an object in their order, an object as the name of a choice, both of
/// which serde does.
fn misread(sent: &Value, read: &Value) -> Option<String> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    match (sent, read) {
        (Value::Object(sent), Value::Object(read)) => sent
            .iter()
            .filter_map(|(name, sent)| Some((name, misread(sent, read.get(name)?)?)))
            .map(|(name, why)| format!("{name}: {why}"))
            .next(),
        (Value::Array(sent), Value::Array(read)) => {
            let mut wrong = sent.iter().zip(read).filter_map(|(sent, read)| misread(sent, read));
            wrong.next()
        }
        // What is null may have become what stands for nothing.
        (Value::Null, _) => None,
        _ if kind(sent) == kind(read) => None,
        _ => Some(format!("{} was sent where {} is taken", kind(sent), kind(read))),
    }
}

/// JSON with its whole numbers written as such, when some are not: `105.0` and `1e3` are integers for JSON Schema, as they are for
/// languages that have one kind of number.
fn whole_numbers(json: &[u8]) -> Option<Vec<u8>> {
    /// Beyond 2^53 not every integer is a double.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let mut out = Vec::with_capacity(json.len());
    let (mut changed, mut rest) = (false, json);
    while let Some((&first, tail)) = rest.split_first() {
        let length = match first {
            b'"' => {
                let mut escaped = false;
                let end = tail.iter().position(|b| {
                    let end = *b == b'"' && !escaped;
                    escaped = *b == b'\\' && !escaped;
                    end
                });
                end.map_or(rest.len(), |end| end + 2)
            }
            b'-' | b'0'..=b'9' => {
                let part = |b: &u8| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                rest.iter().position(|b| !part(b)).unwrap_or(rest.len())
            }
            _ => 1,
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        let number = (first != b'"' && token.iter().any(|b| matches!(b, b'.' | b'e' | b'E')))
            .then(|| std::str::from_utf8(token).ok()?.parse::<f64>().ok());
        match number.flatten().filter(|n| n.fract() == 0.0 && n.abs() <= EXACT) {
            Some(whole) => {
                changed = true;
                // Without a sign: -0.0 is 0.
                out.extend_from_slice(format!("{:.0}", whole + 0.0).as_bytes());
            }
            None => out.extend_from_slice(token),
        }
    }
    changed.then_some(out)
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
        if operation.reads {
            operation.gives_nothing(StatusCode::NOT_MODIFIED, "It is what `If-None-Match` says.");
            let text = "The `ETag` of an answer that is there already: 304 when it is still the same.";
            operation.parameter("header", "If-None-Match", text, json!({"type": "string"}));
        }
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

/// The revision that `If-Match` asks for, when it asks for one; `If-None-Match: *` asks for revision 0.
pub(crate) struct IfMatch(pub(crate) Option<u64>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        condition(&parts.headers).map(Self)
    }
}

impl Takes for IfMatch {
    fn takes(operation: &mut Operation<'_>) {
        let text = "The `ETag` of what it is based on, or several: 412, with what is there now, when that has changed.";
        operation.parameter("header", "If-Match", text, json!({"type": "string"}));
        operation.fails(StatusCode::BAD_REQUEST);
        operation.fails(StatusCode::PRECONDITION_FAILED);
    }
}

/// A change that was refused because of `If-Match`, before it began or in a race that it has lost, says what is there now, so that both can
/// be merged. `condition` is what it asks for.
///
/// # Errors
/// What `changed` says; [`Error::Stale`] instead of [`Error::Changed`], and instead of [`Error::Raced`] where there is a condition.
pub(crate) async fn or_current<T, V: Serialize>(
    changed: Result<T, Error>,
    condition: Option<u64>,
    now: impl Future<Output = Result<V, Error>>,
) -> Result<T, Error> {
    let known = match changed {
        Err(Error::Changed { current }) => Some(current),
        Err(Error::Raced) if condition.is_some() => None,
        other => return other,
    };
    let now = match now.await {
        Ok(now) => serde_json::to_value(now).map_err(|e| Error::Internal(e.to_string()))?,
        // Somebody has deleted it.
        Err(Error::NotFound { .. }) => return Err(Error::Changed { current: known.unwrap_or_default() }),
        Err(e) => return Err(e),
    };
    // What is changed without trying again tells its revision.
    let current = known.or_else(|| now["revision"].as_u64()).unwrap_or_default();
    Err(Error::Stale { current, now: Box::new(now) })
}

/// The revision that a change asks for, by `If-Match` or `If-None-Match` (RFC 9110, 13.1).
fn condition(request: &HeaderMap) -> Result<Option<u64>, Error> {
    let there = if_match(request)?;
    let Some(none) = request.get(header::IF_NONE_MATCH) else { return Ok(there) };
    if none.as_bytes().trim_ascii() != b"*" {
        return Err(Error::BadRequest(
            "with a change If-None-Match takes `*`: only what is not there yet is made".to_owned(),
        ));
    }
    // Revision 0 is that of what was never written.
    Ok(Some(if there.is_some() { NEVER } else { 0 }))
}

/// The revision that `If-Match` asks for. Tags that are not ours and weak ones match nothing, nor does an empty list: whoever sends a condition
/// is never served without one.
fn if_match(request: &HeaderMap) -> Result<Option<u64>, Error> {
    let wrong = || Error::BadRequest("If-Match must be `*` or ETags, as answers had them".to_owned());
    let (mut asked, mut newest) = (false, None);
    for value in request.get_all(header::IF_MATCH) {
        asked = true;
        let text = value.to_str().map_err(|_| wrong())?.trim();
        if text == "*" {
            return Ok(Some(ANY));
        }
        // Revisions only grow: of several, the newest alone can be the one that is there.
        newest = newest.max(entity_tags(text).ok_or_else(wrong)?.into_iter().filter_map(revision_of).max());
    }
    Ok(asked.then(|| newest.unwrap_or(NEVER)))
}

/// The entity tags of a list, as they are written; none when it is no such list.
fn entity_tags(mut text: &str) -> Option<Vec<&str>> {
    let mut tags = Vec::new();
    loop {
        text = text.trim_start_matches([' ', '\t', ',']);
        if text.is_empty() {
            return Some(tags);
        }
        let start = if text.starts_with("W/") { 3 } else { 1 };
        let opaque = text.get(start - 1..)?.strip_prefix('"')?;
        let length = opaque.find('"')?;
        if !opaque[..length].bytes().all(|b| b == 0x21 || (0x23..=0x7e).contains(&b)) {
            return None;
        }
        let (tag, rest) = text.split_at(start + length + 1);
        tags.push(tag);
        text = rest.trim_start_matches([' ', '\t']);
        if !(text.is_empty() || text.starts_with(',')) {
            return None;
        }
    }
}

/// The revision of a tag of ours; weak ones are for comparisons that `If-Match` does not make.
fn revision_of(tag: &str) -> Option<u64> {
    let tag = tag.strip_prefix('"')?.strip_suffix('"')?;
    let (revision, hash) = tag.split_once('-').unwrap_or((tag, "0"));
    let known = !hash.is_empty()
        && hash.bytes().all(|b| b.is_ascii_alphanumeric())
        && revision.bytes().all(|b| b.is_ascii_digit());
    revision.parse().ok().filter(|_| known)
}
