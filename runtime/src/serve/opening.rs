//! A deadline for a client's first words.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// With what HTTP/2 begins (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether the first request of a connection has begun: its header is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Begun(Arc<AtomicBool>);

impl Begun {
    pub(super) fn tell(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_told(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection on which the client has to say soon what it wants: the header of its first request, or that it speaks HTTP/2, which has
/// time limits of its own. Until then reading fails at the deadline; afterwards this does nothing. (hyper has one time limit for idle
/// connections and headers; who may be idle for as long gains nothing by dripping the header of a later request.)
pub(super) struct Opening<S> {
    inner: S,
    begun: Begun,
    /// How much of HTTP/2's preface has come; none when something else has.
    preface: Option<usize>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Opening<S> {
    pub(super) fn new(inner: S, begun: Begun, limit: Duration) -> Self {
        Self { inner, begun, preface: Some(0), deadline: Some(Box::pin(tokio::time::sleep(limit))) }
    }

    /// Looks at what has come: the first byte that is not the preface's tells HTTP/1, the whole preface HTTP/2.
    fn heard(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let Some(matched) = self.preface else { return };
            self.preface = (PREFACE.get(matched) == Some(byte)).then_some(matched + 1);
            if self.preface == Some(PREFACE.len()) {
                self.deadline = None;
                return;
            }
        }
    }

    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        if self.begun.is_told() {
            self.deadline = None;
        }
        self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_late(cx) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no request in time")));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        if self.deadline.is_some() && read.is_ready() {
            self.heard(&buf.filled()[before..]);
        }
        read
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
    async fn said(words: &[u8], begun: bool) -> Option<io::ErrorKind> {
        let (mut client, server) = tokio::io::duplex(64);
        let told = Begun::default();
        let mut server = Opening::new(server, told.clone(), Duration::from_millis(50));
        client.write_all(words).await.expect("written");
        let mut heard = vec![0; words.len()];
        server.read_exact(&mut heard).await.expect("read");
        assert_eq!(heard, words);
        if begun {
            told.tell();
        }
        let silence = tokio::time::timeout(Duration::from_millis(500), server.read_u8()).await;
        silence.ok().map(|read| read.expect_err("silence").kind())
    }

    #[tokio::test]
    async fn only_who_has_not_begun_is_cut_off() {
        for words in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", b"G", b"PO", b"GET / HTTP/1.1\r\nhost: a\r\n"] {
            assert_eq!(said(words, false).await, Some(io::ErrorKind::TimedOut), "{}", words.escape_ascii());
        }
        assert_eq!(said(PREFACE, false).await, None);
        assert_eq!(said(b"GET / HTTP/1.1\r\n\r\n", true).await, None);
    }
}
