//! Fetching a document.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Limited};

use super::{Connection, OutboundError, Place, Trust};
use crate::plane::Plane;

/// Gets what is at a URL (`https` only), of at most `limit` bytes. Redirections are not followed. The caller sets the time limit.
///
/// # Errors
/// [`OutboundError`]; [`OutboundError::Status`] for any answer but 200.
pub(crate) async fn fetch(plane: &Arc<Plane>, url: &str, trust: &Trust, limit: usize) -> Result<Bytes, OutboundError> {
    let (place, uri) = Place::of_url(url)?;
    let mut connection = Connection::open(plane, &place, trust, None).await?;
    let request = Request::get(uri.path_and_query().map_or("/", |p| p.as_str()))
        .header(header::HOST, place.host())
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "kube-apiserver-oidc")
        .body(Body::empty())
        .map_err(|e| OutboundError::Http(e.to_string()))?;
    let answer = connection.send(request).await?;
    if answer.status() != http::StatusCode::OK {
        return Err(OutboundError::Status(format!("the server answered {}", answer.status())));
    }
    let body = Limited::new(answer.into_body(), limit).collect().await;
    Ok(body.map_err(|e| OutboundError::Http(e.to_string()))?.to_bytes())
}
