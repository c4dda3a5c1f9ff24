//! A fake virtual API over the memory store, and an agent that is driven by the test.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, io::AsyncWriteExt as _, sync::mpsc};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Status, Streaming, codegen::http::uri::PathAndQuery, transport::Channel};
use tonic_prost::ProstCodec;
use vctl_api::agent::*;
use vctl_machinery::status::ApiError;
use vctl_runtime::{
    clock::Clock,
    pki::{Authority, Validity, chain_from_pem},
    serve::PeerCertificates,
    tasks::Tasks,
};
use vctl_store::{Expect, Key, MemoryStore, Store, StoreError, Tenant, Write};
use vctl_syncer::{
    hub::{AWAY_AFTER, Config, Hub},
    ports::{Caller, Duplex, VirtualApi},
};

pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// Documents in a store, written as the API server would.
pub(crate) struct FakeApi {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) writes: AtomicUsize,
    pub(crate) tokens: Mutex<Vec<Value>>,
}

impl FakeApi {
    pub(crate) async fn tenant(&self, environment: &str) -> Tenant {
        self.store.tenant(environment).await.unwrap().expect(environment).tenant
    }

    pub(crate) async fn put(&self, environment: &str, resource: &str, namespace: &str, name: &str, object: Value) {
        let key = Key::new(resource, namespace, name);
        let write = Write { key, expect: Expect::Any, value: Some(object.to_string().into()) };
        self.store.transact(self.tenant(environment).await, vec![write]).await.unwrap();
    }

    pub(crate) async fn remove(&self, environment: &str, resource: &str, namespace: &str, name: &str) {
        let write = Write { key: Key::new(resource, namespace, name), expect: Expect::Any, value: None };
        self.store.transact(self.tenant(environment).await, vec![write]).await.unwrap();
    }

    pub(crate) async fn find(&self, environment: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let tenant = self.store.tenant(environment).await.unwrap()?.tenant;
        let (entry, _) = self.store.get(tenant, &Key::new(resource, namespace, name)).await.ok()?;
        let entry = entry?;
        let mut value: Value = serde_json::from_slice(&entry.value).unwrap();
        value["metadata"]["resourceVersion"] = entry.revision.to_string().into();
        Some(value)
    }

    /// Polls until a document is as wanted.
    pub(crate) async fn until(
        &self,
        environment: &str,
        resource: &str,
        namespace: &str,
        name: &str,
        what: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        let end = tokio::time::Instant::now() + LIMIT;
        loop {
            let found = self.find(environment, resource, namespace, name).await;
            if what(found.as_ref()) {
                return found;
            }
            assert!(tokio::time::Instant::now() < end, "not in time: {resource} {name} is {found:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn write(
        &self,
        environment: &str,
        resource: &str,
        namespace: &str,
        name: &str,
        expect: Expect,
        mut object: Value,
    ) -> Result<Value, ApiError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let write = Write { key: Key::new(resource, namespace, name), expect, value: Some(object.to_string().into()) };
        match self.store.transact(self.tenant(environment).await, vec![write]).await {
            Ok(revisions) => {
                object["metadata"]["resourceVersion"] = revisions[0].to_string().into();
                Ok(object)
            }
            Err(StoreError::Conflict { .. }) => Err(ApiError::modified("", resource, name)),
            Err(e) => Err(ApiError::internal(e)),
        }
    }
}

fn revision(object: &Value) -> Expect {
    let text = object["metadata"]["resourceVersion"].as_str().expect("a resourceVersion: writes are compare-and-swap");
    Expect::Revision(text.parse().unwrap())
}

#[tonic::async_trait]
impl VirtualApi for FakeApi {
    async fn get(&self, caller: Caller<'_>, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let found = self.find(caller.environment, resource, namespace, name).await;
        found.ok_or_else(|| ApiError::not_found("", resource, name))
    }
    async fn create(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.write(caller.environment, resource, namespace, &name, Expect::Absent, object).await
    }
    async fn update(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        let expect = revision(&object);
        self.write(caller.environment, resource, namespace, name, expect, object).await
    }
    async fn update_status(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        let expect = revision(&object);
        self.write(caller.environment, resource, namespace, name, expect, object).await
    }
    async fn delete(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
        options: Value,
    ) -> Result<(), ApiError> {
        let found = self.get(caller, resource, namespace, name).await?;
        assert_eq!(options["gracePeriodSeconds"], 0);
        if options["preconditions"]["uid"] != found["metadata"]["uid"] {
            return Err(ApiError::conflict("", resource, name, "uid"));
        }
        self.remove(caller.environment, resource, namespace, name).await;
        Ok(())
    }
    async fn token(&self, _: Caller<'_>, _: &str, _: &str, request: Value) -> Result<Value, ApiError> {
        let mut tokens = self.tokens.lock().unwrap();
        tokens.push(request);
        let expires = jiff::Timestamp::now() + Duration::from_hours(1);
        Ok(
            json!({ "status": { "token": format!("token-{}", tokens.len()), "expirationTimestamp": expires.to_string() } }),
        )
    }
    /// Echoes what the pod sends, after its address.
    async fn tunnel(&self, environment: &str, peer: &str, mut stream: Box<dyn Duplex>) {
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).await.unwrap();
        let answer = format!("{environment} {peer} {}", String::from_utf8_lossy(&bytes));
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    }
}

pub(crate) struct World {
    pub(crate) api: Arc<FakeApi>,
    pub(crate) hub: Hub,
    pub(crate) tasks: Tasks,
    pub(crate) authority: Arc<Authority>,
}

impl World {
    pub(crate) async fn new(simulated: &[&str]) -> Self {
        Self::over(Arc::new(MemoryStore::new()), simulated).await
    }

    pub(crate) async fn over(store: Arc<MemoryStore>, simulated: &[&str]) -> Self {
        Self::with(store, simulated, AWAY_AFTER).await
    }

    pub(crate) async fn with(store: Arc<MemoryStore>, simulated: &[&str], away_after: Duration) -> Self {
        let tasks = Tasks::new();
        let validity = Validity::from_now(jiff::Timestamp::now(), Duration::from_hours(24));
        let authority = Arc::new(Authority::generate("test", validity).unwrap());
        let config = Config {
            away_after,
            server_version: "test".into(),
            authority: authority.clone(),
            certificate_lifetime: Duration::from_hours(1),
            allow_host_access: false,
            simulated: simulated.iter().map(ToString::to_string).collect(),
            parallel: 4,
        };
        let api = Arc::new(FakeApi { store: store.clone(), writes: AtomicUsize::new(0), tokens: Mutex::default() });
        let hub = Hub::new(config, store, Clock::system(), tasks.clone()).await.unwrap();
        hub.start(api.clone());
        Self { api, hub, tasks, authority }
    }

    /// Serves the hub to a client with this certificate chain, as the TLS listener would tell it.
    pub(crate) async fn channel(&self, chain: Vec<Vec<u8>>) -> Channel {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let peer = PeerCertificates(Arc::new(chain));
        let service =
            tonic::service::interceptor::InterceptedService::new(self.hub.service(), move |mut request: Request<()>| {
                request.extensions_mut().insert(peer.clone());
                Ok(request)
            });
        self.tasks.spawn_until_stopped("test server", async move {
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
                .unwrap();
        });
        Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
    }

    /// Joins with a token and connects.
    pub(crate) async fn agent(&self, worker: &str) -> Agent {
        self.reconnect(worker, HashMap::new()).await
    }

    /// The same with what it already has.
    pub(crate) async fn reconnect(&self, worker: &str, applied: HashMap<String, u64>) -> Agent {
        let token = self.hub.join_token(worker, Duration::from_mins(1)).await.unwrap();
        let csr = csr();
        let request = JoinRequest { token, worker: worker.into(), csr_der: csr.into() };
        let joined: JoinResponse = unary(&self.channel(vec![]).await, "Join", request).await.unwrap();
        let chain = chain_from_pem(std::str::from_utf8(&joined.certificate_pem).unwrap()).unwrap();
        let channel = self.channel(chain).await;
        Agent::connect(channel, worker, applied).await
    }
}

pub(crate) fn csr() -> Vec<u8> {
    let (pem, _key) = vctl_runtime::pki::request("anything", None).unwrap();
    use base64::Engine as _;
    let body: String = pem.lines().filter(|l| !l.starts_with("---")).collect();
    base64::engine::general_purpose::STANDARD.decode(body).unwrap()
}

fn path(method: &str) -> PathAndQuery {
    PathAndQuery::try_from(format!("/vctl.agent.v1.AgentService/{method}")).unwrap()
}

pub(crate) async fn unary<Q, A>(channel: &Channel, method: &str, request: Q) -> Result<A, Status>
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<Q, A>::default();
    Ok(grpc.unary(Request::new(request), path(method), codec).await?.into_inner())
}

/// An agent of which the test plays the part.
pub(crate) struct Agent {
    pub(crate) channel: Channel,
    pub(crate) to: mpsc::Sender<AgentMessage>,
    pub(crate) from: Streaming<ServerMessage>,
    pub(crate) pods: HashMap<String, Pod>,
    pub(crate) services: HashMap<String, Service>,
    pub(crate) dns: HashMap<String, DnsRecord>,
    pub(crate) applied: HashMap<String, u64>,
    /// What it was asked to remove, and has.
    pub(crate) removed_volumes: Vec<String>,
    pub(crate) last_full: bool,
}

impl Agent {
    pub(crate) async fn connect(channel: Channel, worker: &str, applied: HashMap<String, u64>) -> Self {
        Self::connect_with(channel, worker, applied, Vec::new()).await
    }

    /// The same with volumes of these environments.
    pub(crate) async fn connect_with(
        channel: Channel,
        worker: &str,
        applied: HashMap<String, u64>,
        volume_environments: Vec<String>,
    ) -> Self {
        let (to, messages) = mpsc::channel(64);
        let hello = Hello { worker: worker.into(), agent_version: "test".into(), applied, volume_environments };
        to.send(AgentMessage { message: Some(agent_message::Message::Hello(hello)) }).await.unwrap();
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let codec = ProstCodec::<AgentMessage, ServerMessage>::default();
        let from = grpc
            .streaming(Request::new(ReceiverStream::new(messages)), path("Connect"), codec)
            .await
            .unwrap()
            .into_inner();
        Self {
            channel,
            to,
            from,
            pods: HashMap::new(),
            services: HashMap::new(),
            dns: HashMap::new(),
            applied: HashMap::new(),
            removed_volumes: Vec::new(),
            last_full: false,
        }
    }

    pub(crate) async fn tell(&self, message: agent_message::Message) {
        self.to.send(AgentMessage { message: Some(message) }).await.unwrap();
    }

    /// The next message, applied.
    pub(crate) async fn next(&mut self) -> Result<server_message::Message, Status> {
        use server_message::Message;
        let message = tokio::time::timeout(LIMIT, self.from.message()).await.expect("a message in time")?;
        let message = message.ok_or_else(|| Status::ok("ended"))?.message.unwrap();
        match &message {
            Message::Pods(p) => {
                self.last_full = p.full;
                apply(&mut self.pods, p.full, &p.upsert, |p| p.uid.clone(), &p.removed);
                self.applied.insert("pods".into(), p.generation);
            }
            Message::Services(s) => {
                apply(&mut self.services, s.full, &s.upsert, |s| s.id.clone(), &s.removed);
                self.applied.insert("services".into(), s.generation);
            }
            Message::Dns(d) => {
                apply(&mut self.dns, d.full, &d.upsert, |d| d.id.clone(), &d.removed);
                self.applied.insert("dns".into(), d.generation);
            }
            Message::RemoveVolumes(asked) => {
                for id in asked.ids.clone() {
                    self.removed_volumes.push(id.clone());
                    self.tell(agent_message::Message::VolumeGone(VolumeGone { id })).await;
                }
            }
            _ => {}
        }
        Ok(message)
    }

    pub(crate) async fn until(&mut self, what: impl Fn(&Self) -> bool) {
        while !what(self) {
            self.next().await.unwrap();
        }
    }

    pub(crate) async fn until_open(&mut self) -> OpenStream {
        loop {
            if let server_message::Message::OpenStream(open) = self.next().await.unwrap() {
                return open;
            }
        }
    }

    /// Opens a stream and sends its header.
    pub(crate) async fn stream(&self, header: StreamHeader) -> (mpsc::Sender<Frame>, Streaming<Frame>) {
        let (to, frames) = mpsc::channel(16);
        to.send(Frame { frame: Some(frame::Frame::Header(header)) }).await.unwrap();
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        let codec = ProstCodec::<Frame, Frame>::default();
        let from = grpc
            .streaming(Request::new(ReceiverStream::new(frames)), path("Stream"), codec)
            .await
            .unwrap()
            .into_inner();
        (to, from)
    }
}

fn apply<T: Clone>(
    map: &mut HashMap<String, T>,
    full: bool,
    upsert: &[T],
    id: impl Fn(&T) -> String,
    removed: &[String],
) {
    if full {
        map.clear();
    }
    for item in upsert {
        map.insert(id(item), item.clone());
    }
    for id in removed {
        map.remove(id);
    }
}

pub(crate) fn data(channel: u32, bytes: &'static [u8]) -> Frame {
    Frame { frame: Some(frame::Frame::Data(Data { channel, bytes: bytes.into() })) }
}

pub(crate) fn pod(name: &str, uid: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "uid": uid },
        "spec": { "nodeName": node, "restartPolicy": "Always", "containers": [{ "name": "app", "image": "busybox" }] },
        "status": { "phase": "Pending" },
    })
}

pub(crate) fn ready(pod: Option<&Value>) -> bool {
    pod.and_then(|p| p["status"]["conditions"].as_array())
        .is_some_and(|c| c.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}
