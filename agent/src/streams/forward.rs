//! Port-forward: a connection made from inside the pod's network namespace.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use vctl_api::agent::PortForwardRequest;

use super::{Failure, Pipe, copy, find};
use crate::{context::Context, network::namespace, reconcile::Reconciler};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn run(
    ctx: &Arc<Context>,
    reconciler: &Reconciler,
    request: PortForwardRequest,
    pipe: Pipe,
) -> Result<(), Failure> {
    let target = request.target.unwrap_or_default();
    let (_, view) = find(reconciler, &target)?;
    let port =
        u16::try_from(request.port).map_err(|_| Failure("BadRequest", format!("{} is not a port", request.port)))?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let connected = if view.pod.host_network {
        tokio::net::TcpStream::connect(address).await
    } else {
        namespace::connect(&ctx.network.namespace_path(&target.uid), address, CONNECT_LIMIT).await
    };
    let connection = connected.map_err(|e| {
        Failure(
            "Internal",
            format!(
                "failed to connect to localhost:{port} inside namespace of pod {}: dial tcp4 {address}: {e}",
                view.pod.name
            ),
        )
    })?;
    if let Err(e) = copy(pipe, connection).await {
        tracing::debug!(error = %e, "a forwarded connection ended");
    }
    Ok(())
}
