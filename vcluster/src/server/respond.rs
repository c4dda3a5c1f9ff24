//! Answers.

use std::io::Write;

use axum::body::Body;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::Value;
use vctl_machinery::{protobuf, status::ApiError};

use super::negotiate::{Accept, Encoding};

/// Bodies above this many bytes are compressed for clients that can read it.
pub(crate) const COMPRESS_ABOVE: usize = 128 << 10;
/// Length of all warnings of an answer, and of each when they are longer than that; as upstream.
const WARNINGS_LIMIT: usize = 4096;
const WARNING_LIMIT: usize = 256;

/// A Status.
pub(crate) fn error(e: &ApiError) -> Response<Body> {
    let mut status = e.status();
    // An expired list says how to go on; that is no detail but metadata.
    if let Some(token) = e.details.get("continue") {
        status["metadata"]["continue"] = token.clone();
        if let Some(status) = status.as_object_mut() {
            status.remove("details");
        }
    }
    let mut response = json(StatusCode::from_u16(e.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &status);
    if let Some(seconds) = e.details.get("retryAfterSeconds").and_then(Value::as_u64)
        && let Ok(value) = HeaderValue::from_str(&seconds.to_string())
    {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    if e.code == 401 {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"kubernetes\""));
    }
    response
}

/// Plain JSON.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    let mut body = value.to_string();
    body.push('\n');
    bytes(status, "application/json", body.into_bytes())
}

/// Bytes of a media type.
pub(crate) fn bytes(status: StatusCode, media_type: &str, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    if let Ok(value) = HeaderValue::from_str(media_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Plain text.
pub(crate) fn text(status: StatusCode, body: &str) -> Response<Body> {
    let mut response = bytes(status, "text/plain; charset=utf-8", body.as_bytes().to_vec());
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// What Go's multiplexer says of a path that nobody serves.
pub(crate) fn page_not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// What go-restful says of a path that does not take the method.
pub(crate) fn method_not_allowed() -> Response<Body> {
    text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed")
}

/// An object in the encoding that was negotiated, compressed if that helps, with warnings.
pub(crate) fn object(
    status: StatusCode,
    value: &Value,
    accept: &Accept,
    request: &HeaderMap,
    warnings: &[String],
) -> Result<Response<Body>, ApiError> {
    let (media_type, body) = encode(value, accept)?;
    let gzip = body.len() > COMPRESS_ABOVE && accepts_gzip(request);
    let body = if gzip {
        let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
        encoder.write_all(&body).and_then(|()| encoder.finish()).map_err(ApiError::internal)?
    } else {
        body
    };
    let mut response = bytes(status, &media_type, body);
    let headers = response.headers_mut();
    if gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    warn(&mut response, warnings);
    Ok(response)
}

/// Adds `Warning` headers.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in shown(warnings) {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// The warnings that an answer shows: when all together are too long, each is cut, and the last are left out.
fn shown(warnings: &[String]) -> impl Iterator<Item = &str> {
    let cut = if warnings.iter().map(String::len).sum::<usize>() > WARNINGS_LIMIT { WARNING_LIMIT } else { usize::MAX };
    let mut left = WARNINGS_LIMIT;
    warnings.iter().map_while(move |warning| {
        let end = warning.char_indices().nth(cut).map_or(warning.len(), |(end, _)| end);
        left = left.checked_sub(end)?;
        warning.get(..end)
    })
}

pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .any(|v| v.split(',').any(|e| e.split(';').next().is_some_and(|name| name.trim() == "gzip")))
}

/// The bytes and media type of an object.
pub(crate) fn encode(value: &Value, accept: &Accept) -> Result<(String, Vec<u8>), ApiError> {
    let parameters = accept.parameters();
    Ok(match accept.encoding {
        Encoding::Json => {
            let text = if accept.pretty { serde_json::to_vec_pretty(value) } else { serde_json::to_vec(value) };
            let mut body = text.map_err(ApiError::internal)?;
            body.push(b'\n');
            (format!("application/json{parameters}"), body)
        }
        Encoding::Yaml => (
            format!("application/yaml{parameters}"),
            serde_yaml::to_string(value).map_err(ApiError::internal)?.into_bytes(),
        ),
        Encoding::Protobuf => match protobuf::encode(value) {
            Some(body) => ("application/vnd.kubernetes.protobuf".to_owned(), body),
            None => return Err(ApiError::not_acceptable(super::negotiate::NOT_ACCEPTABLE)),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_warnings_are_cut() {
        let few = ["a".repeat(1000), "b".to_owned()];
        assert!(shown(&few).eq(few.iter().map(String::as_str)));
        let many: Vec<String> = (0..1000).map(|i| format!("{i:04}{}", "\u{fc}".repeat(600))).collect();
        let shown: Vec<&str> = shown(&many).collect();
        assert!(shown.iter().all(|w| w.chars().count() == WARNING_LIMIT));
        assert!((7..=16).contains(&shown.len()), "{}", shown.len());
    }
}
