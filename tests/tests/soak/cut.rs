//! A way to the server that can be cut: connections break and none is accepted, as when a network is away.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Result;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Handle,
    task::AbortHandle,
};

/// Forwards connections to an address while it is open. Ends with its runtime.
pub(crate) struct Way {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    cut: AtomicBool,
    connections: Mutex<Vec<AbortHandle>>,
}

impl Way {
    /// An open way to an address, on a port of its own.
    pub(crate) fn to(runtime: &tokio::runtime::Runtime, target: &str) -> Result<Self> {
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        runtime.spawn(accept(runtime.handle().clone(), listener, target.to_owned(), shared.clone()));
        Ok(Self { address, shared })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks all connections; new ones are closed at once.
    pub(crate) fn cut(&self) {
        let mut connections = self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.cut.store(true, Ordering::SeqCst);
        for connection in connections.drain(..) {
            connection.abort();
        }
    }

    /// Lets connections through again.
    pub(crate) fn mend(&self) {
        self.shared.cut.store(false, Ordering::SeqCst);
    }
}

async fn accept(runtime: Handle, listener: TcpListener, target: String, shared: Arc<Shared>) {
    // A failure is that of one connection.
    loop {
        let Ok((mut client, _)) = listener.accept().await else { continue };
        let target = target.clone();
        let mut connections = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.cut.load(Ordering::SeqCst) {
            continue;
        }
        connections.retain(|c| !c.is_finished());
        let forward = runtime.spawn(async move {
            // While the server is away the client finds its connection closed.
            if let Ok(mut server) = TcpStream::connect(target).await {
                let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        });
        connections.push(forward.abort_handle());
    }
}
