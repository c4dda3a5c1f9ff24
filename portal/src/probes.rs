//! Whether a resource can be used as it was registered: somebody who binds an environment to it learns now, and in clear words, what would
//! else fail in a container later. Nothing is changed on the other side.

mod http;
mod kafka;
mod mysql;
mod postgres;
mod redis;
mod s3;
mod scram;
pub(crate) mod trust;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use vctl_api::rest::ResourceKind;

/// A resource has so long to answer.
const LIMIT: Duration = Duration::from_secs(5);
/// The same when all that is asked is whether it speaks TLS.
const TLS_LIMIT: Duration = Duration::from_secs(2);
/// Largest answer that is read in bytes.
const ANSWER_LIMIT: usize = 64 * 1024;

/// Where a resource is, and how to get in.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) kind: ResourceKind,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) tls: bool,
    /// Authorities that its certificate must come from (PEM); those of this machine when it is empty.
    pub(crate) ca_bundle: String,
    pub(crate) password: Option<String>,
    /// Signatures are of a time.
    pub(crate) now: Timestamp,
}

/// Why a resource cannot be used. Texts say what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProbeError {
    #[error(
        "{place} does not answer within {} s: are host and port right, may this server reach it{}?",
        .limit.as_secs_f64(),
        if *.tls { ", and does it speak TLS there" } else { "" }
    )]
    TimeOut { place: String, limit: Duration, tls: bool },
    #[error("{place} cannot be reached ({why}): are host and port right, and is it running?")]
    Unreachable { place: String, why: String },
    #[error("{0} does not speak TLS on this port: register it without --tls, or name its TLS port")]
    NoTls(String),
    #[error("{0} wants TLS: register it with --tls")]
    WantsTls(String),
    #[error("{place} hangs up without an answer ({why}): is what is behind it running, and may this server use it?")]
    HungUp { place: String, why: String },
    #[error(
        "the certificate of {place} is not believed ({why}): register it with --ca-file FILE, the certificate of its authority, and by the host \
         name that its certificate has; or have one that authorities of this server's machine vouch for"
    )]
    Certificate { place: String, why: String },
    #[error("{place} refuses user {user:?}: the password or the user is wrong")]
    Password { place: String, user: String },
    #[error("{place} wants a password: register it with one")]
    WantsPassword { place: String },
    #[error("{place} says: {why}")]
    Refused { place: String, why: String },
    #[error("{place} does not speak {kind}: {why}")]
    Protocol { place: String, kind: &'static str, why: String },
}

/// A connection, plain or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Asks a resource; what it is, for people.
pub(crate) async fn probe(target: &Target) -> Result<String, ProbeError> {
    probe_within(target, LIMIT).await
}

async fn probe_within(target: &Target, limit: Duration) -> Result<String, ProbeError> {
    let asked = async {
        match target.kind {
            ResourceKind::Postgres => postgres::probe(target).await,
            ResourceKind::Redis => redis::probe(target).await,
            ResourceKind::Http => http::probe(target).await,
            ResourceKind::Mysql => mysql::probe(target).await,
            ResourceKind::Kafka => kafka::probe(target).await,
            ResourceKind::S3 => s3::probe(target).await,
        }
    };
    match tokio::time::timeout(limit, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(ProbeError::TimeOut { place: target.place(), limit, tls: target.tls }),
    }
}

impl Target {
    fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    async fn tcp(&self) -> Result<TcpStream, ProbeError> {
        let connected = TcpStream::connect((self.host.as_str(), self.port)).await;
        connected.map_err(|e| ProbeError::Unreachable { place: self.place(), why: e.to_string() })
    }

    /// A connection as registered.
    async fn connect(&self) -> Result<Box<dyn Stream>, ProbeError> {
        let tcp = self.tcp().await?;
        if self.tls { self.secure(tcp).await } else { Ok(Box::new(tcp)) }
    }

    /// TLS over a connection.
    async fn secure(&self, tcp: impl Stream + 'static) -> Result<Box<dyn Stream>, ProbeError> {
        let certificate = |why: String| ProbeError::Certificate { place: self.place(), why };
        let (connector, name) = self.tls().map_err(certificate)?;
        match connector.connect(name, tcp).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(e) => Err(match of_tls(&e) {
                Some(rustls::Error::InvalidCertificate(why)) => certificate(trust::why(why)),
                _ => ProbeError::NoTls(self.place()),
            }),
        }
    }

    /// How TLS is spoken to it, and by what name.
    fn tls(&self) -> Result<(TlsConnector, ServerName<'static>), String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(trust::roots(&self.ca_bundle)?)
            .with_no_client_auth();
        let name = ServerName::try_from(self.host.clone()).map_err(|e| e.to_string())?;
        Ok((TlsConnector::from(Arc::new(config)), name))
    }

    /// Whether it answers TLS as who speaks it, with whatever certificate: asked on a connection of its own.
    async fn speaks_tls(&self) -> bool {
        let asked = async {
            let (Ok(tcp), Ok((connector, name))) = (self.tcp().await, self.tls()) else { return false };
            match connector.connect(name, tcp).await {
                Ok(_) => true,
                Err(e) => matches!(
                    of_tls(&e),
                    Some(
                        rustls::Error::InvalidCertificate(_)
                            | rustls::Error::AlertReceived(_)
                            | rustls::Error::PeerIncompatible(_)
                    )
                ),
            }
        };
        tokio::time::timeout(TLS_LIMIT, asked).await.unwrap_or(false)
    }

    /// It hung up before it had answered anything. That is what some who want TLS do when they get plain text; and so do load balancers with
    /// nobody behind them.
    async fn hung_up(&self, why: Option<&std::io::Error>) -> ProbeError {
        let place = self.place();
        if !self.tls && self.speaks_tls().await {
            return ProbeError::WantsTls(place);
        }
        ProbeError::HungUp { place, why: why.map_or_else(|| "end of file".to_owned(), ToString::to_string) }
    }

    /// The connection broke while it was asked.
    fn broken(&self, e: &std::io::Error) -> ProbeError {
        ProbeError::Unreachable { place: self.place(), why: e.to_string() }
    }
}

/// What TLS has to say of a failure.
fn of_tls(e: &std::io::Error) -> Option<&rustls::Error> {
    e.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests;
