//! Carries out what probes and life-cycle hooks ask for: a command in the container, an HTTP request, a TCP connection.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bollard::{
    container::LogOutput,
    exec::{CreateExecOptions, StartExecOptions, StartExecResults},
};
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::net::TcpStream;
use vctl_api::agent::{Handler, HttpHandler, handler::Handler as Kind};

use crate::{network::namespace, podman::Podman};

/// How long a connection to another host than the pod may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Output of a command that is kept for the message.
const OUTPUT_LIMIT: usize = 10 * 1024;

/// How a pod is reached.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    /// Its address.
    pub(crate) ip: Option<Ipv4Addr>,
    /// Its network namespace; none when it has the worker's.
    pub(crate) namespace: Option<PathBuf>,
}

/// Success with what was said, or why not.
pub(crate) type Outcome = Result<String, String>;

/// Carries a handler out within a time limit.
pub(crate) async fn run(podman: &Podman, id: &str, reach: &Reach, handler: &Handler, limit: Duration) -> Outcome {
    let work = async {
        match &handler.handler {
            None => Ok(String::new()),
            Some(Kind::Exec(exec)) => command(podman, id, &exec.command).await,
            Some(Kind::Http(http)) => request(http, reach).await,
            Some(Kind::Tcp(tcp)) => connect(&tcp.host, tcp.port, reach).await.map(|_| String::new()),
            Some(Kind::SleepSeconds(seconds)) => {
                tokio::time::sleep(Duration::from_secs(u64::try_from(*seconds).unwrap_or(0))).await;
                Ok(String::new())
            }
            Some(Kind::Grpc(_)) => {
                Err("gRPC probes are not supported by Podman workers yet; use an exec, httpGet or tcpSocket probe"
                    .into())
            }
        }
    };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(format!("timed out after {}s", limit.as_secs())))
}

async fn command(podman: &Podman, id: &str, command: &[String]) -> Outcome {
    let text = |e: bollard::errors::Error| e.to_string();
    let docker = podman.docker().map_err(|e| e.to_string())?;
    let options = CreateExecOptions {
        cmd: Some(command.to_vec()),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        ..Default::default()
    };
    let exec = docker.create_exec(id, options).await.map_err(text)?;
    let started = docker.start_exec(&exec.id, None::<StartExecOptions>).await.map_err(text)?;
    let mut said = Vec::new();
    if let StartExecResults::Attached { mut output, .. } = started {
        while let Some(part) = output.next().await {
            if let LogOutput::StdOut { message } | LogOutput::StdErr { message } | LogOutput::Console { message } =
                part.map_err(text)?
            {
                let room = OUTPUT_LIMIT.saturating_sub(said.len());
                said.extend_from_slice(&message[..message.len().min(room)]);
            }
        }
    }
    let said = String::from_utf8_lossy(&said).trim_end().to_owned();
    match docker.inspect_exec(&exec.id).await.map_err(text)?.exit_code {
        Some(0) => Ok(said),
        Some(code) => Err(if said.is_empty() { format!("command exited with {code}") } else { said }),
        None => Err("the command's exit code is not known".into()),
    }
}

/// Connects to the pod, or to another host from inside the pod: a pod reaches nothing by its probes that it does not reach itself.
async fn connect(host: &str, port: u32, reach: &Reach) -> Result<TcpStream, String> {
    let port = u16::try_from(port).map_err(|_| format!("{port} is not a port"))?;
    let failed = |e: std::io::Error| {
        let shown =
            if host.is_empty() { reach.ip.map(|ip| ip.to_string()).unwrap_or_default() } else { host.to_owned() };
        format!("dial tcp {shown}:{port}: {e}")
    };
    if host.is_empty() {
        let ip = reach.ip.ok_or("the pod has no address")?;
        return TcpStream::connect((ip, port)).await.map_err(failed);
    }
    let ip: IpAddr = match host {
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        host => {
            host.parse().map_err(|_| format!("host {host:?} is not an IP address: probes and hooks take no names"))?
        }
    };
    match &reach.namespace {
        Some(path) => namespace::connect(path, (ip, port).into(), CONNECT_LIMIT).await.map_err(failed),
        None => TcpStream::connect((ip, port)).await.map_err(failed),
    }
}

async fn request(http: &HttpHandler, reach: &Reach) -> Outcome {
    let pod_ip = reach.ip;
    let text = |e: &dyn std::fmt::Display| format!("Get \"{}\": {e}", http.path);
    let stream = connect(&http.host, http.port, reach).await?;
    let named = http.headers.iter().find(|h| h.name.eq_ignore_ascii_case("host")).map(|h| h.value.clone());
    let host =
        named.unwrap_or_else(|| format!("{}:{}", pod_ip.map(|ip| ip.to_string()).unwrap_or_default(), http.port));
    let path = if http.path.starts_with('/') { http.path.clone() } else { format!("/{}", http.path) };
    let mut request = http::Request::get(path)
        .header("Host", host)
        .header("User-Agent", "kube-probe/1.36")
        .header("Accept", "*/*")
        .header("Connection", "close");
    for header in http.headers.iter().filter(|h| !h.name.eq_ignore_ascii_case("host")) {
        request = request.header(&header.name, &header.value);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|e| text(&e))?;
    if http.scheme == "HTTPS" {
        let ip = pod_ip.unwrap_or(Ipv4Addr::LOCALHOST);
        let tls = tokio_rustls::TlsConnector::from(Arc::new(unverified().map_err(|e| text(&e))?));
        let stream = tls.connect(ServerName::IpAddress(IpAddr::V4(ip).into()), stream).await.map_err(|e| text(&e))?;
        exchange(stream, request).await.map_err(|e| text(&e))
    } else {
        exchange(stream, request).await.map_err(|e| text(&e))
    }
    .and_then(|(status, body)| {
        if (200..400).contains(&status) {
            Ok(body)
        } else {
            Err(format!("HTTP probe failed with statuscode: {status}"))
        }
    })
}

async fn exchange<S>(
    stream: S,
    request: http::Request<Empty<Bytes>>,
) -> Result<(u16, String), Box<dyn std::error::Error + Send + Sync>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        // Only the status counts; a body that is too long or broken off does not fail the probe.
        let body =
            Limited::new(response.into_body(), OUTPUT_LIMIT).collect().await.map(|b| b.to_bytes()).unwrap_or_default();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        ended = connection => { ended?; exchange.await }
    }
}

fn unverified() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let schemes = provider.signature_verification_algorithms.supported_schemes();
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(schemes)))
        .with_no_client_auth())
}

/// Probes do not check certificates: that is how Kubernetes defines them.
#[derive(Debug)]
struct AnyCertificate(Vec<SignatureScheme>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_probe_reaches_the_pod_and_no_host_by_name() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = u32::from(listener.local_addr().unwrap().port());
        let pod = |ip| Reach { ip, namespace: Some("/nowhere".into()) };
        assert!(connect("", port, &pod(Some(Ipv4Addr::LOCALHOST))).await.is_ok());
        assert_eq!(connect("", port, &pod(None)).await.unwrap_err(), "the pod has no address");
        let named = connect("db.internal", port, &pod(None)).await.unwrap_err();
        assert!(named.contains("is not an IP address"), "{named}");
        // The worker's own loopback listens; the pod's network namespace, which is not there, is what is tried.
        for host in ["127.0.0.1", "localhost"] {
            assert!(connect(host, port, &pod(None)).await.is_err(), "{host}");
        }
    }
}
