//! Logs, exec and port-forward of pods: the hub's connections to workers, as the virtual API servers ask for them.

use std::sync::OnceLock;

use futures::StreamExt as _;
use tokio::sync::mpsc;
use vctl_machinery::status::ApiError;
use vctl_runtime::tasks::Tasks;
use vctl_syncer::{hub::Hub, streams as worker};
use vctl_vcluster::streams::{
    ContainerTarget, ContainerUsage, Duplex, ExecInput, ExecOptions, ExecOutput, ExecSession, LogOptions, LogStream,
    PodStreams, PodUsage,
};

/// How many items of a session wait in memory.
const PENDING: usize = 8;

/// Access to running pods through the hub, which is set after the API servers have been made.
pub(crate) struct Streams {
    hub: OnceLock<Hub>,
    tasks: Tasks,
}

impl Streams {
    pub(crate) fn new(tasks: Tasks) -> Self {
        Self { hub: OnceLock::new(), tasks }
    }

    /// Says which hub has the workers; once.
    pub(crate) fn connect(&self, hub: Hub) {
        if self.hub.set(hub).is_err() {
            tracing::error!("the workers' hub was set twice; the first one stays");
        }
    }

    fn hub(&self) -> Result<&Hub, ApiError> {
        self.hub.get().ok_or_else(|| ApiError::internal("the server is still starting; try again"))
    }
}

fn target(of: ContainerTarget) -> worker::ContainerTarget {
    let ContainerTarget { environment, namespace, pod, uid, node, container } = of;
    worker::ContainerTarget { environment, namespace, pod, uid, node, container }
}

#[async_trait::async_trait]
impl PodStreams for Streams {
    async fn logs(&self, of: ContainerTarget, options: LogOptions) -> Result<LogStream, ApiError> {
        let LogOptions { follow, previous, timestamps, tail_lines, since_seconds, since_time_ms, limit_bytes } =
            options;
        let options =
            worker::LogOptions { follow, previous, timestamps, tail_lines, since_seconds, since_time_ms, limit_bytes };
        let lines = self.hub()?.logs(target(of), options).await?;
        let tasks = self.tasks.clone();
        // A log that is followed has no end of its own: it must not hold up the end of the server.
        Ok(Box::pin(lines.take_until(async move { tasks.cancelled().await })))
    }

    async fn exec(&self, of: ContainerTarget, options: ExecOptions) -> Result<ExecSession, ApiError> {
        let ExecOptions { command, stdin, stdout, stderr, tty, attach } = options;
        let options = worker::ExecOptions { command, stdin, stdout, stderr, tty, attach };
        let worker::ExecSession { input: to_worker, output: mut from_worker } =
            self.hub()?.exec(target(of), options).await?;
        let (input, mut from_client) = mpsc::channel(PENDING);
        let (to_client, output) = mpsc::channel(PENDING);
        // Each direction ends by itself: dropping one end of a channel ends the other.
        self.tasks.spawn_until_stopped("exec input", async move {
            while let Some(item) = from_client.recv().await {
                let item = match item {
                    ExecInput::Stdin(bytes) => worker::ExecInput::Stdin(bytes),
                    ExecInput::CloseStdin => worker::ExecInput::CloseStdin,
                    ExecInput::Resize(size) => worker::ExecInput::Resize { width: size.width, height: size.height },
                };
                if to_worker.send(item).await.is_err() {
                    return;
                }
            }
        });
        self.tasks.spawn_until_stopped("exec output", async move {
            while let Some(item) = from_worker.recv().await {
                let item = match item {
                    worker::ExecOutput::Stdout(bytes) => ExecOutput::Stdout(bytes),
                    worker::ExecOutput::Stderr(bytes) => ExecOutput::Stderr(bytes),
                    worker::ExecOutput::Exit(code) => ExecOutput::Exit(code),
                    worker::ExecOutput::Failed(why) => ExecOutput::Failed(why),
                };
                if to_client.send(item).await.is_err() {
                    return;
                }
            }
        });
        Ok(ExecSession { input, output })
    }

    async fn port_forward(&self, of: ContainerTarget, port: u16) -> Result<Box<dyn Duplex>, ApiError> {
        Ok(Box::new(self.hub()?.port_forward(target(of), port).await?))
    }

    fn usage(&self, environment: &str) -> Vec<PodUsage> {
        let Some(hub) = self.hub.get() else { return Vec::new() };
        let container = |c: vctl_api::agent::ContainerStats| ContainerUsage {
            name: c.name,
            cpu_nano_cores: c.cpu_nano_cores,
            memory_bytes: c.memory_working_set_bytes,
        };
        let pod = |p: vctl_api::agent::PodStats| PodUsage {
            uid: p.uid,
            time_ms: p.time_ms,
            window_ms: p.window_ms,
            containers: p.containers.into_iter().map(container).collect(),
        };
        hub.stats(environment).into_iter().map(pod).collect()
    }
}
