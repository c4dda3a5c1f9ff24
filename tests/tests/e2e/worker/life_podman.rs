//! The life of containers: probes that end them, hooks, and how long they have to end.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use vctl_tests::{background::Background, kubectl::Kubectl, platform::Platform, wait};

use super::{LIMIT, event, of, until};
use crate::containers_podman::{platform, ready};

const RESTARTS: &str = "{.status.containerStatuses[0].restartCount}";

/// A pod of one container that runs a script, with more of the container's and the pod's fields.
fn pod(name: &str, script: &str, container: &str, spec: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  {spec}
  containers:
  - name: main
    image: localhost/vctl-busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, {script:?}]
{container}"
    )
}

/// Readiness takes a container out of its Service and leaves it running; liveness and startup restart it.
#[test]
fn podman_probes_take_away_and_restart() -> Result<()> {
    let platform = platform()?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    k.apply(&pod(
        "probed",
        "mkdir -p /tmp/w; echo well > /tmp/w/ready; echo run; exec httpd -f -p 8080 -h /tmp/w",
        "    readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, failureThreshold: 2}
    livenessProbe: {exec: {command: [sh, -c, '! cat /tmp/sick']}, periodSeconds: 1, failureThreshold: 2}
",
        "terminationGracePeriodSeconds: 1",
    ))?;
    // Never starts: the startup probe ends it, again and again.
    k.apply(&pod(
        "slow",
        "trap 'exit 0' TERM; while :; do sleep 0.1; done",
        "    startupProbe: {tcpSocket: {port: 8081}, periodSeconds: 1, failureThreshold: 2}
    livenessProbe: {exec: {command: ['false']}, periodSeconds: 1, failureThreshold: 1}
",
        "terminationGracePeriodSeconds: 5",
    ))?;
    k.ok(&["expose", "pod", "probed", "--port=80", "--target-port=8080", "--name=web"])?;
    ready(&k, "probed")?;
    let ip = of(&k, "probed", "{.status.podIP}")?;
    endpoint(&k, &format!("{ip} true"))?;
    let id = of(&k, "probed", "{.status.containerStatuses[0].containerID}")?;

    k.ok(&["exec", "probed", "--", "mv", "/tmp/w/ready", "/tmp/w/away"])?;
    until(&k, "probed", "{.status.conditions[?(@.type=='Ready')].status}", "False")?;
    endpoint(&k, &format!("{ip} false"))?;
    // kubernetes: pkg/kubelet/prober/prober.go (probe) and pkg/probe/http/http.go.
    event(&k, "probed", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 404")?;
    k.ok(&["exec", "probed", "--", "mv", "/tmp/w/away", "/tmp/w/ready"])?;
    ready(&k, "probed")?;
    endpoint(&k, &format!("{ip} true"))?;
    assert_eq!(of(&k, "probed", "{.status.containerStatuses[0].containerID}")?, id, "readiness restarts nothing");
    assert_eq!(of(&k, "probed", RESTARTS)?, "0");

    k.ok(&["exec", "probed", "--", "sh", "-c", "echo 'a cold' > /tmp/sick"])?;
    event(&k, "probed", "Unhealthy", "Liveness probe failed: a cold")?;
    // kubernetes: pkg/kubelet/kuberuntime/kuberuntime_manager.go (computePodActions).
    event(&k, "probed", "Killing", "Container main failed liveness probe, will be restarted")?;
    until(&k, "probed", RESTARTS, "1")?;
    // A new container, which has not the file: ready again, at the same address.
    ready(&k, "probed")?;
    endpoint(&k, &format!("{ip} true"))?;
    // httpd does not end by SIGTERM as first process of its namespace: it is killed.
    assert_eq!(of(&k, "probed", "{.status.containerStatuses[0].lastState.terminated.exitCode}")?, "137");
    assert_eq!(k.ok(&["logs", "probed", "--previous"])?, "run\n");

    event(&k, "slow", "Unhealthy", "Startup probe failed: dial tcp ")?;
    event(&k, "slow", "Killing", "Container main failed startup probe, will be restarted")?;
    wait::until("slow is restarted", LIMIT, || {
        let restarts = of(&k, "slow", RESTARTS).map_err(|e| format!("{e:#}"))?;
        if restarts.parse::<u32>().is_ok_and(|n| n >= 1) { Ok(()) } else { Err(restarts) }
    })?;
    assert_eq!(of(&k, "slow", "{.status.containerStatuses[0].lastState.terminated.exitCode}")?, "0", "it traps TERM");
    assert_eq!(of(&k, "slow", "{.status.containerStatuses[0].started}")?, "false");
    // The others wait for the startup probe.
    let messages = k.ok(&[
        "get",
        "events",
        "--field-selector",
        "involvedObject.name=slow",
        "-o",
        "jsonpath={range .items[*]}{.message}{'\\n'}{end}",
    ])?;
    ensure!(!messages.contains("Liveness"), "{messages}");
    Ok(())
}

/// Waits until the Service has this one endpoint, with whether it is ready.
fn endpoint(k: &Kubectl, wanted: &str) -> Result<()> {
    let path = "jsonpath={range .items[*].endpoints[*]}{.addresses[0]} {.conditions.ready}{end}";
    wait::until(&format!("the endpoint is {wanted}"), LIMIT, || {
        let now = k
            .ok(&["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", path])
            .map_err(|e| format!("{e:#}"))?;
        if now == wanted { Ok(()) } else { Err(now) }
    })
}

/// SIGTERM first, the hook before it; SIGKILL after the grace; what the last state was is seen by who watches.
#[test]
fn podman_hooks_grace_and_attach() -> Result<()> {
    let platform = platform()?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    k.apply(&pod(
        "hooked",
        // Not a child that would have to end first: `wait` ends with the signal.
        "trap 'echo term; exit 7' TERM; echo run; while :; do sleep 0.1; done",
        "    lifecycle:
      postStart: {exec: {command: [sh, -c, 'echo post-start > /proc/1/fd/1']}}
      preStop: {exec: {command: [sh, -c, 'echo pre-stop > /proc/1/fd/1; sleep 1; echo pre-stopped > /proc/1/fd/1']}}
",
        "terminationGracePeriodSeconds: 30",
    ))?;
    k.apply(&pod(
        "stubborn",
        "trap 'echo no' TERM; echo run; while :; do sleep 0.1; done",
        "",
        "terminationGracePeriodSeconds: 3",
    ))?;
    k.apply(&pod(
        "unhooked",
        "exec sleep 100000",
        "    lifecycle: {postStart: {exec: {command: [sh, -c, 'echo no luck; exit 1']}}}\n",
        "terminationGracePeriodSeconds: 1",
    ))?;
    k.apply(&pod(
        "asked",
        "while read -r line; do echo \"heard $line\"; done; echo over",
        "    stdin: true\n    stdinOnce: true\n",
        "restartPolicy: Never",
    ))?;
    ready(&k, "hooked")?;
    ready(&k, "stubborn")?;
    wait::until("the hook has run", LIMIT, || {
        let log = k.ok(&["logs", "hooked"]).map_err(|e| format!("{e:#}"))?;
        if log == "run\npost-start\n" || log == "post-start\nrun\n" { Ok(()) } else { Err(log) }
    })?;

    let ended = end(&platform, &k, "hooked")?;
    ensure!(ended.log.ends_with("pre-stop\npre-stopped\nterm\n"), "the hook, then the signal: {}", ended.log);
    ensure!(ended.codes == ["7"], "its own exit code: {ended:?}");
    ensure!(ended.took < Duration::from_secs(30), "it ended by itself: {ended:?}");
    event(&k, "hooked", "Killing", "Stopping container main")?;

    let ended = end(&platform, &k, "stubborn")?;
    ensure!(ended.log.ends_with("no\n"), "it was asked: {}", ended.log);
    ensure!(ended.codes == ["137"], "it was killed: {ended:?}");
    ensure!(ended.took >= Duration::from_secs(3), "not before its grace: {ended:?}");

    // kubernetes: pkg/kubelet/kuberuntime/kuberuntime_container.go (startContainer).
    event(&k, "unhooked", "FailedPostStartHook", "PostStartHook failed")?;
    wait::until("it is killed and started again", LIMIT, || {
        let restarts = of(&k, "unhooked", RESTARTS).map_err(|e| format!("{e:#}"))?;
        if restarts.parse::<u32>().is_ok_and(|n| n >= 1) { Ok(()) } else { Err(restarts) }
    })?;
    attach(&platform, &k)
}

#[derive(Debug)]
struct Ended {
    /// What it printed to its end.
    log: String,
    /// Exit codes that a watch has seen.
    codes: Vec<String>,
    took: Duration,
}

/// Deletes a pod while its log is followed and the pod is watched.
fn end(platform: &Platform, k: &Kubectl, name: &str) -> Result<Ended> {
    let mut log = Background::start(k.command(&["logs", "-f", name]), &format!("{name}-log"), platform.scratch())?;
    log.until_printed("run\n", LIMIT)?;
    let path = "jsonpath={.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}{'\\n'}";
    let select = format!("--field-selector=metadata.name={name}");
    let watch = k.command(&["get", "pods", &select, "-w", "-o", path]);
    let mut watch = Background::start(watch, &format!("{name}-watch"), platform.scratch())?;
    watch.until_printed("Running", LIMIT)?;
    let begun = Instant::now();
    k.ok(&["delete", "pod", name, "--timeout=60s"])?;
    let took = begun.elapsed();
    let (_, log) = log.end(LIMIT)?;
    let seen = wait::until("the watch shows the end", LIMIT, || {
        let seen = watch.printed().map_err(|e| format!("{e:#}"))?;
        if seen.lines().any(|line| line.split_once(' ').is_some_and(|(_, code)| !code.is_empty())) {
            Ok(seen)
        } else {
            Err(seen)
        }
    })?;
    watch.kill()?;
    let codes = seen.lines().filter_map(|line| line.split_once(' ')).map(|(_, code)| code.to_owned());
    let mut codes: Vec<String> = codes.filter(|code| !code.is_empty()).collect();
    codes.dedup();
    Ok(Ended { log, codes, took })
}

/// `kubectl attach`: what is typed goes to the container's first process, what it prints comes back, and its input ends with ours. The
/// older kubectl speaks SPDY, the newer one websockets.
fn attach(platform: &Platform, k: &Kubectl) -> Result<()> {
    ready(k, "asked")?;
    // Without input: what it prints from now on.
    let old = platform.kubectl("1.27", "dev")?;
    let mut listening = Background::start(old.command(&["attach", "asked"]), "listening", platform.scratch())?;
    listening.until_printed("If you don't see a command prompt", LIMIT)?;
    let said = k.pipe(&["attach", "-i", "asked"], "one\ntwo\n")?;
    ensure!(said.code == 0 && said.stdout == "heard one\nheard two\nover\n", "{said:?}");
    let (code, heard) = listening.end(LIMIT)?;
    ensure!(code == 0 && heard.ends_with("heard one\nheard two\nover\n"), "{code}: {heard}");
    until(k, "asked", "{.status.phase}", "Succeeded")?;
    assert_eq!(k.ok(&["logs", "asked"])?, "heard one\nheard two\nover\n");
    // kubernetes: staging/src/k8s.io/kubectl/pkg/cmd/attach/attach.go (Run).
    let refused = k.run(&["attach", "asked"])?.refused()?;
    ensure!(refused.contains("cannot attach a container in a completed pod; current phase is Succeeded"), "{refused}");
    Ok(())
}
