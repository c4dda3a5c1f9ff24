//! Logs, exec and port-forward of pods, as the API server asks for them.

use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;
use vctl_machinery::status::ApiError;

/// A container of a pod. Whoever asks has authorized the request and checked that pod and container exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerTarget {
    /// Name of the virtual cluster.
    pub environment: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod; for a [`crate::target::Target`], what workers call it.
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

/// What the client side of an exec session sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    /// Bytes of standard input.
    Stdin(Bytes),
    /// Standard input has ended.
    CloseStdin,
    /// The terminal has this size now, in characters.
    Resize {
        /// Columns.
        width: u16,
        /// Rows.
        height: u16,
    },
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

/// A stream of log bytes.
pub type LogStream = Pin<Box<dyn Stream<Item = Result<Bytes, ApiError>> + Send>>;
