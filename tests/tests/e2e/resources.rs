//! Registered resources that are real, and environments that are bound to them.

use std::process::Stdio;

use anyhow::{Result, ensure};
use vctl_tests::{
    kubectl::{Output, finish},
    platform::{Platform, Workers},
    postgres::Postgres,
    servers::{Certificate, HttpServer, Kafka, MariaDb, ObjectStore, Redis, TlsFront, free_port},
};

/// What is said of a certificate that nobody vouches for.
const UNTRUSTED: &str = "is not believed (no authority that is trusted has signed it): register it with --ca-file";

/// Registers a resource at `localhost`, with a password (none when it is empty), and asks it.
fn probe(platform: &Platform, name: &str, kind: &str, port: u16, password: &str, more: &[&str]) -> Result<Output> {
    probe_at(platform, "localhost", name, kind, port, password, more)
}

fn probe_at(
    platform: &Platform,
    host: &str,
    name: &str,
    kind: &str,
    port: u16,
    password: &str,
    more: &[&str],
) -> Result<Output> {
    let port = port.to_string();
    let base = ["resource", "add", name, "--kind", kind, "--host", host, "--port", &port];
    if password.is_empty() {
        platform.vctl(&[&base[..], more].concat())?.ok()?;
    } else {
        let file = platform.scratch().join(format!("password-{name}"));
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
    let directory = tempfile::tempdir()?;
    let certificate = Certificate::new(directory.path())?;
    let authority = certificate.certificate.display().to_string();
    let private = ["--tls", "--ca-file", authority.as_str()];
    let read = std::fs::read_to_string::<&std::path::PathBuf>;
    postgres.serve_tls(&read(&certificate.certificate)?, &read(&certificate.key)?)?;
    postgres.require_tls()?;
    refused(ask("right", &[])?, "wants TLS: register it with --tls")?;
    refused(ask("right", &["--tls"])?, UNTRUSTED)?;
    refused(ask("wrong", &private)?, "refuses user \"app\"")?;
    let more = [&LOGIN[..], &private].concat();
    let elsewhere = probe_at(&platform, "127.0.0.1", "db", "postgres", postgres.port(), "right", &more)?;
    refused(elsewhere, "is not believed (it is for another host name)")?;
    let missing = directory.path().join("missing").display().to_string();
    let add = ["resource", "add", "x", "--kind", "http", "--host", "h"];
    let source = ["template", "source", "add", "s", "--url", "https://h/s.git", "--branch", "main"];
    for add in [&[&add[..], &["--tls"]].concat(), &source[..]] {
        let output = platform.vctl(&[add, &["--ca-file", &missing]].concat())?;
        ensure!(output.code == 1, "{output:?}");
        refused(output, "cannot be read (No such file or directory (os error 2)): --ca-file wants")?;
    }
    refused(platform.vctl(&[&add[..], &["--ca-file", &authority]].concat())?, "--tls")?;
    let key = certificate.key.display().to_string();
    refused(platform.vctl(&[&add[..], &["--tls", "--ca-file", &key]].concat())?, "something else than certificates")?;
    good(ask("right", &private)?, "Postgres 1")?;
    good(platform.vctl(&["resource", "list"])?, "own CA")?;

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
    let authority = certificate.certificate.display().to_string();
    let private = ["--tls", "--ca-file", authority.as_str()];
    let plain = MariaDb::start(directory.path(), None)?;
    plain.sql(
        "CREATE DATABASE app; CREATE USER app@localhost IDENTIFIED BY 'right'; GRANT ALL ON app.* TO app@localhost",
    )?;
    let platform = Platform::start(Workers::Simulated)?;
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
    drop(plain);

    let second = directory.path().join("tls");
    std::fs::create_dir(&second)?;
    let secure = MariaDb::start(&second, Some(&certificate))?;
    secure.sql("SET GLOBAL require_secure_transport = ON; CREATE DATABASE app; CREATE USER app@localhost IDENTIFIED BY 'right'")?;
    secure.sql("GRANT ALL ON app.* TO app@localhost; CREATE USER ed@localhost IDENTIFIED VIA unix_socket")?;
    good(ask(secure.port, "right", &private)?, "MariaDB 10.")?;
    refused(ask(secure.port, "wrong", &private)?, "refuses user")?;
    refused(ask(secure.port, "right", &["--tls"])?, UNTRUSTED)?;
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
    drop(store);

    let certificate = Certificate::new(directory.path())?;
    let authority = certificate.certificate.display().to_string();
    let secure = ObjectStore::start_secure(directory.path(), &certificate)?;
    let ask = |more: &[&str]| {
        probe(&platform, "files", "s3", secure.port, "secret", &[&["--user", "key"][..], more].concat())
    };
    good(ask(&["--tls", "--ca-file", &authority])?, "S3 at localhost")?;
    refused(ask(&["--tls"])?, UNTRUSTED)?;
    refused(ask(&[])?, "wants TLS")
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
    // It does not speak TLS itself: the build of it that there is takes no key.
    let certificate = Certificate::new(directory.path())?;
    let authority = certificate.certificate.display().to_string();
    let private = ["--tls", "--ca-file", authority.as_str()];
    let front = TlsFront::start(&certificate, open.port)?;
    good(ask(front.port, "", &private)?, "1 broker")?;
    refused(ask(front.port, "", &["--tls"])?, UNTRUSTED)?;
    refused(ask(front.port, "", &[])?, "wants TLS")?;
    let front = TlsFront::start(&certificate, closed.port)?;
    refused(ask(front.port, "wrong", &[&user[..], &private].concat())?, "refuses user \"app\"")
}

#[test]
fn a_redis_and_a_web_server_say_what_is_wrong_with_a_registration() -> Result<()> {
    let directory = tempfile::Builder::new().prefix("vrd").tempdir_in("/tmp")?;
    let certificate = Certificate::new(directory.path())?;
    let authority = certificate.certificate.display().to_string();
    let private = ["--tls", "--ca-file", authority.as_str()];
    let redis = Redis::start(directory.path(), "127.0.0.1", &certificate, "right")?;
    let platform = Platform::start(Workers::Simulated)?;
    let ask = |port: u16, password: &str, more: &[&str]| probe(&platform, "cache", "redis", port, password, more);
    good(ask(redis.port, "right", &[])?, "Redis at localhost")?;
    refused(ask(redis.port, "wrong", &[])?, "refuses user \"\": the password or the user is wrong")?;
    refused(ask(redis.port, "right", &["--user", "nobody"])?, "refuses user \"nobody\"")?;
    refused(ask(redis.port, "", &[])?, "wants a password: register it with one")?;
    good(ask(redis.tls_port, "right", &private)?, "Redis at localhost")?;
    refused(ask(redis.tls_port, "wrong", &private)?, "the password or the user is wrong")?;
    refused(ask(redis.tls_port, "right", &["--tls"])?, UNTRUSTED)?;
    refused(ask(redis.tls_port, "right", &[])?, "wants TLS: register it with --tls")?;
    refused(ask(free_port()?, "right", &[])?, "cannot be reached")?;

    let (plain, secure) =
        (HttpServer::start(directory.path(), None)?, HttpServer::start(directory.path(), Some(&certificate))?);
    let ask = |port: u16, password: &str, more: &[&str]| {
        probe(&platform, "web", "http", port, password, &[&["--user", "app"][..], more].concat())
    };
    good(ask(plain.port, "right", &[])?, "answers 200")?;
    refused(ask(plain.port, "wrong", &[])?, "refuses user \"app\"")?;
    refused(ask(plain.port, "", &[])?, "wants a password: register it with one")?;
    refused(ask(plain.port, "right", &["--tls"])?, "does not speak TLS on this port: register it without --tls")?;
    good(ask(secure.port, "right", &private)?, "answers 200")?;
    refused(ask(secure.port, "wrong", &private)?, "refuses user \"app\"")?;
    refused(ask(secure.port, "right", &["--tls"])?, UNTRUSTED)?;
    refused(ask(secure.port, "right", &[])?, "wants TLS: register it with --tls")?;

    // Who does not answer: of each kind, all at once.
    let listener = silent()?;
    let silent = listener.local_addr()?.port();
    let kinds: [(&str, u16, &[&str]); 7] = [
        ("postgres", silent, &LOGIN),
        ("mysql", silent, &LOGIN),
        ("redis", silent, &[]),
        ("kafka", silent, &["--user", "app"]),
        ("s3", silent, &["--user", "key"]),
        ("http", silent, &["--tls"]),
        // It waits for the end of a line.
        ("redis", redis.port, &["--tls"]),
    ];
    let ask = &|kind: &str, port: u16, more: &[&str]| {
        let late = probe(&platform, &format!("late-{kind}-{port}"), kind, port, "right", more)?;
        let tls = if more.contains(&"--tls") { ", and does it speak TLS there?" } else { "?" };
        refused(late, &format!("does not answer within 5 s: are host and port right, may this server reach it{tls}"))
    };
    std::thread::scope(|threads| {
        let asked = kinds.map(|(kind, port, more)| threads.spawn(move || ask(kind, port, more)));
        let answers = asked.map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a probe panicked"))));
        answers.into_iter().collect::<Result<Vec<()>>>().map(|_| ())
    })
}
