//! What pods use, and what follows from it, as people see it: `kubectl top` of several versions, autoscaling and `/metrics`, through
//! `vctl up` with a simulated worker.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    kubectl::{Kubectl, finish},
    platform::{Platform, Workers},
    text::normal,
    wait,
};

const LIMIT: Duration = Duration::from_mins(1);

const WEB: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
  annotations: {vctl.dev/sim-cpu: 250m, vctl.dev/sim-memory: 64Mi}
spec:
  containers:
  - {name: c, image: "registry.example/web:1"}
  - {name: d, image: "registry.example/web:1"}
"#;

#[test]
fn top() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    k.apply(WEB)?;
    k.ok(&["wait", "--for=condition=Ready", "pod/web", "--timeout=40s"])?;
    for minor in ["1.28", "1.31", "1.33", "1.37"] {
        shown(&platform.kubectl(minor, "dev")?)?;
    }
    assert_eq!(normal(&k.ok(&["get", "pods.metrics.k8s.io"])?), "NAME  CPU  MEMORY  WINDOW\nweb  500m  128Mi  <age>\n");
    Ok(())
}

fn shown(k: &Kubectl) -> Result<()> {
    wait::until("the pod has been measured", LIMIT, || k.ok(&["top", "pod", "web"]).map_err(|e| format!("{e:#}")))?;
    assert_eq!(normal(&k.ok(&["top", "pod", "-l", "app=web"])?), "NAME  CPU(cores)  MEMORY(bytes)\nweb  500m  128Mi\n");
    assert_eq!(
        normal(&k.ok(&["top", "pod", "web", "--containers"])?),
        "POD  NAME  CPU(cores)  MEMORY(bytes)\nweb  c  250m  64Mi\nweb  d  250m  64Mi\n"
    );
    // Of 4096 cores and 64 TiB.
    let nodes = normal(&k.ok(&["top", "node"])?);
    assert!(nodes.contains("\nlocal  500m  0%  128Mi  0%\n"), "{nodes}");
    Ok(())
}

const BUSY: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy}
spec:
  replicas: 1
  selector: {matchLabels: {app: busy}}
  template:
    metadata:
      labels: {app: busy}
      annotations: {vctl.dev/sim-cpu: 150m}
    spec:
      containers:
      - {name: c, image: "registry.example/busy:1", resources: {requests: {cpu: 100m}}}
"#;

#[test]
fn autoscaling_and_metrics() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    k.apply(BUSY)?;
    k.ok(&["autoscale", "deployment", "busy", "--cpu-percent=50", "--min=1", "--max=3"])?;
    let replicas = ["get", "deployment", "busy", "-o", "jsonpath={.spec.replicas}"];
    wait::until("the deployment grows", LIMIT, || match k.ok(&replicas) {
        Ok(count) if count == "3" => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    // printers.go printHorizontalPodAutoscaler.
    wait::until("the autoscaler tells", LIMIT, || {
        let table = k.ok(&["get", "hpa"]).map(|t| normal(&t)).map_err(|e| format!("{e:#}"))?;
        let expected = "busy  Deployment/busy  cpu: 150%/50%  1  3  3  <age>";
        if table.contains(expected) { Ok(()) } else { Err(table) }
    })?;
    let described = k.ok(&["describe", "hpa", "busy"])?;
    for part in
        ["SuccessfulRescale", "New size: 3; reason: cpu resource utilization (percentage of request) above target"]
    {
        ensure!(described.contains(part), "{part} in\n{described}");
    }

    let of_cluster = k.ok(&["get", "--raw", "/clusters/dev/metrics"])?;
    ensure!(of_cluster.contains("apiserver_request_total{code=\"201\",component=\"apiserver\""), "{of_cluster}");
    ensure!(!of_cluster.contains("process_cpu_seconds_total"), "{of_cluster}");
    let token = std::fs::read_to_string(platform.data_dir().join("admin.token"))?;
    let ask = |more: &[&str]| -> Result<String> {
        let mut command = std::process::Command::new("curl");
        command.args(["--silent", "--insecure", "--max-time", "20"]).args(more);
        command.arg(format!("https://{}/metrics", platform.address()));
        finish(command)?.ok()
    };
    let of_server = ask(&["-H", &format!("Authorization: Bearer {}", token.trim())])?;
    for part in [
        "vctl_environments 1",
        "vctl_worker_connected{worker=\"local\"} 1",
        "workqueue_adds_total{name=\"horizontalpodautoscaler\"}",
        "workqueue_queue_duration_seconds_bucket{name=\"deployment\",le=\"+Inf\"}",
        "process_resident_memory_bytes",
        "\nvctl_watch_encodings_total ",
        "apiserver_request_duration_seconds_bucket{component=\"apiserver\"",
    ] {
        ensure!(of_server.contains(part), "{part} in\n{of_server}");
    }
    let stranger = ask(&[])?;
    ensure!(stranger.contains("unauthorized") && !stranger.contains("vctl_environments"), "{stranger}");
    well_formed(&of_server).context("of the server")?;
    well_formed(&of_cluster).context("of the cluster")
}

/// Every sample has a number and follows the head of its family, and no family comes twice.
pub(crate) fn well_formed(text: &str) -> Result<()> {
    let mut families = std::collections::HashSet::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            head.split(' ').next().unwrap_or_default().clone_into(&mut family);
            ensure!(families.insert(family.clone()), "{family} comes twice");
        } else if !line.starts_with('#') {
            let (sample, value) = line.rsplit_once(' ').context(line.to_owned())?;
            ensure!(sample.starts_with(&family), "{line} under {family}");
            ensure!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    Ok(())
}
