//! Figures of a Kubernetes API server, whoever made it.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hyper::{Method, body::Bytes};
use serde_json::{Value, json};

use crate::{
    load, process,
    samples::Samples,
    target::{Ask, Connection, Target},
};

pub(crate) const NAMESPACE: &str = "bench";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/bench/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// A ConfigMap whose JSON has 1 KiB.
pub(crate) fn config_map(name: &str) -> Bytes {
    let object = |padding: usize| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": NAMESPACE },
            "data": { "payload": "x".repeat(padding) },
        })
        .to_string()
    };
    let empty = object(0).len();
    object(1024_usize.saturating_sub(empty)).into()
}

/// Makes the namespace, empty.
pub(crate) async fn prepare(target: &Target) -> Result<()> {
    let mut connection = target.connect().await?;
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    let (status, body) = connection.call(Ask::send(Method::POST, "/api/v1/namespaces", namespace.to_string())).await?;
    ensure!(status.is_success() || status == 409, "making the namespace: {status}: {}", String::from_utf8_lossy(&body));
    clear(&mut connection).await
}

/// Deletes what a run has left.
pub(crate) async fn clear(connection: &mut Connection) -> Result<()> {
    connection.ok(Ask::send(Method::DELETE, CONFIG_MAPS, Bytes::new())).await?;
    Ok(())
}

/// Fills the namespace with `count` ConfigMaps.
pub(crate) async fn fill(target: &Target, count: usize) -> Result<()> {
    const CLIENTS: usize = 16;
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let mut connection = target.connect().await?;
        tasks.push(load::spawn(async move {
            for n in (number..count).step_by(CLIENTS) {
                connection.ok(Ask::send(Method::POST, CONFIG_MAPS, config_map(&format!("fill-{n:05}")))).await?;
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// What one LIST of everything costs the server: its CPU time (with its pid) and how long the client waits.
pub(crate) async fn lists(target: &Target, pid: Option<u32>, expected: usize, table: bool) -> Result<()> {
    const LISTS: u32 = 200;
    let mut connection = target.connect().await?;
    let mut ask = Ask::get(CONFIG_MAPS);
    if table {
        ask.accept = TABLE;
    }
    let body: Value = serde_json::from_slice(&connection.ok(ask.clone()).await?)?;
    let items = body[if table { "rows" } else { "items" }].as_array().context("a list")?.len();
    // The namespace has its kube-root-ca.crt as well.
    ensure!(items >= expected, "{items} items, not {expected}");
    let before = pid.map(process::cpu).transpose()?;
    let mut waited = Samples::default();
    for _ in 0..LISTS {
        let begun = Instant::now();
        connection.ok(ask.clone()).await?;
        waited.push(begun.elapsed());
    }
    let cost = match (pid, before) {
        (Some(pid), Some(before)) => {
            let used = process::cpu(pid)?.saturating_sub(before);
            format!("{:.2} ms of server CPU, ", used.as_secs_f64() * 1e3 / f64::from(LISTS))
        }
        _ => String::new(),
    };
    println!(
        "LIST of {expected} ConfigMaps as {}: {cost}client {}",
        if table { "Table" } else { "JSON" },
        waited.report()
    );
    Ok(())
}
