//! The API conformance behaviours of upstream Kubernetes, told again in small checks over HTTPS against a platform with simulated workers.
//!
//! Each check names where upstream shows the behaviour: the code name of a test of its conformance suite (`[sig-..] ..`), another test,
//! or the source that decides it. `make conformance` runs them all and prints how many passed.

mod api;
mod kinds;
mod lists;
mod patches;
mod suite;
mod watches;

use anyhow::Result;
use suite::Suite;

#[test]
fn kinds_have_their_api_operations() -> Result<()> {
    let mut suite = Suite::new("kinds");
    kinds::checks(&mut suite)?;
    suite.run()
}

/// Runs a group of checks.
fn group(name: &'static str, checks: fn(&mut Suite)) -> Result<()> {
    let mut suite = Suite::new(name);
    checks(&mut suite);
    suite.run()
}

#[test]
fn lists() -> Result<()> {
    group("lists", lists::checks)
}

#[test]
fn watches() -> Result<()> {
    group("watches", watches::checks)
}

#[test]
fn patches() -> Result<()> {
    group("patches", patches::checks)
}
