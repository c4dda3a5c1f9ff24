use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    process::Command,
};

use super::{
    child::{Acknowledged, Orders, parse},
    *,
};

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

#[tokio::test]
async fn every_acknowledged_write_survives_twenty_kills() {
    let directory = tempfile::tempdir().unwrap();
    let mut issued: HashMap<Revision, Acknowledged> = HashMap::new();
    for round in 0..20 {
        let orders = Orders { directory: directory.path(), round, writers: 24, writes: 100_000 };
        for write in run_and_kill(&orders, 60 + round * 53 % 300) {
            let before = issued.insert(write.revision, write.clone());
            assert_eq!(before, None, "revision {} was issued twice", write.revision);
        }
        let store = open(directory.path()).await;
        let head = store.revision(SYSTEM).await.unwrap();
        let events = log(&store, "pods", head).await;
        for (revision, write) in &issued {
            let event = events.get(*revision as usize - 1).unwrap_or_else(|| panic!("{write:?} is lost"));
            assert_eq!((&*event.key.name, event.value.is_none()), (&*write.name, write.deleted));
        }
        // What is current agrees with the log.
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
        store.close().await.unwrap();
    }
    assert!(issued.len() > 20 * 60);
}
