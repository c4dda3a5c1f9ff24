//! The machine of a worker: its network namespace, its control groups, its agent, and what is left of them.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    containers::{self, podman},
    image,
    kubectl::Kubectl,
    platform::Platform,
    remains, wait,
};

use super::{LIMIT, of, until};
use crate::containers_podman::{platform, pod, ready};

/// Without `--worker-netns`, containers, rules and names are in the namespace of the server, as on a machine of its own; the pods have
/// addresses of `--pod-cidr`. SIGTERM of the agent leaves everything running, and `vctl down` leaves nothing.
#[test]
fn podman_the_whole_platform_in_one_namespace() -> Result<()> {
    let platform = Platform::start_inside(&["--pod-cidr", "10.77.3.0/24"])?;
    image::build(&platform.worker(), &["vctl-busybox", "vctl-curl"])?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    k.apply(&pod("web", "mkdir -p /tmp/w; echo served > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w"))?;
    k.ok(&["expose", "pod", "web", "--port=80", "--target-port=8080"])?;
    k.apply(&pod("client", "exec sleep 100000").replace("vctl-busybox", "vctl-curl"))?;
    ready(&k, "web")?;
    ready(&k, "client")?;
    for name in ["web", "client"] {
        let (ip, host) = (of(&k, name, "{.status.podIP}")?, of(&k, name, "{.status.hostIP}")?);
        ensure!(ip.starts_with("10.77.3.") && host == "10.77.3.1", "{name} has {ip} on {host}");
    }
    fetched(&k)?;
    // The check that nothing is left sees what there is while it is there.
    let there = remains::of(&platform.data_dir(), platform.netns())?;
    let (cgroup, device, web) = ("control group ", "device ", of(&k, "web", "{.status.podIP}")?);
    for kind in ["process ", "mount ", cgroup, device, "nft table ip vctl", &format!("route {web}"), "address "] {
        ensure!(there.iter().any(|line| line.starts_with(kind)), "no {kind:?} in {there:#?}");
    }

    let before = containers::running(&platform.worker())?;
    let agent = platform.agent_pid()?;
    platform.stop_agent()?;
    wait::until("another agent runs", LIMIT, || match platform.agent_pid() {
        Ok(pid) if pid != agent && Path::new(&format!("/proc/{pid}")).exists() => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    // The server is its parent, and says how it ended.
    let log = platform.log();
    ensure!(log.contains("the agent ended with exit status: 0"), "{log}");
    ensure!(log.contains("stopping; containers keep running"), "{log}");
    wait::until("exec works again", LIMIT, || fetched(&k).map_err(|e| format!("{e:#}")))?;
    assert_eq!(containers::running(&platform.worker())?, before, "containers go on");
    for name in ["web", "client"] {
        assert_eq!(of(&k, name, "{.status.containerStatuses[0].restartCount}")?, "0");
    }

    platform.vctl(&["down"])?.ok()?;
    remains::nothing(&platform.data_dir(), platform.netns())
}

fn fetched(k: &Kubectl) -> Result<()> {
    let page =
        k.ok(&["exec", "client", "--", "curl", "-sS", "--max-time", "5", "http://web.default.svc.cluster.local/"])?;
    ensure!(page == "served\n", "{page}");
    Ok(())
}

/// Limits and requests are in the control group that the container's processes are in; restart policies decide with the exit code.
#[test]
fn podman_control_groups_and_restart_policies() -> Result<()> {
    let platform = platform()?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    k.apply(ENDING)?;
    k.apply(LIMITED)?;
    ready(&k, "limited")?;
    let running = containers::running(&platform.worker())?;
    let group = |name: &str| -> Result<Group> {
        let id = of(&k, "limited", &format!("{{.status.containerStatuses[?(@.name=='{name}')].containerID}}"))?;
        let id = id.strip_prefix("podman://").with_context(|| id.clone())?;
        Ok(Group { pid: running.get(id).with_context(|| format!("{id} in {running:?}"))?.pid })
    };
    // kubernetes: pkg/kubelet/cm/helpers_linux.go (MilliCPUToQuota, MilliCPUToShares).
    let both = group("both")?;
    assert_eq!(both.quota()?, Some((50_000, 100_000)), "500m");
    assert_eq!(both.shares()?, shares(256), "250m of 1024");
    assert_eq!(both.memory()?, Some(64 << 20), "64Mi");
    let none = group("none")?;
    assert_eq!((none.quota()?, none.memory()?), (None, None), "no limits");
    assert_eq!(none.shares()?, shares(2), "the least there is");

    // What ended well or badly is as its policy says, and its containers were run as often.
    for (name, phase, code, restarts) in [
        ("on-failure", "Succeeded", "0", "1"),
        ("never-fails", "Failed", "5", "0"),
        ("never-succeeds", "Succeeded", "0", "0"),
    ] {
        until(&k, name, "{.status.phase}", phase)?;
        let status =
            "{.status.containerStatuses[0].state.terminated.exitCode} {.status.containerStatuses[0].restartCount}";
        assert_eq!(of(&k, name, status)?, format!("{code} {restarts}"), "{name}");
    }
    assert_eq!(of(&k, "on-failure", "{.status.containerStatuses[0].lastState.terminated.exitCode}")?, "3");
    assert_eq!(k.ok(&["logs", "on-failure", "--previous"])?, "first\n");
    assert_eq!(k.ok(&["logs", "on-failure"])?, "second\n");
    // Nothing of those that ended runs.
    let all = podman(&platform.worker(), &["ps", "--format", "{{.Names}}"])?.ok()?;
    ensure!(all.lines().count() == 2, "only the two containers of `limited` run: {all}");
    Ok(())
}

/// The control group of a process, in version 2 or 1.
struct Group {
    pid: u64,
}

impl Group {
    fn read(&self, controller: &str, file: &str) -> Result<String> {
        let own = fs::read_to_string(format!("/proc/{}/cgroup", self.pid))?;
        let root = Path::new("/sys/fs/cgroup");
        let (hierarchy, name) = if unified() { (root.to_owned(), "") } else { (root.join(controller), controller) };
        let path = own
            .lines()
            .filter_map(|line| line.split_once(':')?.1.split_once(':'))
            .find(|(names, _)| names.split(',').any(|one| one == name))
            .with_context(|| format!("{controller} in {own}"))?
            .1;
        let path = hierarchy.join(path.trim_start_matches('/')).join(file);
        Ok(fs::read_to_string(&path).with_context(|| path.display().to_string())?.trim().to_owned())
    }

    /// Microseconds of processor time in a period, and the period; none without limit.
    fn quota(&self) -> Result<Option<(u64, u64)>> {
        let (quota, period) = if unified() {
            let both = self.read("cpu", "cpu.max")?;
            both.split_once(' ').map(|(q, p)| (q.to_owned(), p.to_owned())).context(both)?
        } else {
            (self.read("cpu", "cpu.cfs_quota_us")?, self.read("cpu", "cpu.cfs_period_us")?)
        };
        if quota == "max" || quota == "-1" { Ok(None) } else { Ok(Some((quota.parse()?, period.parse()?))) }
    }

    fn shares(&self) -> Result<u64> {
        Ok(self.read("cpu", if unified() { "cpu.weight" } else { "cpu.shares" })?.parse()?)
    }

    /// Bytes; none without limit, which version 1 shows as the largest number of pages.
    fn memory(&self) -> Result<Option<u64>> {
        let limit = self.read("memory", if unified() { "memory.max" } else { "memory.limit_in_bytes" })?;
        Ok(limit.parse().ok().filter(|bytes| *bytes < 1 << 60))
    }
}

fn unified() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// Shares as the kernel shows them: version 2 has weights, into which runc translates (opencontainers/cgroups, ConvertCPUSharesToCgroupV2Value).
fn shares(shares: u64) -> u64 {
    if unified() { 1 + (shares - 2) * 9999 / 262_142 } else { shares }
}

const LIMITED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: limited}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: both
    image: localhost/vctl-busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sleep, '100000']
    resources: {requests: {cpu: 250m, memory: 32Mi}, limits: {cpu: 500m, memory: 64Mi}}
  - name: none
    image: localhost/vctl-busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sleep, '100000']
";

const ENDING: &str = "
apiVersion: v1
kind: Pod
metadata: {name: on-failure}
spec:
  restartPolicy: OnFailure
  containers:
  - name: main
    image: localhost/vctl-busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, 'if [ -e /state/ran ]; then echo second; exit 0; fi; echo first; touch /state/ran; exit 3']
    volumeMounts: [{name: state, mountPath: /state}]
  volumes: [{name: state, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: never-fails}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: 'localhost/vctl-busybox:latest', imagePullPolicy: IfNotPresent, command: [sh, -c, exit 5]}
---
apiVersion: v1
kind: Pod
metadata: {name: never-succeeds}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: 'localhost/vctl-busybox:latest', imagePullPolicy: IfNotPresent, command: ['true']}
";
