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

#[cfg(test)]
mod tests {
    use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};

    use super::*;

    /// As long as it is open, bytes are a stream both ways, however messages cut it; text and pings are none of it.
    #[tokio::test]
    async fn messages_are_one_stream_of_bytes() {
        let (client, server) = tokio::io::duplex(1 << 16);
        let tasks = Tasks::new();
        let mut inner = open(server, &tasks).await;
        let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        for part in [&b"one "[..], b"", b"two"] {
            socket.send(Message::Binary(Bytes::from_static(part))).await.unwrap();
            socket.send(Message::Text("not of it".into())).await.unwrap();
        }
        let mut seen = [0; 7];
        inner.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, b"one two");
        // More than any buffer between the two: the reader decides how fast it goes.
        let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
        let all = sent.clone();
        tasks.spawn("writer", async move {
            inner.write_all(&all).await.unwrap();
            inner.flush().await.unwrap();
        });
        let mut received = Vec::new();
        while let Some(Ok(message)) = socket.next().await {
            match message {
                Message::Binary(bytes) => received.extend_from_slice(&bytes),
                Message::Close(_) => break,
                other => panic!("{other:?}"),
            }
        }
        // The inner side has gone with its writer: the websocket was closed after the last byte.
        assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
        assert!(tasks.shutdown(std::time::Duration::from_secs(10)).await);
    }

    #[tokio::test]
    async fn the_end_of_the_client_is_the_end_of_the_stream() {
        for polite in [true, false] {
            let (client, server) = tokio::io::duplex(1 << 16);
            let tasks = Tasks::new();
            let mut inner = open(server, &tasks).await;
            let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            socket.send(Message::Binary(Bytes::from_static(b"last"))).await.unwrap();
            if polite {
                socket.close(None).await.unwrap();
            } else {
                drop(socket);
            }
            let mut seen = Vec::new();
            inner.read_to_end(&mut seen).await.unwrap();
            assert_eq!(seen, b"last", "polite: {polite}");
            drop(inner);
            assert!(tasks.shutdown(std::time::Duration::from_secs(10)).await);
        }
    }
}
