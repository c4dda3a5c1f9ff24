//! The soak: informers of kube-rs, Node.js and Python, `kubectl wait` and `helm --wait` through up to 500 writes a second while the
//! network is cut, history is compacted and the server is killed. No change may be missed, doubled or out of order (`check`), and in
//! the end every cache is what a list answers.
//!
//! 20 seconds, or `VCTL_SOAK_SECONDS`; `make soak` runs it for five minutes.

mod check;
mod commands;
mod cut;
mod faults;
mod kubectl_watch;
mod load;
mod program;
mod record;
mod run;
mod rust_client;
mod soak;
mod summary;
mod truth;

use std::time::Duration;

use anyhow::{Context as _, Result};

#[test]
fn informers_miss_nothing() -> Result<()> {
    let seconds = match std::env::var("VCTL_SOAK_SECONDS") {
        Ok(text) => text.parse().with_context(|| format!("VCTL_SOAK_SECONDS={text:?}: a number of seconds"))?,
        Err(_) => 20,
    };
    run::run(Duration::from_secs(seconds))
}
