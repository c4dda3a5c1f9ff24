//! Limits that only many clients come to.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use vctl_runtime::tasks::Tasks;
use vctl_tests::{
    burst,
    platform::{Platform, Workers},
    wait,
};

/// What shells allow: the server has to raise it itself.
const SHELL_FILES: u64 = 1_024;
/// What one idle connection may cost the server.
const MOST_KIB: u64 = 96;
/// Descriptors of the platform itself that may come and go meanwhile.
const SLACK: usize = 32;
const LIMIT: Duration = Duration::from_mins(2);

#[test]
fn idle_connections_cost_little_and_are_given_back() -> Result<()> {
    let wanted = match std::env::var("VCTL_IDLE_CONNECTIONS") {
        Ok(text) => text.parse().with_context(|| format!("VCTL_IDLE_CONNECTIONS={text:?}: a number"))?,
        Err(_) => 1_500_usize,
    };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    ensure!(
        hard >= wanted as u64 + 512,
        "{wanted} connections need a hard limit of open files above that (`ulimit -Hn` says {hard}): raise it, or set VCTL_IDLE_CONNECTIONS"
    );
    setrlimit(Resource::RLIMIT_NOFILE, SHELL_FILES.min(hard), hard)?;
    let platform = Platform::start(Workers::Simulated)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(1 << 20), hard)?;
    platform.create("dev", "blank", &[])?;
    let server = Server(platform.server_pid().context("the server runs")?);
    ensure!(server.most_files()? >= hard.min(1 << 20), "the server left its limit at {}", server.most_files()?);

    let kubeconfig = platform.kubeconfig("dev")?;
    let dialer = Dialer::new(&kubeconfig)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let files = server.files()?;
    // What is made once, however many there are, is made now.
    let tasks = Tasks::new();
    drop(runtime.block_on(dialer.open(100, &tasks))?);
    runtime.block_on(tasks.shutdown(LIMIT));
    server.gives_back(files)?;

    let before = server.memory_kib()?;
    let tasks = Tasks::new();
    let begun = Instant::now();
    let mut idle = runtime.block_on(dialer.hold(wanted, &tasks))?;
    let opened = begun.elapsed();
    let growth = server.memory_kib()?.saturating_sub(before);
    let each = growth / wanted as u64;
    ensure!(server.files()? >= files + wanted - SLACK, "{} descriptors: some were closed", server.files()?);

    // Somebody new is answered, and so is who has been idle.
    let (client, url) = burst::client(&kubeconfig)?;
    let asked = Instant::now();
    let answer = runtime.block_on(async { client.get(format!("{url}/api/v1/namespaces/default")).send().await })?;
    let answered = asked.elapsed();
    assert_eq!(answer.status(), 200);
    ensure!(answered < Duration::from_secs(10), "an answer took {answered:?}");
    for connection in idle.iter_mut().step_by(97) {
        runtime.block_on(dialer.ask(connection))?;
    }
    println!(
        "{wanted} idle connections, half HTTP/2, opened in {opened:.1?}: {each} KiB each; another one was answered in {answered:.1?}"
    );
    ensure!(each <= MOST_KIB, "{each} KiB for each idle connection, {growth} KiB in all; {MOST_KIB} are allowed");

    drop((idle, client));
    runtime.block_on(tasks.shutdown(LIMIT));
    server.gives_back(files)
}

/// A definition whose rule is cheap enough by its bounds to be taken; what an object makes of it is seen when it runs.
const DEFINITION: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
"metadata": {"name": "loops.limits.example.com"}, "spec": {"group": "limits.example.com", "scope": "Namespaced",
"names": {"plural": "loops", "singular": "loop", "kind": "Loop"}, "versions": [{"name": "v1", "served": true, "storage": true,
"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": [RULE],
"properties": {"list": {"type": "array", "maxItems": MOST, "items": {"type": "integer"}}}}}}}}]}}"#;

#[test]
fn what_is_too_much_is_refused_and_the_server_goes_on() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let (client, url) = burst::client(&platform.kubeconfig("dev")?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let send = |method: &str, path: &str, kind: &str, body: String| -> Result<(u16, String)> {
        let method = reqwest::Method::from_bytes(method.as_bytes())?;
        let request = client.request(method, format!("{url}{path}")).header("content-type", kind).body(body);
        runtime.block_on(async {
            let answer = request.send().await?;
            Ok((answer.status().as_u16(), answer.text().await?))
        })
    };
    let refused = |method: &str, path: &str, kind: &str, body: String, code: u16, word: &str| -> Result<()> {
        let (status, text) = send(method, path, kind, body).with_context(|| format!("{method} {path} as {kind}"))?;
        let answer: Value = serde_json::from_str(&text).with_context(|| format!("{kind}: {status}: {text}"))?;
        ensure!(status == code && answer["code"] == code, "{method} {path} as {kind}: {status}, not {code}: {text}");
        ensure!(answer["kind"] == "Status" && text.contains(word), "{method} {path} as {kind} lacks {word:?}: {text}");
        Ok(())
    };
    let (maps, json) = ("/api/v1/namespaces/default/configmaps", "application/json");
    let map = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}}"#;
    assert_eq!(send("POST", maps, json, map.to_owned())?.0, 201);

    // Depth: no request uses up the stack, in whatever form it comes.
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let inside = |levels: usize| format!(r#"{{"metadata": {{"annotations": {}}}}}"#, deep(levels));
    let one = "/api/v1/namespaces/default/configmaps/m";
    for levels in [200, 9_000, 100_000] {
        refused("POST", maps, json, deep(levels), 400, "")?;
        refused("POST", maps, json, inside(levels), 400, "")?;
        refused("POST", maps, "application/yaml", deep(levels), 400, "")?;
        refused("PATCH", one, "application/merge-patch+json", inside(levels), 400, "")?;
        refused("PATCH", one, "application/strategic-merge-patch+json", inside(levels), 400, "")?;
        refused("PATCH", &format!("{one}?fieldManager=a"), "application/apply-patch+yaml", inside(levels), 400, "")?;
        let add = format!(r#"[{{"op": "add", "path": "/data/b", "value": {}}}]"#, deep(levels));
        refused("PATCH", one, "application/json-patch+json", add, 400, "")?;
    }

    // Operations of a patch.
    let operations = vec![r#"{"op": "test", "path": "/data/a", "value": "b"}"#; 10_001].join(",");
    refused("PATCH", one, "application/json-patch+json", format!("[{operations}]"), 413, "10000")?;

    // CEL: what a rule may cost by its schema, and what it costs when it runs.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let define = |rule: &str, most: usize| {
        DEFINITION.replace("RULE", &format!(r#"{{"rule": "{rule}"}}"#)).replace("MOST", &most.to_string())
    };
    let loops = "self.list.all(a, self.list.all(b, a + b >= 0))";
    refused("POST", definitions, json, define(loops, 100_000), 422, "estimated rule cost exceeds budget")?;
    let (status, text) = send("POST", definitions, json, define(loops, 1_000))?;
    ensure!(status == 201, "{status}: {text}");
    let path = "/apis/limits.example.com/v1/namespaces/default/loops";
    let object = |items: usize| {
        let list = vec!["1"; items].join(",");
        format!(
            r#"{{"apiVersion": "limits.example.com/v1", "kind": "Loop", "metadata": {{"generateName": "l-"}}, "spec": {{"list": [{list}]}}}}"#
        )
    };
    wait::until("the definition is served", LIMIT, || match send("POST", path, json, object(3)) {
        Ok((201, _)) => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    refused("POST", path, json, object(1_000), 422, "cost")?;

    // The header.
    let huge = runtime
        .block_on(async { client.get(format!("{url}{one}")).header("x-huge", "x".repeat(1 << 20)).send().await });
    // The server may close before it has read all of it.
    ensure!(huge.as_ref().map_or(true, |answer| answer.status() == 431), "{huge:?}");

    let (status, text) = send("GET", one, json, String::new())?;
    ensure!(status == 200 && text.contains(r#""a":"b""#), "{status}: {text}");
    Ok(())
}

/// The server as the system sees it.
struct Server(u32);

impl Server {
    fn files(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.0))?.count())
    }

    /// Waits until it has hardly more descriptors than so many.
    fn gives_back(&self, files: usize) -> Result<()> {
        wait::until("descriptors are given back", LIMIT, || {
            let now = self.files().map_err(|e| format!("{e:#}"))?;
            if now <= files + SLACK { Ok(()) } else { Err(format!("{now} descriptors; {files} before")) }
        })
    }

    /// The field of a file below `/proc/PID` that begins with this name.
    fn field(&self, file: &str, name: &str) -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", self.0))?;
        let rest = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("{name}: {text}"))?;
        let number = rest.split_whitespace().next().context("a number")?;
        number.parse().with_context(|| format!("{name}: {rest}"))
    }

    /// The soft limit of open files.
    fn most_files(&self) -> Result<u64> {
        self.field("limits", "Max open files")
    }

    /// Resident memory.
    fn memory_kib(&self) -> Result<u64> {
        self.field("status", "VmRSS:")
    }
}

/// A connection that has been used.
enum Connection {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

/// Makes connections as the user of a kubeconfig.
struct Dialer {
    authority: String,
    path: String,
    name: ServerName<'static>,
    /// By protocol.
    http1: TlsConnector,
    http2: TlsConnector,
}

impl Dialer {
    fn new(kubeconfig: &Path) -> Result<Self> {
        vctl_runtime::serve::install_crypto_provider();
        let config: Value = serde_yaml::from_str(&std::fs::read_to_string(kubeconfig)?)?;
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let decode = |value: &Value| -> Result<Vec<u8>> {
            Ok(BASE64_STANDARD.decode(value.as_str().context("embedded data in the kubeconfig")?)?)
        };
        let server = cluster["server"].as_str().and_then(|s| s.strip_prefix("https://")).context("a server")?;
        let Some((authority, path)) = server.split_once('/') else { bail!("{server} has no path") };
        let (host, _) = authority.rsplit_once(':').context("a port")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&decode(&cluster["certificate-authority-data"])?) {
            roots.add(certificate?)?;
        }
        let chain = decode(&user["client-certificate-data"])?;
        let chain = CertificateDer::pem_slice_iter(&chain).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&decode(&user["client-key-data"])?)?;
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(chain, key)?;
        config.resumption = Resumption::disabled();
        let speaking = |protocol: &[u8]| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            TlsConnector::from(Arc::new(config))
        };
        Ok(Self {
            name: ServerName::try_from(host.to_owned())?,
            path: format!("/{path}/api/v1/namespaces/default"),
            http1: speaking(b"http/1.1"),
            http2: speaking(b"h2"),
            authority: authority.to_owned(),
        })
    }

    /// As [`Dialer::open`], for so many that a busy machine takes its time: who has been idle for long is asked again, since the server
    /// closes connections that are idle for 90 s.
    async fn hold(&self, count: usize, tasks: &Tasks) -> Result<Vec<Connection>> {
        let mut held = Vec::with_capacity(count);
        let mut asked = Instant::now();
        while held.len() < count {
            held.extend(self.open((count - held.len()).min(250), tasks).await?);
            if asked.elapsed() > Duration::from_secs(30) {
                for connection in &mut held {
                    self.ask(connection).await?;
                }
                asked = Instant::now();
            }
        }
        Ok(held)
    }

    /// So many connections, every other one HTTP/2, each of which has got an answer. They end with `tasks`.
    async fn open(&self, count: usize, tasks: &Tasks) -> Result<Vec<Connection>> {
        let opening = stream::iter(0..count).map(async |n| -> Result<Connection> {
            let tcp = TcpStream::connect(&self.authority).await?;
            let tls = if n % 2 == 0 { &self.http1 } else { &self.http2 };
            let io = TokioIo::new(tls.connect(self.name.clone(), tcp).await?);
            let mut connection = if n % 2 == 0 {
                let (sender, driver) = http1::handshake(io).await?;
                // An error of a connection is one of its next request.
                tasks.spawn_until_stopped("connection", async move { driver.await.unwrap_or_default() });
                Connection::Http1(sender)
            } else {
                let (sender, driver) = http2::handshake(TokioExecutor::new(), io).await?;
                tasks.spawn_until_stopped("connection", async move { driver.await.unwrap_or_default() });
                Connection::Http2(sender)
            };
            self.ask(&mut connection).await.with_context(|| format!("connection {n}"))?;
            Ok(connection)
        });
        opening.buffer_unordered(16).collect::<Vec<_>>().await.into_iter().collect()
    }

    /// One request that takes to be somebody.
    async fn ask(&self, connection: &mut Connection) -> Result<()> {
        let uri = match connection {
            Connection::Http1(_) => self.path.clone(),
            Connection::Http2(_) => format!("https://{}{}", self.authority, self.path),
        };
        let request = Request::get(uri).header("host", &self.authority).body(Empty::new())?;
        let response: Response<Incoming> = match connection {
            Connection::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Connection::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(status == 200, "{status}: {}", String::from_utf8_lossy(&body));
        Ok(())
    }
}
