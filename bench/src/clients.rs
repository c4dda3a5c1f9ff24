//! HTTP clients of a platform: its REST API, and the API servers of its environments.

use anyhow::{Context, Result, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{Certificate, Client, Identity};
use serde_json::Value;
use vctl_tests::platform::Platform;

/// The REST API as local administrator.
pub(crate) struct Rest {
    client: Client,
    base: String,
    token: String,
}

impl Rest {
    pub(crate) fn new(platform: &Platform) -> Result<Self> {
        let dir = platform.data_dir();
        let server: Value = serde_json::from_slice(&std::fs::read(dir.join("server.json"))?)?;
        let named = |key: &str| {
            server[key].as_str().map(|file| dir.join(file)).with_context(|| format!("{key} in server.json"))
        };
        let ca = named("caFile")?;
        let token = std::fs::read_to_string(named("tokenFile")?)?.trim().to_owned();
        let client = Client::builder().tls_certs_only([Certificate::from_pem(&std::fs::read(ca)?)?]).build()?;
        Ok(Self { client, base: format!("https://{}/api/v1", platform.address()), token })
    }

    /// Asks for an environment; returns when the server has acknowledged it.
    pub(crate) async fn create(&self, name: &str) -> Result<()> {
        let body = serde_json::json!({ "name": name, "template": "blank", "parameters": {} });
        let answer =
            self.client.post(format!("{}/environments", self.base)).bearer_auth(&self.token).json(&body).send().await?;
        if !answer.status().is_success() {
            bail!("POST environments: {}: {}", answer.status(), answer.text().await?);
        }
        Ok(())
    }

    /// A number of the server's measurements; 0 where there is no such sample.
    pub(crate) async fn measured(&self, sample: &str) -> Result<u64> {
        let url = format!("{}/metrics", self.base.trim_end_matches("/api/v1"));
        let text = self.client.get(url).bearer_auth(&self.token).send().await?.text().await?;
        let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        Ok(line.and_then(|number| number.parse().ok()).unwrap_or_default())
    }

    /// Address, authority (PEM) and token, for a client of another kind.
    pub(crate) fn parts(platform: &Platform) -> Result<(String, String, String)> {
        let dir = platform.data_dir();
        let server: Value = serde_json::from_slice(&std::fs::read(dir.join("server.json"))?)?;
        let read = |key: &str| -> Result<String> {
            let file = server[key].as_str().with_context(|| format!("{key} in server.json"))?;
            Ok(std::fs::read_to_string(dir.join(file))?)
        };
        Ok((platform.address().to_owned(), read("caFile")?, read("tokenFile")?.trim().to_owned()))
    }

    /// The kubeconfig of an environment, as soon as there is one.
    pub(crate) async fn kubeconfig(&self, name: &str) -> Result<Option<String>> {
        let url = format!("{}/environments/{name}/kubeconfig", self.base);
        let answer = self.client.get(url).bearer_auth(&self.token).send().await?;
        if !answer.status().is_success() {
            return Ok(None);
        }
        let body: Value = answer.json().await?;
        Ok(body["kubeconfig"].as_str().map(str::to_owned))
    }

    /// A list, as it comes.
    pub(crate) async fn list(&self, what: &str, query: &str) -> Result<Vec<u8>> {
        let url = format!("{}/{what}{query}", self.base);
        let answer = self.client.get(url).bearer_auth(&self.token).send().await?;
        let status = answer.status();
        let body = answer.bytes().await?;
        if !status.is_success() {
            bail!("GET {what}{query}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body.to_vec())
    }

    /// How many environments are in a phase.
    pub(crate) async fn in_phase(&self, phase: &str) -> Result<usize> {
        let url = format!("{}/environments", self.base);
        let body: Value = self.client.get(url).bearer_auth(&self.token).send().await?.json().await?;
        let items = body["items"].as_array().context("a list of environments")?;
        Ok(items.iter().filter(|e| e["phase"] == phase).count())
    }
}

/// The API server of one environment.
pub(crate) struct Kube {
    client: Client,
    server: String,
}

impl Kube {
    /// A client with no connection yet.
    pub(crate) fn new(kubeconfig: &str) -> Result<Self> {
        let config: Value = serde_yaml::from_str(kubeconfig)?;
        let cluster = &config["clusters"][0]["cluster"];
        let user = &config["users"][0]["user"];
        let decode = |value: &Value| -> Result<Vec<u8>> {
            Ok(BASE64_STANDARD.decode(value.as_str().context("embedded data in the kubeconfig")?)?)
        };
        let mut pem = decode(&user["client-certificate-data"])?;
        pem.push(b'\n');
        pem.extend(decode(&user["client-key-data"])?);
        let client = Client::builder()
            .tls_certs_only([Certificate::from_pem(&decode(&cluster["certificate-authority-data"])?)?])
            .identity(Identity::from_pem(&pem)?)
            .build()?;
        Ok(Self { client, server: cluster["server"].as_str().context("a server")?.to_owned() })
    }

    /// Reads a path; the body of a 200.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>> {
        let answer = self.client.get(format!("{}{path}", self.server)).send().await?;
        if answer.status().is_success() { Ok(Some(answer.json().await?)) } else { Ok(None) }
    }

    /// Creates an object.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.client.post(format!("{}{path}", self.server)).json(body).send().await?;
        if !answer.status().is_success() {
            bail!("POST {path}: {}: {}", answer.status(), answer.text().await?);
        }
        Ok(answer.json().await?)
    }

    /// Deletes an object at once.
    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        let answer = self.client.delete(format!("{}{path}?gracePeriodSeconds=0", self.server)).send().await?;
        if !answer.status().is_success() {
            bail!("DELETE {path}: {}: {}", answer.status(), answer.text().await?);
        }
        Ok(())
    }
}
