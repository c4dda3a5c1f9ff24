//! The client's side of exec, attach and port-forward: SPDY/3.1 and websockets, translated to [`PodStreams`].
//!
//! kubectl up to 1.29 speaks SPDY only; 1.30 and later prefer websockets (`v5.channel.k8s.io` for exec, SPDY frames inside
//! binary messages for port-forward) and fall back to SPDY. Source of the protocols: apimachinery `pkg/util/httpstream`, KEP-4006.
//!
//! A request that cannot be carried out is answered by a Status before the connection is upgraded.

mod exec;
#[cfg(fuzzing)]
pub mod fuzzing;
mod port_forward;
mod spdy;
mod tunnel;
mod websocket;

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use vctl_machinery::status::ApiError;
use vctl_runtime::tasks::Tasks;

use crate::streams::{ContainerTarget, ExecOptions, PodStreams};

const PROTOCOL_VERSION: &str = "x-stream-protocol-version";
const SPDY: &str = "SPDY/3.1";
/// Newest first.
const EXEC_SPDY: &[&str] = &["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
const EXEC_WEBSOCKET: &[&str] =
    &["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
const PORT_FORWARD: &str = "portforward.k8s.io";
const PORT_FORWARD_TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";

/// What a client wants with a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// A command, or attaching to the main process.
    Exec(ExecOptions),
    /// Connections to ports of the pod; which ones is said by each connection.
    PortForward,
}

/// Which way the client wants to upgrade the connection.
enum Upgrade {
    Spdy(&'static str),
    Websocket { protocol: &'static str, accept: HeaderValue },
}

/// Upgrades the connection and serves the session until either side ends it. Authorization has been decided, and that pod and
/// container exist.
pub async fn handle(
    mut request: Request<Body>,
    session: Session,
    target: ContainerTarget,
    streams: Arc<dyn PodStreams>,
    tasks: &Tasks,
) -> Result<Response<Body>, ApiError> {
    let upgrade = negotiate(request.headers(), &session)?;
    let on_upgrade = request
        .extensions_mut()
        .remove::<OnUpgrade>()
        .ok_or_else(|| ApiError::bad_request("this connection cannot be upgraded: use HTTP/1.1"))?;
    let response = switching(&upgrade)?;
    match session {
        Session::Exec(options) => {
            let running = streams.exec(target, options.clone()).await?;
            tasks.spawn_until_stopped("exec session", async move {
                let Some(io) = upgraded(on_upgrade).await else { return };
                match upgrade {
                    Upgrade::Spdy(protocol) => exec::by_spdy(io, protocol, &options, running).await,
                    Upgrade::Websocket { protocol, .. } => exec::by_websocket(io, protocol, &options, running).await,
                }
            });
        }
        Session::PortForward => {
            let tasks_of_session = tasks.child();
            tasks.spawn_until_stopped("port-forward session", async move {
                let Some(io) = upgraded(on_upgrade).await else { return };
                match upgrade {
                    Upgrade::Spdy(_) => port_forward::serve(io, &target, &streams, &tasks_of_session).await,
                    Upgrade::Websocket { .. } => {
                        let io = tunnel::open(io, &tasks_of_session).await;
                        port_forward::serve(io, &target, &streams, &tasks_of_session).await;
                    }
                }
                tasks_of_session.stop();
            });
        }
    }
    Ok(response)
}

async fn upgraded(on_upgrade: OnUpgrade) -> Option<hyper_util::rt::TokioIo<hyper::upgrade::Upgraded>> {
    match on_upgrade.await {
        Ok(io) => Some(hyper_util::rt::TokioIo::new(io)),
        Err(error) => {
            tracing::debug!(%error, "the client left before its connection was upgraded");
            None
        }
    }
}

fn negotiate(headers: &HeaderMap, session: &Session) -> Result<Upgrade, ApiError> {
    let wanted = headers.get(header::UPGRADE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if wanted.eq_ignore_ascii_case(SPDY) {
        let supported = match session {
            Session::Exec(_) => EXEC_SPDY,
            Session::PortForward => &[PORT_FORWARD],
        };
        // A client that names no protocol gets the oldest one, as upstream does.
        let offered = listed(headers, PROTOCOL_VERSION);
        let protocol = match (offered.is_empty(), session) {
            (true, Session::Exec(_)) => Some("channel.k8s.io"),
            (true, Session::PortForward) => Some(PORT_FORWARD),
            (false, _) => choose(supported, &offered),
        };
        return protocol.map(Upgrade::Spdy).ok_or_else(|| unsupported(&offered, supported));
    }
    if wanted.eq_ignore_ascii_case("websocket") {
        let supported = match session {
            Session::Exec(_) => EXEC_WEBSOCKET,
            Session::PortForward => &[PORT_FORWARD_TUNNEL],
        };
        let offered = listed(headers, "sec-websocket-protocol");
        let protocol = choose(supported, &offered).ok_or_else(|| unsupported(&offered, supported))?;
        let key = headers
            .get("sec-websocket-key")
            .ok_or_else(|| ApiError::bad_request("the websocket handshake lacks Sec-WebSocket-Key"))?;
        let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.as_bytes());
        let accept = HeaderValue::from_str(&accept).map_err(ApiError::internal)?;
        return Ok(Upgrade::Websocket { protocol, accept });
    }
    Err(ApiError::bad_request("Upgrade request required"))
}

/// All values of a header, also those in one comma-separated line.
fn listed(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty()).collect()
}

/// The first protocol of the client's list that is supported.
fn choose(supported: &'static [&'static str], offered: &[String]) -> Option<&'static str> {
    offered.iter().find_map(|o| supported.iter().copied().find(|s| s == o))
}

fn unsupported(offered: &[String], supported: &[&str]) -> ApiError {
    let mut error = ApiError::forbidden(
        "",
        "",
        "",
        &format!(
            "unable to upgrade: unable to negotiate protocol: client supports {offered:?}, server accepts {supported:?}"
        ),
    );
    error.message = error.message.trim_start_matches("forbidden: ").to_owned();
    error
}

fn switching(upgrade: &Upgrade) -> Result<Response<Body>, ApiError> {
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS).header(header::CONNECTION, "Upgrade");
    match upgrade {
        Upgrade::Spdy(protocol) => response.header(header::UPGRADE, SPDY).header(PROTOCOL_VERSION, *protocol),
        Upgrade::Websocket { protocol, accept } => response
            .header(header::UPGRADE, "websocket")
            .header("sec-websocket-accept", accept)
            .header("sec-websocket-protocol", *protocol),
    }
    .body(Body::empty())
    .map_err(ApiError::internal)
}
