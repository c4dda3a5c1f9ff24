//! A server that speaks HTTPS, and connections to it.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1::SendRequest,
    header,
};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinHandle};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{load::spawn, wire::Wire};

/// Where requests go, and as whom.
#[derive(Clone)]
pub(crate) struct Target {
    authority: String,
    prefix: String,
    name: ServerName<'static>,
    tls: TlsConnector,
    authorization: Option<String>,
}

impl Target {
    /// The current context of a kubeconfig. Users with a client certificate or a token are understood.
    pub(crate) fn from_kubeconfig(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let config: Value = serde_yaml::from_str(&text).with_context(|| path.display().to_string())?;
        let named = |list: &str, name: &Value| -> Result<Value> {
            let items = config[list].as_array().with_context(|| format!("no {list} in {}", path.display()))?;
            let found = items.iter().find(|item| item["name"] == *name);
            found.cloned().with_context(|| format!("{name} is not among the {list} of {}", path.display()))
        };
        let context = named("contexts", &config["current-context"])?["context"].clone();
        let cluster = named("clusters", &context["cluster"])?["cluster"].clone();
        let user = named("users", &context["user"])?["user"].clone();
        let server = cluster["server"].as_str().context("the cluster has no server")?;
        let rest = server.strip_prefix("https://").context("only https servers")?;
        let (authority, prefix) = rest.split_once('/').map_or((rest, String::new()), |(a, p)| (a, format!("/{p}")));
        let ca =
            material(path, &cluster, "certificate-authority")?.context("the cluster has no certificate authority")?;
        let identity = match material(path, &user, "client-certificate")? {
            Some(certificate) => {
                let key = material(path, &user, "client-key")?.context("a client certificate without its key")?;
                Some((certificate, key))
            }
            None => None,
        };
        let token = user["token"].as_str().map(|token| format!("Bearer {token}"));
        ensure!(
            identity.is_some() || token.is_some(),
            "the user of {} has neither certificate nor token",
            path.display()
        );
        Self::new(authority, prefix.trim_end_matches('/'), &ca, identity, token)
    }

    /// A server that anybody may call.
    pub(crate) fn open(authority: &str, ca_pem: &str) -> Result<Self> {
        Self::new(authority, "", ca_pem.as_bytes(), None, None)
    }

    /// A server that knows a token.
    pub(crate) fn with_token(authority: &str, ca_pem: &str, token: &str) -> Result<Self> {
        Self::new(authority, "", ca_pem.as_bytes(), None, Some(format!("Bearer {token}")))
    }

    fn new(
        authority: &str,
        prefix: &str,
        ca: &[u8],
        identity: Option<(Vec<u8>, Vec<u8>)>,
        authorization: Option<String>,
    ) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca) {
            roots.add(certificate?)?;
        }
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let config = match identity {
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<Vec<_>, _>>()?;
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?
            }
            None => builder.with_no_client_auth(),
        };
        let authority = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:443") };
        let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host);
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?;
        Ok(Self {
            authority,
            prefix: prefix.to_owned(),
            name,
            tls: TlsConnector::from(Arc::new(config)),
            authorization,
        })
    }

    async fn dial(&self) -> Result<TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(&self.authority).await.with_context(|| self.authority.clone())?;
        tcp.set_nodelay(true)?;
        self.tls.connect(self.name.clone(), tcp).await.with_context(|| self.authority.clone())
    }

    /// A new HTTP/1.1 connection for loads.
    pub(crate) async fn wire(&self) -> Result<Wire> {
        Ok(Wire::new(self.dial().await?))
    }

    /// A whole request as bytes, for [`Target::wire`].
    pub(crate) fn request(&self, ask: &Ask) -> Vec<u8> {
        let authorization = match &self.authorization {
            Some(value) => format!("authorization: {value}\r\n"),
            None => String::new(),
        };
        let body = match ask.method {
            Method::GET => String::new(),
            _ => format!("content-type: {}\r\ncontent-length: {}\r\n", ask.content_type, ask.body.len()),
        };
        let mut bytes = format!(
            "{} {}{} HTTP/1.1\r\nhost: {}\r\nuser-agent: vctl-bench\r\naccept: {}\r\n{authorization}{body}\r\n",
            ask.method, self.prefix, ask.path, self.authority, ask.accept
        )
        .into_bytes();
        bytes.extend_from_slice(&ask.body);
        bytes
    }

    /// A new HTTP/1.1 connection.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let stream = self.dial().await?;
        let (sender, driver) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driver = spawn(async move {
            // An error of the connection is an error of the request that is under way.
            let _ = driver.await;
        });
        Ok(Connection { target: self.clone(), sender, driver })
    }
}

/// A connection with one request at a time.
pub(crate) struct Connection {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A request.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
}

impl Ask {
    /// A GET of JSON.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            accept: "application/json",
            content_type: "application/json",
            body: Bytes::new(),
        }
    }

    /// A request with a JSON body.
    pub(crate) fn send(method: Method, path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { method, body: body.into(), ..Self::get(path) }
    }
}

impl Connection {
    /// The answer, whose body is still to be read.
    pub(crate) async fn open(&mut self, ask: Ask) -> Result<hyper::Response<Incoming>> {
        let path = format!("{}{}", self.target.prefix, ask.path);
        let mut request = Request::builder()
            .method(ask.method)
            .uri(&path)
            .header(header::HOST, &self.target.authority)
            .header(header::ACCEPT, ask.accept)
            .header(header::CONTENT_TYPE, ask.content_type);
        if let Some(authorization) = &self.target.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(ask.body))?).await?)
    }

    /// Status and body.
    pub(crate) async fn call(&mut self, ask: Ask) -> Result<(StatusCode, Bytes)> {
        let answer = self.open(ask).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// The body of a success.
    pub(crate) async fn ok(&mut self, ask: Ask) -> Result<Bytes> {
        let what = format!("{} {}", ask.method, ask.path);
        let (status, body) = self.call(ask).await?;
        if !status.is_success() {
            bail!("{what}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }
}

/// PEM from `KEY-data` or from the file that `KEY` names.
fn material(kubeconfig: &Path, of: &Value, key: &str) -> Result<Option<Vec<u8>>> {
    if let Some(data) = of[format!("{key}-data")].as_str() {
        return Ok(Some(BASE64_STANDARD.decode(data)?));
    }
    let Some(file) = of[key].as_str() else { return Ok(None) };
    let file = kubeconfig.parent().unwrap_or(Path::new(".")).join(file);
    Ok(Some(std::fs::read(&file).with_context(|| file.display().to_string())?))
}
