//! Registered resources that are real, and environments that are bound to them.

use std::process::Stdio;

use anyhow::{Result, ensure};
use vctl_tests::{
    kubectl::{Output, finish},
    platform::{Platform, Workers},
    postgres::Postgres,
    servers::{Certificate, Kafka, MariaDb, ObjectStore, free_port},
};

/// Registers a resource with a password (none when it is empty), and asks it.
fn probe(platform: &Platform, name: &str, kind: &str, port: u16, password: &str, more: &[&str]) -> Result<Output> {
    let port = port.to_string();
    let base = ["resource", "add", name, "--kind", kind, "--host", "localhost", "--port", &port];
    if password.is_empty() {
        platform.vctl(&[&base[..], more].concat())?.ok()?;
    } else {
        let file = platform.scratch().join("password");
        std::fs::write(&file, password)?;
        let mut add = platform.vctl_command(&[&base[..], &["--password-stdin"], more].concat())?;
        add.stdin(Stdio::from(std::fs::File::open(&file)?));
        finish(add)?.ok()?;
    }
    platform.vctl(&["resource", "probe", name])
}

fn refused(output: Output, why: &str) -> Result<()> {
    let said = output.refused()?;
    ensure!(said.contains(why), "{why}: {said}");
    Ok(())
}

fn good(output: Output, what: &str) -> Result<()> {
    let said = output.ok()?;
    ensure!(said.contains(what), "{what}: {said}");
    Ok(())
}

/// A server that takes connections and says nothing.
fn silent() -> Result<std::net::TcpListener> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?)
}

const LOGIN: [&str; 4] = ["--user", "app", "--database", "app"];

#[test]
fn a_postgres_is_asked_before_an_environment_is_bound_to_it() -> Result<()> {
    let postgres = Postgres::start_listening()?;
    postgres.sql("vctl", "CREATE ROLE app LOGIN PASSWORD 'right'")?;
    postgres.sql("vctl", "CREATE DATABASE app OWNER app")?;
    let platform = Platform::start(Workers::Simulated)?;
    let ask = |password: &str, more: &[&str]| {
        probe(&platform, "db", "postgres", postgres.port(), password, &[&LOGIN[..], more].concat())
    };
    refused(ask("wrong", &[])?, "refuses user \"app\"")?;
    refused(ask("right", &["--tls"])?, "does not speak TLS")?;
    good(ask("right", &[])?, "Postgres 1")?;

    let create = ["create", "e", "--template", "web-with-redis-and-postgres", "--kind", "real", "--bind", "db=db"];
    let missing = platform.vctl(&create)?.refused()?;
    ensure!(missing.contains("--bind cache=RESOURCE"), "{missing}");
    platform.create("mocked", "web-with-redis-and-postgres", &[])?;
    let k = platform.kubectl("1.33", "mocked")?;
    let deployments = k.ok(&["get", "deployments", "-o", "jsonpath={.items[*].metadata.name}"])?;
    ensure!(deployments == "postgres redis web", "{deployments}");
    Ok(())
}

#[test]
fn a_mariadb_says_what_is_wrong_with_a_registration() -> Result<()> {
    let directory = tempfile::Builder::new().prefix("vdb").tempdir_in("/tmp")?;
    let certificate = Certificate::new(directory.path())?;
    let trusted = certificate.certificate.display().to_string();
    let plain = MariaDb::start(directory.path(), None)?;
    plain.sql(
        "CREATE DATABASE app; CREATE USER app@localhost IDENTIFIED BY 'right'; GRANT ALL ON app.* TO app@localhost",
    )?;
    let platform = Platform::start_configured(Workers::Simulated, &[], &[("SSL_CERT_FILE", &trusted)])?;
    let ask = |port: u16, password: &str, more: &[&str]| {
        probe(&platform, "db", "mysql", port, password, &[&LOGIN[..], more].concat())
    };
    good(ask(plain.port, "right", &[])?, "MariaDB 10.")?;
    refused(ask(plain.port, "wrong", &[])?, "refuses user \"app\"")?;
    refused(ask(plain.port, "", &[])?, "wants a password")?;
    refused(ask(plain.port, "right", &["--tls"])?, "does not speak TLS")?;
    let other = probe(&platform, "db", "mysql", plain.port, "right", &["--user", "app", "--database", "none"])?;
    refused(other, "database 'none'")?;
    refused(ask(free_port()?, "right", &[])?, "cannot be reached")?;
    let silent = silent()?;
    refused(ask(silent.local_addr()?.port(), "right", &[])?, "does not answer within 5 s")?;
    drop(plain);

    let second = directory.path().join("tls");
    std::fs::create_dir(&second)?;
    let secure = MariaDb::start(&second, Some(&certificate))?;
    secure.sql("SET GLOBAL require_secure_transport = ON; CREATE DATABASE app; CREATE USER app@localhost IDENTIFIED BY 'right'")?;
    secure.sql("GRANT ALL ON app.* TO app@localhost; CREATE USER ed@localhost IDENTIFIED VIA unix_socket")?;
    good(ask(secure.port, "right", &["--tls"])?, "MariaDB 10.")?;
    refused(ask(secure.port, "wrong", &["--tls"])?, "refuses user")?;
    refused(ask(secure.port, "right", &[])?, "wants TLS")
}

#[test]
fn an_object_store_says_what_is_wrong_with_a_registration() -> Result<()> {
    let directory = tempfile::Builder::new().prefix("vs3").tempdir_in("/tmp")?;
    let store = ObjectStore::start(directory.path(), 3)?;
    let keys = store.python(
        "iam = client('iam')\niam.create_user(UserName='app')\niam.put_user_policy(UserName='app', PolicyName='all', \
         PolicyDocument='{\"Version\": \"2012-10-17\", \"Statement\": [{\"Effect\": \"Allow\", \"Action\": \"*\", \"Resource\": \"*\"}]}')\n\
         key = iam.create_access_key(UserName='app')['AccessKey']\n\
         client('s3', key['AccessKeyId'], key['SecretAccessKey']).create_bucket(Bucket='data')\n\
         print(key['AccessKeyId'], key['SecretAccessKey'])",
    )?;
    let (id, secret) = keys.split_once(' ').unwrap_or_default();
    let platform = Platform::start(Workers::Simulated)?;
    let ask = |secret: &str, more: &[&str]| probe(&platform, "files", "s3", store.port, secret, more);
    good(ask(secret, &["--user", id, "--database", "data"])?, "S3 at localhost")?;
    good(ask(secret, &["--user", id])?, "S3 at localhost")?;
    refused(ask("wrong", &["--user", id, "--database", "data"])?, "refuses user")?;
    refused(ask(secret, &["--user", "AKIANOBODY", "--database", "data"])?, "refuses user")?;
    refused(ask(secret, &["--user", id, "--database", "none"])?, "there is no bucket \"none\"")?;
    refused(ask(secret, &["--user", id, "--database", "data", "--tls"])?, "does not speak TLS")?;
    let silent = silent()?;
    let late = probe(&platform, "files", "s3", silent.local_addr()?.port(), secret, &["--user", id])?;
    refused(late, "does not answer within 5 s")
}

#[test]
fn a_kafka_says_what_is_wrong_with_a_registration() -> Result<()> {
    let directory = tempfile::Builder::new().prefix("vkf").tempdir_in("/tmp")?;
    let open = Kafka::start(directory.path(), "open", &[])?;
    let closed = Kafka::start(directory.path(), "closed", &["--authentication"])?;
    let platform = Platform::start(Workers::Simulated)?;
    let ask = |port: u16, password: &str, more: &[&str]| probe(&platform, "events", "kafka", port, password, more);
    let user = ["--user", "app"];
    good(ask(open.port, "", &[])?, "1 broker")?;
    // This broker keeps no users over a start, so that nobody has the right password.
    refused(ask(closed.port, "wrong", &user)?, "refuses user \"app\"")?;
    refused(ask(closed.port, "", &[])?, "wants a password")?;
    refused(ask(open.port, "right", &user)?, "does this port ask for a password")?;
    refused(ask(open.port, "", &["--tls"])?, "does it speak TLS there")?;
    let silent = silent()?;
    refused(ask(silent.local_addr()?.port(), "", &[])?, "does not answer within 5 s")
}
