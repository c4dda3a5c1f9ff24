//! What was answered, read from the bytes of the answer: whatever made them, and in whatever encoding they are.

use std::io::Read as _;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Response, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use vctl_machinery::protobuf;

use super::event::{Answer, LARGEST};
use crate::server::body::media_type;

/// The answer, and what it says; of the object only when it is wanted, of an error its Status in any case. `bare`: not its message, which
/// may quote what was sent.
pub(super) async fn read(response: Response<Body>, object: bool, bare: bool) -> (Response<Body>, Answer) {
    let code = response.status().as_u16();
    let mut status = json!({ "metadata": {}, "code": code });
    if !(object || code >= 400) || response.body().is_end_stream() {
        return (response, Answer { status: Some(status), ..Answer::default() });
    }
    if response.body().size_hint().exact().is_none_or(|length| length > LARGEST as u64) {
        return (response, Answer { status: Some(status), object: None, cut: object });
    }
    let (parts, body) = response.into_parts();
    // It has a known length: it is in memory already.
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => {
            tracing::debug!(%error, "an answer broke off before it was recorded");
            return (Response::from_parts(parts, Body::empty()), Answer { status: Some(status), ..Answer::default() });
        }
    };
    let read = value(&bytes, &parts.headers);
    if let Some(said) = read.as_ref().filter(|said| code >= 400 && said["kind"] == "Status") {
        let fields = if bare { &["status", "reason"][..] } else { &["status", "message", "reason", "details"][..] };
        for field in fields {
            if let Some(text) = said.get(field) {
                status[*field] = text.clone();
            }
        }
    }
    let answer = Answer { status: Some(status), object: read.filter(|_| object), cut: false };
    (Response::from_parts(parts, Body::from(bytes)), answer)
}

/// An object; none of what is no object, such as a log.
fn value(bytes: &Bytes, headers: &HeaderMap) -> Option<Value> {
    let mut plain = Vec::new();
    let bytes: &[u8] = if headers.get(header::CONTENT_ENCODING).is_some_and(|e| e == "gzip") {
        flate2::read::GzDecoder::new(&**bytes).take(LARGEST as u64 + 1).read_to_end(&mut plain).ok()?;
        &plain
    } else {
        bytes
    };
    match media_type(headers).as_str() {
        "application/json" => serde_json::from_slice(bytes).ok(),
        "application/vnd.kubernetes.protobuf" => protobuf::decode(bytes).ok(),
        _ => None,
    }
}
