use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    process::Command,
};

use super::{
    child::{Acknowledged, Orders, parse},
    *,
};
use crate::{PostgresStore, postgres::testing::Server};

/// Runs a child until it has acknowledged so many writes, then kills it with SIGKILL. Returns everything that it acknowledged.
fn run_and_kill(orders: &Orders<'_>, until: usize) -> Vec<Acknowledged> {
    // `env` only starts the program it is given.
    let mut child = orders.command(Command::new("env")).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut acknowledged = Vec::new();
    let mut line = String::new();
    loop {
        line.clear();
        if output.read_line(&mut line).unwrap() == 0 {
            break;
        }
        acknowledged.extend(parse(&line));
        if acknowledged.len() == until {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged.len() >= until, "the child ended by itself after {acknowledged:?}");
    acknowledged
}

/// Everything that was acknowledged is in the log, and what is current agrees with the log.
async fn check(store: &dyn Store, issued: &HashMap<Revision, Acknowledged>) {
    let head = store.revision(SYSTEM).await.unwrap();
    let events = log(store, "pods", head).await;
    for (revision, write) in issued {
        let event = events.get(*revision as usize - 1).unwrap_or_else(|| panic!("{write:?} is lost"));
        assert_eq!((&*event.key.name, event.value.is_none()), (&*write.name, write.deleted));
    }
    let mut living: HashMap<&str, Revision> = HashMap::new();
    for event in &events {
        match event.value {
            Some(_) => living.insert(&event.key.name, event.revision),
            None => living.remove(&*event.key.name),
        };
    }
    let found = store.list(SYSTEM, crate::ListOptions::newest(Scope::all("pods"))).await.unwrap();
    assert_eq!(found.entries.len(), living.len());
    for entry in &found.entries {
        assert_eq!(living.get(&*entry.key.name), Some(&entry.revision));
    }
}

/// Runs a child, kills it, and remembers what it acknowledged.
fn round(place: &Path, round: usize, issued: &mut HashMap<Revision, Acknowledged>) {
    let orders = Orders { directory: place, round, writers: 24, writes: 100_000 };
    for write in run_and_kill(&orders, 60 + round * 53 % 300) {
        let before = issued.insert(write.revision, write.clone());
        assert_eq!(before, None, "revision {} was issued twice", write.revision);
    }
}

/// How often to kill: `VCTL_KILLS` in `make soak`.
fn kills(usual: usize) -> usize {
    std::env::var("VCTL_KILLS").map_or(usual, |text| text.parse().expect("VCTL_KILLS is a number"))
}

#[tokio::test]
async fn every_acknowledged_write_survives_twenty_kills() {
    let directory = tempfile::tempdir().unwrap();
    let mut issued: HashMap<Revision, Acknowledged> = HashMap::new();
    for number in 0..kills(20) {
        round(directory.path(), number, &mut issued);
        let store = open(directory.path()).await;
        check(&store, &issued).await;
        store.close().await.unwrap();
    }
    assert!(issued.len() > 20 * 60);
}

#[tokio::test]
async fn every_acknowledged_write_survives_kills_and_crashes_of_postgres() {
    let mut server = Server::start();
    let address = server.database().await;
    let url = server.url("t0");
    let mut issued: HashMap<Revision, Acknowledged> = HashMap::new();
    for number in 0..kills(20) / 2 {
        round(Path::new(&url), number, &mut issued);
        if number % 3 == 0 {
            server.crash();
        }
        let store = PostgresStore::open_with(&address, &Tasks::new(), options()).await.unwrap();
        check(&store, &issued).await;
        store.close().await.unwrap();
    }
    assert!(issued.len() > 10 * 60);
}
