//! Calls from a virtual control plane to HTTPS servers that its tenant names: webhooks and aggregated APIs.
//!
//! A server given as a Service is reached in the tenant's pods, by the way that port-forward takes (the worker's connection). One
//! given by URL is dialled from here; which addresses may be is the operator's decision ([`OutboundAddresses`]), since this process
//! can reach more than tenants should.

mod fetch;
mod resolve;
mod tls;

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::body::Body;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use vctl_runtime::{address::is_public, pki::Identity, telemetry};

pub(crate) use fetch::fetch;
pub(crate) use resolve::{PortOf, endpoint};
pub(crate) use tls::Trust;

use crate::{
    config::OutboundAddresses,
    plane::Plane,
    streams::{ContainerTarget, Duplex},
};

/// Largest answer that is read as a document, in bytes.
const MAX_ANSWER: usize = 16 << 20;

/// Why a server could not be asked, in the words that upstream (or Go's HTTP client) has for it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutboundError {
    #[error("service {0:?} not found")]
    NoService(String),
    #[error("unsupported service type {0:?}")]
    ServiceType(String),
    #[error("no service port {port} found for service {name:?}")]
    NoPort { name: String, port: u16 },
    #[error("no endpoints available for service {0:?}")]
    NoEndpoints(String),
    #[error("the endpoints of service {0:?} are not pods of this cluster: only pods can be reached")]
    NotPods(String),
    #[error("{0:?} is not a URL of an HTTPS server")]
    Url(String),
    #[error("dial tcp: lookup {host}: {why}")]
    Lookup { host: String, why: String },
    #[error(
        "dial tcp {0}: this server does not connect to addresses of its own network for tenants; use a Service, or ask the operator to allow it"
    )]
    Forbidden(IpAddr),
    #[error("dial tcp {address}: {why}")]
    Dial { address: String, why: String },
    #[error("{0}")]
    Trust(String),
    #[error("tls: {0}")]
    Tls(String),
    #[error("context deadline exceeded")]
    Timeout,
    #[error("{0}")]
    Http(String),
    #[error("{0}")]
    Status(String),
    #[error("couldn't get version/kind; json parse error: {0}")]
    Json(String),
    #[error("{0}")]
    Store(#[from] vctl_machinery::status::ApiError),
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A port of a Service of the cluster.
    Service { namespace: String, name: String, port: u16 },
    /// A host and port outside.
    Host { name: String, port: u16 },
}

impl Place {
    /// Where a URL (`https` only) leads.
    pub(crate) fn of_url(url: &str) -> Result<(Self, http::Uri), OutboundError> {
        let bad = || OutboundError::Url(url.to_owned());
        let uri: http::Uri = url.parse().map_err(|_| bad())?;
        if uri.scheme_str() != Some("https") {
            return Err(bad());
        }
        let host = uri.host().ok_or_else(bad)?.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok((Self::Host { name: host, port: uri.port_u16().unwrap_or(443) }, uri))
    }

    /// The name that its certificate must have.
    pub(crate) fn server_name(&self) -> String {
        match self {
            Self::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
            Self::Host { name, .. } => name.clone(),
        }
    }

    /// What a request's Host says.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Service { port, .. } => format!("{}:{port}", self.server_name()),
            Self::Host { name, port } if name.contains(':') => format!("[{name}]:{port}"),
            Self::Host { name, port } => format!("{name}:{port}"),
        }
    }

    /// Connects to it.
    async fn dial(&self, plane: &Arc<Plane>) -> Result<Box<dyn Duplex>, OutboundError> {
        match self {
            Self::Service { namespace, name, port } => {
                let (target, port) = endpoint(plane, namespace, name, &PortOf::Number(*port)).await?;
                Ok(plane.shared.streams.port_forward(target, port).await?)
            }
            Self::Host { name, port } => resolve::dial(name, *port, plane.shared.config.outbound).await,
        }
    }
}

/// An HTTP/1.1 connection over TLS.
pub(crate) struct Connection {
    sender: hyper::client::conn::http1::SendRequest<Body>,
}

impl Connection {
    /// Connects, and proves the server's certificate; shows it ours, if there is one.
    pub(crate) async fn open(
        plane: &Arc<Plane>,
        place: &Place,
        trust: &Trust,
        identity: Option<&Identity>,
    ) -> Result<Self, OutboundError> {
        let io = place.dial(plane).await?;
        let tls = trust.connect(io, &place.server_name(), identity).await?;
        Self::over(plane, tls).await
    }

    /// A connection to a port of a pod, by TLS if there is a `trust`.
    pub(crate) async fn to_pod(
        plane: &Arc<Plane>,
        target: ContainerTarget,
        port: u16,
        trust: Option<(&Trust, &str)>,
    ) -> Result<Self, OutboundError> {
        let io = plane.shared.streams.port_forward(target, port).await?;
        match trust {
            Some((trust, name)) => Self::over(plane, trust.connect(io, name, None).await?).await,
            None => Self::over(plane, io).await,
        }
    }

    async fn over(
        plane: &Arc<Plane>,
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Self, OutboundError> {
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io))
            .await
            .map_err(|e| OutboundError::Http(cause(&e)))?;
        plane.shared.tasks.spawn_until_stopped("outbound connection", async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to a tenant's server ended");
            }
        });
        Ok(Self { sender })
    }

    /// Sends a request; the answer's body is still to be read.
    pub(crate) async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, OutboundError> {
        self.sender.send_request(request).await.map_err(|e| OutboundError::Http(cause(&e)))
    }
}

/// What is at the bottom of an error: hyper says of a connection that is refused only that there was none.
fn cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// A webhook's `clientConfig`.
pub(crate) struct Hook {
    place: Place,
    path: String,
    trust: Trust,
}

impl Hook {
    /// Reads a `clientConfig` (`url` or `service`, and `caBundle`).
    pub(crate) fn new(config: &Value) -> Result<Self, OutboundError> {
        let trust = Trust::bundle(config["caBundle"].as_str().unwrap_or_default())?;
        let service = &config["service"];
        if service.is_object() {
            let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
            let port = service["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(443);
            let path = format!("/{}", text("path").trim_start_matches('/'));
            return Ok(Self {
                place: Place::Service { namespace: text("namespace"), name: text("name"), port },
                path,
                trust,
            });
        }
        let (place, uri) = Place::of_url(config["url"].as_str().unwrap_or_default())?;
        Ok(Self { place, path: uri.path().to_owned(), trust })
    }

    /// What is asked, for people.
    fn url(&self, timeout: Duration) -> String {
        let authority = match &self.place {
            Place::Service { port, .. } => format!("{}:{port}", self.place.server_name()),
            Place::Host { name, port: 443 } => name.clone(),
            Place::Host { name, port } => format!("{name}:{port}"),
        };
        format!("https://{authority}{}?timeout={}s", self.path, timeout.as_secs())
    }

    /// Posts a document and reads the document that is the answer. Any failure names the URL.
    pub(crate) async fn post(
        &self,
        plane: &Arc<Plane>,
        document: &Value,
        timeout: Duration,
    ) -> Result<Value, OutboundError> {
        let url = self.url(timeout);
        let posted = |e: OutboundError| match e {
            e @ (OutboundError::Status(_) | OutboundError::Json(_)) => e,
            e => OutboundError::Http(format!("Post {url:?}: {e}")),
        };
        match tokio::time::timeout(timeout, self.exchange(plane, document, timeout)).await {
            Ok(answer) => answer.map_err(posted),
            Err(_) => Err(posted(OutboundError::Timeout)),
        }
    }

    async fn exchange(&self, plane: &Arc<Plane>, document: &Value, timeout: Duration) -> Result<Value, OutboundError> {
        let mut connection = Connection::open(plane, &self.place, &self.trust, None).await?;
        let mut request = Request::post(format!("{}?timeout={}s", self.path, timeout.as_secs()));
        if let Some(traceparent) = telemetry::traceparent() {
            request = request.header("traceparent", traceparent);
        }
        let request = request
            .header(header::HOST, self.place.host())
            .header(header::ACCEPT, "application/json, */*")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "kube-apiserver-admission")
            .body(Body::from(document.to_string()))
            .map_err(|e| OutboundError::Http(e.to_string()))?;
        let answer = connection.send(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|e| OutboundError::Http(e.to_string()))?.to_bytes();
        if !status.is_success() {
            return Err(OutboundError::Status(refusal(status, &body)));
        }
        serde_json::from_slice(&body).map_err(|e| OutboundError::Json(e.to_string()))
    }
}

/// What client-go says of an answer that is no success.
fn refusal(status: http::StatusCode, body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).trim().chars().take(2048).collect();
    match status.as_u16() {
        404 => "the server could not find the requested resource".into(),
        400 => "the server rejected our request for an unknown reason".into(),
        401 => "the server has asked for the client to provide credentials".into(),
        403 => text,
        405 => "the server does not allow this method on the requested resource".into(),
        429 => "the server has received too many requests and has asked us to try again later".into(),
        500 | 502 if !text.is_empty() => {
            format!("an error on the server ({text:?}) has prevented the request from succeeding")
        }
        500.. => "the server is currently unable to handle the request".into(),
        code => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// Whether a tenant may have this address dialled.
fn allowed(address: IpAddr, addresses: OutboundAddresses) -> bool {
    addresses == OutboundAddresses::Any || is_public(address)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn client_configs_say_where_and_by_which_name() {
        let service = Hook::new(&json!({ "service": { "namespace": "n", "name": "s", "path": "/check" } })).unwrap();
        assert_eq!(service.url(Duration::from_secs(10)), "https://s.n.svc:443/check?timeout=10s");
        assert_eq!(service.place.server_name(), "s.n.svc");
        let url = Hook::new(&json!({ "url": "https://[::1]:8443/a" })).unwrap();
        assert_eq!(url.place, Place::Host { name: "::1".into(), port: 8443 });
        assert!(Hook::new(&json!({ "url": "http://x/a" })).is_err());
        assert!(Hook::new(&json!({ "url": "https://x/a", "caBundle": "bm9uc2Vuc2U=" })).is_err());
    }

    #[test]
    fn only_public_addresses_are_dialled_unless_the_operator_allows_all() {
        for (address, public) in [
            ("127.0.0.1", false),
            ("10.0.0.1", false),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("::1", false),
            ("fe80::1", false),
            ("fd00::1", false),
            ("::ffff:127.0.0.1", false),
            ("8.8.8.8", true),
            ("2001:4860:4860::8888", true),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(allowed(address, OutboundAddresses::Public), public, "{address}");
            assert!(allowed(address, OutboundAddresses::Any));
        }
    }
}
