//! SPDY inside a websocket (KEP-4006): the bytes of binary messages, one after the other, are the SPDY connection.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio_tungstenite::tungstenite::Message;
use vctl_runtime::tasks::Tasks;

use super::websocket;

const BUFFER: usize = 64 * 1024;

/// The connection inside the websocket; it is carried by tasks of `tasks` and ends with either side.
pub(super) async fn open<S>(io: S, tasks: &Tasks) -> DuplexStream
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (inner, outer) = tokio::io::duplex(BUFFER);
    let (mut sink, mut messages) = websocket::accept(io).await.split();
    let (mut from_inner, mut to_inner) = tokio::io::split(outer);
    tasks.spawn_until_stopped("tunnel in", async move {
        while let Some(Ok(message)) = messages.next().await {
            match message {
                Message::Binary(bytes) if to_inner.write_all(&bytes).await.is_err() => {
                    return;
                }
                Message::Close(_) => break,
                _ => {}
            }
        }
        // The inner side may have gone already.
        let _ = to_inner.shutdown().await;
    });
    tasks.spawn("tunnel out", async move {
        let mut buffer = vec![0; BUFFER / 2];
        loop {
            match from_inner.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    if sink.send(Message::Binary(Bytes::copy_from_slice(&buffer[..n]))).await.is_err() {
                        return;
                    }
                }
            }
        }
        // The client may have gone already.
        let _ = sink.close().await;
    });
    inner
}
