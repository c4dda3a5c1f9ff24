//! `vctl rotate-ca` while clients are at work, and through a kill of the server.

use std::{process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
    wait,
};

const LIMIT: Duration = Duration::from_mins(1);

fn roots(k: &Kubectl, namespace: &str) -> Result<String> {
    k.ok(&["get", "configmap", "kube-root-ca.crt", "-n", namespace, "-o", r"jsonpath={.data.ca\.crt}"])
}

fn certificates(pem: &str) -> usize {
    pem.matches("BEGIN CERTIFICATE").count()
}

/// A kubectl with a kubeconfig of its own, which stays as it is when others are issued.
fn keep(platform: &Platform, name: &str, file: &str) -> Result<Kubectl> {
    let path = platform.scratch().join(file);
    std::fs::copy(platform.kubeconfig(name)?, &path)?;
    Kubectl::new("1.33", &path, platform.scratch())
}

#[test]
fn clients_go_on_while_the_authority_changes() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("e", "blank", &[])?;
    let old = keep(&platform, "e", "old")?;
    let before = roots(&old, "default")?;
    ensure!(certificates(&before) == 2, "the server's and the cluster's: {before}");
    // Connected all the time: a watch that begins before and must see what is made after.
    let seen = platform.scratch().join("seen");
    let out = std::fs::File::create(&seen)?;
    let mut watch: Command = old.command(&["get", "configmaps", "-w", "-o", "name"]);
    let mut watch = watch.stdout(out).spawn().context("starting a watch")?;
    let watched = wait::until("the watch has begun", LIMIT, || {
        let text = std::fs::read_to_string(&seen).map_err(|e| e.to_string())?;
        if text.contains("kube-root-ca.crt") { Ok(()) } else { Err(text) }
    });
    let rotated = platform.vctl(&["rotate-ca", "e", "--overlap", "1h"]).and_then(|o| o.ok());
    let made = old.ok(&["create", "configmap", "after"]);
    let saw = wait::until("the watch sees it", LIMIT, || {
        let text = std::fs::read_to_string(&seen).map_err(|e| e.to_string())?;
        if text.contains("configmap/after") { Ok(()) } else { Err(text) }
    });
    watch.kill()?;
    watch.wait()?;
    watched.and(rotated.map(drop)).and(made.map(drop)).and(saw)?;

    let both = roots(&old, "default")?;
    ensure!(certificates(&both) == 3, "{both}");
    ensure!(roots(&old, "kube-system")? == both);
    let new = keep(&platform, "e", "new")?;
    new.ok(&["get", "namespaces"])?;
    let again = platform.vctl(&["rotate-ca", "e"])?.refused()?;
    ensure!(again.contains("vctl rotate-ca e --now"), "{again}");

    platform.vctl(&["rotate-ca", "e", "--now"])?.ok()?;
    let why = old.run(&["get", "namespaces"])?.refused()?;
    ensure!(why.contains("logged in") || why.contains("Unauthorized"), "{why}");
    new.ok(&["get", "namespaces"])?;
    ensure!(certificates(&roots(&new, "default")?) == 2);
    // Tokens of service accounts have nothing to do with it.
    let shown = platform.vctl(&["get", "e"])?.ok()?;
    ensure!(shown.contains("Ready"), "{shown}");
    Ok(())
}

#[test]
fn a_kill_in_the_middle_leaves_nothing_half_done() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    platform.create("e", "blank", &[])?;
    for round in 0..3 {
        let old = keep(&platform, "e", "old")?;
        let mut rotate = platform.vctl_command(&["rotate-ca", "e", "--now"])?;
        let mut rotate = rotate.spawn().context("starting vctl rotate-ca")?;
        let begun = wait::until("the change has begun", LIMIT, || {
            let log = platform.vctl(&["get", "e", "-o", "json"]).map_err(|e| e.to_string())?.stdout;
            let ended = rotate.try_wait().map_err(|e| e.to_string())?.is_some();
            // At another moment each time.
            let far = match round {
                0 => true,
                1 => roots(&old, "default").map_or(true, |pem| certificates(&pem) > 2),
                _ => old.run(&["get", "namespaces"]).map_or(true, |o| o.code != 0),
            };
            if ended || far { Ok(()) } else { Err(log) }
        });
        platform.kill_server()?;
        rotate.wait()?;
        begun?;
        platform.start_server()?;
        // It was asked for, so it is done; unless the server was killed before it was asked.
        wait::until("the change is whole", LIMIT, || {
            let new = keep(&platform, "e", "new").map_err(|e| e.to_string())?;
            let pem = roots(&new, "default").map_err(|e| e.to_string())?;
            let is_old = old.run(&["get", "namespaces"]).map_err(|e| e.to_string())?.code == 0;
            if certificates(&pem) == 2 && (!is_old || round == 0) { Ok(()) } else { Err(format!("{is_old}: {pem}")) }
        })?;
        wait::until("nothing works on it", LIMIT, || {
            let done = platform.vctl(&["rotate-ca", "e", "--now"]).map_err(|e| e.to_string())?;
            if done.code == 0 { Ok(()) } else { Err(done.stderr) }
        })?;
    }
    Ok(())
}
