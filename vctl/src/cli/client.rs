//! The REST client: finds the server by its data dir.

use std::{fs, io, path::Path, time::Duration};

use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};
use vctl_api::rest::{Problem, ServerFile};

use super::{Global, error::CliError};

/// A request may wait for a change for 25 s on the server, a deletion for 300 s.
const TIMEOUT: Duration = Duration::from_secs(330);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

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
        let server: ServerFile = serde_json::from_slice(&read(&path)?)
            .map_err(|e| CliError::Failed(format!("{}: {e}; start the server again, which writes it anew", path.display())))?;
        let token = read(&dir.join(&server.token_file))?;
        let token = String::from_utf8_lossy(&token).trim().to_owned();
        let ca = read(&dir.join(&server.ca_file))?;
        let broken = |e: reqwest::Error| CliError::Failed(format!("the server's certificate authority cannot be used: {e}"));
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

    /// Deletes.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// Reads a stream of bytes that does not end.
    pub(crate) async fn stream(&self, path: &str) -> Result<reqwest::Response, CliError> {
        let request = self.request(Method::GET, path).timeout(Duration::from_secs(365 * 24 * 3600));
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.map_err(|e| self.unreachable(&e))?;
        Err(refused(&body))
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
    use super::*;

    #[test]
    fn no_server_says_how_to_start_one() {
        let dir = tempfile::tempdir().expect("dir");
        let Err(e) = Client::at(dir.path()) else { panic!("there is none") };
        assert!(e.to_string().contains("vctl up") && e.exit_code() == 6, "{e}");
    }

    #[test]
    fn names_cannot_leave_their_segment() {
        assert_eq!(segment("my-env"), "my-env");
        assert_eq!(segment("../../x?y"), "%2E%2E%2F%2E%2E%2Fx%3Fy");
    }
}
