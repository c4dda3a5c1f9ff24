//! Requests to end: SIGINT and SIGTERM.

use std::{future::Future, pin::pin, time::Duration};

use anyhow::{Context as _, Result};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Signals that come within this time are one request: what runs this program may pass on what a terminal has sent to both.
const TOGETHER: Duration = Duration::from_millis(500);
/// What shells add to the number of a signal that has ended a process.
const BY_SIGNAL: i32 = 128;

/// Runs something until it ends. The first SIGINT or SIGTERM, from now on, sets `stop`, at which it has to end; the next one ends the process
/// at once, with the exit code that shells give for it.
///
/// # Errors
/// Those of what runs; signals cannot be listened for.
pub(crate) async fn until_ended<T>(stop: &CancellationToken, work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut signals = Signals::listen()?;
    let mut work = pin!(work);
    tokio::select! {
        done = &mut work => return done,
        _ = signals.received() => stop.cancel(),
    }
    let first = Instant::now();
    loop {
        tokio::select! {
            done = &mut work => return done,
            number = signals.received() => if first.elapsed() >= TOGETHER {
                at_once(number)
            }
        }
    }
}

#[expect(clippy::exit, reason = "who asks twice does not wait for anything any more")]
fn at_once(number: i32) {
    tracing::warn!("asked to end once more: ending at once, without finishing what is under way");
    std::process::exit(BY_SIGNAL + number);
}

/// SIGINT and SIGTERM, from when this is made: neither ends the process any more, and one that comes before somebody waits is not lost.
#[derive(Debug)]
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        Ok(Self { interrupt, terminate })
    }

    /// Waits for one that has not been waited for; its number.
    async fn received(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        kind.as_raw_value()
    }
}
