//! What the API server needs from workers. Implemented by the wiring in `vctl/` over the syncer's connection to agents.

use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite};
use vctl_machinery::status::ApiError;

/// A container of a pod. Authorization, and that the pod and container exist, have been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerTarget {
    /// Name of the virtual cluster.
    pub environment: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// Node that the pod is bound to: the worker.
    pub node: String,
    /// Container; empty for port-forward.
    pub container: String,
}

/// `PodLogOptions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Keep the stream open for what comes.
    pub follow: bool,
    /// Of the previous instance of the container.
    pub previous: bool,
    /// Prefix every line with its RFC 3339 time.
    pub timestamps: bool,
    /// Only so many lines from the end.
    pub tail_lines: Option<i64>,
    /// Only what is younger, in seconds.
    pub since_seconds: Option<i64>,
    /// Only what is younger than this Unix time in milliseconds.
    pub since_time_ms: Option<i64>,
    /// Stop after so many bytes.
    pub limit_bytes: Option<i64>,
}

/// `PodExecOptions` and `PodAttachOptions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// The command; empty with `attach`.
    pub command: Vec<String>,
    /// Wants standard input.
    pub stdin: bool,
    /// Wants standard output.
    pub stdout: bool,
    /// Wants standard error (never with `tty`).
    pub stderr: bool,
    /// With a terminal.
    pub tty: bool,
    /// Attach to the container's main process.
    pub attach: bool,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// What the client side of an exec session sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    /// Bytes of standard input.
    Stdin(Bytes),
    /// Standard input has ended.
    CloseStdin,
    /// The terminal has this size now.
    Resize(TerminalSize),
}

/// What a running command sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecOutput {
    /// Bytes of standard output.
    Stdout(Bytes),
    /// Bytes of standard error.
    Stderr(Bytes),
    /// It has ended with this code; the last item.
    Exit(i32),
    /// It could not be run or was lost; the last item.
    Failed(String),
}

/// A running command. Dropping `input` means the client has gone: the session ends.
pub struct ExecSession {
    /// To the command. Bounded: sending waits while the command does not read.
    pub input: tokio::sync::mpsc::Sender<ExecInput>,
    /// From the command.
    pub output: tokio::sync::mpsc::Receiver<ExecOutput>,
}

/// What the containers of one pod use, as its worker has measured it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodUsage {
    /// UID of the pod.
    pub uid: String,
    /// When it was measured: Unix time in milliseconds.
    pub time_ms: i64,
    /// The time before that over which the use of processors is the mean, in milliseconds.
    pub window_ms: i64,
    /// Those that run.
    pub containers: Vec<ContainerUsage>,
}

/// What one container uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerUsage {
    /// Its name.
    pub name: String,
    /// Processors, in billionths.
    pub cpu_nano_cores: i64,
    /// Working set in bytes.
    pub memory_bytes: i64,
}

/// A stream of log bytes.
pub type LogStream = Pin<Box<dyn Stream<Item = Result<Bytes, ApiError>> + Send>>;

/// A two-way byte stream.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Access to running pods.
#[async_trait::async_trait]
pub trait PodStreams: Send + Sync {
    /// Opens the log of a container.
    async fn logs(&self, target: ContainerTarget, options: LogOptions) -> Result<LogStream, ApiError>;
    /// Starts (or attaches to) a command in a container.
    async fn exec(&self, target: ContainerTarget, options: ExecOptions) -> Result<ExecSession, ApiError>;
    /// Connects to a TCP port inside the pod's network namespace.
    async fn port_forward(&self, target: ContainerTarget, port: u16) -> Result<Box<dyn Duplex>, ApiError>;
    /// What the pods of a virtual cluster use, as far as it has been measured.
    fn usage(&self, environment: &str) -> Vec<PodUsage> {
        let _ = environment;
        Vec::new()
    }
}
