//! The API conformance behaviours of upstream Kubernetes, told again in small checks over HTTPS against a platform with simulated workers.
//!
//! Each check names where upstream shows the behaviour: the code name of a test of its conformance suite (`[sig-..] ..`), another test,
//! or the source that decides it. `make conformance` runs them all and prints how many passed.

mod api;
mod apply;
mod auth;
mod clients;
mod extension;
mod golden;
mod kinds;
mod lifecycle;
mod lists;
mod patches;
mod streams;
mod suite;
mod watches;
mod webhook;

use anyhow::Result;
use suite::Suite;

#[test]
fn kinds_have_their_api_operations() -> Result<()> {
    let mut suite = Suite::new("kinds");
    kinds::checks(&mut suite)?;
    suite.run()
}

#[test]
fn refusals_are_those_of_upstream() -> Result<()> {
    let mut suite = Suite::new("golden");
    golden::checks(&mut suite)?;
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
fn streams() -> Result<()> {
    group("streams", streams::checks)
}

#[test]
fn patches() -> Result<()> {
    group("patches", patches::checks)
}

#[test]
fn apply() -> Result<()> {
    group("apply", apply::checks)
}

#[test]
fn auth() -> Result<()> {
    group("auth", auth::checks)
}

#[test]
fn lifecycle() -> Result<()> {
    group("lifecycle", lifecycle::checks)
}

#[test]
fn extension() -> Result<()> {
    let mut suite = Suite::new("extension").arguments(&["--allow-private-webhooks"]);
    extension::checks(&mut suite);
    suite.run()
}

#[test]
fn kubectl_1_27() -> Result<()> {
    group("kubectl 1.27", |s| clients::kubectl(s, "1.27"))
}

#[test]
fn kubectl_1_30() -> Result<()> {
    group("kubectl 1.30", |s| clients::kubectl(s, "1.30"))
}

#[test]
fn kubectl_1_33() -> Result<()> {
    group("kubectl 1.33", |s| clients::kubectl(s, "1.33"))
}

#[test]
fn kubectl_1_37() -> Result<()> {
    group("kubectl 1.37", |s| clients::kubectl(s, "1.37"))
}

#[test]
fn helm() -> Result<()> {
    group("helm", |s| {
        clients::helm(s, "1.27", "v3");
        clients::helm(s, "1.35", "v4");
    })
}
