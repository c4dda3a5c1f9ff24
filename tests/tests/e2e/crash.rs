//! What survives `kill -9`.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use vctl_tests::{
    platform::{Platform, Workers},
    wait,
};

/// 200 creates at a time are cut off by SIGKILL; whatever was acknowledged is there after the restart.
#[test]
fn acknowledged_objects_survive_a_kill_of_the_server() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let kubeconfig = platform.kubeconfig("dev")?;
    let kubectl = platform.kubectl("1.33", "dev")?;
    // One manifest per process with many objects: kubectl prints a line for each that was acknowledged.
    let acknowledged = Mutex::new(BTreeSet::new());
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let mut workers = Vec::new();
        for worker in 0..8 {
            let (kubectl, acknowledged, stopped) = (&kubectl, &acknowledged, &stopped);
            workers.push(scope.spawn(move || -> Result<()> {
                let one = |n| {
                    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c-{worker}-{n}}}\ndata: {{k: v}}\n")
                };
                let manifest = (0..25).map(one).collect::<Vec<_>>().join("---\n");
                while !stopped.load(Ordering::SeqCst) {
                    let output = kubectl.pipe(&["create", "-f", "-"], &manifest)?;
                    let mut all = acknowledged.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
                    for line in output.stdout.lines().filter(|l| l.ends_with(" created")) {
                        all.insert(line.trim_start_matches("configmap/").trim_end_matches(" created").to_owned());
                    }
                    if output.code == 0 || !output.stdout.is_empty() {
                        break;
                    }
                }
                Ok(())
            }));
        }
        // In the middle of it.
        let some = wait::until("some creates", Duration::from_secs(30), || {
            let list = kubectl.run(&["get", "configmaps", "-o", "name"]).map_err(|e| format!("{e:#}"))?;
            let count = list.stdout.lines().count();
            if count >= 20 { Ok(()) } else { Err(format!("{count} so far")) }
        });
        stopped.store(true, Ordering::SeqCst);
        platform.kill_server()?;
        for worker in workers {
            worker.join().map_err(|_| anyhow::anyhow!("a writer panicked"))??;
        }
        some
    })?;
    platform.start_server()?;
    let after = vctl_tests::kubectl::Kubectl::new("1.33", &kubeconfig, platform.scratch())?;
    let there: BTreeSet<String> = after
        .ok(&["get", "configmaps", "-o", "name"])?
        .lines()
        .map(|l| l.trim_start_matches("configmap/").to_owned())
        .collect();
    let acknowledged = acknowledged.into_inner().map_err(|_| anyhow::anyhow!("poisoned"))?;
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    ensure!(!acknowledged.is_empty(), "nothing was acknowledged before the kill");
    ensure!(lost.is_empty(), "lost: {lost:?}");
    Ok(())
}

/// SIGTERM: exits with 0, and everything is there afterwards.
#[test]
fn sigterm_ends_cleanly() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    platform.kubectl("1.33", "dev")?.ok(&["create", "configmap", "kept"])?;
    assert_eq!(platform.stop_server()?, 0);
    let down = platform.vctl(&["list"])?;
    ensure!(down.code != 0 && down.stderr.contains("vctl up"), "says how to start the server: {down:?}");
    platform.start_server()?;
    platform.kubectl("1.33", "dev")?.ok(&["get", "configmap", "kept"])?;
    Ok(())
}
