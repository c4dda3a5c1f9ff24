//! Logs, exec, attach, port-forward and API tunnels: each a gRPC call of its own, so that a slow one delays no other.

mod exec;
mod forward;
mod input;
pub(crate) mod logs;
pub(crate) mod tunnel;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use vctl_api::agent::{
    CloseWrite, Data, Frame, OpenStream, PodTarget, StreamFailure, StreamHeader, frame::Frame as Kind,
    open_stream::Request,
};
use vctl_runtime::tasks::Tasks;

use crate::{
    context::Context,
    pods::{
        record::ContainerRecord,
        worker::{Handle, View},
    },
    reconcile::{Client, Reconciler},
};

/// Largest piece of data in one frame.
const CHUNK: usize = 32 * 1024;

/// Why a request could not be carried out: reason and message, as `StreamFailure` carries them.
pub(crate) struct Failure(pub(crate) &'static str, pub(crate) String);

impl Failure {
    fn internal(e: impl std::fmt::Display) -> Self {
        Self("Internal", e.to_string())
    }
}

/// The agent's side of one stream.
pub(crate) struct Pipe {
    up: mpsc::Sender<Frame>,
    down: Down,
}

/// How long the server may take to end a stream that the agent has ended.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Frames from the server. Dropping the stream of a gRPC call resets the call, and what the agent has sent but HTTP/2 has not
/// delivered yet would be lost: the last output of a command, its exit code. So a stream that is dropped is read to its end first.
pub(crate) struct Down {
    frames: Option<Streaming<Frame>>,
    tasks: Tasks,
}

impl Down {
    async fn message(&mut self) -> Result<Option<Frame>, tonic::Status> {
        match &mut self.frames {
            Some(frames) => frames.message().await,
            None => Ok(None),
        }
    }
}

impl Drop for Down {
    fn drop(&mut self) {
        let Some(mut frames) = self.frames.take() else { return };
        self.tasks.spawn_until_stopped("end of a stream", async move {
            let rest = async { while let Ok(Some(_)) = frames.message().await {} };
            if tokio::time::timeout(END_LIMIT, rest).await.is_err() {
                tracing::debug!("the server did not end a stream; resetting it");
            }
        });
    }
}

impl Pipe {
    async fn open(mut client: Client, header: StreamHeader, tasks: &Tasks) -> Result<Self, tonic::Status> {
        let (up, outgoing) = mpsc::channel(16);
        // The channel is new and has room.
        let _ = up.send(Frame { frame: Some(Kind::Header(header)) }).await;
        let down = client.stream(ReceiverStream::new(outgoing)).await?.into_inner();
        Ok(Self { up, down: Down { frames: Some(down), tasks: tasks.clone() } })
    }

    /// Sends a frame; false when the other side has gone.
    async fn send(up: &mpsc::Sender<Frame>, frame: Kind) -> bool {
        up.send(Frame { frame: Some(frame) }).await.is_ok()
    }

    async fn data(up: &mpsc::Sender<Frame>, channel: u32, bytes: impl Into<Bytes>) -> bool {
        Self::send(up, Kind::Data(Data { channel, bytes: bytes.into() })).await
    }
}

/// Copies a connection and a stream into each other until both directions have ended or one has failed.
async fn copy<S>(pipe: Pipe, connection: S) -> std::io::Result<()>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + 'static,
{
    let Pipe { up, mut down } = pipe;
    let (mut read, mut write) = tokio::io::split(connection);
    let upwards = async {
        let mut buffer = vec![0; CHUNK];
        loop {
            let n = read.read(&mut buffer).await?;
            if n == 0 {
                Pipe::send(&up, Kind::CloseWrite(CloseWrite { channel: 0 })).await;
                return Ok::<_, std::io::Error>(());
            }
            if !Pipe::data(&up, 0, Bytes::copy_from_slice(&buffer[..n])).await {
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
        }
    };
    let downwards = async {
        loop {
            match down.message().await.map_err(std::io::Error::other)?.and_then(|f| f.frame) {
                Some(Kind::Data(data)) => write.write_all(&data.bytes).await?,
                Some(Kind::CloseWrite(_)) | None => {
                    write.shutdown().await?;
                    return Ok(());
                }
                Some(Kind::Failure(failure)) => return Err(std::io::Error::other(failure.message)),
                Some(_) => {}
            }
        }
    };
    tokio::try_join!(upwards, downwards).map(drop)
}

/// A pod of this worker, as it is now.
fn find(reconciler: &Reconciler, target: &PodTarget) -> Result<(Handle, Arc<View>), Failure> {
    let missing = || Failure("NotFound", format!("pod {}/{} is not on this worker", target.namespace, target.name));
    let handle = reconciler.handle(&target.uid).ok_or_else(missing)?;
    let view = handle.view.borrow().clone();
    // What is opened is what was asked for: nobody gets into a pod of another environment, whatever the pods are called.
    let same = (&view.pod.environment, &view.pod.namespace, &view.pod.name)
        == (&target.environment, &target.namespace, &target.name);
    if same { Ok((handle, view)) } else { Err(missing()) }
}

fn container(view: &View, name: &str) -> Result<ContainerRecord, Failure> {
    let known = view.pod.containers.iter().chain(&view.pod.init_containers).any(|c| c.name == name);
    match view.record.containers.get(name) {
        Some(record) if known && !record.id.is_empty() => Ok(record.clone()),
        _ if known => {
            // In the kubelet's words (pkg/kubelet/kubelet_pods.go, validateContainerLogStatus).
            let why = match view.waiting.get(name).map(String::as_str) {
                None | Some("") => String::new(),
                Some("ErrImagePull") => ": image can't be pulled".to_owned(),
                Some("ImagePullBackOff") => ": trying and failing to pull image".to_owned(),
                Some(reason) => format!(": {reason}"),
            };
            let message = format!("container \"{name}\" in pod \"{}\" is waiting to start{why}", view.pod.name);
            Err(Failure("BadRequest", message))
        }
        _ => Err(Failure(
            "NotFound",
            format!("container {name} not found in pod {}_{}", view.pod.name, view.pod.namespace),
        )),
    }
}

/// What a stream counts as.
fn kind(request: Option<&Request>) -> &'static str {
    match request {
        Some(Request::Exec(request)) if request.attach => "attach",
        Some(Request::Exec(_)) => "exec",
        Some(Request::PortForward(_)) => "port-forward",
        Some(Request::Logs(_)) | None => "logs",
    }
}

/// Opens the stream the server asked for.
pub(crate) fn open(ctx: &Arc<Context>, reconciler: &Arc<Reconciler>, client: Client, open: OpenStream) {
    let (own, reconciler) = (ctx.clone(), reconciler.clone());
    ctx.tasks.spawn_until_stopped("stream", async move {
        let header = StreamHeader { stream_id: open.stream_id, ..StreamHeader::default() };
        let pipe = match Pipe::open(client, header, &own.tasks).await {
            Ok(pipe) => pipe,
            Err(e) => {
                tracing::warn!(error = %e, "opening a stream");
                return;
            }
        };
        let up = pipe.up.clone();
        let _open = own.measured.stream(kind(open.request.as_ref()));
        let outcome = match open.request {
            None => {
                Err(Failure("BadRequest", "the server asked for an unknown kind of stream; update the agent".into()))
            }
            Some(Request::Logs(request)) => logs::run(&own, &reconciler, request, pipe).await,
            Some(Request::Exec(request)) => exec::run(&own, &reconciler, request, pipe).await,
            Some(Request::PortForward(request)) => forward::run(&own, &reconciler, request, pipe).await,
        };
        if let Err(Failure(reason, message)) = outcome {
            Pipe::send(&up, Kind::Failure(StreamFailure { reason: reason.to_owned(), message })).await;
        }
    });
}
