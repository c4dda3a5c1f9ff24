//! `Idempotency-Key`: a `POST` that is sent again, because its answer was lost on the way, is not done again.
//!
//! What is kept for a key is a document of the store, so that it outlives the process: the digest of the request, and its answer. Only what
//! was done is kept: whoever was refused may try the same key again. A request runs to its end also when its client has gone, so that the
//! client that asks again finds the answer. When the process ended in the middle, nobody knows how far it came: the request is done anew,
//! and finds itself what there is (a name that is taken, a job that is at it).

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use vctl_store::{Expect, Revision, StoreError};

use super::{body::TIME_LIMIT, openapi::answers::Secret, permit};
use crate::{
    Portal,
    access::{permission::Permission, policy::Permit},
    audit::{from_source, source},
    auth::{Credential, Identity},
    documents::{Document, Documents, put, remove},
    error::Error,
};

const HEADER: &str = "idempotency-key";
/// Marks an answer that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How long an answer is kept.
const LIFE: SignedDuration = SignedDuration::from_hours(24);
/// Longest key, in bytes.
const KEY_LIMIT: usize = 255;
/// Largest answer that is kept, in bytes.
const ANSWER_LIMIT: usize = 256 * 1024;
/// Headers of an answer that are given again.
const KEPT: [HeaderName; 3] = [header::CONTENT_TYPE, header::LOCATION, header::ETAG];

/// What is kept of a request with a key. Named by the digest of who asked, by which API key, and the key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OnceDoc {
    digest: String,
    /// Digest of the request: another one with this key is a mistake.
    request: String,
    at: Timestamp,
    /// The process that is at it, or was.
    holder: String,
    /// None while it is worked on.
    answer: Option<Answered>,
}

/// An answer that was given.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answered {
    status: u16,
    headers: Vec<(String, String)>,
    /// None when it had a secret, which is kept nowhere, or was larger than [`ANSWER_LIMIT`].
    body: Option<String>,
    /// It was larger.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    large: bool,
}

impl Document for OnceDoc {
    const RESOURCE: &'static str = "idempotencykeys.vctl.dev";
    fn name(&self) -> &str {
        &self.digest
    }
}

fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex::encode(hash.finalize())
}

/// The key of a request, when it has one.
fn key(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Error::BadRequest("there are several Idempotency-Keys: send one".to_owned()));
    }
    let key = value
        .to_str()
        .ok()
        .filter(|key| (1..=KEY_LIMIT).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic()));
    let wrong =
        || Error::BadRequest(format!("Idempotency-Key is 1 to {KEY_LIMIT} visible ASCII characters, such as a UUID"));
    key.map(Some).ok_or_else(wrong)
}

/// Does a request with a key once. It is behind what checks whether the caller may do it, also when its answer is given again; `asks` is the
/// permission that the handler would ask for, in the project that the body names.
pub(super) async fn once(
    State((portal, body_limit, asks)): State<(Portal, usize, Option<Permission>)>,
    request: Request,
    next: Next,
) -> Response {
    match key(request.headers()) {
        Ok(None) => next.run(request).await,
        Ok(Some(key)) => {
            let key = key.to_owned();
            let done = match whole(request, body_limit).await {
                Ok(request) => keyed(portal, &key, asks, request, next).await,
                Err(e) => Err(e),
            };
            done.unwrap_or_else(IntoResponse::into_response)
        }
        Err(e) => e.into_response(),
    }
}

/// The request with its body, which is what makes it the same one when it comes again.
async fn whole(request: Request, limit: usize) -> Result<Request<Bytes>, Error> {
    let (parts, body) = request.into_parts();
    let body = tokio::time::timeout(TIME_LIMIT, to_bytes(body, limit))
        .await
        .map_err(|_| Error::BadRequest(format!("the body did not arrive within {} s", TIME_LIMIT.as_secs())))?
        .map_err(|_| Error::TooLarge { limit })?;
    Ok(Request::from_parts(parts, body))
}

async fn keyed(
    portal: Portal,
    key: &str,
    asks: Option<Permission>,
    request: Request<Bytes>,
    next: Next,
) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let wired = || Error::Internal("an idempotency key is looked at before who asks".to_owned());
    let identity = parts.extensions.get::<Identity>().ok_or_else(wired)?;
    if let Some(permission) = asks {
        let permit = parts.extensions.get::<Permit>().ok_or_else(wired)?;
        permit::in_body(&portal, permit, permission, &body).await?;
    }
    // An API key may do less than its user: what others have done is not for it.
    let by = match &identity.credential {
        Credential::ApiKey { id, .. } => id.as_str(),
        _ => "",
    };
    let named = digest([identity.user.as_bytes(), by.as_bytes(), key.as_bytes()]);
    let digests = (named, request_digest(&parts, &body));
    let inner = portal.inner();
    inner.once.clean_up(&inner.environments.documents, inner.clock.now()).await?;
    let noted = match begin(&portal, digests).await? {
        Begun::Answered(response) => return Ok(response),
        Begun::At(noted) => noted,
    };
    let (send, receive) = tokio::sync::oneshot::channel();
    let (documents, source, given_up) = (inner.environments.documents.clone(), source(), noted.clone());
    let request = Request::from_parts(parts, Body::from(body));
    inner.tasks.spawn("a request with an idempotency key", async move {
        let response = from_source(source, next.run(request)).await;
        let response = finish(&documents, noted, response).await;
        // Its client may have gone.
        let _ = send.send(response);
    });
    match receive.await {
        Ok(response) => Ok(response),
        // It has panicked: nobody is at it any more, and whoever asks again is not to wait for an answer.
        Err(_) => {
            forget(&inner.environments.documents, &given_up.0, Expect::Revision(given_up.1)).await;
            Err(Error::Internal("a request was given up".to_owned()))
        }
    }
}

fn request_digest(parts: &Parts, body: &Bytes) -> String {
    let target = parts.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
    let kind = parts.headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    digest([parts.method.as_str().as_bytes(), target.as_bytes(), kind, body])
}

/// How a request with a key begins.
enum Begun {
    /// It was done before.
    Answered(Response),
    /// It is to be done; this is noted of it.
    At((OnceDoc, Revision)),
}

async fn begin(portal: &Portal, (digest, request): (String, String)) -> Result<Begun, Error> {
    let inner = portal.inner();
    let documents = &inner.environments.documents;
    let at = inner.clock.now();
    let doc = OnceDoc { digest, request, at, holder: inner.once.holder.clone(), answer: None };
    loop {
        let stored = documents.get::<OnceDoc>(&doc.digest).await?;
        let expect = match stored {
            None => Expect::Absent,
            Some(stored) if at.duration_since(stored.value.at) >= LIFE => Expect::Revision(stored.revision),
            Some(stored) => {
                let known = stored.value;
                if known.request != doc.request {
                    return Err(Error::invalid(
                        "idempotency-key-reused",
                        "this Idempotency-Key was sent with another request: take a new key for a new request",
                    ));
                }
                match known.answer {
                    Some(answer) => return replay(answer).map(Begun::Answered),
                    None if known.holder == doc.holder => {
                        return Err(Error::Conflict(
                            "the request with this Idempotency-Key is still being worked on: ask again in a moment"
                                .to_owned(),
                        ));
                    }
                    // Its process is gone.
                    None => Expect::Revision(stored.revision),
                }
            }
        };
        match documents.transact(vec![put(&doc, expect)?]).await {
            Ok(revisions) => return Ok(Begun::At((doc, revisions.first().copied().unwrap_or_default()))),
            // The same key at the same moment.
            Err(StoreError::Conflict { .. }) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn replay(answer: Answered) -> Result<Response, Error> {
    let Some(body) = answer.body else {
        if answer.large {
            return Err(Error::Conflict(
                "the first request with this Idempotency-Key was done, and its answer is too large to be kept: see what there is now, or \
                 take a new key"
                    .to_owned(),
            ));
        }
        return Err(Error::Conflict(
            "this was made for the first request with this Idempotency-Key, and its secret is shown only once: make another one with a \
             new key, and delete the first if its answer was lost"
                .to_owned(),
        ));
    };
    let status = StatusCode::from_u16(answer.status).map_err(|e| Error::Internal(e.to_string()))?;
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    for (name, value) in &answer.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            headers.insert(name, value);
        }
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// Keeps what was done; forgets what was refused.
async fn finish(documents: &Documents, (doc, revision): (OnceDoc, Revision), response: Response) -> Response {
    let expect = Expect::Revision(revision);
    if !response.status().is_success() {
        forget(documents, &doc, expect).await;
        return response;
    }
    let secret = response.extensions().get::<Secret>().is_some();
    let (parts, body) = response.into_parts();
    // Made by ourselves, and in memory.
    let bytes = match to_bytes(body, usize::MAX).await {
        Ok(bytes) => bytes,
        Err(e) => {
            forget(documents, &doc, expect).await;
            return Error::Internal(format!("an answer could not be kept for its idempotency key: {e}"))
                .into_response();
        }
    };
    let header = |name: &HeaderName| Some((name.to_string(), parts.headers.get(name)?.to_str().ok()?.to_owned()));
    let large = bytes.len() > ANSWER_LIMIT;
    let body = (!secret && !large).then(|| String::from_utf8_lossy(&bytes).into_owned());
    let headers = KEPT.iter().filter_map(header).collect();
    let answer = Answered { status: parts.status.as_u16(), headers, body, large: large && !secret };
    let doc = OnceDoc { answer: Some(answer), ..doc };
    let kept = match put(&doc, expect) {
        Ok(write) => documents.transact(vec![write]).await.map_err(Error::from),
        Err(e) => Err(e),
    };
    // It was done: that its answer could not be kept must not look like a failure.
    if let Err(error) = kept {
        tracing::warn!(%error, "the answer to a request with an idempotency key could not be kept");
    }
    Response::from_parts(parts, Body::from(bytes))
}

async fn forget(documents: &Documents, doc: &OnceDoc, expect: Expect) {
    if let Err(error) = documents.transact(vec![remove::<OnceDoc>(&doc.digest, expect)]).await {
        tracing::warn!(%error, "an idempotency key could not be forgotten");
    }
}

/// What a process knows of its idempotency keys.
pub(crate) struct Once {
    /// This process.
    holder: String,
    /// When old ones were looked for, in seconds.
    cleaned: std::sync::atomic::AtomicI64,
}

impl Once {
    /// Of a process that starts now.
    pub(crate) fn new() -> Self {
        Self { holder: uuid::Uuid::new_v4().to_string(), cleaned: 0.into() }
    }

    /// Removes keys that are old enough, once an hour while keys are used.
    async fn clean_up(&self, documents: &Documents, now: Timestamp) -> Result<(), Error> {
        let (last, second) = (self.cleaned.load(std::sync::atomic::Ordering::Relaxed), now.as_second());
        if second - last < 3600 {
            return Ok(());
        }
        self.cleaned.store(second, std::sync::atomic::Ordering::Relaxed);
        let (all, _) = documents.list::<OnceDoc>().await?;
        let old = all.iter().filter(|doc| now.duration_since(doc.value.at) >= LIFE);
        let writes: Vec<_> =
            old.map(|doc| remove::<OnceDoc>(&doc.value.digest, Expect::Revision(doc.revision))).collect();
        if writes.is_empty() {
            return Ok(());
        }
        match documents.transact(writes).await {
            // One of them was used again at the same moment: they go the next time.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}
