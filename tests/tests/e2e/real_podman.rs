//! One manifest, with stand-ins and with real servers: its web service reads what they hold.

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    image,
    kubectl::{Kubectl, finish},
    netns::Cable,
    platform::{Platform, Workers},
    postgres::Postgres,
    servers::{Certificate, Redis},
    wait,
};

const LIMIT: Duration = Duration::from_mins(1);
const TEMPLATE: &str = "web-with-redis-and-postgres";
const PASSWORD: &str = "s3cret-of-real-servers";
/// Parameters of the web service.
const WEB: [&str; 2] = ["webImage=localhost/vctl-databases-web", "webPort=8080"];

/// Waits until the web service has read both.
fn answers(k: &Kubectl, redis: &str, postgres: &str) -> Result<()> {
    let expected = format!("Redis: {redis}\nPostgres: {postgres}\n");
    wait::until("the web service answers", LIMIT, || {
        let asked = k.run(&["get", "--raw", "/api/v1/namespaces/default/services/web:http/proxy/"]);
        let output = asked.map_err(|e| format!("{e:#}"))?;
        if output.code == 0 && output.stdout == expected { Ok(()) } else { Err(format!("{output:?}")) }
    })
    .with_context(|| k.run(&["get", "pods,events"]).map(|o| o.stdout).unwrap_or_default())
}

fn register(platform: &Platform, arguments: &[&str]) -> Result<()> {
    let file = platform.scratch().join("password");
    std::fs::write(&file, PASSWORD)?;
    let mut add = platform.vctl_command(&[&["resource", "add"][..], arguments, &["--password-stdin"]].concat())?;
    add.stdin(Stdio::from(std::fs::File::open(&file)?));
    finish(add)?.ok().map(drop)
}

#[test]
fn one_manifest_reads_real_servers_and_stand_ins() -> Result<()> {
    let platform = Platform::start(Workers::Podman)?;
    image::build(&platform.data_dir().join("worker"), &["vctl-databases-web", "vctl-postgres", "vctl-demo-redis"])?;

    // Real servers of this machine, which the pods reach over a cable.
    let cable = Cable::lay(platform.netns().context("a network namespace")?)?;
    let directory = tempfile::Builder::new().prefix("vrd").tempdir_in("/tmp")?;
    let certificate = Certificate::of(directory.path(), cable.address())?;
    let redis = Redis::start(directory.path(), cable.address(), &certificate, PASSWORD)?;
    redis.set(PASSWORD, "greeting", "hello from the real Redis")?;
    let postgres = Postgres::start_on(cable.address())?;
    postgres.sql("vctl", &format!("CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'"))?;
    postgres.sql("vctl", "CREATE DATABASE app OWNER app")?;
    postgres.sql("app", "CREATE TABLE greetings (text text); GRANT SELECT ON greetings TO app")?;
    postgres.sql("app", "INSERT INTO greetings VALUES ('hello from the real Postgres')")?;
    // Over TLS only, with a certificate of an authority of its own.
    let read = std::fs::read_to_string::<&std::path::PathBuf>;
    postgres.serve_tls(&read(&certificate.certificate)?, &read(&certificate.key)?)?;
    postgres.require_tls()?;
    let authority = certificate.certificate.display().to_string();
    let (database, cache) = (postgres.port().to_string(), redis.port.to_string());
    let at = ["--host", cable.address(), "--port"];
    let login = ["--user", "app", "--database", "app", "--tls", "--ca-file", &authority];
    register(&platform, &[&["real-db", "--kind", "postgres"][..], &at, &[&database], &login].concat())?;
    register(&platform, &[&["real-cache", "--kind", "redis"][..], &at, &[&cache]].concat())?;
    let create = ["create", "real", "--template", TEMPLATE, "--kind", "real", "--set", WEB[0], "--set", WEB[1]];
    platform.vctl(&[&create[..], &["--bind", "db=real-db", "--bind", "cache=real-cache"]].concat())?.ok()?;
    let k = platform.kubectl("1.33", "real")?;
    answers(&k, "hello from the real Redis", "hello from the real Postgres")?;
    let deployments = k.ok(&["get", "deployments", "-o", "jsonpath={.items[*].metadata.name}"])?;
    ensure!(deployments == "web", "no stand-ins: {deployments}");
    let shown = k.ok(&["get", "deployment", "web", "-o", "yaml"])?;
    ensure!(!shown.contains(PASSWORD) && shown.contains("name: binding-db"), "by reference only: {shown}");

    // The same manifest with stand-ins, which are seeded before anybody can ask them.
    let images = ["postgresImage=localhost/vctl-postgres", "redisImage=localhost/vctl-demo-redis"];
    platform.create("mocked", TEMPLATE, &[&WEB[..], &images, &["greeting=hello from a seeded Redis"]].concat())?;
    let k = platform.kubectl("1.33", "mocked")?;
    answers(&k, "hello from a seeded Redis", "hello from the mocked Postgres")?;
    let log = platform.log();
    ensure!(!log.contains(PASSWORD), "the log has the password");
    Ok(())
}
