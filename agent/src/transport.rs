//! One HTTP/2 connection to the server, by TCP or unix socket, with TLS in both cases.

use std::{sync::Arc, time::Duration};

use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::{Channel, Uri};

use crate::{
    config::{Config, Endpoint},
    error::AgentError,
};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The worker's certificate and key.
#[derive(Clone)]
pub(crate) struct ClientIdentity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: Arc<PrivateKeyDer<'static>>,
    pub(crate) expires: Timestamp,
}

fn settings(config: &Config, identity: Option<&ClientIdentity>) -> Result<ClientConfig, AgentError> {
    let bad = |e: &dyn std::fmt::Display| {
        AgentError::Identity(format!("the server's authority cannot be used: {e}; pass its ca.crt with --server-ca"))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(config.server_ca_pem.as_bytes()) {
        roots.add(certificate.map_err(|e| bad(&e))?).map_err(|e| bad(&e))?;
    }
    if roots.is_empty() {
        return Err(bad(&"no certificate in it"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(&e))?
        .with_root_certificates(roots);
    let mut tls = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            builder.with_client_auth_cert(identity.chain.clone(), identity.key.clone_key()).map_err(|e| bad(&e))?
        }
    };
    tls.alpn_protocols = vec![b"h2".to_vec()];
    Ok(tls)
}

/// Either kind of connection.
trait Io: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Io for T {}

async fn dial(
    endpoint: Endpoint,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
) -> std::io::Result<TokioIo<TlsStream<Box<dyn Io>>>> {
    let raw: Box<dyn Io> = match endpoint {
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect(&address).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Endpoint::Unix(path) => Box::new(UnixStream::connect(path).await?),
    };
    Ok(TokioIo::new(TlsConnector::from(tls).connect(name, raw).await?))
}

/// Connects. HTTP/2 pings notice a dead server within half a minute.
pub(crate) async fn connect(config: &Config, identity: Option<&ClientIdentity>) -> Result<Channel, AgentError> {
    let tls = Arc::new(settings(config, identity)?);
    let name = ServerName::try_from(config.server_name.clone()).map_err(|e| {
        AgentError::Identity(format!(
            "server name {:?}: {e}; pass the name in the server's certificate",
            config.server_name
        ))
    })?;
    let endpoint = config.server.clone();
    let shown = endpoint.to_string();
    Channel::from_static("http://vctl-server")
        .connect_timeout(CONNECT_LIMIT)
        .http2_keep_alive_interval(Duration::from_secs(15))
        .keep_alive_timeout(Duration::from_secs(15))
        .keep_alive_while_idle(true)
        .initial_connection_window_size(8 * 1024 * 1024)
        .initial_stream_window_size(1024 * 1024)
        .connect_with_connector(tower::service_fn(move |_: Uri| {
            let (endpoint, name, tls) = (endpoint.clone(), name.clone(), tls.clone());
            async move {
                tokio::time::timeout(CONNECT_LIMIT, dial(endpoint, name, tls))
                    .await
                    .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
            }
        }))
        .await
        .map_err(|e| {
            let mut why = e.to_string();
            let mut source = std::error::Error::source(&e);
            while let Some(inner) = source {
                why = inner.to_string();
                source = inner.source();
            }
            AgentError::Identity(format!("cannot reach the server at {shown}: {why}"))
        })
}
