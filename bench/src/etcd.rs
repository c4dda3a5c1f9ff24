//! etcd as a peer: a server of our own on loopback, and raw puts over plaintext gRPC.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use hyper::body::Bytes;
use tonic::{client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

use crate::{load::AsyncRequest, ports::free_port};

const START: Duration = Duration::from_secs(20);

/// `etcdserverpb.PutRequest`, the two fields that a raw put needs (etcd api/etcdserverpb/rpc.proto).
#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// `etcdserverpb.PutResponse`; nothing of it is needed.
#[derive(Clone, PartialEq, prost::Message)]
struct PutResponse {}

/// A running etcd; it ends with this.
pub(crate) struct Etcd {
    child: Child,
    url: String,
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
        let url = format!("http://127.0.0.1:{}", free_port()?);
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
        let etcd = Self { child, url };
        let begun = Instant::now();
        loop {
            let ready = async { etcd.client().await?.put("ready".into(), Bytes::new()).await };
            match ready.await {
                Ok(()) => return Ok(etcd),
                Err(e) if begun.elapsed() > START => bail!("etcd does not answer: {e:#}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// A client with a connection of its own.
    pub(crate) async fn client(&self) -> Result<EtcdClient> {
        let channel = Channel::from_shared(self.url.clone())?.tcp_nodelay(true).connect().await?;
        Ok(EtcdClient(Grpc::new(channel)))
    }
}

/// A client of etcd.
pub(crate) struct EtcdClient(Grpc<Channel>);

impl EtcdClient {
    async fn put(&mut self, key: Bytes, value: Bytes) -> Result<()> {
        self.0.ready().await?;
        let path = http::uri::PathAndQuery::from_static("/etcdserverpb.KV/Put");
        let codec = ProstCodec::<PutRequest, PutResponse>::default();
        self.0.unary(tonic::Request::new(PutRequest { key, value }), path, codec).await?;
        Ok(())
    }
}

/// Puts new keys.
#[derive(Clone)]
pub(crate) struct Puts {
    pub(crate) run: usize,
    pub(crate) value: Bytes,
}

impl AsyncRequest<EtcdClient> for Puts {
    async fn call(&self, client: &mut EtcdClient, number: usize, n: usize) -> Result<()> {
        // As long as the key under which kube-apiserver would keep the ConfigMap.
        let key = format!("/registry/configmaps/bench/bench-{}-{number}-{n}", self.run);
        client.put(key.into(), self.value.clone()).await
    }
}
