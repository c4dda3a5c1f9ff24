//! Requests that are answered before all of their body has been read, on HTTP/1: what comes next on the connection is the rest of the
//! body, not another request.
//!
//! A short rest is read and forgotten, so that the client can go on. Otherwise the answer says `Connection: close`, and what the client
//! still sends is forgotten for a moment before the connection is closed: a reset would take the answer away from it. Bounds as in Go's
//! `net/http`.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::response::Response;
use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderValue, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// Most bytes of a rest that are read.
const REST: usize = 256 << 10;

/// Whether a connection is to be closed while its client may be sending.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread(Arc<AtomicBool>);

/// Where a body comes back to that nobody wants any more.
#[derive(Debug, Clone, Default)]
pub(super) struct Rest(Arc<Mutex<Option<Incoming>>>);

/// A body that comes back when it is dropped before its end.
#[derive(Debug)]
pub(super) struct Returned {
    body: Option<Incoming>,
    to: Rest,
}

impl Rest {
    /// The body, and where its rest will be.
    pub(super) fn of(body: Incoming) -> (Returned, Self) {
        let rest = Self::default();
        (Returned { body: Some(body), to: rest.clone() }, rest)
    }

    /// An answer with which the connection can go on, or that says that it does not. `expects` when the client waits to be asked for
    /// the body: it is not. The rest may take so much `time` to arrive.
    pub(super) async fn settle(
        self,
        mut response: Response,
        expects: bool,
        time: Duration,
        unread: &Unread,
    ) -> Response {
        let rest = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // None: it was read, or somebody is reading it.
        let Some(rest) = rest else { return response };
        let is_short = rest.size_hint().lower() <= REST as u64;
        let is_read = !expects && is_short && tokio::time::timeout(time, forget(rest)).await.unwrap_or(false);
        if !is_read {
            unread.0.store(true, Ordering::Relaxed);
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Reads the rest; false when it is too long, or does not come.
async fn forget(mut rest: Incoming) -> bool {
    let mut left = REST;
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut rest).poll_frame(cx)).await {
        let Ok(frame) = frame else { return false };
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(after) => left = after,
            None => return false,
        }
    }
    true
}

impl Body for Returned {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.to.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}

/// A connection that, when it is [unread](Unread), is closed for writing first, and for reading when the client has closed it or after
/// a moment.
pub(super) struct Lingering<S> {
    inner: S,
    unread: Unread,
    limit: Duration,
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Lingering<S> {
    pub(super) fn new(inner: S, unread: Unread, limit: Duration) -> Self {
        Self { inner, unread, limit, until: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.until.is_none() {
            std::task::ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
        }
        if !this.unread.0.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let limit = this.limit;
        let until = this.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        let mut forgotten = [0; 4096];
        loop {
            if until.poll_unpin(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut piece = ReadBuf::new(&mut forgotten);
            match std::task::ready!(Pin::new(&mut this.inner).poll_read(cx, &mut piece)) {
                Ok(()) if !piece.filled().is_empty() => {}
                // Closed, one way or the other.
                _ => return Poll::Ready(Ok(())),
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
