//! The commands of docs/quick-start.md, operator-guide.md, security.md, templates.md and others, run in their order against real parts.
//!
//! Fenced blocks that begin with `console` or `sh` are commands. In `console`, lines that begin with `$ ` are run by bash; the lines below
//! them must be in the output in this order, where `…` stands for anything and space for any space. `# exit N` behind a command is its exit code,
//! otherwise 0. Words after `console`: `background` runs until the next such block or the end and must serve; `as=NAME` runs on the machine of
//! somebody who signs in; `not-run: WHY` is not run, and counted. `file=PATH` of any block writes it, in the operator's home.

mod person;
mod script;

use std::{net::TcpListener, path::Path, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use vctl_runtime::pki::{Authority, Validity};
use vctl_tests::{git_server::GitServer, kubectl, platform::vctl_binary, postgres::Postgres};

use crate::{company::Provider, template_sources};
use script::{Block, Session};

/// Blocks that may say that they are not run.
const NOT_RUN: usize = 1;

fn document(name: &str) -> Result<Vec<Block>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let blocks = script::blocks(&text)?;
    let not_run = blocks.iter().filter(|block| block.not_run).count();
    ensure!(not_run <= NOT_RUN, "{name} has {not_run} blocks that are not run");
    Ok(blocks)
}

/// A port that nobody listens on, of those that the kernel gives to nobody by itself: it is still free when it is used.
fn port() -> Result<u16> {
    for _ in 0..100 {
        let port = rand::random_range(20_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free")
}

fn session() -> Result<Session> {
    let tool = kubectl::binary("1.33")?;
    let own = vctl_binary()?;
    let dirs = [own.parent().context("a directory")?, tool.parent().context("a directory")?];
    Session::new(&dirs)
}

#[test]
fn quick_start() -> Result<()> {
    let mut session = session()?;
    session.replace("127.0.0.1:8443", &format!("127.0.0.1:{}", port()?));
    session.run(&document("quick-start.md")?, 20)
}

/// The pages about access, approvals, the audit trail, traces and the store, on one platform.
#[test]
fn access_approvals_audit_and_store() -> Result<()> {
    let mut session = session()?;
    let address = format!("127.0.0.1:{}", port()?);
    session.replace("127.0.0.1:8443", &address);
    // What was asked inside of an environment is in the trail when it is answered.
    let start =
        format!("```console background\n$ vctl up --workers simulated --listen {address} --audit-mode blocking\n```\n");
    session.run(&script::blocks(&start)?, 1)?;
    for (name, least) in
        [("access.md", 20), ("approvals.md", 12), ("audit.md", 9), ("observability.md", 1), ("store.md", 9)]
    {
        session.run(&document(name)?, least)?;
    }
    Ok(())
}

#[test]
fn security() -> Result<()> {
    let mut session = session()?;
    session.replace("127.0.0.1:8443", &format!("127.0.0.1:{}", port()?));
    session.run(&document("security.md")?, 25)
}

/// With Helm, a real database, and a Git server over https that has a template as a tag and as a branch.
#[test]
fn templates_on_postgres() -> Result<()> {
    let mut session = session()?;
    let root = session.root().to_owned();
    let postgres = Postgres::start_listening()?;
    postgres.sql("postgres", "CREATE ROLE app LOGIN PASSWORD 'right'")?;
    postgres.sql("postgres", "CREATE DATABASE app OWNER app")?;
    let operator = root.join("operator");
    std::fs::create_dir_all(&operator)?;
    std::fs::write(operator.join("db-password"), "right\n")?;

    let served = root.join("git");
    std::fs::create_dir(&served)?;
    let (_, work) = template_sources::repository(&served)?;
    template_sources::write(&work, "team-app", "1.0.0", "one")?;
    template_sources::git(&work, &["add", "-A"])?.ok()?;
    template_sources::git(&work, &["commit", "-q", "-m", "one"])?.ok()?;
    template_sources::git(&work, &["tag", "-a", "v1.0.0", "-m", "one"])?.ok()?;
    template_sources::write(&work, "team-app", "1.1.0", "two")?;
    template_sources::push(&work, "two")?;
    let server = GitServer::start(&served, &served, "ci", "token-of-ci")?;
    std::fs::write(operator.join("git-password"), "token-of-ci\n")?;
    std::fs::copy(&server.authority, operator.join("git-ca.crt"))?;

    let database = format!("localhost --port {}", postgres.port());
    for (documented, real) in [
        ("127.0.0.1:8443", format!("127.0.0.1:{}", port()?)),
        ("db.example.com --port 5432", database),
        ("db.example.com:5432", format!("localhost:{}", postgres.port())),
        ("db.example.com binding-db", "localhost binding-db".to_owned()),
        ("https://git.example.com/team/templates.git", server.private("templates.git")),
    ] {
        session.replace(documented, &real);
    }
    session.run(&document("templates.md")?, 50)
}

#[test]
fn operator_guide_on_postgres() -> Result<()> {
    const SECRET: &str = "client-secret-of-the-operator-guide-0123456789";
    vctl_runtime::serve::install_crypto_provider();
    let mut session = session()?;
    let root = session.root().to_owned();
    let etc = root.join("etc");
    std::fs::create_dir(&etc)?;
    // A database with TLS and passwords, as somebody else runs it.
    let postgres = Postgres::start_listening()?;
    let validity = Validity::from_now(jiff::Timestamp::now(), std::time::Duration::from_hours(1));
    let authority = Authority::generate("database", validity)?;
    let identity = authority.server(&["localhost".to_owned()], validity)?;
    postgres.serve_tls(&identity.certificate_pem, &identity.key_pem)?;
    std::fs::write(etc.join("db-ca.crt"), authority.certificate_pem())?;
    postgres.sql("postgres", "CREATE ROLE postgres SUPERUSER LOGIN PASSWORD 'administrator'")?;
    session.set("PGPASSWORD", "administrator");
    session.set("CLIENT_SECRET", SECRET);
    // An identity provider that knows the address of the platform.
    let port = port()?;
    let provider_dir = root.join("provider");
    std::fs::create_dir(&provider_dir)?;
    let trusted = provider_dir.join("provider-ca.crt");
    let address = format!("https://localhost:{port}");
    let provider = Provider::start_for(&provider_dir, Some((&address, SECRET, &trusted, "corp")))?;
    std::fs::copy(&provider.authority, etc.join("login-ca.crt"))?;
    session.signs_in_at(&provider.authority);
    for (documented, real) in [
        ("https://login.example.com", provider.issuer.as_str()),
        ("vctl.example.com:8443", &format!("localhost:{port}")),
        ("0.0.0.0:8443", &format!("127.0.0.1:{port}")),
        ("db.example.com:5432", &format!("localhost:{}", postgres.port())),
        ("/etc/vctl", &etc.display().to_string()),
        ("/var/lib/vctl", &root.join("lib").display().to_string()),
        ("--workers podman", "--workers simulated"),
    ] {
        session.replace(documented, real);
    }
    session.run(&document("operator-guide.md")?, 35)?;
    let passwords = Command::new("grep").args(["-rl", "correct horse"]).arg(root.join("lib")).output()?;
    ensure!(
        passwords.stdout.is_empty(),
        "the password of the database is in {}",
        String::from_utf8_lossy(&passwords.stdout)
    );
    Ok(())
}
