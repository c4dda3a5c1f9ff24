//! Many creates at once, of which one knows which were acknowledged.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::future::join_all;
use reqwest::{Certificate, Client, Identity};
use serde_json::{Value, json};

use crate::wait;

const LIMIT: Duration = Duration::from_mins(1);

/// What became of the creates.
#[derive(Debug, Default)]
pub struct Burst {
    /// Names of the ConfigMaps whose creation was acknowledged, with the resourceVersion that was told.
    pub acknowledged: BTreeMap<String, String>,
    /// Requests that were under way and never answered, or answered by 429 or 503.
    pub cut_off: usize,
}

/// Creates ConfigMaps in `default` whose names begin with `prefix`, `at_once` requests in flight at any time, each on a connection of its own. When `enough` are
/// acknowledged and all `at_once` are in flight, `then` runs, which ends the server; returns when every request has ended.
///
/// # Errors
/// A create is refused, `then` fails, or the server is still there afterwards.
pub fn creates_until(
    kubeconfig: &Path,
    prefix: &str,
    at_once: usize,
    enough: usize,
    then: impl FnOnce() -> Result<()>,
) -> Result<Burst> {
    let (client, server) = client(kubeconfig)?;
    let url = format!("{server}/api/v1/namespaces/default/configmaps");
    let acknowledged = Mutex::new(BTreeMap::new());
    let in_flight = AtomicUsize::new(0);
    let cut_off = AtomicUsize::new(0);
    let writer = async |number: usize| -> Result<()> {
        for turn in 0.. {
            let name = format!("{prefix}-{number}-{turn}");
            let body =
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": "v" } });
            in_flight.fetch_add(1, Ordering::SeqCst);
            let answer = async {
                let answer = client.post(&url).json(&body).send().await?;
                let status = answer.status();
                Ok::<_, reqwest::Error>((status, answer.json::<Value>().await?))
            };
            let answer = answer.await;
            in_flight.fetch_sub(1, Ordering::SeqCst);
            let Ok((status, answer)) = answer else {
                cut_off.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            };
            // A server that ends may say so.
            if status == 503 || status == 429 {
                cut_off.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            ensure!(status == 201, "create {name}: {status}: {answer}");
            let version = answer["metadata"]["resourceVersion"].as_str().context("a resourceVersion")?;
            let mut all = acknowledged.lock().map_err(|_| anyhow::anyhow!("a writer panicked"))?;
            all.insert(name, version.to_owned());
        }
        Ok(())
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    std::thread::scope(|scope| -> Result<()> {
        let writers = scope.spawn(|| runtime.block_on(join_all((0..at_once).map(writer))));
        let ready = wait::until("creates in flight", LIMIT, || {
            if writers.is_finished() {
                return Err("all writers have ended".to_owned());
            }
            let flying = in_flight.load(Ordering::SeqCst);
            let done = acknowledged.lock().map_err(|e| e.to_string())?.len();
            if flying == at_once && done >= enough { Ok(()) } else { Err(format!("{flying} in flight, {done} done")) }
        });
        let ended = then();
        let writers = writers.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?;
        writers.into_iter().collect::<Result<()>>()?;
        ready.and(ended)
    })?;
    let acknowledged = acknowledged.into_inner().map_err(|_| anyhow::anyhow!("a writer panicked"))?;
    Ok(Burst { acknowledged, cut_off: cut_off.into_inner() })
}

/// A client with the credentials of a kubeconfig, and the address of the API server.
///
/// # Errors
/// The kubeconfig cannot be read, or has other credentials than a client certificate within.
pub fn client(kubeconfig: &Path) -> Result<(Client, String)> {
    // Fails when it is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config: Value = serde_yaml::from_str(&std::fs::read_to_string(kubeconfig)?)?;
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
        .http1_only()
        .no_proxy()
        .timeout(LIMIT)
        .build()?;
    let Some(server) = cluster["server"].as_str() else { bail!("no server in the kubeconfig") };
    Ok((client, server.to_owned()))
}
