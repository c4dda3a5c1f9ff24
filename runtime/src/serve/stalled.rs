//! A deadline for clients that do not read.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// Whether the client of a connection has to read, as a request extension. Who follows a log may pause; who watches, for whom events
/// are kept, may not.
#[derive(Debug, Clone, Default)]
pub struct MustRead(Arc<AtomicUsize>);

/// As long as it lives, the client has to read: the connection ends when nothing of what waits to be sent was taken for a minute.
#[derive(Debug)]
pub struct Reading(Arc<AtomicUsize>);

impl MustRead {
    /// From now on, the client has to read.
    pub fn require(&self) -> Reading {
        self.0.fetch_add(1, Ordering::Relaxed);
        Reading(self.0.clone())
    }

    fn is_required(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection on which the client may have to take what is sent: when it has not taken anything for the limit while something is
/// waiting, writing fails, the connection ends, and with it whatever was kept for the client. A quiet connection may live for ever.
pub(super) struct Stalled<S> {
    inner: S,
    must_read: MustRead,
    limit: Duration,
    /// Since the last write that did not get through.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalled<S> {
    pub(super) fn new(inner: S, must_read: MustRead, limit: Duration) -> Self {
        Self { inner, must_read, limit, deadline: None }
    }

    /// What became of an attempt to write, unless the time is over.
    fn judge<T>(&mut self, cx: &mut Context<'_>, attempt: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.deadline = None;
            return attempt;
        }
        let limit = self.limit;
        loop {
            let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
            if deadline.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if self.must_read.is_required() {
                let why = "the client does not read what it asked for";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
            self.deadline = None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalled<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.judge(cx, attempt)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(cx, attempt)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.judge(cx, attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.judge(cx, attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn only_who_does_not_read_is_cut_off() {
        const LIMIT: Duration = Duration::from_millis(50);
        let (mut client, server) = tokio::io::duplex(64);
        let must_read = MustRead::default();
        let mut server = Stalled::new(server, must_read.clone(), LIMIT);
        let reading = must_read.require();
        let mut read = [0; 640];
        let (written, taken) = tokio::join!(server.write_all(&[7; 640]), client.read_exact(&mut read));
        written.and(taken).expect("it was taken");

        let begun = tokio::time::Instant::now();
        let stopped = server.write_all(&[7; 640]).await.expect_err("nobody reads");
        assert_eq!(stopped.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= LIMIT);

        // Who may pause is waited for.
        drop(reading);
        let pause = tokio::time::timeout(4 * LIMIT, server.write_all(&[7; 640])).await;
        assert!(pause.is_err(), "still waiting");
    }
}
