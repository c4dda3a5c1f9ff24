//! Serving HTTP over TLS: one listener, any number of certificate authorities for clients.
//!
//! The TLS layer asks for a client certificate and proves that the client holds its key, but does not decide whom to trust: which
//! authority counts depends on the request (each virtual cluster has its own). The chain is handed on as
//! [`PeerCertificates`]; whoever authenticates verifies it.

mod opening;
mod stalled;
mod unread;

use std::{convert::Infallible, io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use axum::{Router, body::Body, response::Response, routing::future::RouteFuture};
use futures::{
    FutureExt as _,
    future::{BoxFuture, Either},
};
use http::header;
use hyper::body::{Body as _, Incoming};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use rustls::{
    DigitallySignedStruct, DistinguishedName, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime},
    server::{
        ResolvesServerCert,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;

pub use self::stalled::{MustRead, Reading};
use self::{
    opening::{Begun, Opening},
    stalled::Stalled,
    unread::{Lingering, Rest, Unread},
};
use crate::tasks::Tasks;

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
struct TimeLimits {
    /// For the TLS handshake.
    handshake: Duration,
    /// For the header of its first request, or to say that it speaks HTTP/2.
    header: Duration,
    /// From one request on HTTP/1 to the end of the next one's header.
    idle: Duration,
    /// On HTTP/1, for the rest of a body that nobody reads.
    rest: Duration,
    /// After an answer with which a connection ends, for the client to close it.
    linger: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(30),
            idle: Duration::from_secs(90),
            rest: Duration::from_secs(1),
            linger: Duration::from_millis(500),
        }
    }
}

/// How long a client that [must read](MustRead) may leave what is sent to it untouched.
const STALL_LIMIT: Duration = Duration::from_mins(1);
/// How long open connections get to finish after the stop signal.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// Connections served at a time; further ones wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 32_768;
/// Streams at a time on one HTTP/2 connection. An agent carries all logs and sessions of its pods on one.
const MAX_STREAMS: u32 = 4_096;

/// The client certificate chain (DER, leaf first) of the connection, as a request extension; empty without one.
/// The client has proved that it holds the leaf's key; nothing else has been checked.
#[derive(Debug, Clone, Default)]
pub struct PeerCertificates(pub Arc<Vec<Vec<u8>>>);

/// Where a request came from, as a request extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A TCP client.
    Address(SocketAddr),
    /// A client of a unix socket.
    Unix,
    /// A pod, through the tunnel of a worker: the environment it belongs to, as the worker says, and its address.
    Tunnel {
        /// Name of the environment.
        environment: Arc<str>,
        /// Address of the pod.
        address: Arc<str>,
    },
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Unix => f.write_str("unix"),
            Self::Tunnel { address, .. } => f.write_str(address),
        }
    }
}

/// The TLS settings of a listener.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
}

/// The process-wide choice of cryptography.
pub fn crypto_provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Makes [`crypto_provider`] the default of libraries that ask for one. Calling it again does nothing.
pub fn install_crypto_provider() {
    // An error means that one is installed already: the same one, since only this function does it.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Tls {
    /// Settings with one certificate chain (PEM) and its key (PEM).
    ///
    /// # Errors
    /// Chain or key that do not parse or do not belong together.
    pub fn new(chain_pem: &str, key_pem: &str) -> Result<Self, String> {
        use rustls::pki_types::pem::PemObject;
        let chain = CertificateDer::pem_slice_iter(chain_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| format!("the serving certificate does not parse: {e}"))?;
        let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())
            .map_err(|e| format!("the serving key does not parse: {e}"))?;
        let config = Self::builder()?
            .with_single_cert(chain, key)
            .map_err(|e| format!("the serving certificate cannot be used: {e}"))?;
        Ok(Self::of(config))
    }

    /// Settings that choose the certificate per connection.
    ///
    /// # Errors
    /// When the cryptography provider lacks a protocol version.
    pub fn with_resolver(resolver: Arc<dyn ResolvesServerCert>) -> Result<Self, String> {
        Ok(Self::of(Self::builder()?.with_cert_resolver(resolver)))
    }

    fn builder() -> Result<rustls::ConfigBuilder<rustls::ServerConfig, rustls::server::WantsServerCert>, String> {
        let provider = crypto_provider();
        let verifier = Arc::new(AnyClient { algorithms: provider.signature_verification_algorithms });
        Ok(rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| format!("TLS cannot be set up: {e}"))?
            .with_client_cert_verifier(verifier))
    }

    fn of(mut config: rustls::ServerConfig) -> Self {
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self { acceptor: TlsAcceptor::from(Arc::new(config)) }
    }
}

/// Accepts any client certificate whose key the client holds; see the module's page for who decides on trust.
#[derive(Debug)]
struct AnyClient {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Serves HTTP/1.1 and HTTP/2 over TLS on connections of any kind.
#[derive(Clone)]
pub struct Server {
    tls: Tls,
    router: Router,
    tasks: Tasks,
    slots: Arc<Semaphore>,
    limits: TimeLimits,
}

impl Server {
    /// A server for `router`; its connections are tasks of `tasks` and end with it.
    pub fn new(tls: Tls, router: Router, tasks: Tasks) -> Self {
        Self { tls, router, tasks, slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)), limits: TimeLimits::default() }
    }

    /// Accepts TCP connections until the tasks are told to stop.
    pub fn listen_tcp(&self, listener: TcpListener) {
        let server = self.clone();
        self.tasks.spawn_until_stopped("tcp listener", async move {
            loop {
                let slot = server.slot().await;
                match listener.accept().await {
                    Ok((stream, address)) => {
                        // Small frames (watch events) must not wait for an ACK.
                        if let Err(e) = stream.set_nodelay(true) {
                            tracing::debug!(error = %e, "cannot set TCP_NODELAY");
                        }
                        server.connection(stream, Peer::Address(address), slot);
                    }
                    Err(e) => accept_failed(&e).await,
                }
            }
        });
    }

    /// Accepts connections of a unix socket until the tasks are told to stop.
    #[cfg(unix)]
    pub fn listen_unix(&self, listener: tokio::net::UnixListener) {
        let server = self.clone();
        self.tasks.spawn_until_stopped("unix listener", async move {
            loop {
                let slot = server.slot().await;
                match listener.accept().await {
                    Ok((stream, _)) => server.connection(stream, Peer::Unix, slot),
                    Err(e) => accept_failed(&e).await,
                }
            }
        });
    }

    /// Serves one connection that came by another way, such as a worker's tunnel. Returns when it has ended.
    pub async fn serve<S>(&self, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if let Err(e) = self.run(stream, peer.clone()).await {
            tracing::debug!(%peer, error = %e, "connection ended");
        }
    }

    /// As [`Server::serve`], with another certificate than the listeners'.
    pub async fn serve_with<S>(&self, tls: Tls, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        Self { tls, ..self.clone() }.serve(stream, peer).await;
    }

    async fn slot(&self) -> Option<tokio::sync::OwnedSemaphorePermit> {
        self.slots.clone().acquire_owned().await.ok()
    }

    fn connection<S>(&self, stream: S, peer: Peer, slot: Option<tokio::sync::OwnedSemaphorePermit>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let server = self.clone();
        self.tasks.spawn("connection", async move {
            server.serve(stream, peer).await;
            drop(slot);
        });
    }

    async fn run<S>(&self, stream: S, peer: Peer) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = tokio::time::timeout(self.limits.handshake, self.tls.acceptor.accept(stream))
            .await
            .map_err(|_| "no TLS handshake in time".to_owned())?
            .map_err(|e| format!("TLS handshake failed: {e}"))?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificates = PeerCertificates(Arc::new(chain.iter().map(|c| c.to_vec()).collect()));
        let (must_read, begun, unread) = (MustRead::default(), Begun::default(), Unread::default());
        let stream =
            Stalled::new(Lingering::new(stream, unread.clone(), self.limits.linger), must_read.clone(), STALL_LIMIT);
        let opening = Opening::new(stream, begun.clone(), self.limits.header);
        let service = Requests {
            router: self.router.clone(),
            certificates,
            peer,
            must_read,
            begun,
            unread,
            rest: self.limits.rest,
        };
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.limits.idle).max_buf_size(64 * 1024);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(64 * 1024)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(opening), service);
        tokio::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(|e| e.to_string()),
            () = self.tasks.stopping() => {}
        }
        connection.as_mut().graceful_shutdown();
        match tokio::time::timeout(DRAIN_LIMIT, connection).await {
            Ok(ended) => ended.map_err(|e| e.to_string()),
            Err(_) => Err("closed by shutdown".to_owned()),
        }
    }
}

/// The requests of one connection. Layers of a router would do the same with several allocations for each request.
struct Requests {
    router: Router,
    certificates: PeerCertificates,
    peer: Peer,
    must_read: MustRead,
    begun: Begun,
    unread: Unread,
    rest: Duration,
}

impl hyper::service::Service<http::Request<Incoming>> for Requests {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<RouteFuture<Infallible>, BoxFuture<'static, Result<Response, Infallible>>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        self.begun.tell();
        if request.body().is_end_stream() || request.version() > http::Version::HTTP_11 {
            return Either::Left(self.route(request.map(Body::new)));
        }
        let expects = request.headers().contains_key(header::EXPECT);
        let (head, body) = request.into_parts();
        let (body, rest) = Rest::of(body);
        let answer = self.route(http::Request::from_parts(head, Body::new(body)));
        let (unread, time) = (self.unread.clone(), self.rest);
        Either::Right(async move { Ok(rest.settle(answer.await?, expects, time, &unread).await) }.boxed())
    }
}

impl Requests {
    fn route(&self, mut request: http::Request<Body>) -> RouteFuture<Infallible> {
        request.extensions_mut().insert(self.certificates.clone());
        request.extensions_mut().insert(self.peer.clone());
        request.extensions_mut().insert(self.must_read.clone());
        // A router is always ready.
        tower::Service::call(&mut self.router.clone(), request)
    }
}

/// Out of file descriptors, most likely: wait for some to be closed instead of spinning.
async fn accept_failed(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Binds a TCP address.
///
/// # Errors
/// What is wrong and what to do, for people.
pub async fn bind_tcp(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|e| match e.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{address} is already in use by another program: stop it, or choose another address with --listen")
        }
        io::ErrorKind::PermissionDenied => {
            format!("no permission to listen on {address}: choose a port above 1023 with --listen")
        }
        _ => format!("cannot listen on {address}: {e}"),
    })
}

/// Binds a unix socket that only this user can connect to; a stale file of an earlier process is replaced.
/// The caller holds the lock of the data directory, so that no live server is displaced.
///
/// # Errors
/// What is wrong, for people.
#[cfg(unix)]
pub fn bind_unix(path: &Path) -> Result<tokio::net::UnixListener, String> {
    use std::os::unix::fs::PermissionsExt as _;
    match std::fs::remove_file(path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(format!("cannot remove the old socket {}: {e}", path.display())),
    }
    let listener =
        tokio::net::UnixListener::bind(path).map_err(|e| format!("cannot listen on {}: {e}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(|e| format!("cannot restrict {}: {e}", path.display()))?;
    Ok(listener)
}

#[cfg(test)]
mod tests;
