//! A client of one environment that says little: short paths, bodies and expectations in YAML, one namespace.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{
    Certificate, Client, Identity, Method,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use tokio::runtime::Runtime;

/// How long a check waits for what must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
    })
}

/// A client of one environment, in one namespace. `{ns}` in paths, bodies and expectations is that namespace.
///
/// Paths: `v1~/configmaps` and `apps/v1~/deployments` are of the namespace, `v1/nodes` and `apps/v1/deployments` of the cluster;
/// one that begins with `/` is taken as it is.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    server: String,
    /// The namespace of this check.
    pub(crate) ns: String,
    /// The environment's kubeconfig, and the directory that it is in.
    pub(crate) kubeconfig: PathBuf,
    headers: HeaderMap,
}

/// What the server answered. Code 0: nothing, and `body` says why.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    /// The JSON; null if it is none.
    pub(crate) body: Value,
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    what: String,
    ns: String,
}

/// A document: YAML text or JSON.
pub(crate) trait Document {
    /// As JSON, with `{ns}` filled in.
    fn json(&self, ns: &str) -> Value;
}

impl Document for &str {
    fn json(&self, ns: &str) -> Value {
        let text = self.replace("{ns}", ns);
        serde_yaml::from_str(&text).map_err(|e| format!("{e}: {text}")).expect("YAML")
    }
}

impl Document for String {
    fn json(&self, ns: &str) -> Value {
        self.as_str().json(ns)
    }
}

impl Document for Value {
    fn json(&self, ns: &str) -> Value {
        serde_json::from_str(&self.to_string().replace("{ns}", ns)).expect("a namespace needs no escapes")
    }
}

impl Document for &Value {
    fn json(&self, ns: &str) -> Value {
        (*self).json(ns)
    }
}

/// Media types of patches by their short names.
fn media(kind: &str) -> &str {
    match kind {
        "json" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => other,
    }
}

impl Api {
    /// A client with the credentials of a kubeconfig.
    pub(crate) fn new(kubeconfig: &Path) -> Result<Self> {
        // The provider may be there already: every environment's client installs it.
        drop(rustls::crypto::ring::default_provider().install_default());
        let config: Value = serde_yaml::from_str(&std::fs::read_to_string(kubeconfig)?)?;
        let part = |pointer: &str| -> Result<Vec<u8>> {
            Ok(BASE64_STANDARD.decode(config.pointer(pointer).and_then(Value::as_str).context("kubeconfig")?)?)
        };
        let server = config.pointer("/clusters/0/cluster/server").and_then(Value::as_str).context("a server")?;
        let authority = part("/clusters/0/cluster/certificate-authority-data")?;
        let mut identity = part("/users/0/user/client-certificate-data")?;
        identity.extend(part("/users/0/user/client-key-data")?);
        let client = Client::builder()
            .tls_certs_only([Certificate::from_pem(&authority)?])
            .identity(Identity::from_pem(&identity)?)
            .build()?;
        Ok(Self {
            client,
            server: server.to_owned(),
            ns: "default".into(),
            kubeconfig: kubeconfig.to_owned(),
            headers: HeaderMap::new(),
        })
    }

    /// The same without a client certificate.
    pub(crate) fn anonymous(&self) -> Result<Self> {
        let client = Client::builder().tls_danger_accept_invalid_certs(true).build()?;
        Ok(Self { client, ..self.clone() })
    }

    /// The same in another namespace.
    pub(crate) fn within(&self, ns: &str) -> Self {
        Self { ns: ns.to_owned(), ..self.clone() }
    }

    /// The same with one more header on each request.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut api = self.clone();
        let value = value.replace("{ns}", &self.ns);
        api.headers.append(
            HeaderName::from_bytes(name.as_bytes()).expect("a header's name"),
            HeaderValue::from_str(&value).expect("a header's value"),
        );
        api
    }

    /// As another user.
    pub(crate) fn impersonate(&self, user: &str) -> Self {
        self.with("Impersonate-User", user)
    }

    /// A token of a service account of this namespace, used instead of the certificate.
    pub(crate) fn bearer(&self, token: &str) -> Result<Self> {
        Ok(self.anonymous()?.with("Authorization", &format!("Bearer {token}")))
    }

    /// The whole path of a short one.
    pub(crate) fn path(&self, path: &str) -> String {
        let root =
            |version: &str| if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let path = path.replace("{ns}", &self.ns);
        if path.starts_with('/') {
            path
        } else if let Some((version, rest)) = path.split_once('~') {
            format!("{}/namespaces/{}{rest}", root(version), self.ns)
        } else if let Some(rest) = path.strip_prefix("v1/") {
            format!("/api/v1/{rest}")
        } else {
            format!("/apis/{path}")
        }
    }

    /// Any request; `content` is the media type and the bytes.
    pub(crate) fn send(&self, method: &str, path: &str, content: Option<(&str, Vec<u8>)>) -> Answer {
        let path = self.path(path);
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let what = format!("{method} {path}");
        let mut request = self.client.request(method, format!("{}{path}", self.server)).headers(self.headers.clone());
        if let Some((media, bytes)) = content {
            request = request.header("Content-Type", media).body(bytes);
        }
        let answer = runtime().block_on(async {
            let answer = request.timeout(Duration::from_mins(1)).send().await?;
            let (code, headers) = (answer.status().as_u16(), answer.headers().clone());
            Ok::<_, reqwest::Error>((code, headers, answer.bytes().await?.to_vec()))
        });
        match answer {
            Ok((code, headers, bytes)) => Answer {
                code,
                headers,
                body: serde_json::from_slice(&bytes).unwrap_or_default(),
                bytes,
                what,
                ns: self.ns.clone(),
            },
            Err(e) => Answer {
                code: 0,
                headers: HeaderMap::new(),
                body: Value::Null,
                bytes: format!("{e:?}").into_bytes(),
                what,
                ns: self.ns.clone(),
            },
        }
    }

    fn json(&self, method: &str, media: &str, path: &str, body: impl Document) -> Answer {
        self.send(method, path, Some((media, body.json(&self.ns).to_string().into_bytes())))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: impl Document) -> Answer {
        self.json("POST", "application/json", path, body)
    }

    pub(crate) fn put(&self, path: &str, body: impl Document) -> Answer {
        self.json("PUT", "application/json", path, body)
    }

    /// `kind`: `json`, `merge`, `strategic`, or a media type.
    pub(crate) fn patch(&self, kind: &str, path: &str, body: impl Document) -> Answer {
        self.json("PATCH", media(kind), path, body)
    }

    /// Server-side apply; `path` carries the query.
    pub(crate) fn apply(&self, path: &str, body: impl Document) -> Answer {
        self.json("PATCH", media("apply"), path, body)
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None)
    }

    /// Delete with `DeleteOptions`.
    pub(crate) fn delete_with(&self, path: &str, options: impl Document) -> Answer {
        self.json("DELETE", "application/json", path, options)
    }

    /// Reads until the object has this.
    pub(crate) fn wait_for(&self, path: &str, expected: &str) -> Result<Answer> {
        self.until(path, |a| a.clone().ok()?.has(expected).map(drop))
    }

    /// Reads until it is gone.
    pub(crate) fn wait_gone(&self, path: &str) -> Result<()> {
        self.until(path, |a| a.clone().is(404).map(drop)).map(drop)
    }

    /// Reads until what was read passes.
    pub(crate) fn until(&self, path: &str, passes: impl Fn(&Answer) -> Result<()>) -> Result<Answer> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let answer = self.get(path);
            match passes(&answer) {
                Ok(()) => return Ok(answer),
                Err(e) if Instant::now() >= deadline => return Err(e.context(format!("not within {LIMIT:?}"))),
                Err(_) => std::thread::sleep(Duration::from_millis(25)),
            }
        }
    }

    /// Opens a watch.
    pub(crate) fn watch(&self, path: &str) -> Result<Watch> {
        let path = self.path(path);
        let separator = if path.contains('?') { '&' } else { '?' };
        let url = format!("{}{path}{separator}watch=true", self.server);
        let response = runtime().block_on(self.client.get(&url).headers(self.headers.clone()).send())?;
        let code = response.status();
        if code != 200 {
            bail!("watch {path}: {code}: {}", runtime().block_on(response.text())?);
        }
        Ok(Watch { response, buffer: Vec::new(), lines: VecDeque::new(), what: path, ns: self.ns.clone() })
    }
}

/// An open watch.
pub(crate) struct Watch {
    response: reqwest::Response,
    buffer: Vec<u8>,
    lines: VecDeque<Value>,
    what: String,
    ns: String,
}

impl Watch {
    /// The next event; none when the server has ended the watch.
    pub(crate) fn next(&mut self) -> Result<Option<Value>> {
        while self.lines.is_empty() {
            let chunk = runtime().block_on(async { tokio::time::timeout(LIMIT, self.response.chunk()).await });
            let Some(chunk) = chunk.with_context(|| format!("watch {}: no event", self.what))?? else {
                return Ok(None);
            };
            self.buffer.extend_from_slice(&chunk);
            while let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                self.lines.push_back(serde_json::from_slice(&line)?);
            }
        }
        Ok(self.lines.pop_front())
    }

    /// The next event, which must be of this type and have this.
    pub(crate) fn expect(&mut self, kind: &str, expected: &str) -> Result<Value> {
        let event = self.next()?.with_context(|| format!("watch {} ended before {kind}", self.what))?;
        ensure!(event["type"] == kind, "watch {}: {kind} {expected} was expected: {event}", self.what);
        subset(&event["object"], &expected.json(&self.ns), "object")?;
        Ok(event["object"].clone())
    }

    /// Skips events until one of this type that has this.
    pub(crate) fn find(&mut self, kind: &str, expected: &str) -> Result<Value> {
        let mut seen = Vec::new();
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            let Some(event) = self.next()? else { break };
            if event["type"] == kind && subset(&event["object"], &expected.json(&self.ns), "").is_ok() {
                return Ok(event["object"].clone());
            }
            seen.push(event["type"].as_str().unwrap_or_default().to_owned());
        }
        bail!("watch {}: no {kind} {expected}; seen: {seen:?}", self.what)
    }
}

impl Answer {
    fn told(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let short: String = text.chars().take(1500).collect();
        format!("{}: {} {short}", self.what, self.code)
    }

    /// The code must be this.
    pub(crate) fn is(self, code: u16) -> Result<Self> {
        ensure!(self.code == code, "{code} was expected: {}", self.told());
        Ok(self)
    }

    /// It must have succeeded.
    pub(crate) fn ok(self) -> Result<Self> {
        ensure!((200..300).contains(&self.code), "success was expected: {}", self.told());
        Ok(self)
    }

    /// A Status with this code, reason and (part of the) message.
    pub(crate) fn refused(self, code: u16, reason: &str, message: &str) -> Result<Self> {
        let answer = self.is(code)?;
        ensure!(
            answer.body["kind"] == "Status" && answer.body["status"] == "Failure" && answer.body["code"] == code,
            "not a Status: {}",
            answer.told()
        );
        ensure!(answer.body["reason"] == reason, "reason {reason} was expected: {}", answer.told());
        let message = message.replace("{ns}", &answer.ns);
        ensure!(answer.text("/message").contains(&message), "message {message:?} was expected: {}", answer.told());
        Ok(answer)
    }

    /// The body must have this: maps may have more; null is absent; `<any>` is present; lists and the rest are equal.
    pub(crate) fn has(self, expected: &str) -> Result<Self> {
        subset(&self.body, &expected.json(&self.ns), "").with_context(|| self.told())?;
        Ok(self)
    }

    /// What is at a JSON pointer; null if nothing.
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The text at a JSON pointer; empty if there is none.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    /// The number at a JSON pointer.
    pub(crate) fn number(&self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or_default()
    }

    /// `metadata.resourceVersion`.
    pub(crate) fn version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    /// Names of the items.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.at("/items").as_array().into_iter().flatten().filter_map(|i| i["metadata"]["name"].as_str()).collect()
    }

    /// A header's text; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }

    /// All `Warning` headers.
    pub(crate) fn warnings(&self) -> Vec<&str> {
        self.headers.get_all("warning").iter().filter_map(|v| v.to_str().ok()).collect()
    }
}

/// Whether `actual` has all that is expected; see [`Answer::has`].
pub(crate) fn subset(actual: &Value, expected: &Value, at: &str) -> Result<()> {
    match (actual, expected) {
        (_, Value::String(any)) if any == "<any>" => ensure!(!actual.is_null(), "{at} is absent"),
        (Value::Object(actual), Value::Object(expected)) => {
            for (key, expected) in expected {
                subset(actual.get(key).unwrap_or(&Value::Null), expected, &format!("{at}.{key}"))?;
            }
        }
        // What is absent has none of its fields.
        (Value::Null, Value::Object(expected)) => {
            for (key, expected) in expected {
                subset(&Value::Null, expected, &format!("{at}.{key}"))?;
            }
        }
        (Value::Array(a), Value::Array(e)) => {
            ensure!(a.len() == e.len(), "{at} has {} items, not {}: {actual}", a.len(), e.len());
            for (i, (a, e)) in a.iter().zip(e).enumerate() {
                subset(a, e, &format!("{at}[{i}]"))?;
            }
        }
        _ => ensure!(actual == expected, "{at} is {actual}, not {expected}"),
    }
    Ok(())
}
