//! A deadline for a client's first words.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// With what HTTP/2 begins (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection on which the client has to say soon which HTTP it speaks: hyper sets time limits only once it knows. Until then
/// reading fails at the deadline; afterwards this does nothing.
pub(super) struct Opening<S> {
    inner: S,
    matched: usize,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Opening<S> {
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self { inner, matched: 0, deadline: Some(Box::pin(tokio::time::sleep(limit))) }
    }

    /// Looks at what has come: the first byte that is not the preface's tells HTTP/1, the whole preface HTTP/2.
    fn heard(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if PREFACE.get(self.matched) == Some(byte) {
                self.matched += 1;
            } else {
                self.matched = PREFACE.len();
            }
            if self.matched == PREFACE.len() {
                self.deadline = None;
                return;
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        if self.deadline.is_none() {
            return read;
        }
        if read.is_ready() {
            self.heard(&buf.filled()[before..]);
            return read;
        }
        match self.deadline.as_mut().map(|deadline| deadline.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no request began in time")))
            }
            _ => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What is read after the client has said this and then nothing more; `None` when it may stay silent.
    async fn said(words: &[u8]) -> Option<io::ErrorKind> {
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Opening::new(server, Duration::from_millis(50));
        client.write_all(words).await.expect("written");
        let mut heard = vec![0; words.len()];
        server.read_exact(&mut heard).await.expect("read");
        assert_eq!(heard, words);
        let silence = tokio::time::timeout(Duration::from_millis(500), server.read_u8()).await;
        silence.ok().map(|read| read.expect_err("silence").kind())
    }

    #[tokio::test]
    async fn only_who_has_not_begun_is_cut_off() {
        assert_eq!(said(b"").await, Some(io::ErrorKind::TimedOut));
        assert_eq!(said(b"P").await, Some(io::ErrorKind::TimedOut));
        assert_eq!(said(b"PRI * HTTP/2.0\r\n").await, Some(io::ErrorKind::TimedOut));
        assert_eq!(said(b"G").await, None);
        assert_eq!(said(b"PO").await, None);
        assert_eq!(said(PREFACE).await, None);
    }
}
