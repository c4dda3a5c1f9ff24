//! Request bodies: size, encoding, parsing.

use std::io::Read;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde_json::Value;
use vctl_machinery::{protobuf, schema, status::ApiError};

fn too_large(limit: usize) -> ApiError {
    ApiError::too_large(format!("Request entity too large: limit is {limit}"))
}

/// The whole body, decompressed.
pub(crate) async fn read(body: Body, headers: &HeaderMap, limit: usize) -> Result<Bytes, ApiError> {
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<usize>().ok());
    if declared.is_some_and(|d| d > limit) {
        return Err(too_large(limit));
    }
    let bytes = match http_body_util::Limited::new(body, limit).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(e) if e.downcast_ref::<http_body_util::LengthLimitError>().is_some() => return Err(too_large(limit)),
        Err(e) => return Err(ApiError::bad_request(format!("the body of the request could not be read: {e}"))),
    };
    if headers.get(header::CONTENT_ENCODING).is_none_or(|e| e != "gzip") {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&*bytes)
        .take(limit as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|e| ApiError::bad_request(format!("the body of the request is not gzip: {e}")))?;
    if plain.len() > limit { Err(too_large(limit)) } else { Ok(plain.into()) }
}

/// Media type of the body, without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Parses an object; also returns duplicate fields.
pub(crate) fn object(bytes: &[u8], headers: &HeaderMap) -> Result<(Value, Vec<String>), ApiError> {
    let media = media_type(headers);
    match media.as_str() {
        "application/json" | "" => parse(bytes, false),
        "application/yaml" => parse(bytes, true),
        "application/vnd.kubernetes.protobuf" => {
            Ok((protobuf::decode(bytes).map_err(ApiError::bad_request)?, Vec::new()))
        }
        _ => Err(unknown(&["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"])),
    }
}

fn parse(bytes: &[u8], yaml: bool) -> Result<(Value, Vec<String>), ApiError> {
    let parsed = if yaml { yaml_value(bytes) } else { schema::parse_json(bytes) };
    parsed.map_err(|e| {
        let shown: String = String::from_utf8_lossy(bytes).chars().take(30).collect();
        let more = if bytes.len() > 30 { " ..." } else { "" };
        ApiError::bad_request(format!("the object provided is unrecognized (must be of a known type): couldn't get version/kind; json parse error: {e} ({shown}{more})"))
    })
}

/// 415.
pub(crate) fn unknown(accepted: &[&str]) -> ApiError {
    ApiError::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    ))
}

/// JSON or YAML, for patches.
pub(crate) fn patch(bytes: &[u8], yaml: bool) -> Result<(Value, Vec<String>), ApiError> {
    let parsed = if yaml { yaml_value(bytes) } else { schema::parse_json(bytes) };
    parsed.map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))
}

fn yaml_value(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    serde_yaml::from_slice(bytes).map(|v| (v, Vec::new())).map_err(|e| e.to_string())
}
