//! etcd as a peer: a server of our own on loopback, and raw puts over plaintext gRPC.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, body::Bytes, client::conn::http2::SendRequest, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::{
    load::{Client, spawn},
    ports::free_port,
    wire::Numbered,
};

const START: Duration = Duration::from_secs(20);

/// A running etcd; it ends with this.
pub(crate) struct Etcd {
    child: Child,
    address: String,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // Its data goes with its directory; there is nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Etcd {
    /// Starts Debian's etcd with its data in `dir`, with fsync as it is by default.
    pub(crate) async fn start(dir: &Path) -> Result<Self> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let url = format!("http://{address}");
        let peer = format!("http://127.0.0.1:{}", free_port()?);
        let log = std::fs::File::create(dir.join("etcd.log"))?;
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(dir.join("etcd"))
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("etcd does not start; install etcd-server")?;
        let etcd = Self { child, address };
        let begun = Instant::now();
        loop {
            let ready = async { etcd.client(message("ready", &[]), "#").await?.ask(0).await };
            match ready.await {
                Ok(()) => return Ok(etcd),
                Err(e) if begun.elapsed() > START => bail!("etcd does not answer: {e:#}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A client with a connection of its own that puts `message`, with its number where `mark` stands.
    pub(crate) async fn client(&self, message: Vec<u8>, mark: &str) -> Result<Putter> {
        let tcp = TcpStream::connect(&self.address).await?;
        tcp.set_nodelay(true)?;
        let (sender, driver) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tcp)).await?;
        spawn(async move {
            // An error of the connection is an error of the request that is under way.
            let _ = driver.await;
        });
        let uri = format!("http://{}/etcdserverpb.KV/Put", self.address).parse()?;
        Ok(Putter { sender, uri, message: Numbered::new(message, mark) })
    }
}

/// `etcdserverpb.PutRequest` with its key and value (fields 1 and 2 of etcd's api/etcdserverpb/rpc.proto) as a gRPC message.
pub(crate) fn message(key: &str, value: &[u8]) -> Vec<u8> {
    let mut put = Vec::with_capacity(key.len() + value.len() + 16);
    for (tag, bytes) in [(0x0a, key.as_bytes()), (0x12, value)] {
        put.push(tag);
        let mut length = bytes.len();
        while length >= 0x80 {
            put.push(length as u8 | 0x80);
            length >>= 7;
        }
        put.push(length as u8);
        put.extend_from_slice(bytes);
    }
    let mut message = vec![0];
    message.extend_from_slice(&(put.len() as u32).to_be_bytes());
    message.extend_from_slice(&put);
    message
}

/// A client of etcd that puts new keys.
pub(crate) struct Putter {
    sender: SendRequest<Full<Bytes>>,
    uri: hyper::Uri,
    message: Numbered,
}

impl Client for Putter {
    async fn ask(&mut self, n: usize) -> Result<()> {
        let body = Bytes::copy_from_slice(self.message.with(n));
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.uri.clone())
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        // A call that fails at once has its status in the header.
        let early = answer.headers().get("grpc-status").cloned();
        let read = answer.into_body().collect().await?;
        let status = early.or_else(|| read.trailers().and_then(|t| t.get("grpc-status")).cloned());
        ensure!(status.as_ref().is_some_and(|s| s == "0"), "etcd refused a put: {status:?}");
        Ok(())
    }
}
