//! Files that browsers load: the web console as `make web` built it, and the style sheet of the plain pages.
//!
//! Names under `/assets` carry a hash of their content, so a browser may keep them for ever. What was compressed at build time is
//! sent so to whom it can read.

use axum::{
    body::Body,
    extract::Path,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};

use crate::error::Error;

/// A file of the console.
struct File {
    /// Its address, such as `/assets/index-0a1b2c3d.js`.
    path: &'static str,
    whole: &'static [u8],
    gzip: Option<&'static [u8]>,
    brotli: Option<&'static [u8]>,
}

/// Everything that `make web` built; empty when it was not run before this program was built.
const CONSOLE: &[File] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// The style sheet of the pages that are made here.
const PAGES: File =
    File { path: "/assets/pages.css", whole: include_bytes!("assets/pages.css"), gzip: None, brotli: None };

/// The page of the console; none when the console is not part of this build.
pub(super) fn index(request: &HeaderMap) -> Option<Response> {
    let file = CONSOLE.iter().find(|f| f.path == "/index.html")?;
    Some(send(file, "no-store", request))
}

pub(super) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Error> {
    let path = format!("/assets/{name}");
    if path == PAGES.path {
        return Ok(send(&PAGES, "no-cache", &headers));
    }
    match CONSOLE.iter().find(|f| f.path == path) {
        Some(file) => Ok(send(file, "public, max-age=31536000, immutable", &headers)),
        None => Err(Error::NotFound { what: "file", name: path, nearest: Vec::new() }),
    }
}

/// Small files beside the console's page.
pub(super) async fn icon(headers: HeaderMap) -> Result<Response, Error> {
    match CONSOLE.iter().find(|f| f.path == "/favicon.svg") {
        Some(file) => Ok(send(file, "no-cache", &headers)),
        None => Err(Error::NotFound { what: "file", name: "/favicon.svg".to_owned(), nearest: Vec::new() }),
    }
}

fn send(file: &'static File, cache: &'static str, request: &HeaderMap) -> Response {
    let accepts = |coding: &str| {
        let all = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
        all.flat_map(|v| v.split(',')).any(|item| accepted(item, coding))
    };
    let (bytes, coding) = match (file.brotli, file.gzip) {
        (Some(bytes), _) if accepts("br") => (bytes, Some("br")),
        (_, Some(bytes)) if accepts("gzip") => (bytes, Some("gzip")),
        _ => (file.whole, None),
    };
    // Each encoding is a representation of its own, and so has a tag of its own.
    let tag = format!("\"{}\"", hex::encode(&Sha256::digest(bytes)[..12]));
    let known = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
    let unchanged = known.flat_map(|v| v.split(',')).any(|t| t.trim().trim_start_matches("W/") == tag);
    let mut response = if unchanged {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = Response::new(Body::from(bytes));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(file.path)));
        if let Some(coding) = coding {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        response
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Whether one item of `Accept-Encoding` asks for a coding, and does not refuse it with `q=0`.
fn accepted(item: &str, coding: &str) -> bool {
    let mut parts = item.split(';').map(str::trim);
    parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding))
        && parts.all(|p| p.strip_prefix("q=").is_none_or(|q| q.parse::<f32>().is_ok_and(|q| q > 0.0)))
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static FILE: File = File { path: "/assets/a-1.js", whole: b"whole", gzip: Some(b"gzip"), brotli: Some(b"brotli") };

    fn sent(accept: &str, known: &str) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, accept.parse().expect("header"));
        headers.insert(header::IF_NONE_MATCH, known.parse().expect("header"));
        send(&FILE, "no-cache", &headers)
    }

    #[test]
    fn the_best_encoding_that_is_accepted_is_sent() {
        for (accept, coding) in [
            ("gzip, deflate, br", Some("br")),
            ("gzip", Some("gzip")),
            ("br;q=0, gzip;q=0.5", Some("gzip")),
            ("identity", None),
            ("", None),
        ] {
            let response = sent(accept, "");
            let header = response.headers().get(header::CONTENT_ENCODING).and_then(|v| v.to_str().ok());
            assert_eq!(header, coding, "{accept}");
            assert_eq!(response.headers()[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
        }
    }

    #[test]
    fn what_is_known_is_not_sent_again() {
        let tag = sent("br", "").headers()[header::ETAG].to_str().expect("text").to_owned();
        assert_eq!(sent("br", &format!("\"x\", W/{tag}")).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(sent("gzip", &tag).status(), StatusCode::OK, "another encoding has another tag");
    }
}
