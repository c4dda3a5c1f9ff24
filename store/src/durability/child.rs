//! A process that writes until it is killed: this test binary, started again.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use vctl_runtime::tasks::Tasks;

use super::*;
use crate::{Expect, Key, PostgresAddress, PostgresStore, StoreError, Write, sqlite::DataFile};

const DIRECTORY: &str = "VCTL_STORE_CHILD_DIRECTORY";
const ROUND: &str = "VCTL_STORE_CHILD_ROUND";
const WRITERS: &str = "VCTL_STORE_CHILD_WRITERS";
const WRITES: &str = "VCTL_STORE_CHILD_WRITES";

/// What the child is to do.
pub(super) struct Orders<'a> {
    /// A directory, or the URL of a Postgres database.
    pub(super) directory: &'a Path,
    /// Goes into the names of the documents.
    pub(super) round: usize,
    pub(super) writers: usize,
    /// Documents per writer, then it ends.
    pub(super) writes: usize,
}

impl Orders<'_> {
    /// The program and arguments that carry them out.
    pub(super) fn command(&self, mut command: Command) -> Command {
        command
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "durability::child::child", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, self.directory)
            .env(ROUND, self.round.to_string())
            .env(WRITERS, self.writers.to_string())
            .env(WRITES, self.writes.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }
}

/// One acknowledgement that a child printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub(super) revision: Revision,
    pub(super) name: String,
    pub(super) deleted: bool,
}

/// Reads a whole line `ack REVISION put|del NAME`.
pub(super) fn parse(line: &str) -> Option<Acknowledged> {
    let mut words = line.strip_suffix('\n')?.strip_prefix("ack ")?.split(' ');
    let revision = words.next()?.parse().ok()?;
    let deleted = words.next()? == "del";
    Some(Acknowledged { revision, name: words.next()?.to_owned(), deleted })
}

fn say(line: &str) {
    // One system call, so that a kill cuts no line of another in two.
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Not a test by itself: does nothing unless started by one.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(write(Path::new(&directory), number(ROUND), number(WRITERS), number(WRITES)));
}

async fn open_store(place: &Path) -> Box<dyn Store> {
    if let Some(url) = place.to_str().filter(|text| PostgresAddress::is_one(text)) {
        let address = url.parse().unwrap();
        return Box::new(PostgresStore::open_with(&address, &Tasks::new(), options()).await.unwrap());
    }
    let mut file = DataFile::open(place).await.unwrap();
    // Small, so that copying the WAL into the file happens often, and is often where the kill falls.
    sqlx::raw_sql("PRAGMA wal_autocheckpoint = 24").execute(&mut file.connection).await.unwrap();
    Box::new(SqliteStore::start(file, &Tasks::new(), options()).await.unwrap())
}

async fn write(directory: &Path, round: usize, writers: usize, writes: usize) {
    let store = open_store(directory).await;
    say("\nready\n");
    let writer = async |id: usize| {
        for n in 0..writes {
            let name = format!("r{round}-w{id}-{n}");
            let key = Key::new("pods", "default", &name);
            let value = format!("{name} {}", "x".repeat(300));
            let Some(revision) = acknowledged(&*store, Write::create(key.clone(), value)).await else { return };
            say(&format!("ack {revision} put {name}\n"));
            if n % 3 == 0 {
                let delete = Write::delete(key, Expect::Revision(revision));
                let Some(revision) = acknowledged(&*store, delete).await else { return };
                say(&format!("ack {revision} del {name}\n"));
            }
        }
    };
    futures::future::join_all((0..writers).map(writer)).await;
    store.close().await.unwrap();
    say("closed\n");
}

async fn acknowledged(store: &dyn Store, write: Write) -> Option<Revision> {
    match store.transact(SYSTEM, vec![write]).await {
        Ok(revisions) => Some(revisions[0]),
        Err(StoreError::Backend(reason)) => {
            say(&format!("failed {reason}\n"));
            None
        }
        Err(e) => panic!("{e}"),
    }
}
