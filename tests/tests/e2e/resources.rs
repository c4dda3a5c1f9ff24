//! Registered resources that are real, and environments that are bound to them.

use std::process::Stdio;

use anyhow::{Result, ensure};
use vctl_tests::{
    kubectl::{Output, finish},
    platform::{Platform, Workers},
    postgres::Postgres,
};

/// Registers the database with a password, and asks it.
fn probe(platform: &Platform, port: u16, password: &str, more: &[&str]) -> Result<Output> {
    let file = platform.scratch().join("password");
    std::fs::write(&file, password)?;
    let port = port.to_string();
    let base = ["resource", "add", "db", "--kind", "postgres", "--host", "localhost", "--port", &port];
    let login = ["--user", "app", "--database", "app", "--password-stdin"];
    let mut add = platform.vctl_command(&[&base[..], &login, more].concat())?;
    add.stdin(Stdio::from(std::fs::File::open(&file)?));
    finish(add)?.ok()?;
    platform.vctl(&["resource", "probe", "db"])
}

#[test]
fn a_postgres_is_asked_before_an_environment_is_bound_to_it() -> Result<()> {
    let postgres = Postgres::start_listening()?;
    postgres.sql("vctl", "CREATE ROLE app LOGIN PASSWORD 'right'")?;
    postgres.sql("vctl", "CREATE DATABASE app OWNER app")?;
    let platform = Platform::start(Workers::Simulated)?;
    let wrong = probe(&platform, postgres.port(), "wrong", &[])?.refused()?;
    ensure!(wrong.contains("refuses user \"app\""), "{wrong}");
    let secure = probe(&platform, postgres.port(), "right", &["--tls"])?.refused()?;
    ensure!(secure.contains("does not speak TLS"), "{secure}");
    let good = probe(&platform, postgres.port(), "right", &[])?.ok()?;
    ensure!(good.contains("Postgres 1"), "{good}");

    let create = ["create", "e", "--template", "web-with-redis-and-postgres", "--kind", "real", "--bind", "db=db"];
    let missing = platform.vctl(&create)?.refused()?;
    ensure!(missing.contains("--bind cache=RESOURCE"), "{missing}");
    platform.create("mocked", "web-with-redis-and-postgres", &[])?;
    let k = platform.kubectl("1.33", "mocked")?;
    let deployments = k.ok(&["get", "deployments", "-o", "jsonpath={.items[*].metadata.name}"])?;
    ensure!(deployments == "postgres redis web", "{deployments}");
    Ok(())
}
