//! How a provider is spoken to.

use std::pin::Pin;

use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};

use super::innermost;

/// Largest answer in bytes.
const MAX_ANSWER: usize = 1 << 20;

/// A request to a provider failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("{0}")]
    Failed(String),
    #[error("its answer is larger than {MAX_ANSWER} bytes")]
    TooLarge,
}

/// Our HTTP client as `openidconnect` wants one: rustls with ring, no redirects, answers of a bounded size in a bounded time.
pub(super) struct Http<'a>(pub(super) &'a reqwest::Client);

impl<'c> AsyncHttpClient<'c> for Http<'_> {
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request).map_err(|e| HttpError::Failed(innermost(&e)))?;
            receive(self.0, request).await
        })
    }
}

/// Sends a request and takes in the whole answer.
pub(super) async fn receive(http: &reqwest::Client, request: reqwest::Request) -> Result<HttpResponse, HttpError> {
    let failed = |e: reqwest::Error| HttpError::Failed(innermost(&e.without_url()));
    let mut response = http.execute(request).await.map_err(failed)?;
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        if body.len() + piece.len() > MAX_ANSWER {
            return Err(HttpError::TooLarge);
        }
        body.extend_from_slice(&piece);
    }
    let mut answer = HttpResponse::new(body);
    *answer.status_mut() = response.status();
    *answer.headers_mut() = response.headers().clone();
    Ok(answer)
}
