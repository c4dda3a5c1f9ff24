//! The REST client: finds the server by its data dir, or by a context.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use vctl_api::rest::{OauthError, Page, Problem, ServerFile, TokenResponse};

use super::{
    Global,
    contexts::{Contexts, Entry, config_file},
    error::CliError,
};

/// What this program is called as a client of the server.
pub(crate) const CLIENT_ID: &str = "vctl";

/// A request may wait for a change for 25 s on the server, a deletion for 300 s.
const TIMEOUT: Duration = Duration::from_secs(330);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A stream goes on for as long as somebody reads it.
const STREAM_TIMEOUT: Duration = Duration::from_hours(10_000);

/// An access token is not used for so long before its end.
const MARGIN: SignedDuration = SignedDuration::from_secs(30);

/// By what a client is known to its server.
#[derive(Clone)]
enum Credential {
    /// A token that does not change: the administrator's, or an API key.
    Token(String),
    /// The login of a context, which is kept in a file.
    Context { file: PathBuf, name: String },
}

/// Talks to a server: the one of the data dir as its local administrator, or one that somebody has signed in to. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    credential: Credential,
}

impl Client {
    /// The server that is meant: `--context`, else an explicit data dir, else `VCTL_SERVER` with `VCTL_TOKEN` (an API key), else the current
    /// context, else the usual data dir. Sends nothing yet.
    pub(crate) fn open(global: &Global) -> Result<Self, CliError> {
        if let Some(name) = &global.context {
            let file = config_file()?;
            return Self::of_context(&file, Contexts::load(&file)?.get(name)?);
        }
        if global.data_dir.is_none() {
            if let Some(client) = Self::of_variables()? {
                return Ok(client);
            }
            if let Ok(file) = config_file() {
                let contexts = Contexts::load(&file)?;
                if let Some(name) = &contexts.current_context {
                    return Self::of_context(&file, contexts.get(name)?);
                }
            }
        }
        Self::at(&global.data_dir()?)
    }

    /// The server at this address: that of a context, of `VCTL_SERVER`, or of the data dir.
    pub(crate) fn of_server(global: &Global, server: &str) -> Result<Self, CliError> {
        let server = server.trim_end_matches('/');
        if global.context.is_some() || global.data_dir.is_some() {
            return Self::open(global);
        }
        if let Some(client) = Self::of_variables()?.filter(|c| c.url == server) {
            return Ok(client);
        }
        let file = config_file()?;
        if let Some(entry) = Contexts::load(&file)?.of_server(server) {
            return Self::of_context(&file, entry);
        }
        match Self::at(&global.data_dir()?) {
            Ok(local) if local.url == server => Ok(local),
            _ => Err(CliError::SignedOut { server: server.to_owned() }),
        }
    }

    fn of_context(file: &Path, entry: &Entry) -> Result<Self, CliError> {
        let http = http(entry.certificate_authority.as_ref().map(String::as_bytes))?;
        let credential = Credential::Context { file: file.to_owned(), name: entry.name.clone() };
        Ok(Self { http, url: entry.server.clone(), credential })
    }

    /// For programs: `VCTL_SERVER` and `VCTL_TOKEN`, with `VCTL_CA_FILE` where the authority is not among the machine's.
    fn of_variables() -> Result<Option<Self>, CliError> {
        let text = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let (Some(server), Some(token)) = (text("VCTL_SERVER"), text("VCTL_TOKEN")) else { return Ok(None) };
        let ca = text("VCTL_CA_FILE").map(|file| fs::read(&file).map_err(CliError::file(file))).transpose()?;
        let url = server.trim_end_matches('/').to_owned();
        Ok(Some(Self { http: http(ca.as_deref())?, url, credential: Credential::Token(token) }))
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
        let url = server.url.trim_end_matches('/').to_owned();
        Ok(Self { http: http(Some(&ca))?, url, credential: Credential::Token(token) })
    }

    /// Tells one login from another, without giving it away.
    pub(crate) fn login_digest(&self) -> String {
        let login = match &self.credential {
            Credential::Token(token) => token.clone(),
            Credential::Context { file, name } => {
                // The part of the refresh token that stays the same for a login.
                let entry = Contexts::load(file).ok().and_then(|all| all.get(name).ok().cloned());
                let refresh = entry.map(|e| e.refresh_token).unwrap_or_default();
                refresh.rsplit_once('_').map(|(id, _)| id.to_owned()).unwrap_or_default()
            }
        };
        hex::encode(Sha256::digest(login))
    }

    /// The token to send: that of a context is refreshed when it is about to end, by one command at a time.
    async fn bearer(&self) -> Result<String, CliError> {
        let (file, name) = match &self.credential {
            Credential::Token(token) => return Ok(token.clone()),
            Credential::Context { file, name } => (file, name),
        };
        let current = |entry: &Entry| {
            let left = entry.expires_at.map(|at| at.duration_since(Timestamp::now()));
            left.is_some_and(|left| left > MARGIN).then(|| entry.access_token.clone())
        };
        if let Some(token) = current(Contexts::load(file)?.get(name)?) {
            return Ok(token);
        }
        let _lock = Contexts::lock(file).await?;
        let mut contexts = Contexts::load(file)?;
        let mut entry = contexts.get(name)?.clone();
        if let Some(token) = current(&entry) {
            return Ok(token);
        }
        let ended = || CliError::SignedOut { server: self.url.clone() };
        if entry.refresh_token.is_empty() {
            return Err(ended());
        }
        let fields =
            [("grant_type", "refresh_token"), ("client_id", CLIENT_ID), ("refresh_token", &entry.refresh_token)];
        match oauth::<TokenResponse>(&self.http, &self.url, "token", &fields).await? {
            Ok(tokens) => {
                entry.take(tokens);
                let token = entry.access_token.clone();
                contexts.put(entry);
                contexts.write(file)?;
                Ok(token)
            }
            Err(e) if e.error == "invalid_grant" => Err(ended()),
            Err(e) => Err(CliError::Failed(e.error_description)),
        }
    }

    /// Name of the context that it is of.
    pub(crate) fn context(&self) -> Option<&str> {
        match &self.credential {
            Credential::Token(_) => None,
            Credential::Context { name, .. } => Some(name),
        }
    }

    /// Address of the server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Reads; `path` is below `/api/v1/`.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        self.send(self.request(Method::GET, path).await?).await
    }

    /// Reads all pages of a list.
    pub(crate) async fn all<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, CliError> {
        let mut items = Vec::new();
        let mut after = String::new();
        loop {
            let page: Page<T> = self.get(&format!("{path}{after}")).await?;
            items.extend(page.items);
            match page.next {
                Some(next) => {
                    let mark = if path.contains('?') { '&' } else { '?' };
                    after = format!("{mark}after={}", segment(&next));
                }
                None => return Ok(items),
            }
        }
    }

    /// Makes something.
    pub(crate) async fn post<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, CliError> {
        self.send(self.request(Method::POST, path).await?.json(body)).await
    }

    /// Replaces something.
    pub(crate) async fn put<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, CliError> {
        self.send(self.request(Method::PUT, path).await?.json(body)).await
    }

    /// Replaces something, if it still has this revision.
    pub(crate) async fn put_if<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        revision: u64,
        body: &B,
    ) -> Result<T, CliError> {
        let request = self.request(Method::PUT, path).await?.header("if-match", format!("\"{revision}\""));
        self.send(request.json(body)).await
    }

    /// Deletes.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        self.send(self.request(Method::DELETE, path).await?).await
    }

    /// Reads a stream of bytes that does not end.
    pub(crate) async fn stream(&self, path: &str) -> Result<reqwest::Response, CliError> {
        let request = self.request(Method::GET, path).await?.timeout(STREAM_TIMEOUT);
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
        let request = self.request(Method::POST, path).await?.timeout(STREAM_TIMEOUT);
        self.send(request.header("content-type", "application/octet-stream").body(bytes)).await
    }

    /// Changes a part of something.
    pub(crate) async fn patch<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, CliError> {
        self.send(self.request(Method::PATCH, path).await?.json(body)).await
    }

    /// Deletes what has nothing to say afterwards.
    pub(crate) async fn delete_nothing(&self, path: &str) -> Result<(), CliError> {
        let response = self.request(Method::DELETE, path).await?.send().await.map_err(|e| self.unreachable(&e))?;
        if response.status().is_success() {
            return Ok(());
        }
        let body = response.bytes().await.map_err(|e| self.unreachable(&e))?;
        Err(refused(&body))
    }

    async fn request(&self, method: Method, path: &str) -> Result<reqwest::RequestBuilder, CliError> {
        let token = self.bearer().await?;
        Ok(self.http.request(method, format!("{}/api/v1/{path}", self.url)).bearer_auth(token))
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
        unreachable(&self.url, e)
    }
}

fn unreachable(url: &str, e: &reqwest::Error) -> CliError {
    // The innermost cause is the one that helps: `Connection refused`.
    let mut cause: &dyn std::error::Error = e;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    CliError::Unreachable { url: url.to_owned(), why: cause.to_string() }
}

/// Speaks TLS with whom these authorities (PEM) vouch for; none: those of the machine.
pub(crate) fn http(authorities: Option<&[u8]>) -> Result<reqwest::Client, CliError> {
    let broken =
        |e: reqwest::Error| CliError::Failed(format!("the server's certificate authority cannot be used: {e}"));
    let builder = reqwest::Client::builder()
        .https_only(true)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT)
        .user_agent(concat!("vctl/", env!("CARGO_PKG_VERSION")));
    let builder = match authorities {
        Some(pem) => builder.tls_certs_only(reqwest::Certificate::from_pem_bundle(pem).map_err(broken)?),
        None => builder,
    };
    builder.build().map_err(broken)
}

/// A request to the server as authorization server; the inner error is a refusal of its.
pub(crate) async fn oauth<T: DeserializeOwned>(
    http: &reqwest::Client,
    server: &str,
    endpoint: &str,
    fields: &[(&str, &str)],
) -> Result<Result<T, OauthError>, CliError> {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let request = http.post(format!("{server}/oauth/{endpoint}"));
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
    let response = request.send().await.map_err(|e| unreachable(server, &e))?;
    let ok = response.status().is_success();
    let body = response.bytes().await.map_err(|e| unreachable(server, &e))?;
    if ok {
        let body: &[u8] = if body.is_empty() { b"null" } else { &body };
        return serde_json::from_slice(body).map(Ok).map_err(|e| CliError::Answer(e.to_string()));
    }
    serde_json::from_slice(&body).map(Err).map_err(|_| refused(&body))
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
        assert!(e.to_string().contains("vctl up") && e.exit() as u8 == 6, "{e}");
    }

    /// A server with one address, over TLS, as `vctl up` leaves it in its data dir.
    async fn server(dir: &Path, tasks: &vctl_runtime::tasks::Tasks) -> Result<(), Box<dyn std::error::Error>> {
        use vctl_runtime::{pki, serve};
        let validity = pki::Validity::from_now(Timestamp::now(), Duration::from_hours(1));
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
        assert_eq!((refused.to_string().as_str(), refused.exit() as u8), ("who are you?", 5));

        fs::copy(other.path().join("ca.pem"), dir.path().join("ca.pem")).expect("copy");
        let unknown =
            Client::at(dir.path()).expect("client").get::<serde_json::Value>("status").await.expect_err("refused");
        assert!(unknown.to_string().contains("certificate") && unknown.exit() as u8 == 6, "{unknown}");

        assert!(tasks.shutdown(Duration::from_secs(10)).await);
        let gone =
            Client::at(other.path()).expect("client").get::<serde_json::Value>("status").await.expect_err("gone");
        assert!(gone.to_string().contains("vctl up") && gone.exit() as u8 == 6, "{gone}");
    }

    #[test]
    fn names_cannot_leave_their_segment() {
        assert_eq!(segment("my-env"), "my-env");
        assert_eq!(segment("../../x?y"), "%2E%2E%2F%2E%2E%2Fx%3Fy");
    }
}
