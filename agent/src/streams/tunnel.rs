//! The API tunnel: what pods send to their `kubernetes` service arrives here and is carried to the server, byte by byte. TLS stays
//! between pod and API server; the pod's address says which environment it belongs to.

use std::{net::SocketAddr, sync::Arc};

use tokio::net::{TcpListener, TcpStream};
use vctl_api::agent::StreamHeader;

use super::{Pipe, copy};
use crate::{context::Context, error::AgentError, reconcile::Reconciler};

/// Listens on the worker's address and tells the rules where.
pub(crate) async fn listen(ctx: &Arc<Context>, reconciler: &Arc<Reconciler>) -> Result<(), AgentError> {
    let failed = |e: std::io::Error| AgentError::Network(format!("listening for connections to API servers: {e}"));
    let listener = TcpListener::bind((ctx.network.node_ip(), 0)).await.map_err(failed)?;
    ctx.network.set_tunnel_port(listener.local_addr().map_err(failed)?.port());
    ctx.network.apply().await?;
    let (own, reconciler) = (ctx.clone(), reconciler.clone());
    ctx.tasks.spawn_until_stopped("api tunnel", async move {
        loop {
            match listener.accept().await {
                Ok((connection, peer)) => {
                    let (ctx, reconciler) = (own.clone(), reconciler.clone());
                    own.tasks.spawn_until_stopped("api tunnel connection", async move {
                        carry(&ctx, &reconciler, connection, peer).await
                    });
                }
                Err(e) => {
                    tracing::warn!(error = %e, "accepting a connection to an API server");
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                }
            }
        }
    });
    Ok(())
}

/// Carries one connection; closes it at once when the peer is no pod or the server is away.
async fn carry(ctx: &Context, reconciler: &Reconciler, connection: TcpStream, peer: SocketAddr) {
    let Some(environment) = ctx.network.environment_of(peer.ip()) else { return };
    let Some(client) = reconciler.client.borrow().clone() else { return };
    let header = StreamHeader { stream_id: String::new(), tunnel_environment: environment, peer: peer.to_string() };
    let _open = ctx.measured.stream("api-tunnel");
    let outcome = match Pipe::open(client, header, &ctx.tasks).await {
        Ok(pipe) => copy(pipe, connection).await.map_err(|e| e.to_string()),
        Err(e) => Err(e.message().to_owned()),
    };
    if let Err(e) = outcome {
        tracing::debug!(error = e, "a connection to an API server ended");
    }
}
