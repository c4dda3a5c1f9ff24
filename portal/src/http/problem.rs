//! Errors as `application/problem+json` (RFC 9457): the one place where an error becomes HTTP.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use vctl_api::rest::Problem;

use crate::error::Error;

/// Media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Status and short name of an error.
pub(crate) fn classify(error: &Error) -> (StatusCode, &'static str) {
    match error {
        Error::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "unauthorized"),
        Error::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
        Error::QuotaExceeded(_) => (StatusCode::FORBIDDEN, "quota-exceeded"),
        Error::NotFound { .. } => (StatusCode::NOT_FOUND, "not-found"),
        Error::AlreadyExists(_) => (StatusCode::CONFLICT, "already-exists"),
        Error::Conflict(_) | Error::Raced => (StatusCode::CONFLICT, "conflict"),
        Error::ApprovalRequired(_) => (StatusCode::CONFLICT, "approval-required"),
        Error::Changed { .. } | Error::Stale { .. } => (StatusCode::PRECONDITION_FAILED, "changed"),
        Error::Invalid { kind, .. } => (StatusCode::UNPROCESSABLE_ENTITY, kind),
        Error::BadRequest(_) => (StatusCode::BAD_REQUEST, "bad-request"),
        Error::UnsupportedMediaType(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type"),
        Error::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too-large"),
        Error::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed"),
        Error::TooManyRequests(_) => (StatusCode::TOO_MANY_REQUESTS, "too-many-requests"),
        Error::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        Error::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

/// The problem document of an error, still without request id.
pub(crate) fn describe(error: &Error) -> Problem {
    let (status, kind) = classify(error);
    let nearest = match error {
        Error::NotFound { nearest, .. } | Error::Invalid { nearest, .. } => nearest.clone(),
        _ => Vec::new(),
    };
    let detail = match error {
        Error::Internal(_) => {
            "something failed inside the server: its log has the reason under this request id".to_owned()
        }
        other => other.to_string(),
    };
    let current = match error {
        Error::Stale { now, .. } => Some(now.clone()),
        _ => None,
    };
    Problem { status: status.as_u16(), kind: kind.to_owned(), detail, nearest, request_id: String::new(), current }
}

/// The problem document of an answer that something else made: a framework's refusal, in plain text.
pub(crate) fn of_status(status: StatusCode, detail: String) -> Problem {
    let kind = match status {
        StatusCode::NOT_FOUND => "not-found",
        StatusCode::PAYLOAD_TOO_LARGE => "too-large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported-media-type",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        status if status.is_server_error() => "internal",
        _ => "bad-request",
    };
    let detail = if detail.is_empty() { status.canonical_reason().unwrap_or("refused").to_owned() } else { detail };
    Problem {
        status: status.as_u16(),
        kind: kind.to_owned(),
        detail,
        nearest: Vec::new(),
        request_id: String::new(),
        current: None,
    }
}

impl IntoResponse for Error {
    /// Without a body: [`super::guard::surround`] writes it, because it knows the request id.
    fn into_response(self) -> Response {
        if let Self::Internal(why) = &self {
            tracing::error!(error = why, "a request failed");
        }
        let (status, _) = classify(&self);
        let mut response = status.into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"vctl\""));
        }
        if let Self::Changed { current } | Self::Stale { current, .. } = &self
            && let Ok(tag) = HeaderValue::from_str(&format!("\"{current}\""))
        {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response.extensions_mut().insert(describe(&self));
        response
    }
}
