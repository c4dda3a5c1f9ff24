//! The REST client: finds the server by its data dir.

use std::{fs, io, path::Path, time::Duration};

use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};
use vctl_api::rest::{Problem, ServerFile};

use super::{Global, error::CliError};

/// A request may wait for a change for 25 s on the server, a deletion for 300 s.
const TIMEOUT: Duration = Duration::from_secs(330);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A stream goes on for as long as somebody reads it.
const STREAM_TIMEOUT: Duration = Duration::from_hours(10_000);

/// Talks to the running server as its local administrator. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Client {
    /// Reads what the server has left in its data dir. Sends nothing yet.
    pub(crate) fn open(global: &Global) -> Result<Self, CliError> {
        Self::at(&global.data_dir()?)
    }

    fn at(dir: &Path) -> Result<Self, CliError> {
        let read = |path: &Path| match fs::read(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(CliError::NoServer(dir.to_owned())),
            read => read.map_err(CliError::file(path)),
        };
        let path = dir.join("server.json");
        let server: ServerFile = serde_json::from_slice(&read(&path)?).map_err(|e| {
            CliError::Failed(format!("{}: {e}; start the server again, which writes it anew", path.display()))
        })?;
        let token = read(&dir.join(&server.token_file))?;
        let token = String::from_utf8_lossy(&token).trim().to_owned();
        let ca = read(&dir.join(&server.ca_file))?;
        let broken =
            |e: reqwest::Error| CliError::Failed(format!("the server's certificate authority cannot be used: {e}"));
        let roots = reqwest::Certificate::from_pem_bundle(&ca).map_err(broken)?;
        let http = reqwest::Client::builder()
            .tls_certs_only(roots)
            .https_only(true)
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .user_agent(concat!("vctl/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(broken)?;
        Ok(Self { http, url: server.url.trim_end_matches('/').to_owned(), token })
    }

    /// Address of the server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Reads; `path` is below `/api/v1/`.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        self.send(self.request(Method::GET, path)).await
    }

    /// Makes something.
    pub(crate) async fn post<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, CliError> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// Replaces something.
    pub(crate) async fn put<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, CliError> {
        self.send(self.request(Method::PUT, path).json(body)).await
    }

    /// Deletes.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// Reads a stream of bytes that does not end.
    pub(crate) async fn stream(&self, path: &str) -> Result<reqwest::Response, CliError> {
        let request = self.request(Method::GET, path).timeout(STREAM_TIMEOUT);
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.map_err(|e| self.unreachable(&e))?;
        Err(refused(&body))
    }

    /// Reads a whole file's worth of bytes, piece by piece.
    pub(crate) async fn download(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let mut response = self.stream(path).await?;
        while let Some(piece) = response.chunk().await.map_err(|e| self.unreachable(&e))? {
            take(&piece)?;
        }
        Ok(())
    }

    /// Sends bytes.
    pub(crate) async fn upload<T: DeserializeOwned>(&self, path: &str, bytes: Vec<u8>) -> Result<T, CliError> {
        let request = self.request(Method::POST, path).timeout(STREAM_TIMEOUT);
        self.send(request.header("content-type", "application/octet-stream").body(bytes)).await
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}/api/v1/{path}", self.url)).bearer_auth(&self.token)
    }

    async fn send<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, CliError> {
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        let ok = response.status().is_success();
        let body = response.bytes().await.map_err(|e| self.unreachable(&e))?;
        if !ok {
            return Err(refused(&body));
        }
        serde_json::from_slice(&body).map_err(|e| CliError::Answer(e.to_string()))
    }

    fn unreachable(&self, e: &reqwest::Error) -> CliError {
        // The innermost cause is the one that helps: `Connection refused`.
        let mut cause: &dyn std::error::Error = e;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        CliError::Unreachable { url: self.url.clone(), why: cause.to_string() }
    }
}

fn refused(body: &[u8]) -> CliError {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => CliError::Refused(Box::new(problem)),
        Err(e) => CliError::Answer(format!("{e}: {}", String::from_utf8_lossy(&body[..body.len().min(200)]))),
    }
}

/// A name as one segment of a path.
pub(crate) fn segment(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    #[test]
    fn no_server_says_how_to_start_one() {
        let dir = tempfile::tempdir().expect("dir");
        let Err(e) = Client::at(dir.path()) else { panic!("there is none") };
        assert!(e.to_string().contains("vctl up") && e.exit_code() == 6, "{e}");
    }

    /// A server with one address, over TLS, as `vctl up` leaves it in its data dir.
    async fn server(dir: &Path, tasks: &vctl_runtime::tasks::Tasks) -> Result<(), Box<dyn std::error::Error>> {
        use vctl_runtime::{pki, serve};
        let validity = pki::Validity::from_now(jiff::Timestamp::now(), Duration::from_hours(1));
        let authority = pki::Authority::generate("test", validity)?;
        let identity = authority.server(&["127.0.0.1".to_owned()], validity)?;
        let router = axum::Router::new().route(
            "/api/v1/status",
            axum::routing::get(|headers: http::HeaderMap| async move {
                if headers.get("authorization").is_some_and(|v| v == "Bearer secret") {
                    return axum::Json(serde_json::json!({"ok": true})).into_response();
                }
                let problem = serde_json::json!({"status": 401, "type": "unauthorized", "detail": "who are you?"});
                (http::StatusCode::UNAUTHORIZED, axum::Json(problem)).into_response()
            }),
        );
        let listener = serve::bind_tcp(([127, 0, 0, 1], 0).into()).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let tls = serve::Tls::new(&identity.certificate_pem, &identity.key_pem)?;
        serve::Server::new(tls, router, tasks.clone()).listen_tcp(listener);
        let file = ServerFile {
            listen: url.clone(),
            url,
            pid: 1,
            version: "0".to_owned(),
            ca_file: "ca.pem".to_owned(),
            token_file: "admin.token".to_owned(),
        };
        fs::write(dir.join("server.json"), serde_json::to_vec(&file)?)?;
        fs::write(dir.join("ca.pem"), authority.certificate_pem())?;
        fs::write(dir.join("admin.token"), "secret\n")?;
        Ok(())
    }

    #[tokio::test]
    async fn talks_tls_to_the_server_of_its_data_dir_and_to_no_other() {
        vctl_runtime::serve::install_crypto_provider();
        let (dir, other) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
        let tasks = vctl_runtime::tasks::Tasks::new();
        server(dir.path(), &tasks).await.expect("server");
        server(other.path(), &tasks).await.expect("other server");
        let status = Client::at(dir.path()).expect("client").get::<serde_json::Value>("status").await.expect("status");
        assert_eq!(status["ok"], true);

        fs::write(dir.path().join("admin.token"), "stolen").expect("write");
        let refused =
            Client::at(dir.path()).expect("client").get::<serde_json::Value>("status").await.expect_err("refused");
        assert_eq!((refused.to_string().as_str(), refused.exit_code()), ("who are you?", 5));

        fs::copy(other.path().join("ca.pem"), dir.path().join("ca.pem")).expect("copy");
        let unknown =
            Client::at(dir.path()).expect("client").get::<serde_json::Value>("status").await.expect_err("refused");
        assert!(unknown.to_string().contains("certificate") && unknown.exit_code() == 6, "{unknown}");

        assert!(tasks.shutdown(Duration::from_secs(10)).await);
        let gone =
            Client::at(other.path()).expect("client").get::<serde_json::Value>("status").await.expect_err("gone");
        assert!(gone.to_string().contains("vctl up") && gone.exit_code() == 6, "{gone}");
    }

    #[test]
    fn names_cannot_leave_their_segment() {
        assert_eq!(segment("my-env"), "my-env");
        assert_eq!(segment("../../x?y"), "%2E%2E%2F%2E%2E%2Fx%3Fy");
    }
}
