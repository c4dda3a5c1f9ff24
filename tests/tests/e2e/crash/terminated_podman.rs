//! SIGTERM in the middle of everything.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vctl_tests::{
    background::Background,
    burst, containers, image,
    kubectl::{Kubectl, finish},
    platform::{Platform, Workers},
    wait,
};

use super::nothing_is_lost;
use crate::containers_podman::{pod, ready};

const LIMIT: Duration = Duration::from_mins(1);
/// How long the server may take to end, whatever is under way: less than it waits for connections that do not end by themselves.
const END: Duration = Duration::from_secs(4);
/// How soon clients notice.
const NOTICE: Duration = Duration::from_secs(20);
const AT_ONCE: usize = 50;

/// Ready when somebody says so.
const SLOW: &str = "
apiVersion: vctl.dev/v1
kind: Template
name: slow
version: 1.0.0
title: Ready when told
description: Its pod becomes ready when there is a file /tmp/go.
";
const SLOW_MANIFEST: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: slow}
spec:
  selector: {matchLabels: {app: slow}}
  template:
    metadata: {labels: {app: slow}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: slow
        image: localhost/vctl-busybox:latest
        imagePullPolicy: IfNotPresent
        command: [sh, -c, exec sleep 100000]
        readinessProbe: {exec: {command: [test, -e, /tmp/go]}, periodSeconds: 1}
";

/// Creates, a watch, an exec, a port-forward with an open connection, `logs -f` and the creation of an environment are under way:
/// the server ends with 0 in bounded time, every client is told, nothing acknowledged is lost, the environment is finished later.
#[test]
fn podman_sigterm_in_the_middle_of_everything() -> Result<()> {
    let mut platform = Platform::start_with(Workers::Podman, &[("slow", SLOW, SLOW_MANIFEST)])?;
    image::build(&platform.worker(), &["vctl-busybox"])?;
    platform.create("dev", "blank", &[])?;
    let kubeconfig = platform.kubeconfig("dev")?;
    let k = platform.kubectl("1.33", "dev")?;
    k.apply(&pod(
        "busy",
        "mkdir -p /tmp/w; echo page > /tmp/w/index.html; httpd -p 8080 -h /tmp/w; while :; do echo tick; sleep 1; done",
    ))?;
    ready(&k, "busy")?;

    // Everything, each seen to be under way.
    let dir = platform.scratch().to_owned();
    let start = |name: &str, args: &[&str]| Background::start(k.command(args), name, &dir);
    let mut watch = start("watch", &["get", "configmaps", "-w", "-o", "name"])?;
    watch.until_printed("configmap/kube-root-ca.crt", LIMIT)?;
    let mut exec = start("exec", &["exec", "busy", "--", "sh", "-c", "echo inside; exec sleep 100000"])?;
    exec.until_printed("inside", LIMIT)?;
    let mut logs = start("logs", &["logs", "-f", "busy"])?;
    logs.until_printed("tick", LIMIT)?;
    let mut forward = start("forward", &["port-forward", "pod/busy", ":8080", "--address=127.0.0.1"])?;
    let mut open = connect(&forward.until_printed("Forwarding from 127.0.0.1:", LIMIT)?)?;
    let create = platform.vctl_command(&["create", "late", "--template", "slow"])?;
    let mut create = Background::start(create, "create", &dir)?;
    let before = waiting_job(&platform)?;
    let running = wait::until("both containers run", LIMIT, || {
        let running = containers::running(&platform.worker()).map_err(|e| format!("{e:#}"))?;
        if running.len() == 2 { Ok(running) } else { Err(format!("{running:?}")) }
    })?;

    let mut code = None;
    let mut took = Duration::ZERO;
    let burst = burst::creates_until(&kubeconfig, "first", AT_ONCE, AT_ONCE, || {
        let begun = Instant::now();
        code = Some(platform.stop_server()?);
        took = begun.elapsed();
        Ok(())
    })?;
    ensure!(code == Some(0), "exit code {code:?}\n{}", platform.log());
    ensure!(took < END, "it took {took:?} to end");
    ensure!(!platform.log().contains("did not end within"), "tasks were left:\n{}", platform.log());

    // Nobody waits for ever. kubectl's watch ends well, as that of any server that goes.
    let (code, said) = watch.end(NOTICE)?;
    ensure!(code == 0, "watch: {code}: {said}");
    let (code, said) = exec.end(NOTICE)?;
    ensure!(code != 0, "the command in the pod has not ended, but exec says it has: {said}");
    logs.end(NOTICE)?;
    // What was open through the port-forward is closed; kubectl itself may go on listening.
    let mut rest = Vec::new();
    let closed = open.read_to_end(&mut rest);
    ensure!(!closed.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock), "still open: {closed:?}");
    if forward.runs()? {
        forward.kill()?;
    }
    let (code, said) = create.end(NOTICE)?;
    ensure!(code == 6, "create says that the server does not answer now: {code}: {said}");
    ensure!(said.contains("shutting down") || said.contains("vctl up"), "create says what happened: {code}: {said}");
    assert_eq!(containers::running(&platform.worker())?, running, "containers go on");

    platform.start_server()?;
    nothing_is_lost(&k, &burst)?;
    assert_eq!(containers::running(&platform.worker())?, running, "containers go on");
    finishes(&platform, &before)?;
    wait::until("exec works", LIMIT, || k.ok(&["exec", "busy", "--", "true"]).map(drop).map_err(|e| format!("{e:#}")))?;
    let restarts =
        k.ok(&["get", "pod", "busy", "-o", "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}"])?;
    assert_eq!(restarts, "Running 0");
    Ok(())
}

/// A connection through a port-forward that said where it listens, which has had one answer.
fn connect(said: &str) -> Result<TcpStream> {
    let port = said.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).context("an address")?;
    let mut stream = TcpStream::connect(("127.0.0.1", port.parse()?))?;
    stream.set_read_timeout(Some(NOTICE))?;
    stream.write_all(b"GET /index.html HTTP/1.1\r\nHost: busy\r\n")?;
    Ok(stream)
}

/// The job of environment `late` once it waits for its workload.
fn waiting_job(platform: &Platform) -> Result<Value> {
    wait::until("the job waits for the workload", LIMIT, || {
        let job = job(platform).map_err(|e| format!("{e:#}"))?;
        if job["steps"][3]["message"].as_str().is_some_and(|m| m.contains("deployment slow 0/1 ready")) {
            Ok(job)
        } else {
            Err(job.to_string())
        }
    })
}

fn job(platform: &Platform) -> Result<Value> {
    let jobs = rest(platform, "jobs?environment=late")?;
    jobs["items"].get(0).cloned().with_context(|| format!("no job yet: {jobs}"))
}

/// Reads from the REST API as local administrator.
fn rest(platform: &Platform, path: &str) -> Result<Value> {
    let server: Value = serde_json::from_slice(&std::fs::read(platform.data_dir().join("server.json"))?)?;
    let file = |key: &str| platform.data_dir().join(server[key].as_str().unwrap_or_default());
    let token = std::fs::read_to_string(file("tokenFile"))?;
    let mut command = std::process::Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--max-time", "10", "--cacert"]).arg(file("caFile"));
    command.args(["-H", &format!("Authorization: Bearer {}", token.trim())]);
    command.arg(format!("https://{}/api/v1/{path}", platform.address()));
    Ok(serde_json::from_str(&finish(command)?.ok()?)?)
}

/// The job goes on where it was: what was done is not done again, and it ends when the pod is ready.
fn finishes(platform: &Platform, before: &Value) -> Result<()> {
    let after = waiting_job(platform)?;
    for step in 0..3 {
        assert_eq!(after["steps"][step], before["steps"][step], "a step that was done");
    }
    assert_eq!((&after["id"], &after["state"]), (&before["id"], &Value::from("running")));
    let k: Kubectl = platform.kubectl("1.33", "late")?;
    wait::until("exec works", LIMIT, || {
        k.ok(&["exec", "deploy/slow", "--", "touch", "/tmp/go"]).map(drop).map_err(|e| format!("{e:#}"))
    })?;
    wait::until("the environment is ready", LIMIT, || {
        let environment = rest(platform, "environments/late").map_err(|e| format!("{e:#}"))?;
        if environment["phase"] == "Ready" { Ok(()) } else { Err(environment.to_string()) }
    })?;
    let job = job(platform)?;
    assert_eq!(job["state"], "succeeded", "{job}");
    Ok(())
}
