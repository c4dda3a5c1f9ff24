//! What the platform adds to the start of a container.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, body::Bytes};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use vctl_tests::{
    image,
    platform::{Platform, Workers},
};

use crate::{
    clients::{Kube, Rest},
    samples::Samples,
};

const LIMIT: Duration = Duration::from_mins(1);
const IMAGE: &str = "localhost/vctl-busybox:latest";

/// Starts `count` pods by the API and as many by Podman's API alone, in turn.
pub(crate) async fn run(count: u32) -> Result<()> {
    let platform = Platform::start(Workers::Podman)?;
    let worker = platform.data_dir().join("worker");
    image::build(&worker, &["vctl-busybox"])?;
    let rest = Rest::new(&platform)?;
    platform.create("pods", "blank", &[])?;
    let kube = Kube::new(&rest.kubeconfig("pods").await?.context("a kubeconfig")?)?;
    let socket = worker.join("run/podman.sock");
    let (mut ours, mut podman) = (Samples::default(), Samples::default());
    for n in 0..count {
        ours.push(by_api(&kube, n).await?);
        podman.push(by_podman(&socket, n).await?);
    }
    println!("pod create to container running, by the API: {}", ours.report());
    println!("pod create + one container of the same image, by Podman's API: {}", podman.report());
    let added = ours.quantile(0.5).as_secs_f64() - podman.quantile(0.5).as_secs_f64();
    println!("added by the platform (difference of the medians): {:.0} ms", added * 1e3);
    Ok(())
}

async fn by_api(kube: &Kube, n: u32) -> Result<Duration> {
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("p{n}") },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "c", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["/bin/sleep", "3600"] }],
        },
    });
    let begun = Instant::now();
    kube.post(pods, &pod).await?;
    let path = format!("{pods}/p{n}");
    loop {
        let pod = kube.get(&path).await?.context("the pod is there")?;
        if !pod["status"]["containerStatuses"][0]["state"]["running"].is_null() {
            break;
        }
        if begun.elapsed() > LIMIT {
            bail!("the pod does not run: {}", pod["status"]);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = begun.elapsed();
    kube.delete(&path).await?;
    Ok(took)
}

async fn by_podman(socket: &std::path::Path, n: u32) -> Result<Duration> {
    let name = format!("bench-{n}");
    let begun = Instant::now();
    call(socket, Method::POST, "pods/create", json!({ "name": name, "netns": { "nsmode": "none" } })).await?;
    let container =
        json!({ "name": format!("{name}-c"), "pod": name, "image": IMAGE, "command": ["/bin/sleep", "3600"] });
    call(socket, Method::POST, "containers/create", container).await?;
    call(socket, Method::POST, &format!("pods/{name}/start"), Value::Null).await?;
    let took = begun.elapsed();
    call(socket, Method::DELETE, &format!("pods/{name}?force=true"), Value::Null).await?;
    Ok(took)
}

/// One libpod call on a connection of its own.
async fn call(socket: &std::path::Path, method: Method, path: &str, body: Value) -> Result<Value> {
    let stream = tokio::net::UnixStream::connect(socket).await.with_context(|| socket.display().to_string())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder()
        .method(method)
        .uri(format!("/v4.0.0/libpod/{path}"))
        .header("host", "podman")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let exchange = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes();
        anyhow::Ok((status, bytes))
    };
    let (status, bytes) = tokio::select! {
        done = exchange => done?,
        ended = connection => bail!("podman closed the connection: {ended:?}"),
    };
    if !status.is_success() {
        bail!("podman {path}: {status}: {}", String::from_utf8_lossy(&bytes));
    }
    if bytes.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null)) }
}
