//! Containers, names and services outlive the server and the agent.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vctl_tests::{burst, containers, containers::Container, image, kubectl::Kubectl, platform::Platform, wait};

use super::{AT_ONCE, ENOUGH, nothing_is_lost};
use crate::containers_podman::{platform, pod, ready};

const LIMIT: Duration = Duration::from_mins(1);

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: localhost/vctl-busybox:latest
        imagePullPolicy: IfNotPresent
        command: [sh, -c, 'echo serving; mkdir -p /tmp/w; echo page > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w']
        readinessProbe: {httpGet: {path: /index.html, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
";

/// What must be the same before and after.
#[derive(Debug, PartialEq)]
struct Seen {
    /// By Podman: ids, process ids and start times.
    containers: BTreeMap<String, Container>,
    /// By the API: everything in the status of each pod but what changes with every look.
    pods: BTreeMap<String, Value>,
    /// Names of the containers that were ever started, by the events.
    starts: usize,
}

/// The entries that are not the same in both, or only in one.
fn differing<V: PartialEq + std::fmt::Debug>(now: &BTreeMap<String, V>, before: &BTreeMap<String, V>) -> Vec<String> {
    let names: BTreeSet<_> = now.keys().chain(before.keys()).collect();
    let changed = names.into_iter().filter(|name| now.get(*name) != before.get(*name));
    changed.map(|name| format!("{name}: now {:?}\nbefore {:?}", now.get(name), before.get(name))).collect()
}

impl Seen {
    fn difference(&self, before: &Self) -> String {
        let text = |pods: &BTreeMap<String, Value>| pods.iter().map(|(k, v)| (k.clone(), v.to_string())).collect();
        let mut all = differing(&self.containers, &before.containers);
        all.extend(differing::<String>(&text(&self.pods), &text(&before.pods)));
        all.push(format!("starts: now {}, before {}", self.starts, before.starts));
        all.join("\n")
    }
}

fn see(platform: &Platform, k: &Kubectl) -> Result<Seen> {
    let list: Value = serde_json::from_str(&k.ok(&["get", "pods", "-o", "json"])?)?;
    let pods = list["items"].as_array().context("a list")?.iter().map(|pod| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        (name, serde_json::json!({ "uid": pod["metadata"]["uid"], "status": pod["status"] }))
    });
    let events: Value = serde_json::from_str(&k.ok(&["get", "events", "-o", "json"])?)?;
    let started = |event: &&Value| event["reason"] == "Started";
    let starts = events["items"].as_array().context("a list")?.iter().filter(started).count();
    Ok(Seen { containers: containers::running(&platform.worker())?, pods: pods.collect(), starts })
}

/// The worker takes orders: a command runs in a pod, its log is there, and a new pod becomes ready and goes again.
fn works(k: &Kubectl, turn: usize) -> Result<()> {
    wait::until("exec works again", LIMIT, || {
        match k.run(&["exec", "deploy/web", "--", "cat", "/tmp/w/index.html"]) {
            Ok(output) if output.stdout == "page\n" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    assert_eq!(k.ok(&["logs", "deploy/web", "-c", "web"])?.lines().last(), Some("serving"));
    k.ok(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=60s"])?;
    let name = format!("new-{turn}");
    k.apply(&pod(&name, "exec sleep 100000"))?;
    ready(k, &name)?;
    assert_eq!(k.ok(&["exec", &name, "--", "echo", "hello"])?, "hello\n");
    k.ok(&["delete", "pod", &name, "--timeout=60s"])?;
    Ok(())
}

/// The containers run on without a restart, and the API says of them what it said before.
fn unchanged(platform: &Platform, k: &Kubectl, before: &Seen, turn: usize) -> Result<()> {
    works(k, turn)?;
    wait::until("the state is as before", LIMIT, || {
        let mut now = see(platform, k).map_err(|e| format!("{e:#}"))?;
        // The one start of the pod that `works` has made, each time.
        now.starts -= turn.min(now.starts);
        if now == *before { Ok(()) } else { Err(now.difference(before)) }
    })
}

/// SIGKILL of the server during 200 creates, of the agent that an earlier server has started, of the agent that this server
/// has started, and of both at once.
#[test]
fn podman_containers_survive_kills_of_server_and_agent() -> Result<()> {
    let mut platform = platform()?;
    image::build(&platform.worker(), &["vctl-curl"])?;
    platform.create("dev", "blank", &[])?;
    let kubeconfig = platform.kubeconfig("dev")?;
    let k = platform.kubectl("1.33", "dev")?;
    k.apply(WEB)?;
    k.apply(&pod("client", "exec sleep 100000").replace("vctl-busybox", "vctl-curl"))?;
    ready(&k, "client")?;
    k.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    wait::until("the name of the service", LIMIT, || fetch(&platform))?;
    let before = see(&platform, &k)?;
    ensure!(before.containers.len() >= 3, "{before:?}");
    let agent = platform.agent_pid()?;

    let burst = burst::creates_until(&kubeconfig, "first", AT_ONCE, ENOUGH, || platform.kill_server())?;
    ensure!(burst.cut_off == AT_ONCE, "{} of {AT_ONCE} requests were cut off", burst.cut_off);
    assert_eq!(containers::running(&platform.worker())?, before.containers, "without the server");
    // Names and services work while there is no server.
    fetch(&platform).map_err(|e| anyhow::anyhow!("without the server: {e}"))?;
    platform.start_server()?;
    nothing_is_lost(&k, &burst)?;
    unchanged(&platform, &k, &before, 1).context("after a kill of the server")?;
    assert_eq!(platform.agent_pid()?, agent, "the agent of the first server goes on");

    // The agent is no child of this server; then it is.
    for turn in [2, 3] {
        let killed = platform.kill_agent()?;
        assert_eq!(containers::running(&platform.worker())?, before.containers, "without the agent");
        wait::until("the agent is started again", LIMIT, || match platform.agent_pid() {
            Ok(pid) if pid != killed => Ok(()),
            other => Err(format!("{other:?}")),
        })?;
        unchanged(&platform, &k, &before, turn).context("after a kill of the agent")?;
        wait::until("the name of the service", LIMIT, || fetch(&platform))?;
    }

    platform.kill_server()?;
    platform.kill_agent()?;
    assert_eq!(containers::running(&platform.worker())?, before.containers, "without both");
    platform.start_server()?;
    unchanged(&platform, &k, &before, 4).context("after a kill of both")
}

/// The page of the service by its name, past server and agent.
fn fetch(platform: &Platform) -> Result<(), String> {
    let attempt = || -> Result<()> {
        let worker = platform.worker();
        let all = containers::running(&worker)?;
        let list = containers::podman(&worker, &["ps", "--no-trunc", "--format", "{{.ID}} {{.Image}}"])?.ok()?;
        let id = list
            .lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(id, image)| all.contains_key(*id) && image.contains("vctl-curl"))
            .context("the client's container")?
            .0;
        let output =
            containers::podman(&worker, &["exec", id, "curl", "-sS", "--max-time", "5", "http://web.default/"])?;
        ensure!(output.stdout == "page\n", "{output:?}");
        Ok(())
    };
    attempt().map_err(|e| format!("{e:#}"))
}
