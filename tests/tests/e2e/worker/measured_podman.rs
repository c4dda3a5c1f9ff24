//! What the agent itself tells Prometheus.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    image,
    kubectl::finish,
    netns::command_inside,
    platform::{Platform, Workers},
    wait,
};

use super::{LIMIT, until};
use crate::{
    containers_podman::{pod, ready},
    usage::well_formed,
};

#[test]
fn podman_agents_are_measured() -> Result<()> {
    let arguments = ["--worker-metrics-listen", "127.0.0.1:0"];
    let platform = Platform::start_configured(Workers::Podman, &arguments, &[])?;
    image::build(&platform.worker(), &["vctl-busybox"])?;
    platform.create("secret-name", "blank", &[])?;
    let k = platform.kubectl("1.33", "secret-name")?;
    let probed = pod("looked-after", "exec sleep 100000").replace(
        "\"name\":\"main\"",
        "\"name\":\"main\",\"livenessProbe\":{\"exec\":{\"command\":[\"true\"]},\"periodSeconds\":1,\"timeoutSeconds\":30}",
    );
    k.apply(&probed)?;
    k.apply(&pod("over", "exit 3").replace("\"containers\"", "\"restartPolicy\":\"Never\",\"containers\""))?;
    ready(&k, "looked-after")?;
    until(&k, "over", "{.status.phase}", "Failed")?;
    k.ok(&["exec", "looked-after", "--", "true"])?;

    let log = fs::read_to_string(platform.worker().join("agent.log"))?;
    let address = log.split("measurements: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let url = address.with_context(|| log.clone())?.to_owned();
    let fetch = || -> Result<String> {
        let mut curl = command_inside(platform.netns(), "curl");
        curl.args(["--silent", "--show-error", "--fail", "--max-time", "20", &url]);
        finish(curl)?.ok()
    };
    let told = [
        "vctl_agent_connected 1",
        "vctl_agent_pods{state=\"running\"} 1",
        "vctl_agent_pods{state=\"finished\"} 1",
        "vctl_agent_containers{state=\"running\"} 1",
        "vctl_agent_containers{state=\"exited\"} 1",
        "vctl_agent_container_starts_total 2",
        "vctl_agent_container_exits_total{reason=\"Error\"} 1",
        "vctl_agent_pod_start_duration_seconds_count 2",
        "vctl_agent_pod_action_duration_seconds_count{action=\"Start\"} 2",
        "vctl_agent_streams_total{kind=\"exec\"} 1",
        "vctl_agent_streams_open{kind=\"exec\"} 0",
    ];
    wait::until("everything is told", LIMIT, || {
        let text = fetch().map_err(|e| format!("{e:#}"))?;
        let missing: Vec<&str> = told.into_iter().filter(|line| !text.lines().any(|l| l == *line)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?} in\n{text}")) }
    })?;
    let text = fetch()?;
    for name in [
        "vctl_agent_connections_total ",
        "vctl_agent_apply_duration_seconds_count{class=\"pods\"} ",
        "vctl_agent_probes_total{probe_type=\"Liveness\",result=\"successful\"} ",
        "vctl_agent_podman_request_duration_seconds_count ",
        "process_cpu_seconds_total ",
    ] {
        let value =
            text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("{name} in\n{text}"))?;
        ensure!(value.parse::<f64>()? > 0.0, "{name}{value}");
    }
    well_formed(&text)?;
    // Without sign-in, so nothing that belongs to somebody.
    ensure!(!text.contains("secret-name") && !text.contains("looked-after"), "{text}");
    Ok(())
}
