//! One trace and one request id from who asks, through portal and job, to the control plane.

use std::{process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    collector::{Collector, Span},
    kubectl::finish,
    platform::{Platform, Workers},
    wait,
};

const LIMIT: Duration = Duration::from_mins(1);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

#[test]
fn one_trace_goes_through_portal_job_and_control_plane() -> Result<()> {
    let collector = Collector::start()?;
    let endpoint = collector.endpoint();
    let arguments = ["--otlp-endpoint", &endpoint, "--log-json", "--log", "info,vctl_portal=debug"];
    let platform = Platform::start_configured(Workers::Simulated, &arguments, &[("OTEL_BSP_SCHEDULE_DELAY", "200")])?;
    let token = std::fs::read_to_string(platform.data_dir().join("admin.token"))?;
    let ask = |method: &str, path: &str, body: &str| -> Result<String> {
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--insecure",
            "--max-time",
            "20",
            "-X",
            method,
            "-H",
            "content-type: application/json",
        ]);
        command.args(["-H", &format!("traceparent: 00-{TRACE}-{PARENT}-01"), "-H", "x-request-id: from-the-test"]);
        command.args(["-H", &format!("authorization: Bearer {}", token.trim())]);
        if !body.is_empty() {
            command.args(["-d", body]);
        }
        command.arg(format!("https://{}{path}", platform.address()));
        finish(command)?.ok()
    };
    let made = ask("POST", "/api/v1/environments", r#"{"name": "dev", "template": "team-x"}"#)?;
    ensure!(made.contains("\"phase\""), "{made}");
    let named = |name: &str| -> Result<Span> {
        wait::until(&format!("a span {name:?} of the trace"), LIMIT, || {
            let all: Vec<Span> = collector.spans().into_iter().filter(|s| s.trace == TRACE).collect();
            let found = all.iter().find(|s| s.name == name).cloned();
            found.ok_or_else(|| format!("{:?}", all.iter().map(|s| &s.name).collect::<Vec<_>>()))
        })
    };
    let portal = named("POST /api/v1/environments")?;
    ensure!(portal.parent == PARENT && portal.service == "vctl", "{portal:?}");
    ensure!(portal.attributes.get("request_id").is_some_and(|id| id == "from-the-test"), "{portal:?}");
    ensure!(portal.attributes.get("http.response.status_code").is_some_and(|code| code == "201"), "{portal:?}");
    let job = named("job")?;
    ensure!(job.parent == portal.id, "{job:?}");
    let plane = named("control plane request")?;
    ensure!(plane.attributes.get("environment").is_some_and(|name| name == "dev"), "{plane:?}");
    let all = collector.spans();
    let within = |span: &Span| {
        let mut parent = span.parent.clone();
        while let Some(of) = all.iter().find(|s| s.id == parent) {
            if of.id == job.id {
                return true;
            }
            parent.clone_from(&of.parent);
        }
        false
    };
    ensure!(within(&plane), "{plane:?}");
    ensure!(all.iter().any(|s| s.trace == TRACE && s.name == "store commit"), "no commit of the store");
    ensure!(all.iter().any(|s| s.trace == TRACE && s.attributes.contains_key("step")), "no step of the job");

    // What comes over HTTPS to an environment is part of its client's trace; the syncer's passes have their own.
    let raw = ask("GET", "/api/v1/environments/dev/kube/api/v1/namespaces", "")?;
    ensure!(raw.contains("NamespaceList"), "{raw}");
    let listed = named("list namespaces")?;
    ensure!(listed.attributes.get("audit_id").is_some_and(|id| id == "from-the-test"), "{listed:?}");
    wait::until("a pass of the syncer", LIMIT, || {
        let passes = collector.spans().iter().any(|s| s.name == "syncer pass" && s.trace != TRACE);
        passes.then_some(()).ok_or_else(|| "none".to_owned())
    })?;

    // The same id is in the log, which is JSON, and in the entries of the audit trail.
    let log = platform.log();
    let lines: Vec<serde_json::Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let ours = |line: &&serde_json::Value| line["spans"].to_string().contains("from-the-test");
    ensure!(lines.iter().any(|line| ours(&line)), "no line of the log has the request's id:\n{log}");
    let ready = wait::until("the job has ended", LIMIT, || {
        let trail = platform
            .vctl(&["audit", "list", "--action", "environment.*", "-o", "json"])
            .map_err(|e| format!("{e:#}"))?;
        let trail: serde_json::Value = serde_json::from_str(&trail.stdout).map_err(|e| e.to_string())?;
        let entries = trail.as_array().cloned().unwrap_or_default();
        let ready = entries.iter().find(|e| e["action"] == "environment.ready").cloned();
        ready.ok_or_else(|| trail.to_string())
    })?;
    ensure!(ready["requestId"] == "from-the-test", "{ready}");
    platform.vctl(&["list"])?.ok().context("it still serves")?;
    Ok(())
}
