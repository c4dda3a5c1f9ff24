//! Requests to end.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM, from when this is made: neither ends the process any more, and one that comes before somebody waits is not lost.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens.
    pub(crate) fn listen() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        Ok(Self { interrupt, terminate })
    }

    /// Waits for one that has not been waited for.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
