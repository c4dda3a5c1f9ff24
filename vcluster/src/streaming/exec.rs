//! exec and attach.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};
use vctl_machinery::status::ApiError;

use super::{
    spdy::{self, Event, Gone},
    websocket::{self, CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT},
};
use crate::streams::{ExecInput, ExecOptions, ExecOutput, ExecSession, TerminalSize};

/// How long a client may take to open its streams.
const OPEN_LIMIT: Duration = Duration::from_secs(30);

/// The Status that says how a command ended (`remotecommand.NonZeroExitCodeReason`).
fn exit_status(code: i32) -> Value {
    if code == 0 {
        return json!({ "metadata": {}, "status": "Success" });
    }
    json!({
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: error executing command, exit code {code}"),
        "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
    })
}

/// What ends a session whose worker has gone, or whose server stops: without it clients would take the end for that of the command.
fn lost() -> ExecOutput {
    ExecOutput::Failed("the connection to the container was lost; the command may still run".to_owned())
}

/// What goes onto the error channel at the end: a Status from protocol v4 on, before that only the text of an error.
fn ending(protocol: &str, output: &ExecOutput) -> Bytes {
    let structured = protocol.starts_with("v4") || protocol.starts_with("v5");
    let status = match output {
        ExecOutput::Exit(code) => exit_status(*code),
        ExecOutput::Failed(why) => ApiError::internal(why).status(),
        ExecOutput::Stdout(_) | ExecOutput::Stderr(_) => return Bytes::new(),
    };
    match (structured, output) {
        (true, _) => status.to_string().into(),
        (false, ExecOutput::Exit(0)) => Bytes::new(),
        (false, _) => status["message"].as_str().unwrap_or_default().to_owned().into(),
    }
}

/// Sizes as client-go writes them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Size {
    width: u16,
    height: u16,
}

/// Takes the complete sizes from a resize stream; the rest stays.
fn sizes(buffer: &mut Vec<u8>) -> Vec<TerminalSize> {
    let mut values = serde_json::Deserializer::from_slice(buffer).into_iter::<Size>();
    let mut found = Vec::new();
    for size in values.by_ref() {
        match size {
            Ok(size) => found.push(TerminalSize { width: size.width, height: size.height }),
            Err(e) if e.is_eof() => break,
            // Not sizes at all: nothing of it can be used.
            Err(_) => {
                buffer.clear();
                return found;
            }
        }
    }
    let used = values.byte_offset();
    buffer.drain(..used.min(buffer.len()));
    if buffer.len() > 4096 {
        buffer.clear();
    }
    found
}

/// Serves a session on a websocket.
pub(super) async fn by_websocket<S>(io: S, protocol: &str, options: &ExecOptions, running: ExecSession)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let ExecSession { input, mut output } = running;
    let (mut sink, mut messages) = websocket::accept(io).await.split();
    // An empty message on the first channel tells the client that the connection stands.
    let first = if options.stdout {
        STDOUT
    } else if options.stderr {
        STDERR
    } else {
        ERROR
    };
    if sink.send(Message::Binary(websocket::message(first, b""))).await.is_err() {
        return;
    }
    let read = async {
        let mut resize = Vec::new();
        while let Some(Ok(message)) = messages.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Close(_) => break,
                _ => continue,
            };
            let Some((&channel, data)) = bytes.split_first() else { continue };
            let wanted = match channel {
                STDIN if options.stdin && !data.is_empty() => vec![ExecInput::Stdin(bytes.slice(1..))],
                CLOSE if options.stdin && data.first() == Some(&STDIN) => vec![ExecInput::CloseStdin],
                RESIZE => {
                    resize.extend_from_slice(data);
                    sizes(&mut resize).into_iter().map(ExecInput::Resize).collect()
                }
                _ => Vec::new(),
            };
            for event in wanted {
                // A command that has ended takes no input; its output is still to be read.
                let _ = input.send(event).await;
            }
        }
    };
    let write = async {
        loop {
            let item = output.recv().await.unwrap_or_else(lost);
            let (channel, data, last) = match &item {
                ExecOutput::Stdout(data) => (STDOUT, data.clone(), false),
                ExecOutput::Stderr(data) => (STDERR, data.clone(), false),
                ExecOutput::Exit(_) | ExecOutput::Failed(_) => (ERROR, ending(protocol, &item), true),
            };
            if (!last || !data.is_empty())
                && sink.send(Message::Binary(websocket::message(channel, &data))).await.is_err()
            {
                return;
            }
            if last {
                break;
            }
        }
        // Clients take any other end than a normal one for a broken connection. This one may have gone already.
        let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let _ = sink.send(Message::Close(Some(normal))).await;
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
}

/// Serves a session on SPDY streams.
pub(super) async fn by_spdy<S>(io: S, protocol: &str, options: &ExecOptions, running: ExecSession)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (reader, writer, writing) = spdy::session(io);
    let serving = async move {
        if let Err(error) = spdy_session(reader, writer, protocol, options, running).await {
            tracing::debug!(%error, "exec session ended");
        }
    };
    tokio::join!(serving, writing);
}

#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Gone(#[from] Gone),
    #[error("the client did not open its streams in time")]
    Slow,
}

async fn spdy_session<S>(
    mut reader: spdy::Reader<S>,
    writer: spdy::Writer,
    protocol: &str,
    options: &ExecOptions,
    running: ExecSession,
) -> Result<(), Ended>
where
    S: AsyncRead + AsyncWrite + Send,
{
    let ExecSession { input, mut output } = running;
    let resizes = options.tty && !matches!(protocol, "channel.k8s.io" | "v2.channel.k8s.io");
    let wanted = 1
        + usize::from(options.stdin)
        + usize::from(options.stdout)
        + usize::from(options.stderr && !options.tty)
        + usize::from(resizes);
    // Streams by type. Data may come before the last one is opened.
    let mut streams: BTreeMap<String, u32> = BTreeMap::new();
    let mut early = Vec::new();
    let opening = async {
        while streams.len() < wanted {
            match reader.next().await? {
                Some(Event::Open { stream, headers, fin }) => {
                    writer.reply(stream).await?;
                    streams.insert(headers.get("streamtype").cloned().unwrap_or_default(), stream);
                    if fin {
                        early.push(Event::Data { stream, data: Bytes::new(), fin });
                    }
                }
                Some(event) => early.push(event),
                None => return Err(Ended::Gone(Gone)),
            }
            if early.len() > 64 {
                return Err(Ended::Slow);
            }
        }
        Ok(())
    };
    tokio::time::timeout(OPEN_LIMIT, opening).await.map_err(|_| Ended::Slow)??;
    let id = |kind: &str| streams.get(kind).copied();
    let (stdin, resize) = (id("stdin"), id("resize"));
    let read = async {
        let mut buffer = Vec::new();
        let mut early = early.into_iter();
        loop {
            let event = match early.next() {
                Some(event) => Some(event),
                None => reader.next().await?,
            };
            match event {
                None => return Ok::<_, Ended>(()),
                Some(Event::Data { stream, data, fin }) if Some(stream) == stdin => {
                    // A command that has ended takes no input; its output is still to be read.
                    if !data.is_empty() {
                        let _ = input.send(ExecInput::Stdin(data)).await;
                    }
                    if fin {
                        let _ = input.send(ExecInput::CloseStdin).await;
                    }
                }
                Some(Event::Data { stream, data, .. }) if Some(stream) == resize => {
                    buffer.extend_from_slice(&data);
                    for size in sizes(&mut buffer) {
                        let _ = input.send(ExecInput::Resize(size)).await;
                    }
                }
                Some(Event::Open { stream, .. }) => writer.reset(stream).await?,
                Some(Event::Data { .. } | Event::Reset { .. }) => {}
            }
        }
    };
    let write = async {
        loop {
            let item = output.recv().await.unwrap_or_else(lost);
            match &item {
                ExecOutput::Stdout(data) => send(&writer, id("stdout"), data).await?,
                ExecOutput::Stderr(data) => send(&writer, id("stderr"), data).await?,
                ExecOutput::Exit(_) | ExecOutput::Failed(_) => {
                    send(&writer, id("error"), &ending(protocol, &item)).await?;
                    break;
                }
            }
        }
        for stream in streams.values() {
            writer.finish(*stream).await?;
        }
        writer.go_away().await?;
        Ok::<_, Ended>(())
    };
    tokio::select! {
        ended = read => ended,
        ended = write => ended,
    }
}

/// Sends data in frames that are far below the format's limit.
async fn send(writer: &spdy::Writer, stream: Option<u32>, data: &Bytes) -> Result<(), Gone> {
    let Some(stream) = stream else { return Ok(()) };
    for start in (0..data.len()).step_by(32 * 1024) {
        let end = data.len().min(start + 32 * 1024);
        writer.data(stream, data.slice(start..end)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        sync::mpsc,
    };

    use super::*;
    use crate::streaming::spdy::testing;

    fn session() -> (ExecSession, mpsc::Receiver<ExecInput>, mpsc::Sender<ExecOutput>) {
        let (input, from_client) = mpsc::channel(8);
        let (to_client, output) = mpsc::channel(8);
        (ExecSession { input, output }, from_client, to_client)
    }

    #[test]
    fn sizes_may_come_in_pieces() {
        let mut buffer = br#"{"Width":80,"Height":24}{"Width":100,"#.to_vec();
        assert_eq!(sizes(&mut buffer), [TerminalSize { width: 80, height: 24 }]);
        buffer.extend(br#""Height":50}"#);
        assert_eq!(sizes(&mut buffer), [TerminalSize { width: 100, height: 50 }]);
        buffer.extend(b"nonsense");
        assert_eq!(sizes(&mut buffer), []);
    }

    #[test]
    fn endings_by_protocol() {
        let status: Value = serde_json::from_slice(&ending("v4.channel.k8s.io", &ExecOutput::Exit(3))).unwrap();
        assert_eq!(
            (&status["reason"], &status["details"]["causes"][0]["message"]),
            (&json!("NonZeroExitCode"), &json!("3"))
        );
        assert!(ending("v2.channel.k8s.io", &ExecOutput::Exit(0)).is_empty());
        assert!(ending("channel.k8s.io", &ExecOutput::Exit(3)).starts_with(b"command terminated"));
    }

    #[tokio::test]
    async fn a_command_over_spdy() {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (running, mut from_client, to_client) = session();
        let options = ExecOptions { stdin: true, stdout: true, ..ExecOptions::default() };
        let (mut from_server, mut to_server) = tokio::io::split(client);
        let mut compressor = testing::ClientCompressor::new().unwrap();
        let mut bytes = testing::open(&mut compressor, 1, &[("streamtype", "error")]);
        bytes.extend(testing::open(&mut compressor, 3, &[("streamtype", "stdin")]));
        bytes.extend(testing::data(3, b"hello", false));
        bytes.extend(testing::open(&mut compressor, 5, &[("streamtype", "stdout")]));
        bytes.extend(testing::data(3, b"", true));
        to_server.write_all(&bytes).await.unwrap();
        let command = async move {
            assert_eq!(from_client.recv().await, Some(ExecInput::Stdin(Bytes::from_static(b"hello"))));
            assert_eq!(from_client.recv().await, Some(ExecInput::CloseStdin));
            to_client.send(ExecOutput::Stdout(Bytes::from_static(b"world"))).await.unwrap();
            to_client.send(ExecOutput::Exit(0)).await.unwrap();
        };
        tokio::join!(by_spdy(server, "v4.channel.k8s.io", &options, running), command);
        let mut answer = Vec::new();
        from_server.read_to_end(&mut answer).await.unwrap();
        assert!(answer.windows(13).any(|w| w == testing::data(5, b"world", false)));
        assert!(answer.windows(9).any(|w| w == b"\"Success\""));
    }

    #[tokio::test]
    async fn a_command_over_a_websocket() {
        use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};
        let (client, server) = tokio::io::duplex(1 << 20);
        let (running, mut from_client, to_client) = session();
        let options = ExecOptions { stdin: true, stdout: true, tty: true, ..ExecOptions::default() };
        let command = async move {
            assert_eq!(from_client.recv().await, Some(ExecInput::Resize(TerminalSize { width: 80, height: 24 })));
            assert_eq!(from_client.recv().await, Some(ExecInput::Stdin(Bytes::from_static(b"hi"))));
            assert_eq!(from_client.recv().await, Some(ExecInput::CloseStdin));
            to_client.send(ExecOutput::Stdout(Bytes::from_static(b"ho"))).await.unwrap();
            to_client.send(ExecOutput::Exit(7)).await.unwrap();
        };
        let client = async move {
            let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            for message in [&b"\x04{\"Width\":80,\"Height\":24}"[..], b"\x00hi", b"\xff\x00", b""] {
                socket.send(Message::Binary(Bytes::from_static(message))).await.unwrap();
            }
            let mut received = Vec::new();
            while let Some(Ok(message)) = socket.next().await {
                match message {
                    Message::Binary(bytes) => received.push(bytes),
                    Message::Close(frame) => assert_eq!(frame.map(|f| f.code), Some(CloseCode::Normal)),
                    other => panic!("{other:?}"),
                }
            }
            received
        };
        let ((), (), received) =
            tokio::join!(by_websocket(server, "v5.channel.k8s.io", &options, running), command, client);
        assert_eq!(received[0], &b"\x01"[..]);
        assert_eq!(received[1], &b"\x01ho"[..]);
        assert_eq!(received[2][0], ERROR);
        let status: Value = serde_json::from_slice(&received[2][1..]).unwrap();
        assert_eq!(status["details"]["causes"][0]["message"], "7");
    }

    /// No Exit has come: the client must not take the end for success.
    #[tokio::test]
    async fn a_lost_session_is_a_failure() {
        use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};
        let options = ExecOptions { stdout: true, ..ExecOptions::default() };
        let (client, server) = tokio::io::duplex(1 << 20);
        let (running, _from_client, to_client) = session();
        drop(to_client);
        let client = async move {
            let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            let mut errors = Vec::new();
            while let Some(Ok(message)) = socket.next().await {
                if let Message::Binary(bytes) = message
                    && bytes.first() == Some(&ERROR)
                {
                    errors.push(serde_json::from_slice::<Value>(&bytes[1..]).unwrap());
                }
            }
            errors
        };
        let ((), errors) = tokio::join!(by_websocket(server, "v5.channel.k8s.io", &options, running), client);
        assert_eq!((errors.len(), &errors[0]["status"]), (1, &json!("Failure")));

        let (client, server) = tokio::io::duplex(1 << 20);
        let (running, _from_client, to_client) = session();
        drop(to_client);
        let (mut from_server, mut to_server) = tokio::io::split(client);
        let mut compressor = testing::ClientCompressor::new().unwrap();
        let mut bytes = testing::open(&mut compressor, 1, &[("streamtype", "error")]);
        bytes.extend(testing::open(&mut compressor, 3, &[("streamtype", "stdout")]));
        to_server.write_all(&bytes).await.unwrap();
        by_spdy(server, "v4.channel.k8s.io", &options, running).await;
        let mut answer = Vec::new();
        from_server.read_to_end(&mut answer).await.unwrap();
        assert!(answer.windows(9).any(|w| w == b"\"Failure\""));
    }
}
