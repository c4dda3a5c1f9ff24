//! Jobs on a real Postgres under `kill -9`: none is lost, none ends twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vctl_tests::{
    kubectl::finish,
    platform::{Platform, Workers},
    postgres::Postgres,
    wait,
};

const LIMIT: Duration = Duration::from_mins(2);
const CLIENTS: usize = 4;
/// Environments that are asked for between two kills.
const BETWEEN: usize = 15;
const KILLS: usize = 3;

#[test]
fn jobs_survive_kills_of_the_server_on_postgres() -> Result<()> {
    let postgres = Postgres::start()?;
    let mut platform = Platform::start_configured(Workers::None, &[], &[("VCTL_STORE", &postgres.url("p"))])?;
    let token = std::fs::read_to_string(platform.data_dir().join("admin.token"))?;
    let address = platform.address().to_owned();
    let (acknowledged, stop) = (Arc::new(Mutex::new(BTreeSet::new())), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (acknowledged, stop) = (acknowledged.clone(), stop.clone());
            let (address, token) = (address.clone(), token.trim().to_owned());
            std::thread::spawn(move || {
                for n in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let name = format!("e{client}-{n}");
                    if create(&address, &token, &name).is_ok_and(|code| code == "201") {
                        acknowledged.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
                    } else {
                        // The server is away: not as fast as a process can ask.
                        std::thread::sleep(Duration::from_millis(50));
                    }
                }
            })
        })
        .collect();
    let count = || acknowledged.lock().unwrap_or_else(PoisonError::into_inner).len();
    for _ in 0..KILLS {
        let before = count();
        wait::until("environments are asked for", LIMIT, || match count() {
            now if now >= before + BETWEEN => Ok(()),
            now => Err(format!("{now} after {before}")),
        })?;
        platform.kill_server()?;
        platform.start_server()?;
    }
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        ensure!(client.join().is_ok(), "a client panicked");
    }
    let wanted = acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone();
    wait::until("every job has ended", LIMIT, || {
        let listed = platform.vctl(&["list", "-o", "json"]).and_then(|o| o.ok()).map_err(|e| format!("{e:#}"))?;
        let listed: Value = serde_json::from_str(&listed).map_err(|e| e.to_string())?;
        let phases: BTreeMap<&str, &str> = listed
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|e| Some((e["name"].as_str()?, e["phase"].as_str()?)))
            .collect();
        let missing: Vec<_> = wanted.iter().filter(|name| phases.get(name.as_str()) != Some(&"Ready")).collect();
        let others: Vec<_> = phases.iter().filter(|(_, phase)| **phase != "Ready").collect();
        if missing.is_empty() && others.is_empty() { Ok(()) } else { Err(format!("{missing:?} {others:?}")) }
    })?;
    // Each was made once and became ready once, whatever happened in between.
    let exported = platform.vctl(&["audit", "export"])?.ok()?;
    let mut entries: BTreeMap<(String, String), usize> = BTreeMap::new();
    for line in exported.lines() {
        let entry: Value = serde_json::from_str(line).context(line.to_owned())?;
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        *entries.entry((text("subject"), text("action"))).or_default() += 1;
    }
    for name in &wanted {
        for action in ["environment.create", "environment.ready"] {
            let times = entries.get(&(name.clone(), action.to_owned())).copied().unwrap_or_default();
            ensure!(times == 1, "{name}: {action} {times} times");
        }
    }
    platform.vctl(&["audit", "verify"])?.ok()?;
    Ok(())
}

/// Asks for an environment; the code of the answer.
fn create(address: &str, token: &str, name: &str) -> Result<String> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--max-time", "10", "-o", "/dev/null", "-w", "%{http_code}"]);
    command.args(["-H", &format!("authorization: Bearer {token}"), "-H", "content-type: application/json"]);
    command.args(["-d", &format!(r#"{{"name": "{name}", "template": "blank"}}"#)]);
    command.arg(format!("https://{address}/api/v1/environments"));
    finish(command)?.ok()
}
