//! Every kind of workload once, through kubectl and `vctl up` with a simulated worker: the controllers' behaviour as people see it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
    text::normal,
    wait,
};

const LIMIT: Duration = Duration::from_secs(40);

#[test]
fn workloads() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    // The first run of a CronJob takes a second: it is looked at in the end.
    k.apply(CRON_JOB)?;
    stateful_set(&k).context("StatefulSet")?;
    job(&k).context("Job")?;
    daemon_set(&k).context("DaemonSet")?;
    replication_controller(&k).context("ReplicationController")?;
    disruption_budget(&k).context("PodDisruptionBudget")?;
    cluster_role(&k).context("ClusterRole")?;
    cron_job(&k).context("CronJob")
}

/// What a template prints of an object.
fn get(k: &Kubectl, what: &[&str], template: &str) -> Result<String> {
    let output = format!("jsonpath={template}");
    let mut args = vec!["get"];
    args.extend(what);
    args.extend(["-o", &output]);
    k.ok(&args)
}

fn until(k: &Kubectl, what: &[&str], template: &str, expected: &str) -> Result<()> {
    wait::until(&format!("{} {template} is {expected:?}", what.join(" ")), LIMIT, || {
        let found = get(k, what, template).map_err(|e| format!("{e:#}"))?;
        if found == expected { Ok(()) } else { Err(found) }
    })
}

const STATEFUL_SET: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - {name: db, image: "registry.example/db:1", volumeMounts: [{name: data, mountPath: /data}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#;

fn stateful_set(k: &Kubectl) -> Result<()> {
    k.apply(STATEFUL_SET)?;
    let rolled = k.ok(&["rollout", "status", "statefulset/db", "--timeout=40s"])?;
    ensure!(
        rolled.contains("partitioned roll out complete: 3 new pods have been updated...")
            || rolled.contains("statefulset rolling update complete 3 pods at revision db-"),
        "{rolled}"
    );
    // printers.go printStatefulSet.
    assert_eq!(normal(&k.ok(&["get", "statefulsets"])?), "NAME  READY  AGE\ndb  3/3  <age>\n");
    assert_eq!(k.ok(&["get", "pods", "-l", "app=db", "-o", "name"])?, "pod/db-0\npod/db-1\npod/db-2\n");
    let claims = "persistentvolumeclaim/data-db-0\npersistentvolumeclaim/data-db-1\npersistentvolumeclaim/data-db-2\n";
    assert_eq!(k.ok(&["get", "pvc", "-o", "name"])?, claims);

    k.ok(&["set", "image", "statefulset/db", "db=registry.example/db:2"])?;
    k.ok(&["rollout", "status", "statefulset/db", "--timeout=40s"])?;
    let images = "{.items[*].spec.containers[0].image}";
    until(k, &["pods", "-l", "app=db"], images, &["registry.example/db:2"; 3].join(" "))?;
    let history = k.ok(&["rollout", "history", "statefulset/db"])?;
    ensure!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    k.ok(&["rollout", "undo", "statefulset/db"])?;
    k.ok(&["rollout", "status", "statefulset/db", "--timeout=40s"])?;
    until(k, &["pods", "-l", "app=db"], images, &["registry.example/db:1"; 3].join(" "))?;

    k.ok(&["scale", "statefulset/db", "--replicas=1"])?;
    until(k, &["statefulset", "db"], "{.status.replicas}/{.status.availableReplicas}", "1/1")?;
    assert_eq!(k.ok(&["get", "pvc", "-o", "name"])?, claims, "claims are kept when scaled down");
    k.ok(&["delete", "statefulset", "db"])?;
    until(k, &["pods", "-l", "app=db"], "{.items}", "[]")?;
    wait::until("the claim of the pod that was there goes with the set", LIMIT, || {
        let left = k.ok(&["get", "pvc", "-o", "name"]).map_err(|e| format!("{e:#}"))?;
        if left.contains("data-db-0") { Err(left) } else { Ok(()) }
    })
}

const JOBS: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: pi}
spec:
  completions: 3
  parallelism: 2
  completionMode: Indexed
  template:
    metadata: {annotations: {vctl.dev/sim-complete-after: 300ms}}
    spec:
      restartPolicy: Never
      containers: [{name: pi, image: "registry.example/pi:1"}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: broken}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {vctl.dev/sim-complete-after: 300ms, vctl.dev/sim-exit-code: "3"}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "registry.example/broken:1"}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: brief}
spec:
  ttlSecondsAfterFinished: 0
  suspend: true
  template:
    metadata: {annotations: {vctl.dev/sim-complete-after: 100ms}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "registry.example/brief:1"}]
"#;

fn job(k: &Kubectl) -> Result<()> {
    k.apply(JOBS)?;
    k.ok(&["wait", "--for=condition=Complete", "job/pi", "--timeout=40s"])?;
    let status = get(
        k,
        &["job", "pi"],
        "{.status.succeeded} {.status.completedIndexes} {.status.ready} {.status.terminating} {.status.uncountedTerminatedPods}",
    )?;
    assert_eq!(status, "3 0-2 0 0 {}");
    assert_eq!(get(k, &["job", "pi"], "{.status.conditions[*].type}")?, "SuccessCriteriaMet Complete");
    // printers.go printJob.
    let table = normal(&k.ok(&["get", "job", "pi"])?);
    assert_eq!(table, "NAME  STATUS  COMPLETIONS  DURATION  AGE\npi  Complete  3/3  <age>  <age>\n");
    let description = k.ok(&["describe", "job", "pi"])?;
    for expected in ["Completion Mode:", "Completed Indexes:  0-2", "Job completed", "Created pod: pi-0-"] {
        ensure!(description.contains(expected), "describe lacks {expected:?}:\n{description}");
    }
    let pods = "{range .items[*]}{.metadata.finalizers}{.status.phase} {end}";
    assert_eq!(get(k, &["pods", "-l", "job-name=pi"], pods)?, "Succeeded Succeeded Succeeded ");

    k.ok(&["wait", "--for=condition=Failed", "job/broken", "--timeout=40s"])?;
    let failed = get(k, &["job", "broken"], "{.status.failed} {.status.conditions[?(@.type==\"Failed\")].reason}")?;
    assert_eq!(failed, "1 BackoffLimitExceeded");

    assert_eq!(get(k, &["job", "brief"], "{.status.conditions[0].type}")?, "Suspended");
    k.ok(&["patch", "job", "brief", "-p", r#"{"spec":{"suspend":false}}"#])?;
    k.ok(&["wait", "--for=delete", "job/brief", "--timeout=40s"])?;
    k.ok(&["delete", "job", "pi", "broken"])?;
    until(k, &["pods", "-l", "job-name in (pi,broken)"], "{.items}", "[]")
}

const DAEMON_SET: &str = r#"
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: log}
spec:
  selector: {matchLabels: {app: log}}
  template:
    metadata: {labels: {app: log}}
    spec:
      containers: [{name: log, image: "registry.example/log:1"}]
"#;

fn daemon_set(k: &Kubectl) -> Result<()> {
    k.apply(DAEMON_SET)?;
    k.ok(&["rollout", "status", "daemonset/log", "--timeout=40s"])?;
    let nodes = k.ok(&["get", "nodes", "-o", "name"])?.lines().count();
    // printers.go printDaemonSet.
    assert_eq!(
        normal(&k.ok(&["get", "daemonsets"])?),
        format!(
            "NAME  DESIRED  CURRENT  READY  UP-TO-DATE  AVAILABLE  NODE SELECTOR  AGE\n\
             log  {nodes}  {nodes}  {nodes}  {nodes}  {nodes}  <none>  <age>\n"
        )
    );
    k.ok(&["set", "image", "daemonset/log", "log=registry.example/log:2"])?;
    k.ok(&["rollout", "status", "daemonset/log", "--timeout=40s"])?;
    k.ok(&["rollout", "undo", "daemonset/log"])?;
    k.ok(&["rollout", "status", "daemonset/log", "--timeout=40s"])?;
    until(k, &["pods", "-l", "app=log"], "{.items[0].spec.containers[0].image}", "registry.example/log:1")?;
    // A selector that no node has.
    let patch = r#"{"spec":{"template":{"spec":{"nodeSelector":{"none":"such"}}}}}"#;
    k.ok(&["patch", "daemonset", "log", "-p", patch])?;
    until(k, &["daemonset", "log"], "{.status.desiredNumberScheduled}/{.status.currentNumberScheduled}", "0/0")?;
    until(k, &["pods", "-l", "app=log"], "{.items}", "[]")?;
    k.ok(&["delete", "daemonset", "log"])?;
    Ok(())
}

const REPLICATION_CONTROLLER: &str = r#"
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: old}}
    spec:
      containers: [{name: c, image: "registry.example/old:1"}]
"#;

fn replication_controller(k: &Kubectl) -> Result<()> {
    k.apply(REPLICATION_CONTROLLER)?;
    until(k, &["rc", "old"], "{.status.readyReplicas}", "2")?;
    // printers.go printReplicationController.
    assert_eq!(normal(&k.ok(&["get", "rc"])?), "NAME  DESIRED  CURRENT  READY  AGE\nold  2  2  2  <age>\n");
    k.ok(&["scale", "rc/old", "--replicas=1"])?;
    until(k, &["rc", "old"], "{.status.replicas}", "1")?;
    k.ok(&["delete", "rc", "old"])?;
    until(k, &["pods", "-l", "app=old"], "{.items}", "[]")
}

const GUARDED: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: "registry.example/web:1"}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  minAvailable: 100%
  selector: {matchLabels: {app: web}}
"#;

fn disruption_budget(k: &Kubectl) -> Result<()> {
    k.apply(GUARDED)?;
    until(
        k,
        &["pdb", "web"],
        "{.status.currentHealthy}/{.status.desiredHealthy}/{.status.disruptionsAllowed}",
        "2/2/0",
    )?;
    // printers.go printPodDisruptionBudget.
    assert_eq!(
        normal(&k.ok(&["get", "pdb"])?),
        "NAME  MIN AVAILABLE  MAX UNAVAILABLE  ALLOWED DISRUPTIONS  AGE\nweb  100%  N/A  0  <age>\n"
    );
    let node = get(k, &["pods", "-l", "app=web"], "{.items[0].spec.nodeName}")?;
    let drain = ["drain", &*node, "--ignore-daemonsets", "--force", "--timeout=2s", "--pod-selector=app=web"];
    let refused = k.run(&drain)?.refused()?;
    ensure!(refused.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{refused}");
    k.ok(&["patch", "pdb", "web", "--type=merge", "-p", r#"{"spec":{"minAvailable":"0%"}}"#])?;
    until(k, &["pdb", "web"], "{.status.disruptionsAllowed}", "2")?;
    let drain = ["drain", &*node, "--ignore-daemonsets", "--force", "--timeout=30s", "--pod-selector=app=web"];
    let drained = k.ok(&drain)?;
    ensure!(drained.contains(" drained"), "{drained}");
    k.ok(&["uncordon", &node])?;
    k.ok(&["wait", "--for=condition=Available", "deployment/web", "--timeout=40s"])?;
    k.ok(&["delete", "deployment,pdb", "web"])?;
    Ok(())
}

const ROLE: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: view-widgets, labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}}
rules: [{apiGroups: [example.com], resources: [widgets], verbs: [get]}]
"#;

fn cluster_role(k: &Kubectl) -> Result<()> {
    k.apply(ROLE)?;
    for role in ["view", "edit", "admin"] {
        until(k, &["clusterrole", role], "{.rules[?(@.apiGroups[0]==\"example.com\")].resources[0]}", "widgets")?;
    }
    k.ok(&["delete", "clusterrole", "view-widgets"])?;
    until(k, &["clusterrole", "admin"], "{.rules[?(@.apiGroups[0]==\"example.com\")].resources[0]}", "")
}

const CRON_JOB: &str = r#"
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick}
spec:
  schedule: "@every 1s"
  timeZone: Europe/Berlin
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {vctl.dev/sim-complete-after: 100ms}}
        spec:
          restartPolicy: Never
          containers: [{name: c, image: "registry.example/tick:1"}]
"#;

fn cron_job(k: &Kubectl) -> Result<()> {
    wait::until("a job was started and has succeeded", LIMIT, || {
        let status = get(k, &["cronjob", "tick"], "{.status.lastScheduleTime} {.status.lastSuccessfulTime}")
            .map_err(|e| format!("{e:#}"))?;
        if status.split_whitespace().count() == 2 { Ok(()) } else { Err(status) }
    })?;
    let owned = get(k, &["jobs"], "{.items[0].metadata.name} {.items[0].metadata.ownerReferences[0].kind}")?;
    let minute =
        owned.strip_prefix("tick-").and_then(|n| n.strip_suffix(" CronJob")).context("tick-<minute> CronJob")?;
    ensure!(minute.parse::<u64>().is_ok(), "{owned}");
    k.ok(&["patch", "cronjob", "tick", "-p", r#"{"spec":{"suspend":true}}"#])?;
    let table = normal(&k.ok(&["get", "cronjob", "tick"])?);
    ensure!(
        table.starts_with(
            "NAME  SCHEDULE  TIMEZONE  SUSPEND  ACTIVE  LAST SCHEDULE  AGE\ntick  @every 1s  Europe/Berlin  True  "
        ),
        "{table}"
    );
    k.ok(&["create", "job", "--from=cronjob/tick", "by-hand"])?;
    k.ok(&["wait", "--for=condition=Complete", "job/by-hand", "--timeout=40s"])?;
    k.ok(&["delete", "cronjob", "tick"])?;
    until(k, &["jobs"], "{.items}", "[]")
}
