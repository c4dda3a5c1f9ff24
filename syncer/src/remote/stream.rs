//! One `Stream` call of an agent as a log, a session or bytes.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
};
use tokio_util::sync::PollSender;
use tonic::{Status, Streaming};
use vctl_api::agent::{self, Frame, frame};
use vctl_machinery::status::ApiError;
use vctl_runtime::tasks::Tasks;

use crate::streams::{ExecInput, ExecOutput, ExecSession, LogStream};

/// The longest piece sent in one frame.
const CHUNK: usize = 32 * 1024;
/// How long a log may take to say that it cannot be had. Later failures end the stream.
const FIRST_FRAME: Duration = Duration::from_millis(400);

/// An open stream: frames from the agent, and the way to it.
pub(crate) struct Incoming {
    pub(crate) frames: Streaming<Frame>,
    pub(crate) out: mpsc::Sender<Result<Frame, Status>>,
}

fn failure(failure: agent::StreamFailure) -> ApiError {
    let message = failure.message;
    match failure.reason.as_str() {
        "NotFound" => ApiError { code: 404, reason: "NotFound", message, details: serde_json::Value::Null },
        "BadRequest" => ApiError::bad_request(message),
        "Timeout" => ApiError { code: 504, reason: "Timeout", message, details: serde_json::Value::Null },
        _ => ApiError::internal(message),
    }
}

/// The next frame's content; none at the end.
async fn next(frames: &mut Streaming<Frame>) -> Result<Option<frame::Frame>, String> {
    loop {
        match frames.message().await {
            Ok(Some(Frame { frame: Some(frame) })) => return Ok(Some(frame)),
            Ok(Some(Frame { frame: None })) => {}
            Ok(None) => return Ok(None),
            Err(status) => return Err(format!("the connection to the worker was lost: {}", status.message())),
        }
    }
}

enum Log {
    Bytes(Bytes),
    End,
}

fn log(frame: Option<frame::Frame>) -> Result<Option<Log>, ApiError> {
    match frame {
        Some(frame::Frame::Data(data)) => Ok(Some(Log::Bytes(data.bytes))),
        Some(frame::Frame::Failure(f)) => Err(failure(f)),
        Some(frame::Frame::CloseWrite(_) | frame::Frame::Exit(_)) | None => Ok(Some(Log::End)),
        Some(_) => Ok(None),
    }
}

/// A log. What is wrong from the start is an error here.
pub(super) async fn logs(mut incoming: Incoming) -> Result<LogStream, ApiError> {
    let first = match tokio::time::timeout(FIRST_FRAME, next(&mut incoming.frames)).await {
        Err(_) => None,
        Ok(frame) => log(frame.map_err(ApiError::internal)?)?,
    };
    let start = match first {
        Some(Log::End) => return Ok(Box::pin(stream::empty())),
        Some(Log::Bytes(bytes)) => Some(bytes),
        None => None,
    };
    // The state keeps `out`: dropping the stream tells the agent to stop.
    let rest = stream::unfold(Some(incoming), |state| async move {
        let mut incoming = state?;
        loop {
            let frame = match next(&mut incoming.frames).await {
                Ok(frame) => log(frame),
                Err(why) => Err(ApiError::internal(why)),
            };
            match frame {
                Ok(Some(Log::Bytes(bytes))) => return Some((Ok(bytes), Some(incoming))),
                Ok(Some(Log::End)) => return None,
                Ok(None) => {}
                Err(error) => return Some((Err(error), None)),
            }
        }
    });
    Ok(Box::pin(stream::iter(start.map(Ok)).chain(rest)))
}

fn data(channel: u32, bytes: Bytes) -> Frame {
    Frame { frame: Some(frame::Frame::Data(agent::Data { channel, bytes })) }
}

fn close(channel: u32) -> Frame {
    Frame { frame: Some(frame::Frame::CloseWrite(agent::CloseWrite { channel })) }
}

/// A session. It ends when either side goes.
pub(super) fn exec(incoming: Incoming, tasks: &Tasks) -> ExecSession {
    let (input, mut from_client) = mpsc::channel::<ExecInput>(16);
    let (to_client, output) = mpsc::channel::<ExecOutput>(16);
    let Incoming { mut frames, out } = incoming;
    tasks.spawn_until_stopped("exec session", async move {
        let send = async {
            while let Some(item) = from_client.recv().await {
                match item {
                    ExecInput::Stdin(mut bytes) => {
                        while !bytes.is_empty() {
                            let piece = bytes.split_to(bytes.len().min(CHUNK));
                            if out.send(Ok(data(0, piece))).await.is_err() {
                                return;
                            }
                        }
                    }
                    ExecInput::CloseStdin => {
                        if out.send(Ok(close(0))).await.is_err() {
                            return;
                        }
                    }
                    ExecInput::Resize { width, height } => {
                        let resize = agent::Resize { width: u32::from(width), height: u32::from(height) };
                        if out.send(Ok(Frame { frame: Some(frame::Frame::Resize(resize)) })).await.is_err() {
                            return;
                        }
                    }
                }
            }
        };
        let receive = async {
            loop {
                let item = match next(&mut frames).await {
                    Ok(Some(frame::Frame::Data(d))) if d.channel == 2 => ExecOutput::Stderr(d.bytes),
                    Ok(Some(frame::Frame::Data(d))) => ExecOutput::Stdout(d.bytes),
                    Ok(Some(frame::Frame::Exit(exit))) if exit.message.is_empty() || exit.code != 0 => {
                        ExecOutput::Exit(exit.code)
                    }
                    Ok(Some(frame::Frame::Exit(exit))) => ExecOutput::Failed(exit.message),
                    Ok(Some(frame::Frame::Failure(f))) => ExecOutput::Failed(f.message),
                    Ok(Some(_)) => continue,
                    Ok(None) => ExecOutput::Failed("the worker ended the session without an exit code".to_owned()),
                    Err(why) => ExecOutput::Failed(why),
                };
                let last = matches!(item, ExecOutput::Exit(_) | ExecOutput::Failed(_));
                if to_client.send(item).await.is_err() || last {
                    return;
                }
            }
        };
        // The client's going ends the session; the end of the command does too.
        tokio::select! {
            () = send => {}
            () = receive => {}
        }
    });
    ExecSession { input, output }
}

/// A stream of bytes over channel 0.
pub(crate) fn bridge(incoming: Incoming) -> Bridge {
    Bridge { frames: incoming.frames, out: PollSender::new(incoming.out), rest: Bytes::new(), ended: false }
}

/// Channel 0 of a stream as bytes in both directions.
pub(crate) struct Bridge {
    frames: Streaming<Frame>,
    out: PollSender<Result<Frame, Status>>,
    rest: Bytes,
    ended: bool,
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection to the worker was lost")
}

impl AsyncRead for Bridge {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if !self.rest.is_empty() {
                let length = self.rest.len().min(buffer.remaining());
                buffer.put_slice(&self.rest.split_to(length));
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            let frame = match self.frames.poll_next_unpin(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(frame) => frame,
            };
            match frame {
                Some(Ok(Frame { frame: Some(frame::Frame::Data(data)) })) => self.rest = data.bytes,
                Some(Ok(Frame { frame: Some(frame::Frame::Failure(failure)) })) => {
                    self.ended = true;
                    return Poll::Ready(Err(io::Error::other(failure.message)));
                }
                Some(Ok(Frame { frame: Some(frame::Frame::CloseWrite(_) | frame::Frame::Exit(_)) })) | None => {
                    self.ended = true
                }
                Some(Ok(_)) => {}
                Some(Err(status)) => {
                    self.ended = true;
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::ConnectionReset,
                        status.message().to_owned(),
                    )));
                }
            }
        }
    }
}

impl AsyncWrite for Bridge {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.out.poll_reserve(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(_)) => return Poll::Ready(Err(broken())),
            Poll::Ready(Ok(())) => {}
        }
        let length = bytes.len().min(CHUNK);
        let piece = Bytes::copy_from_slice(bytes.get(..length).unwrap_or_default());
        match self.out.send_item(Ok(data(0, piece))) {
            Ok(()) => Poll::Ready(Ok(length)),
            Err(_) => Poll::Ready(Err(broken())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.out.is_closed() {
            return Poll::Ready(Ok(()));
        }
        match self.out.poll_reserve(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
            Poll::Ready(Ok(())) => {}
        }
        // Dropping the sender would reset the call; the half-close is a frame of its own.
        let _ = self.out.send_item(Ok(close(0)));
        Poll::Ready(Ok(()))
    }
}
