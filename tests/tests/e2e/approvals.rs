//! Approvals, from the command line.

use std::time::Duration;

use anyhow::{Result, ensure};
use vctl_tests::{
    platform::{Platform, Workers},
    wait,
};

const LIMIT: Duration = Duration::from_mins(1);

#[test]
fn what_a_rule_holds_waits_and_is_made_by_itself_also_over_a_restart() -> Result<()> {
    let mut platform = Platform::start(Workers::Simulated)?;
    let rule = ["approval", "rule", "set", "all", "--template", "blank", "--allow-own", "--title", "ask first"];
    platform.vctl(&rule)?.ok()?;
    let shown = platform.vctl(&["approval", "rule", "list"])?.ok()?;
    ensure!(shown.contains("template blank") && shown.contains("ask first"), "{shown}");

    let without = platform.vctl(&["create", "held", "--template", "blank"])?;
    ensure!(without.code == 7 && without.stderr.contains("--reason"), "{} {}", without.code, without.stderr);
    let asked = platform.vctl(&["create", "held", "--template", "blank", "--reason", "a demo"])?;
    ensure!(asked.code == 7 && asked.stderr.contains("waits for approval"), "{} {}", asked.code, asked.stderr);
    platform.vctl(&["get", "held"])?.refused()?;
    let list: serde_json::Value =
        serde_json::from_str(&platform.vctl(&["approval", "list", "--decidable", "-o", "json"])?.ok()?)?;
    let id = list[0]["id"].as_str().unwrap_or_default().to_owned();
    ensure!(asked.stderr.contains(&format!("vctl approval get {id}")), "{}", asked.stderr);
    let shown = platform.vctl(&["approval", "get", &id])?.ok()?;
    ensure!(shown.contains("a demo") && shown.contains("Pending"), "{shown}");

    platform.kill_server()?;
    platform.start_server()?;
    platform.vctl(&["approval", "approve", &id, "--comment", "fine"])?.ok()?;
    wait::until("it is made", LIMIT, || {
        let environment = platform.vctl(&["get", "held"]).map_err(|e| e.to_string())?;
        let approval = platform.vctl(&["approval", "get", &id]).map_err(|e| e.to_string())?;
        let made = environment.code == 0 && environment.stdout.contains("Ready");
        if made && approval.stdout.contains("Fulfilled") { Ok(()) } else { Err(approval.stdout + &environment.stderr) }
    })?;
    let again = platform.vctl(&["approval", "deny", &id, "--comment", "no"])?;
    ensure!(again.code == 4, "{} {}", again.code, again.stderr);

    let glass = platform.vctl(&["break-glass", "--project", "default", "--reason", "the demo is on"])?.ok()?;
    ensure!(glass.contains("role admin in project default"), "{glass}");
    platform.vctl(&["create", "now", "--template", "blank"])?.ok()?;
    let unreviewed = platform.vctl(&["approval", "list", "--unreviewed"])?.ok()?;
    ensure!(unreviewed.contains("the demo is on"), "{unreviewed}");
    let trail = platform.vctl(&["audit", "list", "--action", "break-glass.begin"])?.ok()?;
    ensure!(trail.contains("break-glass.begin"), "{trail}");
    Ok(())
}
