//! A real Postgres for one test: its data in a temporary directory, reached by a socket there, gone with the test.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::{kubectl::finish, wait};

/// Ends the server when its standard input ends, also when the test is killed.
const KEEPER: &str = r#"
"$@" & server=$!
cat >/dev/null
kill -QUIT $server 2>/dev/null
wait $server
"#;

/// A running server with a database `vctl`, whose user is `vctl`.
pub struct Postgres {
    directory: tempfile::TempDir,
    keeper: Child,
    port: u16,
}

impl Postgres {
    /// Makes one and starts it.
    ///
    /// # Errors
    /// Debian's postgresql is not installed, or it does not start.
    pub fn start() -> Result<Self> {
        Self::start_with(5432, "")
    }

    /// The same, on a free TCP port of 127.0.0.1 too, where passwords (SCRAM-SHA-256) are asked for.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub fn start_listening() -> Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        Self::start_with(port, "127.0.0.1")
    }

    /// The same, on another address of this machine, for whoever comes from a private network.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub fn start_on(address: &str) -> Result<Self> {
        let port = std::net::TcpListener::bind((address, 0))?.local_addr()?.port();
        Self::start_with(port, address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn start_with(port: u16, addresses: &str) -> Result<Self> {
        // Short: the path of a socket has room for 107 bytes.
        let directory = tempfile::Builder::new().prefix("vpg").tempdir_in("/tmp")?;
        if is_root()? {
            let mut give = Command::new("chown");
            give.arg("postgres:").arg(directory.path());
            finish(give)?.ok()?;
        }
        let data = directory.path().join("data");
        let mut init = unprivileged(&program("initdb")?)?;
        init.args([
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--username=vctl",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
        ])
        .arg(&data);
        finish(init)?.ok()?;
        if !addresses.is_empty() {
            let mut rules = fs::File::options().append(true).open(data.join("pg_hba.conf"))?;
            rules.write_all(b"host all all 10.0.0.0/8 scram-sha-256\n")?;
        }
        let log = fs::File::create(directory.path().join("log"))?;
        let mut keeper = unprivileged(Path::new("/bin/sh"))?;
        keeper
            .args(["-c", KEEPER, "keeper"])
            .arg(program("postgres")?)
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(directory.path());
        keeper.args(["-c", &format!("listen_addresses={addresses}"), "-c", &format!("port={port}")]);
        keeper.args(["-c", "shared_buffers=16MB"]);
        let keeper = keeper.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let server = Self { directory, keeper, port };
        wait::until("Postgres starts", Duration::from_mins(1), || {
            let created = server.sql("postgres", "CREATE DATABASE vctl");
            created.map_err(|e| {
                format!("{e:#}: {}", fs::read_to_string(server.directory.path().join("log")).unwrap_or_default())
            })
        })?;
        Ok(server)
    }

    /// Speaks TLS to whoever wants it, with this certificate and key (PEM).
    ///
    /// # Errors
    /// It does not take them.
    pub fn serve_tls(&self, certificate: &str, key: &str) -> Result<()> {
        let data = self.directory.path().join("data");
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let file = data.join(name);
            fs::write(&file, text)?;
            let mut mode = Command::new("chmod");
            mode.arg("600").arg(&file);
            finish(mode)?.ok()?;
            if is_root()? {
                let mut give = Command::new("chown");
                give.arg("postgres:").arg(&file);
                finish(give)?.ok()?;
            }
        }
        self.sql("postgres", "ALTER SYSTEM SET ssl = on")?;
        self.sql("postgres", "SELECT pg_reload_conf()")?;
        wait::until("Postgres speaks TLS", Duration::from_secs(20), || {
            match self.sql("postgres", "SHOW ssl").map_err(|e| e.to_string())?.trim() {
                "on" => Ok(()),
                other => Err(other.to_owned()),
            }
        })
    }

    /// Lets nobody in by TCP without TLS any more.
    ///
    /// # Errors
    /// It does not take that.
    pub fn require_tls(&self) -> Result<()> {
        let file = self.directory.path().join("data/pg_hba.conf");
        let rules = fs::read_to_string(&file)?;
        let with_tls = |line: &str| match line.strip_prefix("host ") {
            Some(rule) => format!("hostssl {rule}\n"),
            None => format!("{line}\n"),
        };
        fs::write(&file, rules.lines().map(with_tls).collect::<String>())?;
        // A session says when the server that it was forked from has read its files.
        let loaded = || self.sql("postgres", "SELECT pg_conf_load_time()");
        let before = loaded()?;
        self.sql("postgres", "SELECT pg_reload_conf()")?;
        wait::until("Postgres has read its rules", Duration::from_secs(20), || match loaded() {
            Ok(now) if now != before => Ok(()),
            Ok(_) => Err("not yet".to_owned()),
            Err(e) => Err(format!("{e:#}")),
        })
    }

    /// The address of the database, with a password that the server does not ask for.
    pub fn url(&self, password: &str) -> String {
        format!("postgres://vctl:{password}@localhost/vctl?host={}", self.directory.path().display())
    }

    /// The processes that it is made of at this moment.
    ///
    /// # Errors
    /// It does not run.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let file = fs::read_to_string(self.directory.path().join("data/postmaster.pid"))?;
        let first: u32 = file.lines().next().unwrap_or_default().trim().parse().context("the number of the server")?;
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children"))?;
        Ok(children.split_whitespace().filter_map(|pid| pid.parse().ok()).chain([first]).collect())
    }

    /// Runs SQL in a database; returns what it prints.
    ///
    /// # Errors
    /// The server refuses.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String> {
        let mut command = Command::new(program("psql")?);
        command.args(["-qAtX", "-U", "vctl", "-d", database, "-c", sql, "-h"]).arg(self.directory.path());
        command.args(["-p", &self.port.to_string()]);
        finish(command)?.ok()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn is_root() -> Result<bool> {
    Ok(fs::metadata("/proc/self")?.uid() == 0)
}

/// Postgres refuses to run as root.
fn unprivileged(program: &Path) -> Result<Command> {
    let mut command = if is_root()? {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/tmp");
    Ok(command)
}

/// A program of Debian's newest Postgres.
fn program(name: &str) -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").context("postgresql is needed: scripts/setup tools")?;
    let mut found: Vec<_> =
        versions.flatten().map(|v| v.path().join("bin").join(name)).filter(|p| p.exists()).collect();
    found.sort();
    match found.pop() {
        Some(program) => Ok(program),
        None => bail!("{name} of postgresql is needed: scripts/setup tools"),
    }
}
