//! Claims as volumes: what pods write stays, for as long as it should and no longer.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    image,
    kubectl::Kubectl,
    platform::{Platform, Workers},
    text::normal,
    wait,
};

use crate::containers_podman::{platform, ready};

const LIMIT: Duration = Duration::from_mins(1);

const DATABASE: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: localhost/vctl-busybox:latest
        imagePullPolicy: IfNotPresent
        command: [/bin/sh, -c, "echo started >> /data/log; chmod 700 /data; exec sleep 100000"]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 16Mi}}
"#;

/// A second pod on the volume of `db-0`: for reading only, and a directory of it for writing.
const READER: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: all, persistentVolumeClaim: {claimName: data-db-0, readOnly: true}}
  - {name: part, persistentVolumeClaim: {claimName: data-db-0}}
  containers:
  - name: main
    image: localhost/vctl-busybox:latest
    imagePullPolicy: IfNotPresent
    command: [/bin/sh, -c, "echo mine > /part/file; exec sleep 100000"]
    volumeMounts:
    - {name: all, mountPath: /all}
    - {name: part, mountPath: /part, subPath: inner/dir}
"#;

fn get(k: &Kubectl, what: &str, path: &str) -> Result<String> {
    k.ok(&["get", what, "-o", &format!("jsonpath={path}")])
}

/// Waits until a pod of this name is ready that has not this UID.
fn another(k: &Kubectl, pod: &str, uid: &str) -> Result<()> {
    wait::until("a new pod", LIMIT, || {
        let output = k.run(&["get", "pod", pod, "-o", "jsonpath={.metadata.uid}"]).map_err(|e| format!("{e:#}"))?;
        if output.code == 0 && output.stdout != uid { Ok(()) } else { Err(format!("{output:?}")) }
    })?;
    ready(k, pod)
}

/// The directories of volumes on a worker: `ENVIRONMENT.KEY/HANDLE`.
fn directories(worker: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let root = worker.join("volumes");
    if !root.exists() {
        return Ok(all);
    }
    for environment in std::fs::read_dir(root)? {
        let environment = environment?;
        for volume in std::fs::read_dir(environment.path())? {
            let name = environment.file_name();
            all.push(format!("{}/{}", name.to_string_lossy(), volume?.file_name().to_string_lossy()));
        }
    }
    all.sort();
    Ok(all)
}

#[test]
fn podman_volumes_outlive_pods_agents_and_down() -> Result<()> {
    let mut platform = platform()?;
    let worker = platform.worker();
    for environment in ["dev", "other"] {
        platform.create(environment, "blank", &[])?;
        platform.kubectl("1.33", environment)?.apply(DATABASE)?;
    }
    let k = platform.kubectl("1.33", "dev")?;
    let other = platform.kubectl("1.33", "other")?;
    for pod in ["db-0", "db-1"] {
        ready(&k, pod)?;
        ready(&other, pod)?;
    }
    let table = normal(&k.ok(&["get", "pvc"])?);
    ensure!(table.starts_with("NAME  STATUS  VOLUME  CAPACITY  ACCESS MODES  STORAGECLASS"), "{table}");
    ensure!(table.contains("16Mi  RWO  standard"), "{table}");
    let events = k.ok(&["describe", "pvc", "data-db-0"])?;
    for reason in ["ProvisioningSucceeded", "Successfully provisioned volume pvc-"] {
        ensure!(events.contains(reason), "lacks {reason}:\n{events}");
    }
    assert_eq!(directories(&worker)?.len(), 4, "one of each claim");

    let run = |k: &Kubectl, pod: &str, script: &str| k.run(&["exec", pod, "--", "/bin/sh", "-c", script]);
    for (k, environment) in [(&k, "dev"), (&other, "other")] {
        for pod in ["db-0", "db-1"] {
            run(k, pod, &format!("echo {environment} {pod} >> /data/log"))?.ok()?;
        }
    }
    let uid = get(&k, "pod/db-0", "{.metadata.uid}")?;
    k.ok(&["delete", "pod", "db-0"])?;
    another(&k, "db-0", &uid)?;
    assert_eq!(run(&k, "db-0", "cat /data/log")?.ok()?, "started\ndev db-0\nstarted\n");
    assert_eq!(run(&k, "db-0", "stat -c %a /data")?.ok()?, "700\n", "what the pod made of it stays");

    // The agent ends as if memory were short, and comes back.
    let killed = platform.kill_agent()?;
    wait::until("another agent", LIMIT, || match platform.agent_pid() {
        Ok(pid) if pid != killed => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    let uid = get(&k, "pod/db-1", "{.metadata.uid}")?;
    k.ok(&["delete", "pod", "db-1"])?;
    another(&k, "db-1", &uid)?;
    assert_eq!(run(&k, "db-1", "cat /data/log")?.ok()?, "started\ndev db-1\nstarted\n");
    assert_eq!(run(&other, "db-1", "cat /data/log")?.ok()?, "started\nother db-1\n", "each environment has its own");

    // A second pod on the same volume.
    k.apply(READER)?;
    ready(&k, "reader")?;
    assert_eq!(run(&k, "reader", "cat /all/inner/dir/file")?.ok()?, "mine\n");
    assert_eq!(run(&k, "db-0", "cat /data/inner/dir/file")?.ok()?, "mine\n");
    let refused = run(&k, "reader", "echo x > /all/log")?.refused()?;
    ensure!(refused.contains("Read-only file system"), "{refused}");

    // The claim stays while pods use it.
    k.ok(&["delete", "pvc", "data-db-0", "--wait=false"])?;
    let held = get(&k, "pvc/data-db-0", "{.metadata.deletionTimestamp} {.metadata.finalizers}")?;
    ensure!(held.contains("kubernetes.io/pvc-protection") && held.starts_with("20"), "{held}");
    ensure!(k.ok(&["get", "pvc", "data-db-0"])?.contains("Terminating"));

    // `vctl down` ends everything that runs; the data stays.
    platform.stop_server()?;
    platform.vctl(&["down"])?.ok()?;
    assert_eq!(directories(&worker)?.len(), 4);
    image::build(&worker, &["vctl-busybox"])?;
    platform.start_server()?;
    wait::until("the pod runs again with its data", LIMIT, || {
        let output = run(&other, "db-0", "cat /data/log").map_err(|e| format!("{e:#}"))?;
        if output.stdout == "started\nother db-0\nstarted\n" { Ok(()) } else { Err(format!("{output:?}")) }
    })?;

    // Volumes go with their claims, and those that are left with their environment.
    k.ok(&["delete", "statefulset", "db"])?;
    k.ok(&["delete", "pod", "reader"])?;
    k.ok(&["delete", "pvc", "--all", "--timeout=60s"])?;
    wait::until("the volumes are gone", LIMIT, || {
        let left = k.ok(&["get", "pv", "-o", "name"]).map_err(|e| format!("{e:#}"))?;
        let kept = directories(&worker).map_err(|e| format!("{e:#}"))?;
        if left.is_empty() && kept.len() == 2 && kept.iter().all(|d| d.starts_with("other.")) {
            Ok(())
        } else {
            Err(format!("{left} {kept:?}"))
        }
    })?;
    platform.vctl(&["delete", "other", "--wait"])?.ok()?;
    assert_eq!(directories(&worker)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn simulated_pods_take_volumes_too() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    let classes = normal(&k.ok(&["get", "storageclass"])?);
    ensure!(classes.contains("standard (default)  volumes.vctl.dev  Delete  WaitForFirstConsumer  true"), "{classes}");
    k.apply(DATABASE)?;
    for pod in ["db-0", "db-1"] {
        wait::until("the pod is made", LIMIT, || k.ok(&["get", "pod", pod]).map(drop).map_err(|e| format!("{e:#}")))?;
        ready(&k, pod)?;
    }
    ensure!(get(&k, "pvc/data-db-1", "{.status.phase} {.status.capacity.storage}")? == "Bound 16Mi");
    k.ok(&["patch", "pvc", "data-db-0", "-p", r#"{"spec":{"resources":{"requests":{"storage":"32Mi"}}}}"#])?;
    wait::until("it has grown", LIMIT, || {
        let size = get(&k, "pvc/data-db-0", "{.status.capacity.storage}").map_err(|e| format!("{e:#}"))?;
        if size == "32Mi" { Ok(()) } else { Err(size) }
    })?;
    k.ok(&["delete", "statefulset", "db"])?;
    k.ok(&["delete", "pvc", "--all", "--timeout=60s"])?;
    wait::until("no volume is left", LIMIT, || {
        let left = k.ok(&["get", "pv", "-o", "name"]).map_err(|e| format!("{e:#}"))?;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .with_context(|| k.ok(&["get", "pv", "-o", "yaml"]).unwrap_or_default())
}
