//! port-forward: every connection is a pair of SPDY streams with one request id, one for data and one for an error text.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};
use vctl_runtime::tasks::Tasks;

use super::spdy::{self, Event, Writer};
use crate::streams::{ContainerTarget, PodStreams};

/// Connections of one session at a time.
const MAX_CONNECTIONS: usize = 1024;
/// Longest id of a pair of streams; client-go counts. Those that wait for the other one are kept.
const MAX_REQUEST_ID: usize = 64;
const BUFFER: usize = 32 * 1024;

/// The half-open pairs and running connections of a session.
#[derive(Default)]
struct Session {
    /// Streams of a request id that wait for the other one: (error, data).
    waiting: HashMap<String, (Option<u32>, Option<u32>)>,
    /// Towards the pod, by data stream. None means the client's end of data.
    connections: HashMap<u32, mpsc::Sender<Option<Bytes>>>,
}

/// Serves a session until the client leaves.
pub(super) async fn serve<S>(io: S, target: &ContainerTarget, streams: &Arc<dyn PodStreams>, tasks: &Tasks)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (reader, writer, writing) = spdy::session(io);
    tasks.spawn("port-forward writer", writing);
    if let Err(error) = serve_session(reader, writer, target, streams, tasks).await {
        tracing::debug!(%error, "port-forward session ended");
    }
}

async fn serve_session<S>(
    mut reader: spdy::Reader<S>,
    writer: Writer,
    target: &ContainerTarget,
    streams: &Arc<dyn PodStreams>,
    tasks: &Tasks,
) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Send,
{
    let mut session = Session::default();
    while let Some(event) = reader.next().await? {
        match event {
            Event::Open { stream, headers, .. } => {
                let header = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
                let port = header("port").parse::<u16>().ok().filter(|port| *port != 0);
                let kind = header("streamtype");
                let request = header("requestid").to_owned();
                let too_much = request.len() > MAX_REQUEST_ID
                    || session.connections.len() + session.waiting.len() >= MAX_CONNECTIONS;
                let (Some(port), "error" | "data", false) = (port, kind, too_much) else {
                    if writer.reset(stream).await.is_err() {
                        return Ok(());
                    }
                    continue;
                };
                if writer.reply(stream).await.is_err() {
                    return Ok(());
                }
                let pair = session.waiting.entry(request.clone()).or_default();
                if kind == "error" {
                    pair.0 = Some(stream)
                } else {
                    pair.1 = Some(stream)
                }
                if let (Some(error), Some(data)) = *pair {
                    session.waiting.remove(&request);
                    session.connections.retain(|_, sender| !sender.is_closed());
                    let (sender, receiver) = mpsc::channel(8);
                    session.connections.insert(data, sender);
                    let connection = Connection { error, data, writer: writer.clone() };
                    let (target, streams) = (target.clone(), streams.clone());
                    tasks.spawn_until_stopped("port-forward connection", async move {
                        connection.run(target, port, streams, receiver).await;
                    });
                }
            }
            Event::Data { stream, data, fin } => {
                // Data of streams that have ended is dropped. A pod that does not read holds up the session: SPDY as
                // client-go speaks it has no windows, and memory is bounded.
                if let Some(sender) = session.connections.get(&stream) {
                    let mut gone = !data.is_empty() && sender.send(Some(data)).await.is_err();
                    gone |= fin && sender.send(None).await.is_err();
                    if gone || fin {
                        session.connections.remove(&stream);
                    }
                }
            }
            Event::Reset { stream } => {
                session.connections.remove(&stream);
                session.waiting.retain(|_, pair| pair.0 != Some(stream) && pair.1 != Some(stream));
            }
        }
    }
    Ok(())
}

struct Connection {
    error: u32,
    data: u32,
    writer: Writer,
}

impl Connection {
    async fn run(
        self,
        target: ContainerTarget,
        port: u16,
        streams: Arc<dyn PodStreams>,
        mut from_client: mpsc::Receiver<Option<Bytes>>,
    ) {
        let (pod, namespace) = (target.pod.clone(), target.namespace.clone());
        let connection = match streams.port_forward(target, port).await {
            Ok(connection) => connection,
            Err(error) => {
                let text = format!("error forwarding port {port} to pod {namespace}/{pod}: {error}");
                self.end(Some(text)).await;
                return;
            }
        };
        let (mut from_pod, mut to_pod) = tokio::io::split(connection);
        let inward = async {
            let mut ended = false;
            while let Some(item) = from_client.recv().await {
                let Some(bytes) = item else {
                    ended = true;
                    break;
                };
                if to_pod.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            // The pod sees the end of what the client sends and may still answer.
            if to_pod.shutdown().await.is_ok() && ended {
                std::future::pending::<()>().await;
            }
        };
        let outward = async {
            let mut buffer = vec![0; BUFFER];
            loop {
                match from_pod.read(&mut buffer).await {
                    Ok(0) => return None,
                    Ok(n) => {
                        if self.writer.data(self.data, Bytes::copy_from_slice(&buffer[..n])).await.is_err() {
                            return None;
                        }
                    }
                    Err(e) => return Some(format!("error forwarding port {port} to pod {namespace}/{pod}: {e}")),
                }
            }
        };
        let error = tokio::select! {
            () = inward => None,
            error = outward => error,
        };
        self.end(error).await;
    }

    /// Ends both streams, with an error text if there is one. A client that has gone does not hear it.
    async fn end(&self, error: Option<String>) {
        if let Some(text) = error
            && self.writer.data(self.error, text.into()).await.is_err()
        {
            return;
        }
        if self.writer.finish(self.error).await.is_ok() {
            let _ = self.writer.finish(self.data).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use vctl_machinery::status::ApiError;

    use super::*;
    use crate::{
        streaming::spdy::testing,
        streams::{Duplex, ExecOptions, ExecSession, LogOptions, LogStream},
    };

    /// Echoes on port 80, refuses the others.
    struct Echo;

    #[async_trait::async_trait]
    impl PodStreams for Echo {
        async fn logs(&self, _: ContainerTarget, _: LogOptions) -> Result<LogStream, ApiError> {
            Err(ApiError::internal("not in this test"))
        }
        async fn exec(&self, _: ContainerTarget, _: ExecOptions) -> Result<ExecSession, ApiError> {
            Err(ApiError::internal("not in this test"))
        }
        async fn port_forward(&self, _: ContainerTarget, port: u16) -> Result<Box<dyn Duplex>, ApiError> {
            if port != 80 {
                return Err(ApiError::internal("connection refused"));
            }
            let (near, far) = tokio::io::duplex(64);
            let (mut read, mut write) = tokio::io::split(far);
            Tasks::new().spawn("echo", async move {
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
            Ok(Box::new(near))
        }
    }

    fn target() -> ContainerTarget {
        ContainerTarget {
            environment: "dev".into(),
            namespace: "default".into(),
            pod: "p".into(),
            uid: "u".into(),
            node: "n".into(),
            container: String::new(),
        }
    }

    async fn converse(port: &str, sent: &[u8], wanted: &[u8]) {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (mut from_server, mut to_server) = tokio::io::split(client);
        let tasks = Tasks::new();
        let streams: Arc<dyn PodStreams> = Arc::new(Echo);
        let serving = tasks.clone();
        tasks.spawn("serve", async move { serve(server, &target(), &streams, &serving).await });
        let mut compressor = testing::ClientCompressor::new().unwrap();
        let mut bytes = Vec::new();
        for (stream, kind) in [(1, "error"), (3, "data")] {
            bytes.extend(testing::open(
                &mut compressor,
                stream,
                &[("streamtype", kind), ("port", port), ("requestid", "0")],
            ));
        }
        bytes.extend(testing::data(3, sent, true));
        to_server.write_all(&bytes).await.unwrap();
        let mut seen = Vec::new();
        let mut chunk = [0; 1024];
        // Both streams end: two data frames with FIN, which are eight bytes each.
        let ended = |seen: &[u8], stream| seen.windows(8).any(|w| w == testing::data(stream, b"", true));
        while !(ended(&seen, 1) && ended(&seen, 3)) {
            let n = from_server.read(&mut chunk).await.unwrap();
            assert!(n > 0, "closed early: {seen:?}");
            seen.extend(&chunk[..n]);
        }
        assert!(seen.windows(wanted.len()).any(|w| w == wanted), "{}", String::from_utf8_lossy(&seen));
        tasks.stop();
    }

    #[tokio::test]
    async fn bytes_go_both_ways() {
        converse("80", b"ping", &testing::data(3, b"ping", false)).await;
    }

    #[tokio::test]
    async fn a_refused_connection_says_why() {
        converse("81", b"", b"error forwarding port 81 to pod default/p: Internal error occurred: connection refused")
            .await;
    }

    #[tokio::test]
    async fn ids_that_nobody_counts_up_to_are_refused() {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (mut from_server, mut to_server) = tokio::io::split(client);
        let tasks = Tasks::new();
        let streams: Arc<dyn PodStreams> = Arc::new(Echo);
        let mut compressor = testing::ClientCompressor::new().unwrap();
        let id = "9".repeat(60_000);
        let headers = [("streamtype", "error"), ("port", "80"), ("requestid", id.as_str())];
        to_server.write_all(&testing::open(&mut compressor, 1, &headers)).await.unwrap();
        to_server.shutdown().await.unwrap();
        serve(server, &target(), &streams, &tasks).await;
        let mut reset = [0; 12];
        from_server.read_exact(&mut reset).await.unwrap();
        assert_eq!(reset, [0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 1], "RST_STREAM");
    }
}
