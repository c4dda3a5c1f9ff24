//! Podman: its own REST API (libpod) over a unix socket, and the Docker-compatible one through `bollard` for exec and attach.

pub(crate) mod service;

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use bollard::Docker;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::net::UnixStream;
use vctl_runtime::metrics::{Counter, Exposition, Histogram, Kind};

/// Longest wait for an ordinary request; pulls are not limited.
const REQUEST_LIMIT: Duration = Duration::from_mins(2);
/// Upper bounds of how long requests take, in seconds.
const BOUNDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// A request to Podman failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PodmanError {
    /// Its socket does not answer.
    #[error(
        "podman does not answer on {socket}: {why}; the agent starts its service again, see podman.log in the state directory"
    )]
    Unreachable {
        /// The socket.
        socket: String,
        /// The system's message.
        why: String,
    },
    /// It answered with an error. The text is Podman's own.
    #[error("{message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Podman's message.
        message: String,
    },
    /// The answer could not be understood.
    #[error("podman's answer to {what} could not be read: {why}; podman 4.3 or newer is needed")]
    Unreadable {
        /// The request.
        what: String,
        /// What did not parse.
        why: String,
    },
    /// The service could not be started.
    #[error("podman's service could not be started: {0}; its messages are in podman.log in the state directory")]
    Start(String),
}

impl PodmanError {
    /// Whether the thing asked for does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }
}

/// State of a container as `inspect` shows it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Inspect {
    pub(crate) state: InspectState,
    #[serde(default)]
    pub(crate) config: InspectConfig,
    /// File with what the runtime is told: beside it are the sockets of the container's monitor and of its commands'.
    #[serde(default, rename = "OCIConfigPath")]
    pub(crate) oci_config: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct InspectState {
    pub(crate) status: String,
    pub(crate) running: bool,
    #[serde(default)]
    pub(crate) pid: i32,
    #[serde(default)]
    pub(crate) exit_code: i32,
    #[serde(default)]
    pub(crate) error: String,
    pub(crate) started_at: String,
    pub(crate) finished_at: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct InspectConfig {
    #[serde(default)]
    pub(crate) stop_signal: u32,
}

/// One line of the list of containers.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Listed {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) labels: Option<HashMap<String, String>>,
    pub(crate) state: String,
}

/// What the agent needs to know of an image.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) size: u64,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) command: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ImageJson {
    id: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    config: Option<ImageConfig>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct ImageConfig {
    #[serde(default)]
    user: String,
    #[serde(default)]
    entrypoint: Option<Vec<String>>,
    #[serde(default)]
    cmd: Option<Vec<String>>,
}

/// A client of one Podman service. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Podman {
    socket: PathBuf,
    requests: Arc<Requests>,
}

/// Ordinary requests to Podman: all but pulls, events and sessions, which last as long as they have to.
struct Requests {
    seconds: Histogram,
    failures: Counter,
}

/// Escapes a path segment or query value.
pub(crate) fn escape(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(b).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}

impl Podman {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket, requests: Arc::new(Requests { seconds: Histogram::new(BOUNDS), failures: Counter::default() }) }
    }

    fn unreachable(&self, e: impl std::fmt::Display) -> PodmanError {
        PodmanError::Unreachable { socket: self.socket.display().to_string(), why: e.to_string() }
    }

    #[expect(clippy::disallowed_methods, reason = "the task ends with its connection, which the caller holds")]
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<http::Response<Incoming>, PodmanError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|e| self.unreachable(e))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(|e| self.unreachable(e))?;
        // The connection lives as long as its answer is read; it ends by itself and needs no tracking.
        drop(tokio::spawn(async move {
            if let Err(e) = connection.await {
                tracing::debug!(error = %e, "connection to podman ended");
            }
        }));
        let mut request =
            Request::builder().method(method).uri(format!("/v4.0.0/libpod{path}")).header("Host", "podman");
        if body.is_some() {
            request = request.header("Content-Type", "application/json");
        }
        let request = request.body(Full::new(body.unwrap_or_default().into())).map_err(|e| self.unreachable(e))?;
        sender.send_request(request).await.map_err(|e| self.unreachable(e))
    }

    async fn call(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Bytes, PodmanError> {
        let exchange = async {
            let response = self.send(method, path, body).await?;
            let status = response.status();
            let content = response.into_body().collect().await.map_err(|e| self.unreachable(e))?.to_bytes();
            refused(status, &content)?;
            Ok(content)
        };
        let began = tokio::time::Instant::now();
        let answer = tokio::time::timeout(REQUEST_LIMIT, exchange)
            .await
            .unwrap_or_else(|_| Err(self.unreachable("no answer within two minutes")));
        self.requests.seconds.observe(began.elapsed());
        // That something is not there is an answer.
        if answer.as_ref().is_err_and(|e| !e.is_not_found()) {
            self.requests.failures.add_one();
        }
        answer
    }

    /// How its requests went.
    pub(crate) fn write_measured(&self, text: &mut Exposition) {
        let name = "vctl_agent_podman_request_duration_seconds";
        text.family(name, Kind::Histogram, "How long requests to Podman took; without pulls, events and sessions.");
        text.histogram(name, &[], &self.requests.seconds);
        let name = "vctl_agent_podman_request_failures_total";
        text.family(name, Kind::Counter, "Number of those that failed.");
        text.sample(name, &[], self.requests.failures.get());
    }

    async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<T, PodmanError> {
        let content = self.call(method, path, body).await?;
        serde_json::from_slice(&content)
            .map_err(|e| PodmanError::Unreadable { what: path.to_owned(), why: e.to_string() })
    }

    /// Version of the engine.
    pub(crate) async fn version(&self) -> Result<String, PodmanError> {
        let answer: serde_json::Value = self.json(Method::GET, "/version", None).await?;
        Ok(answer["Version"].as_str().or(answer["Components"][0]["Version"].as_str()).unwrap_or("unknown").to_owned())
    }

    /// Creates a container from a specification; its id.
    pub(crate) async fn create(&self, spec: &serde_json::Value) -> Result<String, PodmanError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Created {
            id: String,
        }
        Ok(self.json::<Created>(Method::POST, "/containers/create", Some(spec.to_string().into_bytes())).await?.id)
    }

    pub(crate) async fn start(&self, id: &str) -> Result<(), PodmanError> {
        self.call(Method::POST, &format!("/containers/{id}/start"), None).await.map(drop)
    }

    /// Sends a signal; fine when the container has ended meanwhile.
    pub(crate) async fn kill(&self, id: &str, signal: u32) -> Result<(), PodmanError> {
        match self.call(Method::POST, &format!("/containers/{id}/kill?signal={signal}"), None).await {
            Err(PodmanError::Refused { status: 404 | 409, .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Inspects a container; none when there is none.
    pub(crate) async fn inspect(&self, id: &str) -> Result<Option<Inspect>, PodmanError> {
        match self.json(Method::GET, &format!("/containers/{id}/json"), None).await {
            Err(e) if e.is_not_found() => Ok(None),
            other => other.map(Some),
        }
    }

    /// Removes a container, killing it if needed; fine when it is not there.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), PodmanError> {
        match self.call(Method::DELETE, &format!("/containers/{id}?force=true&timeout=0&v=true"), None).await {
            Err(e) if e.is_not_found() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Containers that carry a label with this value, running or not.
    pub(crate) async fn list(&self, label: &str, value: &str) -> Result<Vec<Listed>, PodmanError> {
        let filters = serde_json::json!({ "label": [format!("{label}={value}")] }).to_string();
        self.json(Method::GET, &format!("/containers/json?all=true&filters={}", escape(&filters)), None).await
    }

    /// Looks an image up locally.
    pub(crate) async fn image(&self, name: &str) -> Result<Option<Image>, PodmanError> {
        match self.json::<ImageJson>(Method::GET, &format!("/images/{}/json", escape(name)), None).await {
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
            Ok(found) => {
                let config = found.config.unwrap_or_default();
                Ok(Some(Image {
                    id: found.id,
                    user: if found.user.is_empty() { config.user } else { found.user },
                    size: found.size,
                    entrypoint: config.entrypoint.unwrap_or_default(),
                    command: config.cmd.unwrap_or_default(),
                }))
            }
        }
    }

    /// Names of all local images.
    pub(crate) async fn images(&self) -> Result<Vec<String>, PodmanError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Entry {
            #[serde(default)]
            repo_tags: Option<Vec<String>>,
        }
        let entries: Vec<Entry> = self.json(Method::GET, "/images/json", None).await?;
        Ok(entries.into_iter().flat_map(|e| e.repo_tags.unwrap_or_default()).collect())
    }

    /// Pulls an image. The error is the registry's or the network's, as Podman tells it.
    pub(crate) async fn pull(&self, name: &str) -> Result<(), PodmanError> {
        let response = self.send(Method::POST, &format!("/images/pull?reference={}", escape(name)), None).await?;
        let status = response.status();
        let content = response.into_body().collect().await.map_err(|e| self.unreachable(e))?.to_bytes();
        refused(status, &content)?;
        // The answer is a sequence of JSON lines; an error comes with status 200, as one of them.
        for line in content.split(|b| *b == b'\n') {
            if let Ok(value) = serde_json::from_slice::<serde_json::Value>(line)
                && let Some(message) = value["error"].as_str()
            {
                return Err(PodmanError::Refused { status: 500, message: message.to_owned() });
            }
        }
        Ok(())
    }

    /// The stream of container events, as JSON lines.
    pub(crate) async fn events(&self) -> Result<Incoming, PodmanError> {
        let filters = escape(r#"{"type":["container"]}"#);
        let response = self.send(Method::GET, &format!("/events?stream=true&filters={filters}"), None).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        Err(PodmanError::Refused { status: status.as_u16(), message: "no events".into() })
    }

    /// The Docker-compatible API.
    pub(crate) fn docker(&self) -> Result<Docker, PodmanError> {
        Docker::connect_with_unix(&self.socket.to_string_lossy(), 3600 * 24, bollard::API_DEFAULT_VERSION)
            .map_err(|e| self.unreachable(e))
    }
}

fn refused(status: StatusCode, content: &[u8]) -> Result<(), PodmanError> {
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return Ok(());
    }
    let message = serde_json::from_slice::<serde_json::Value>(content)
        .ok()
        .and_then(|v| v["message"].as_str().or(v["cause"].as_str()).map(str::to_owned))
        .unwrap_or_else(|| String::from_utf8_lossy(content).trim().to_owned());
    Err(PodmanError::Refused { status: status.as_u16(), message })
}
