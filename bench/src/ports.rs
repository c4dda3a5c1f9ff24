//! Ports for the peers.

use std::net::TcpListener;

use anyhow::Result;

/// A port of loopback that nobody listens on at this moment.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
