//! Style sheet and script of the page.

use axum::response::{IntoResponse, Response};
use http::header;

const CSS: &str = include_str!("assets/app.css");
const JS: &str = include_str!("assets/app.js");

pub(super) async fn css() -> Response {
    file("text/css; charset=utf-8", CSS)
}

pub(super) async fn js() -> Response {
    file("text/javascript; charset=utf-8", JS)
}

fn file(media_type: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}
