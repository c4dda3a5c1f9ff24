//! The gRPC service. Who calls is what the client certificate says, never what a message says.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use vctl_api::agent::{
    AgentMessage, Frame, JoinRequest, JoinResponse, RenewRequest, ServerMessage, StreamFailure, StreamHeader, Welcome,
    agent_message, frame, server_message,
};
use vctl_runtime::serve::PeerCertificates;

use super::{Inner, engine::Work};
use crate::{
    grpc::agent_service_server,
    remote::{Incoming, Remote, bridge},
};

/// How long the first message of a stream may take.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);

/// See [`super::Hub::service`].
pub struct AgentService {
    inner: Arc<Inner>,
}

impl AgentService {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    fn caller<T>(&self, request: &Request<T>) -> Result<Arc<str>, Status> {
        let Some(PeerCertificates(chain)) = request.extensions().get::<PeerCertificates>() else {
            return Err(Status::unauthenticated("no client certificate; join first"));
        };
        self.inner.worker_of(chain).map(Into::into)
    }
}

#[tonic::async_trait]
impl agent_service_server::AgentService for AgentService {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        let request = request.into_inner();
        self.inner.take_token(&request.token, &request.worker).await?;
        let response = self.inner.certify(&request.worker, &request.csr_der)?;
        tracing::info!(worker = request.worker, "a worker has joined");
        Ok(Response::new(response))
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<JoinResponse>, Status> {
        let worker = self.caller(&request)?;
        Ok(Response::new(self.inner.certify(&worker, &request.into_inner().csr_der)?))
    }

    type ConnectStream = ReceiverStream<Result<ServerMessage, Status>>;

    async fn connect(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let worker = self.caller(&request)?;
        let (out, messages) = mpsc::channel(8);
        let inner = self.inner.clone();
        let incoming = request.into_inner();
        self.inner.tasks.spawn("agent control stream", async move {
            let ended = tokio::select! {
                ended = inner.control(&worker, incoming, &out) => ended,
                // Told to the agent, which then waits for the next server: the connection need not be broken under it.
                () = inner.tasks.cancelled() => {
                    inner.hang_up(&worker);
                    Err(Status::unavailable("the server is stopping"))
                }
            };
            if let Err(status) = ended {
                tracing::info!(worker = %worker, reason = status.message(), "the control stream of a worker has ended");
                // Whether the agent still hears it does not matter.
                let _ = out.try_send(Err(status));
            }
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    type StreamStream = ReceiverStream<Result<Frame, Status>>;

    async fn stream(&self, request: Request<Streaming<Frame>>) -> Result<Response<Self::StreamStream>, Status> {
        let worker = self.caller(&request)?;
        let (out, frames) = mpsc::channel(16);
        let inner = self.inner.clone();
        let incoming = Incoming { frames: request.into_inner(), out };
        self.inner.tasks.spawn_until_stopped("agent stream", async move { inner.accept(&worker, incoming).await });
        Ok(Response::new(ReceiverStream::new(frames)))
    }
}

type Outgoing = mpsc::Sender<Result<ServerMessage, Status>>;

impl Inner {
    /// Serves the control stream of a worker until it ends.
    async fn control(
        self: &Arc<Self>,
        worker: &Arc<str>,
        mut incoming: Streaming<AgentMessage>,
        out: &Outgoing,
    ) -> Result<(), Status> {
        let first = tokio::time::timeout(FIRST_MESSAGE, incoming.message())
            .await
            .map_err(|_| Status::deadline_exceeded("no Hello in time"))??;
        let Some(AgentMessage { message: Some(agent_message::Message::Hello(hello)) }) = first else {
            return Err(Status::invalid_argument("the first message must be Hello"));
        };
        if *hello.worker != **worker {
            return Err(Status::permission_denied(format!(
                "the certificate is that of worker {worker}, not of {}",
                hello.worker
            )));
        }
        let known = self.lock().workers.contains_key(worker);
        let Some(remote) = self.add_worker(worker, None) else {
            return Err(Status::failed_precondition(format!("{worker} is a simulated worker; choose another name")));
        };
        if !known {
            // Pods may have been bound to a worker of this name before.
            self.look_again();
        }
        let mut synced = self.synced.subscribe();
        synced.wait_for(|synced| *synced).await.map_err(|_| Status::unavailable("the server is stopping"))?;
        let welcome = Welcome { server_version: self.config.server_version.clone() };
        let welcome = ServerMessage { message: Some(server_message::Message::Welcome(welcome)) };
        if out.send(Ok(welcome)).await.is_err() {
            return Ok(());
        }
        self.remove_orphaned_volumes(&remote, hello.volume_environments).await;
        let connected = remote.connect(&hello.applied, out.clone());
        self.seen(worker);
        tracing::info!(worker = %worker, version = hello.agent_version, "a worker is connected");
        let ended = tokio::select! {
            ended = self.listen(worker, &remote, &mut incoming) => ended,
            () = connected.superseded.cancelled() => {
                Err(Status::aborted("a newer control stream of this worker has taken over"))
            }
        };
        if remote.disconnect(connected.number) {
            if let Some(entry) = self.lock().workers.get_mut(worker) {
                entry.last_seen = Some(self.clock.now());
            }
            self.queue.add_after(Work::Away(worker.clone()), self.config.away_after);
            tracing::info!(worker = %worker, "a worker is no longer connected");
        }
        ended
    }

    /// Lets go of a worker's control stream and of what waits for streams of it.
    fn hang_up(&self, worker: &Arc<str>) {
        let remote = self.lock().remote(worker);
        if let Some(remote) = remote {
            remote.hang_up();
        }
    }

    fn seen(&self, worker: &Arc<str>) {
        if let Some(entry) = self.lock().workers.get_mut(worker) {
            entry.last_seen = Some(self.clock.now());
        }
        self.check_away(worker);
    }

    async fn listen(
        &self,
        worker: &Arc<str>,
        remote: &Remote,
        incoming: &mut Streaming<AgentMessage>,
    ) -> Result<(), Status> {
        use agent_message::Message;
        while let Some(message) = incoming.message().await? {
            match message.message {
                Some(Message::Applied(applied)) => {
                    remote.applied(&applied.resource_class, applied.generation, &applied.error);
                }
                Some(Message::PodStatus(status)) => self.pod_status(worker, status),
                Some(Message::PodGone(gone)) => self.pod_gone(worker, &gone),
                Some(Message::PodEvent(event)) => self.pod_event(worker, event),
                Some(Message::VolumeGone(gone)) => self.volume_gone(worker, &gone.id),
                Some(Message::PodStats(stats)) => remote.keep_stats(stats),
                Some(Message::Node(report)) => {
                    if let Err(error) = self.reported(worker, report).await {
                        tracing::warn!(worker = %worker, %error, "the report of a worker could not be kept");
                    }
                }
                // A second Hello, or something newer than this server.
                Some(Message::Hello(_)) | None => {}
            }
        }
        Ok(())
    }

    /// A stream that an agent has opened: asked for, or a pod's tunnel to its API server.
    async fn accept(&self, worker: &Arc<str>, mut incoming: Incoming) {
        let first = tokio::time::timeout(FIRST_MESSAGE, incoming.frames.message()).await;
        let Ok(Ok(Some(Frame { frame: Some(frame::Frame::Header(header)) }))) = first else {
            let _ = incoming.out.send(Err(Status::invalid_argument("the first frame must be a header"))).await;
            return;
        };
        if header.stream_id.is_empty() {
            self.tunnel(worker, header, incoming).await;
            return;
        }
        let remote = self.lock().remote(worker);
        let unwanted = match remote {
            Some(remote) => remote.opened(&header.stream_id, incoming),
            None => Some(incoming),
        };
        if let Some(unwanted) = unwanted {
            let _ = unwanted.out.send(Err(Status::not_found("nobody waits for this stream"))).await;
        }
    }

    async fn tunnel(&self, worker: &Arc<str>, header: StreamHeader, incoming: Incoming) {
        let allowed = {
            let state = self.lock();
            let tenant = state.by_name.get(header.tunnel_environment.as_str());
            tenant.is_some_and(|tenant| state.networks.contains_key(&(*tenant, worker.clone())))
        };
        let api = match self.api() {
            Ok(api) if allowed => api,
            _ => {
                let failure = StreamFailure {
                    reason: "NotFound".to_owned(),
                    message: "this worker has no pods of that environment".to_owned(),
                };
                let _ = incoming.out.send(Ok(Frame { frame: Some(frame::Frame::Failure(failure)) })).await;
                return;
            }
        };
        api.tunnel(&header.tunnel_environment, &header.peer, Box::new(bridge(incoming))).await;
    }
}
