//! Real servers that probes of resources ask: MariaDB (Debian's), an object store and a Kafka broker (from the Python registry). Each in a
//! directory of the test, on a free port of 127.0.0.1, gone with the test.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{background::Background, kubectl::finish, wait};

const LIMIT: Duration = Duration::from_mins(1);

/// A port that nobody has at this moment.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A certificate for `localhost` that vouches for itself, and its key, as files.
pub struct Certificate {
    /// The certificate, PEM; who trusts it as an authority believes the server.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
}

impl Certificate {
    /// Makes one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(directory: &Path) -> Result<Self> {
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let (certificate, key) = (directory.join("localhost.pem"), directory.join("localhost.key"));
        std::fs::write(&certificate, own.cert.pem())?;
        std::fs::write(&key, own.signing_key.serialize_pem())?;
        Ok(Self { certificate, key })
    }
}

/// A program of the Python environment that `scripts/servers` makes.
fn program(name: &str) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/servers");
    let output = Command::new(script).output().context("running scripts/servers")?;
    ensure!(output.status.success(), "scripts/servers: {}", String::from_utf8_lossy(&output.stderr));
    Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("bin").join(name))
}

/// A MariaDB whose user `root` comes by its socket.
pub struct MariaDb {
    _server: Background,
    socket: PathBuf,
    /// Its port.
    pub port: u16,
}

impl MariaDb {
    /// Makes one and starts it, with TLS when there is a certificate.
    ///
    /// # Errors
    /// Debian's mariadb-server is not installed, or it does not start.
    pub fn start(directory: &Path, certificate: Option<&Certificate>) -> Result<Self> {
        let home = directory.join("mariadb");
        std::fs::create_dir_all(&home)?;
        let data = home.join("data");
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]);
        install.arg(format!("--datadir={}", data.display())).args(["--user=root", "--skip-name-resolve"]);
        finish(install).context("mariadb-server is needed: scripts/setup tools")?.ok()?;
        let (port, socket) = (free_port()?, home.join("s"));
        let mut server = Command::new(mariadbd()?);
        server.args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=16M"]);
        server.args(["--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--performance-schema=OFF"]);
        server.arg(format!("--datadir={}", data.display())).arg(format!("--socket={}", socket.display()));
        server.arg(format!("--port={port}"));
        if let Some(Certificate { certificate, key }) = certificate {
            server.arg(format!("--ssl-cert={}", certificate.display())).arg(format!("--ssl-key={}", key.display()));
        }
        let running = Background::start(server, "mariadb", directory)?;
        let server = Self { _server: running, socket, port };
        wait::until("MariaDB starts", LIMIT, || server.sql("SELECT 1").map_err(|e| format!("{e:#}")))?;
        Ok(server)
    }

    /// Runs SQL; returns what it prints.
    ///
    /// # Errors
    /// The server refuses.
    pub fn sql(&self, sql: &str) -> Result<String> {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names", "--execute", sql]);
        client.arg(format!("--socket={}", self.socket.display()));
        finish(client)?.ok()
    }
}

fn mariadbd() -> Result<&'static str> {
    for path in ["/usr/sbin/mariadbd", "/usr/bin/mariadbd", "/usr/local/sbin/mariadbd"] {
        if Path::new(path).exists() {
            return Ok(path);
        }
    }
    bail!("mariadbd is needed: scripts/setup tools")
}

/// An object store.
pub struct ObjectStore {
    _server: Background,
    /// Its port.
    pub port: u16,
}

impl ObjectStore {
    /// Starts one that believes everybody for so many requests, and from then on those who sign with a key that it has made.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(directory: &Path, open_requests: u32) -> Result<Self> {
        let port = free_port()?;
        let mut server = Command::new(program("moto_server")?);
        server.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        server.env("INITIAL_NO_AUTH_ACTION_COUNT", open_requests.to_string());
        let mut server = Background::start(server, "object-store", directory)?;
        server.until_printed("Running on", LIMIT)?;
        Ok(Self { _server: server, port })
    }

    /// Runs a program of Python with `client(SERVICE, KEY, SECRET)`, a client of boto3; returns what it prints.
    ///
    /// # Errors
    /// It fails.
    pub fn python(&self, text: &str) -> Result<String> {
        let head = format!(
            "import boto3\ndef client(service, key='key', secret='secret'):\n    return boto3.client(service, \
             endpoint_url='http://127.0.0.1:{}', region_name='us-east-1', aws_access_key_id=key, aws_secret_access_key=secret)\n",
            self.port
        );
        let mut python = Command::new(program("python")?);
        python.arg("-c").arg(format!("{head}{text}"));
        Ok(finish(python)?.ok()?.trim().to_owned())
    }
}

/// A Kafka broker.
pub struct Kafka {
    _server: Background,
    /// Its port.
    pub port: u16,
}

impl Kafka {
    /// Starts one with arguments of `tansu broker`; it keeps everything in memory.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(directory: &Path, name: &str, arguments: &[&str]) -> Result<Self> {
        let port = free_port()?;
        let listen = format!("tcp://127.0.0.1:{port}");
        let mut server = Command::new(program("tansu")?);
        server.args(["broker", "--listener-url", &listen, "--advertised-listener-url", &listen]).args(arguments);
        let mut server = Background::start(server, name, directory)?;
        server.until_printed("ready in", LIMIT)?;
        Ok(Self { _server: server, port })
    }
}
