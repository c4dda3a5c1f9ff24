//! Real servers that probes of resources ask: MariaDB and Redis (Debian's), an object store and a Kafka broker (from the Python registry), and
//! the HTTP server of Python. Each in a directory of the test, on a free port of 127.0.0.1, gone with the test.

mod front;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

pub use self::front::TlsFront;
use crate::{background::Background, kubectl::finish, wait};

const LIMIT: Duration = Duration::from_mins(1);

/// A port that nobody has at this moment.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<u16> {
    // Below those that the kernel gives to whoever names none: nobody gets it before the server has it. Tests of other processes begin
    // elsewhere.
    const PORTS: std::ops::Range<u32> = 12_000..32_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    for _ in PORTS {
        let next = std::process::id().wrapping_mul(97).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(PORTS.start + next % (PORTS.end - PORTS.start))?;
        // On every address: a server may want another than that of the loopback device.
        if std::net::TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port between {} and {} is free", PORTS.start, PORTS.end)
}

/// A certificate that vouches for itself, and its key, as files.
pub struct Certificate {
    /// The certificate, PEM; who trusts it as an authority believes the server.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
}

impl Certificate {
    /// Makes one for `localhost`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(directory: &Path) -> Result<Self> {
        Self::of(directory, "localhost")
    }

    /// Makes one for another name, or an address.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn of(directory: &Path, name: &str) -> Result<Self> {
        let own = rcgen::generate_simple_self_signed(vec![name.to_owned()])?;
        let (certificate, key) = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
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
        Self::start_with(directory, "object-store", open_requests, None)
    }

    /// Starts one that believes everybody, over TLS.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_secure(directory: &Path, certificate: &Certificate) -> Result<Self> {
        Self::start_with(directory, "secure-object-store", u32::MAX, Some(certificate))
    }

    fn start_with(directory: &Path, name: &str, open_requests: u32, certificate: Option<&Certificate>) -> Result<Self> {
        let port = free_port()?;
        let mut server = Command::new(program("moto_server")?);
        server.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        server.env("INITIAL_NO_AUTH_ACTION_COUNT", open_requests.to_string());
        if let Some(Certificate { certificate, key }) = certificate {
            server.arg("-c").arg(certificate).arg("-k").arg(key);
        }
        let mut server = Background::start(server, name, directory)?;
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

/// A Redis with a password, on a port for plain text and one for TLS.
pub struct Redis {
    _server: Background,
    address: String,
    /// Its port.
    pub port: u16,
    /// Its port of TLS.
    pub tls_port: u16,
}

impl Redis {
    /// Starts one on an address of this machine.
    ///
    /// # Errors
    /// Debian's redis-server is not installed, or it does not start.
    pub fn start(directory: &Path, address: &str, certificate: &Certificate, password: &str) -> Result<Self> {
        let (port, tls_port) = (free_port()?, free_port()?);
        let Certificate { certificate, key } = certificate;
        let mut server = Command::new("redis-server");
        server.args(["--bind", address, "--save", "", "--requirepass", password]);
        server.args(["--port", &port.to_string(), "--tls-port", &tls_port.to_string(), "--tls-auth-clients", "no"]);
        server.arg("--tls-cert-file").arg(certificate).arg("--tls-key-file").arg(key);
        server.arg("--tls-ca-cert-file").arg(certificate).arg("--dir").arg(directory);
        let mut server =
            Background::start(server, "redis", directory).context("redis-server is needed: scripts/setup")?;
        server.until_printed("Ready to accept connections", LIMIT)?;
        Ok(Self { _server: server, port, tls_port, address: address.to_owned() })
    }

    /// Sets a key.
    ///
    /// # Errors
    /// The server refuses.
    pub fn set(&self, password: &str, key: &str, value: &str) -> Result<()> {
        let mut client = Command::new("redis-cli");
        client.args(["-e", "-h", &self.address, "-p", &self.port.to_string(), "set", key, value]);
        client.env("REDISCLI_AUTH", password);
        finish(client)?.ok().map(drop)
    }
}

/// What [`HttpServer`] is: `user:right` by basic authentication, or 401.
const HTTP: &str = r"
import base64, http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        good = self.headers.get('Authorization') == 'Basic ' + base64.b64encode(b'app:right').decode()
        self.send_response(200 if good else 401)
        self.send_header('Content-Length', '0')
        self.end_headers()
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
if len(sys.argv) > 1:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print('port', server.server_port, '.', flush=True)
server.serve_forever()
";

/// The HTTP server of Python: user `app` with the password `right`.
pub struct HttpServer {
    _server: Background,
    /// Its port.
    pub port: u16,
}

impl HttpServer {
    /// Starts one, with TLS when there is a certificate.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(directory: &Path, certificate: Option<&Certificate>) -> Result<Self> {
        let mut server = Command::new("python3");
        server.args(["-c", HTTP]);
        if let Some(Certificate { certificate, key }) = certificate {
            server.arg(certificate).arg(key);
        }
        let name = if certificate.is_some() { "https" } else { "http" };
        let mut server = Background::start(server, name, directory)?;
        let printed = server.until_printed(" .", LIMIT)?;
        let port = printed.split(' ').nth(1).context("a port")?.parse()?;
        Ok(Self { _server: server, port })
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
