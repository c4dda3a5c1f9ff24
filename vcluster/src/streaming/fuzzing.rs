//! What `fuzz/` reaches of the sessions: everything that reads bytes of a client. Only compiled by cargo-fuzz.

use std::sync::Arc;

use bytes::Bytes;
use tokio::{io::AsyncReadExt as _, sync::mpsc};
use vctl_machinery::status::ApiError;
use vctl_runtime::tasks::Tasks;

use super::{exec, port_forward, spdy, tunnel};
use crate::streams::{
    ContainerTarget, Duplex, ExecOptions, ExecOutput, ExecSession, LogOptions, LogStream, PodStreams,
};

/// A connection on which the client sends these bytes, reads everything and then leaves.
fn connection(bytes: &[u8]) -> impl Duplex + use<> {
    tokio::io::join(std::io::Cursor::new(bytes.to_vec()), tokio::io::sink())
}

/// A command that takes its input and never ends by itself, with what its session is asked for.
fn command() -> (ExecOptions, ExecSession, mpsc::Sender<ExecOutput>, impl Future<Output = ()>) {
    let (input, mut taken) = mpsc::channel(4);
    let (running, output) = mpsc::channel(4);
    let options = ExecOptions { stdin: true, stdout: true, stderr: false, tty: true, ..ExecOptions::default() };
    let taking = async move { while taken.recv().await.is_some() {} };
    (options, ExecSession { input, output }, running, taking)
}

/// A SPDY connection, read to its end.
pub async fn spdy(bytes: &[u8]) {
    let (mut reader, writer, writing) = spdy::session(connection(bytes));
    let reading = async move {
        while let Ok(Some(_)) = reader.next().await {}
        drop((reader, writer));
    };
    tokio::join!(reading, writing);
}

/// A header block, decompressed already.
pub fn spdy_headers(plain: &[u8]) {
    spdy::fuzz_headers(plain);
}

/// exec over SPDY.
pub async fn spdy_exec(bytes: &[u8]) {
    let (options, session, running, taking) = command();
    running.try_send(ExecOutput::Exit(0)).unwrap_or_default();
    tokio::join!(exec::by_spdy(connection(bytes), "v4.channel.k8s.io", &options, session), taking);
}

/// port-forward over SPDY to a pod where nothing listens.
pub async fn spdy_port_forward(bytes: &[u8]) {
    forward(connection(bytes), &Tasks::new()).await;
}

async fn forward(io: impl Duplex + 'static, tasks: &Tasks) {
    let streams: Arc<dyn PodStreams> = Arc::new(Nothing);
    port_forward::serve(io, &target(), &streams, tasks).await;
    tasks.shutdown(std::time::Duration::from_secs(5)).await;
}

/// exec over a websocket.
pub async fn websocket_exec(bytes: &[u8]) {
    let (options, session, running, taking) = command();
    tokio::join!(exec::by_websocket(connection(bytes), "v5.channel.k8s.io", &options, session), taking);
    drop(running);
}

/// exec over a websocket whose frames are whole: each message is a byte of length and so many bytes.
pub async fn websocket_messages(bytes: &[u8]) {
    websocket_exec(&frames(bytes)).await;
}

/// port-forward over SPDY in a websocket whose frames are whole.
pub async fn websocket_tunnel(bytes: &[u8]) {
    let tasks = Tasks::new();
    let io = tunnel::open(connection(&frames(bytes)), &tasks).await;
    forward(io, &tasks).await;
}

/// Binary messages as a client frames them, with a mask of zeros.
fn frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (message, rest) = rest.split_at(usize::from(*length & 0x7f).min(125).min(rest.len()));
        out.extend([0x82, 0x80 | message.len() as u8, 0, 0, 0, 0]);
        out.extend(message);
        bytes = rest;
    }
    out
}

fn target() -> ContainerTarget {
    let text = || "a".to_owned();
    ContainerTarget {
        environment: text(),
        namespace: text(),
        pod: text(),
        uid: text(),
        node: text(),
        container: text(),
    }
}

/// Pods in which something listens on even ports and takes what it gets.
struct Nothing;

#[async_trait::async_trait]
impl PodStreams for Nothing {
    async fn logs(&self, _: ContainerTarget, _: LogOptions) -> Result<LogStream, ApiError> {
        Err(ApiError::internal("no logs here"))
    }

    async fn exec(&self, _: ContainerTarget, _: ExecOptions) -> Result<ExecSession, ApiError> {
        Err(ApiError::internal("no commands here"))
    }

    async fn port_forward(&self, _: ContainerTarget, port: u16) -> Result<Box<dyn Duplex>, ApiError> {
        if port % 2 == 1 {
            return Err(ApiError::internal("nothing listens"));
        }
        let hello = std::io::Cursor::new(Bytes::from_static(b"hello"));
        Ok(Box::new(tokio::io::join(hello.take(5), tokio::io::sink())))
    }
}
