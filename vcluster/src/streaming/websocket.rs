//! Websocket messages of the channel protocols: the first byte is the channel.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::protocol::{Role, WebSocketConfig},
};

/// Standard input.
pub(super) const STDIN: u8 = 0;
/// Standard output.
pub(super) const STDOUT: u8 = 1;
/// Standard error.
pub(super) const STDERR: u8 = 2;
/// The Status at the end.
pub(super) const ERROR: u8 = 3;
/// Sizes of the terminal, as JSON.
pub(super) const RESIZE: u8 = 4;
/// v5: the client closes the channel that the second byte names.
pub(super) const CLOSE: u8 = 255;

/// Longest message accepted.
const MAX_MESSAGE: usize = 1 << 20;

/// A websocket on an upgraded connection.
pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(io: S) -> WebSocketStream<S> {
    let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

/// A message of a channel.
pub(super) fn message(channel: u8, data: &[u8]) -> Bytes {
    let mut message = Vec::with_capacity(1 + data.len());
    message.push(channel);
    message.extend_from_slice(data);
    message.into()
}
