//! Waiting for a condition, never for a time.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// Tries until `attempt` gives a value or the limit has passed; then fails with what it said last.
///
/// # Errors
/// The limit has passed.
pub fn until<T>(what: &str, limit: Duration, attempt: impl FnMut() -> Result<T, String>) -> Result<T> {
    every(Duration::from_millis(50), what, limit, attempt)
}

/// The same for what lasts a moment only: it looks many times in a millisecond.
///
/// # Errors
/// The limit has passed.
pub fn often<T>(what: &str, limit: Duration, attempt: impl FnMut() -> Result<T, String>) -> Result<T> {
    every(Duration::from_micros(50), what, limit, attempt)
}

fn every<T>(pause: Duration, what: &str, limit: Duration, mut attempt: impl FnMut() -> Result<T, String>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(last) if Instant::now() >= deadline => bail!("{what}: not within {limit:?}; last seen: {last}"),
            Err(_) => sleep(pause),
        }
    }
}
