//! What `GET` answers can be sent back whole. It has fields that the server tells and nobody sets (a name, when it was made, its revision): in
//! a change they are taken as long as they are as they would be told now. So whoever reads, changes a field and writes need not know which
//! fields are whose.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    routing::MethodRouter,
};
use http::{HeaderMap, Method, header};
use serde_json::{Map, Value};
use tower::ServiceExt as _;

use super::{condition, revision_of};
use crate::{documents::unchanged, error::Error};

/// Largest answer that is compared with, in bytes.
const LIMIT: usize = 4 << 20;

/// In the extensions of a change: the endpoint that reads what is changed, with its guards.
#[derive(Clone)]
pub(crate) struct Reads(pub(crate) MethodRouter);

/// The request that reads what another one changes, as whoever sends that one.
pub(super) struct Reading {
    endpoint: MethodRouter,
    request: Request,
    /// Of the change.
    headers: HeaderMap,
}

/// What is there now.
struct Current {
    /// Its fields.
    fields: Map<String, Value>,
    revision: Option<u64>,
}

impl Reading {
    /// None for what is no change of something that can be read.
    pub(super) fn of(change: &Request) -> Option<Self> {
        let Reads(endpoint) = change.extensions().get::<Reads>()?.clone();
        let mut request = Request::new(Body::empty());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = change.uri().clone();
        *request.extensions_mut() = change.extensions().clone();
        // Who asks, without what the change says of its body and its conditions.
        for name in [header::AUTHORIZATION, header::COOKIE] {
            for value in change.headers().get_all(&name) {
                request.headers_mut().append(&name, value.clone());
            }
        }
        Some(Self { endpoint, request, headers: change.headers().clone() })
    }

    /// What is there now; none when there is nothing, or the caller may not see it.
    async fn read(self) -> Result<Option<Current>, Error> {
        let Ok(response) = self.endpoint.oneshot(self.request).await;
        if response.status().is_server_error() {
            return Err(Error::Unavailable("what is to be changed could not be read".to_owned()));
        }
        if !response.status().is_success() {
            return Ok(None);
        }
        let tag = response.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok());
        let revision = tag.and_then(revision_of);
        let bytes = to_bytes(response.into_body(), LIMIT).await.map_err(|e| Error::Internal(e.to_string()))?;
        let fields = serde_json::from_slice(&bytes).map_err(|e| Error::Internal(e.to_string()))?;
        Ok(Some(Current { fields, revision }))
    }
}

/// Takes out of a body those of its unknown fields that are as the server tells them. What is left is known, or nobody knows it.
///
/// # Errors
/// [`Error::Stale`] when what is there is not what the body, or a condition, says it is based on; [`Error::Invalid`] naming the first field
/// that the server tells otherwise.
pub(super) async fn take_out(
    sent: &mut Map<String, Value>,
    unknown: Vec<String>,
    reading: Reading,
) -> Result<bool, Error> {
    let headers = reading.headers.clone();
    let Some(Current { fields, revision }) = reading.read().await? else { return Ok(false) };
    let told: Vec<String> = unknown.into_iter().filter(|name| fields.contains_key(name)).collect();
    if let Some(name) = told.iter().find(|name| !same(&sent[*name], &fields[*name])) {
        let current = revision.unwrap_or_default();
        // Then it is another one that it was based on, and that is what to say.
        let based_on = told.iter().find(|name| *name == "revision").and_then(|name| sent[name].as_u64());
        let other = based_on.is_some_and(|based_on| based_on != current);
        if other || unchanged(current, condition(&headers)?).is_err() {
            return Err(Error::Stale { current, now: Box::new(Value::Object(fields)) });
        }
        return Err(Error::invalid(
            "invalid-body",
            format!(
                "the body is not what this takes: {name:?} is told by the server ({}) and cannot be set: leave it out, or send it as it was told",
                fields[name]
            ),
        ));
    }
    for name in &told {
        sent.remove(name);
    }
    Ok(!told.is_empty())
}

/// Whether two values are one: for languages with one kind of number `1` and `1.0` are.
fn same(sent: &Value, told: &Value) -> bool {
    match (sent, told) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(same(&json!({"a": [1.0, "x"]}), &json!({"a": [1, "x"]})));
        for (a, b) in [
            (json!(1), json!(2)),
            (json!([1]), json!([1, 1])),
            (json!({"a": 1}), json!({"b": 1})),
            (json!("1"), json!(1)),
        ] {
            assert!(!same(&a, &b), "{a} {b}");
        }
    }
}
