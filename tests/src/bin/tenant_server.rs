//! What a tenant runs in pods of tests: a webhook server, the server of an aggregated API, and an echo for proxies.
//!
//! HTTPS on 8443 with the certificate in `/tls`, HTTP on 8080. For the aggregated API it believes whoever shows a client certificate of
//! the authority that `kube-system/extension-apiserver-authentication` names, as every such server does.

#![expect(clippy::print_stdout, reason = "what it was asked is the pod's log")]

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result};
use axum::{
    Extension, Json, Router,
    extract::{State, WebSocketUpgrade, ws::WebSocket},
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Redirect, Response},
    routing::{any, get, post},
};
use serde_json::{Value, json};
use vctl_runtime::{
    clock::Clock,
    pki::ClientTrust,
    serve::{PeerCertificates, Server, Tls, install_crypto_provider},
    tasks::Tasks,
};

const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const GROUP: &str = "weather.example.com";

/// Whom requests to the aggregated API must come from.
#[derive(Clone)]
struct FrontProxy {
    authority: String,
    names: Vec<String>,
}

impl FrontProxy {
    /// As the cluster publishes it; asked for until it is allowed.
    async fn read() -> Result<Self> {
        let token = std::fs::read_to_string(format!("{ACCOUNT}/token"))?;
        let authority = reqwest::Certificate::from_pem(&std::fs::read(format!("{ACCOUNT}/ca.crt"))?)?;
        let client = reqwest::Client::builder().tls_certs_only([authority]).build()?;
        let host = std::env::var("KUBERNETES_SERVICE_HOST").context("KUBERNETES_SERVICE_HOST")?;
        let url = format!("https://{host}/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication");
        let answer = client.get(url).bearer_auth(token.trim()).send().await?.error_for_status()?;
        let map: Value = answer.json().await?;
        let text = |key: &str| map["data"][key].as_str().with_context(|| format!("{key} is missing"));
        Ok(Self {
            authority: text("requestheader-client-ca-file")?.to_owned(),
            names: serde_json::from_str(text("requestheader-allowed-names")?)?,
        })
    }

    /// Who asks, from the headers, if the certificate is one to believe.
    fn user(&self, certificates: &PeerCertificates, headers: &HeaderMap) -> Result<String> {
        let subject = ClientTrust::new(&self.authority)?.verify(&certificates.0, Clock::system().now())?;
        anyhow::ensure!(self.names.contains(&subject.common_name), "{} is not allowed", subject.common_name);
        Ok(headers.get("x-remote-user").context("x-remote-user is missing")?.to_str()?.to_owned())
    }
}

fn review(review: &Value, mut response: Value) -> Json<Value> {
    response["uid"] = review["request"]["uid"].clone();
    Json(json!({ "kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response }))
}

/// Adds a label.
async fn mutate(Json(asked): Json<Value>) -> Json<Value> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    println!("mutate {}", asked["request"]["name"]);
    let mut labels = asked["request"]["object"]["metadata"]["labels"].clone();
    labels["seen-by"] = "tenant-server".into();
    let patch = json!([{ "op": "add", "path": "/metadata/labels", "value": labels }]);
    review(&asked, json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) }))
}

/// Refuses what is called `forbidden`.
async fn validate(Json(asked): Json<Value>) -> Json<Value> {
    println!("validate {}", asked["request"]["name"]);
    let allowed = asked["request"]["name"] != "forbidden";
    review(&asked, json!({ "allowed": allowed, "status": { "message": "nobody may have that name", "code": 403 } }))
}

/// The aggregated API: one Forecast, of whoever asks.
async fn api(
    State(trusted): State<Option<FrontProxy>>,
    Extension(certificates): Extension<PeerCertificates>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let refuse = |code: StatusCode, why: String| {
        println!("refused {uri}: {why}");
        let status =
            json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(), "message": why });
        (code, Json(status)).into_response()
    };
    let Some(trusted) = trusted else { return refuse(StatusCode::NOT_FOUND, "no API is served".into()) };
    let user = match trusted.user(&certificates, &headers) {
        Ok(user) => user,
        Err(e) => return refuse(StatusCode::UNAUTHORIZED, format!("{e:#}")),
    };
    println!("{user} {uri}");
    let version = format!("{GROUP}/v1");
    let forecast = json!({
        "kind": "Forecast", "apiVersion": version, "spec": { "askedBy": user },
        "metadata": { "name": "today", "namespace": "default", "uid": "5d1ad6d4-4b0e-4bd5-9e4a-0d1d5f0a7a10", "creationTimestamp": "2026-01-01T00:00:00Z" },
    });
    let rest = uri.path().strip_prefix(&format!("/apis/{version}")).unwrap_or("none");
    match rest.trim_end_matches('/') {
        "" => Json(json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [
            { "name": "forecasts", "singularName": "forecast", "namespaced": true, "kind": "Forecast", "verbs": ["get", "list"] },
        ] }))
        .into_response(),
        "/namespaces/default/forecasts" => {
            let list = json!({ "kind": "ForecastList", "apiVersion": version, "metadata": { "resourceVersion": "1" }, "items": [forecast] });
            Json(list).into_response()
        }
        "/namespaces/default/forecasts/today" => Json(forecast).into_response(),
        _ => refuse(StatusCode::NOT_FOUND, format!("there is nothing at {uri}")),
    }
}

/// Says what it was asked.
async fn echo(method: Method, uri: Uri, headers: HeaderMap, body: String) -> Json<Value> {
    let headers: serde_json::Map<String, Value> =
        headers.iter().map(|(k, v)| (k.to_string(), String::from_utf8_lossy(v.as_bytes()).into())).collect();
    Json(json!({ "method": method.as_str(), "uri": uri.to_string(), "headers": headers, "body": body }))
}

/// Sends back what it gets.
async fn talk(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async |mut socket: WebSocket| {
        while let Some(Ok(message)) = socket.recv().await {
            if socket.send(message).await.is_err() {
                return;
            }
        }
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    install_crypto_provider();
    let trusted = if std::env::var_os("AGGREGATED").is_some() {
        loop {
            match FrontProxy::read().await {
                Ok(trusted) => break Some(trusted),
                Err(e) => println!("not yet: {e:#}"),
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    } else {
        None
    };
    let router = Router::new()
        .route("/mutate", post(mutate))
        .route("/validate", post(validate))
        .route("/redirect", get(async || Redirect::temporary("/echo?from=redirect")))
        .route("/away", get(async || Redirect::temporary("https://elsewhere.example/x")))
        .route("/talk", get(talk))
        .route(&format!("/apis/{GROUP}/v1"), get(api))
        .route(&format!("/apis/{GROUP}/v1/{{*rest}}"), get(api))
        .fallback(any(echo))
        .with_state(trusted);
    let tasks = Tasks::new();
    let read = |name: &str| std::fs::read_to_string(format!("/tls/{name}"));
    let tls = Tls::new(&read("tls.crt")?, &read("tls.key")?).map_err(anyhow::Error::msg)?;
    let secure = tokio::net::TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], 8443))).await?;
    Server::new(tls, router.clone(), tasks).listen_tcp(secure);
    let plain = tokio::net::TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], 8080))).await?;
    println!("serving");
    axum::serve(plain, router).await?;
    Ok(())
}
