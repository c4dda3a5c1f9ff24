//! Bodies of answers with something that ends when they do.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

struct Guarded<G> {
    body: Body,
    /// Dropped with the body: when all of it was sent, or nobody wants it any more.
    _guard: G,
}

/// The body; the guard is dropped when it is over.
pub(crate) fn guarded(body: Body, guard: impl Send + Unpin + 'static) -> Body {
    Body::new(Guarded { body, _guard: guard })
}

impl<G: Unpin> http_body::Body for Guarded<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
