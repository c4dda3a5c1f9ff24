//! A real Postgres for one test: its own data in a temporary directory, reached by a socket there, gone with the test.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, postgres::PgConnectOptions};

use crate::postgres::PostgresAddress;

/// Ends the server when its standard input ends, also when the test is killed: nothing is left running.
const KEEPER: &str = r#"
"$@" & server=$!
cat >/dev/null
kill -QUIT $server 2>/dev/null
wait $server
"#;

/// A running server.
pub(crate) struct Server {
    directory: tempfile::TempDir,
    keeper: Option<Child>,
    databases: AtomicU32,
}

impl Server {
    /// Makes one and starts it.
    pub(crate) fn start() -> Self {
        // Short: the path of a socket has room for 107 bytes.
        let directory = tempfile::Builder::new().prefix("vpg").tempdir_in("/tmp").unwrap();
        if is_root() {
            run(Command::new("chown").arg("postgres:").arg(directory.path()));
        }
        let data = directory.path().join("data");
        let mut init = unprivileged(&program("initdb"));
        init.args(["--auth=trust", "--username=vctl", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"]).arg(&data);
        run(&mut init);
        let server = Self { directory, keeper: None, databases: AtomicU32::new(0) };
        server.running()
    }

    fn running(mut self) -> Self {
        self.launch();
        self
    }

    /// Where its files are.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn launch(&mut self) {
        let log = fs::File::create(self.directory.path().join("log")).unwrap();
        let mut keeper = unprivileged(Path::new("/bin/sh"));
        keeper.args(["-c", KEEPER, "keeper"]).arg(program("postgres")).arg("-D").arg(self.data());
        keeper.arg("-k").arg(self.directory.path());
        for setting in ["listen_addresses=", "shared_buffers=16MB", "max_connections=200", "autovacuum=on"] {
            keeper.args(["-c", setting]);
        }
        let child = keeper.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.keeper = Some(child);
        let deadline = Instant::now() + Duration::from_mins(1);
        let ready = || {
            let mut ask = Command::new(program("pg_isready"));
            ask.arg("-q").arg("-h").arg(self.directory.path());
            ask.status().is_ok_and(|s| s.success())
        };
        while !ready() {
            assert!(Instant::now() < deadline, "Postgres did not start:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the server said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Ends the server as a crash would, without a chance to write anything, and starts it again.
    pub(crate) fn crash(&mut self) {
        self.end("QUIT");
        self.launch();
    }

    /// Ends the server in order, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.end("INT");
        self.launch();
    }

    /// Ends the server with a signal to its first process.
    pub(crate) fn end(&mut self, signal: &str) {
        let Some(mut keeper) = self.keeper.take() else { return };
        let pid = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        if let Some(pid) = pid.lines().next() {
            // Only this one process, by its number.
            let _ = Command::new("kill").args([format!("-{signal}"), pid.trim().to_owned()]).status();
        }
        drop(keeper.stdin.take());
        keeper.wait().unwrap();
    }

    /// Starts it after it was ended.
    pub(crate) fn begin(&mut self) {
        self.launch();
    }

    /// A new empty database.
    pub(crate) async fn database(&self) -> PostgresAddress {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let mut connection = self.connect("postgres").await;
        let create = format!("CREATE DATABASE {name}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await.unwrap();
        self.url(&name).parse().unwrap()
    }

    /// The address of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://vctl@localhost/{database}?host={}", self.directory.path().display())
    }

    /// A connection that has nothing to do with a store.
    pub(crate) async fn connect(&self, database: &str) -> PgConnection {
        let options = PgConnectOptions::new().username("vctl").socket(self.directory.path()).database(database);
        options.disable_statement_logging().connect().await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its data goes too: nothing needs to be written.
        self.end("QUIT");
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "--- log of Postgres ---\n{}", self.log());
        }
    }
}

/// A connection to the same database as a store.
pub(crate) async fn beside(address: &PostgresAddress) -> PgConnection {
    address.options.clone().connect().await.unwrap()
}

fn run(command: &mut Command) -> ExitStatus {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.status
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Postgres refuses to run as root.
fn unprivileged(program: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/tmp").env_remove("PGPASSWORD");
    command
}

/// A program of Debian's newest Postgres, or of the path.
fn program(name: &str) -> PathBuf {
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|found| found.flatten().map(|entry| entry.path().join("bin").join(name)).filter(|p| p.exists()).collect())
        .unwrap_or_default();
    versions.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let elsewhere = std::env::split_paths(&path).map(|p| p.join(name)).find(|p| p.exists());
    versions
        .pop()
        .or(elsewhere)
        .unwrap_or_else(|| panic!("{name} of Postgres is needed: scripts/setup, or apt-get install postgresql"))
}
